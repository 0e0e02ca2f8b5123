"""Which options of ``tune`` have an effect with which engine and tuner; the others are refused, not ignored."""

from __future__ import annotations

import typer

from streamtune.errors import StreamTuneError

# What an engine makes of the options that not every engine knows; all others count everywhere.
ENGINE_OPTIONS = {
    "simulator": frozenset({"job", "rates", "changes", "seed", "bias", "noise", "start_from", "report"}),
    "flink": frozenset(
        {
            "url",
            "job_id",
            "overrides",
            "jar",
            "entry_class",
            "argument",
            "watch_s",
            "max_per_hour",
            "rate_change",
            "forecast",
            "prices",
            "store",
        }
    ),
    "timely": frozenset({"job", "rates", "changes", "seed", "backlog_growth", "report"}),
}
# Which tuners can use what.
TUNER_OPTIONS = {
    "model": frozenset({"streamtune", "streamtune-paper", "ds2-calibrated"}),
    "cost_model": frozenset({"zerotune"}),
    "state": frozenset({"streamtune"}),
}


def refuse_without_effect(context: typer.Context, engine: str, tuner: str) -> None:
    """An option that the chosen engine or tuner would not look at is refused, not ignored."""
    if engine not in ENGINE_OPTIONS:
        raise StreamTuneError(f"unknown engine '{engine}': choose {', '.join(ENGINE_OPTIONS)}")
    given = {name for name in context.params if is_given(context, name)}
    spelled = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    if "job" in given and engine == "flink":
        raise StreamTuneError("a running job is chosen with --job ID: leave the job spec out with --engine flink")
    if "job" not in given and engine != "flink":
        raise StreamTuneError("which job? Give a job spec or a workload, for instance: streamtune tune nexmark-q5")
    known = frozenset().union(*ENGINE_OPTIONS.values())
    for name in sorted(given & known - ENGINE_OPTIONS[engine]):
        engines = " and ".join(one for one, options in ENGINE_OPTIONS.items() if name in options)
        raise StreamTuneError(
            f"{spelled[name]} has no effect with --engine {engine}, only with {engines}: leave it out"
        )
    for name, tuners in TUNER_OPTIONS.items():
        if name in given and tuner not in tuners:
            raise StreamTuneError(
                f"{spelled[name]} has no effect with --tuner {tuner}, only with {', '.join(sorted(tuners))}: "
                "leave it out"
            )
    if "prices" in given and "forecast" not in given:
        raise StreamTuneError("--prices weighs what is foreseen: add --forecast, or leave it out")
    for name in ("entry_class", "argument"):
        if name in given and "jar" not in given:
            raise StreamTuneError(f"{spelled[name]} says how to start the job's jar again: give --jar as well")


def is_given(context: typer.Context, name: str) -> bool:
    """Whether the user gave a parameter, by whatever way but its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP")
