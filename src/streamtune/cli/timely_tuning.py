"""``streamtune tune --engine timely``: the loop on a real Timely Dataflow, in real time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from streamtune.cli.arguments import find_job, parse_rate_changes
from streamtune.cli.options import changed, resolved
from streamtune.engines.timely.settings import TimelySettings
from streamtune.errors import StreamTuneError
from streamtune.workloads.settings import TimelyScale

if TYPE_CHECKING:
    from streamtune.control.audit import AuditTrail
    from streamtune.control.controller import Guards, Moment
    from streamtune.control.story import TuningStory
    from streamtune.dataflow import Job
    from streamtune.dataflow.spec import JobSpec
    from streamtune.engines.base import MeasurementWindow
    from streamtune.tuners import Tuner

# What the emulation moves without becoming the bottleneck itself (benchmarks/timely.py).
FASTEST_SOURCES_PER_S = 40_000.0


def find_timely_job(job: str) -> JobSpec:
    """A job by the path of its spec, or a built-in workload with its rates scaled to this machine."""
    from streamtune.workloads import timely

    if not Path(job).exists() and (job in timely.names() or job.startswith("random-")):
        return timely.load(job, resolved(TimelyScale)).spec
    return find_job(job)


def check_rates(job: Job, changes: Sequence[Mapping[str, float]]) -> None:
    """Refuse rates at which the emulation, not the job, would be measured."""
    fastest = max(sum(rates.values()) for rates in changes)
    if fastest > FASTEST_SOURCES_PER_S:
        raise StreamTuneError(
            f"'{job.name}' offers up to {fastest:,.0f} records/s, but the Timely engine emulates service times and "
            f"moves {FASTEST_SOURCES_PER_S:,.0f} at most: lower its rates (--rates), or use nexmark-q3, nexmark-q5, "
            "nexmark-q8 or random-<seed>, which are scaled to this machine"
        )


def tune_timely(
    job: str,
    make_tuner: Callable[[Job], Tuner],
    rates: str,
    *,
    changes: int | None = None,
    seed: int = 0,
    guards: Guards | None = None,
    window: MeasurementWindow | None = None,
    audit: AuditTrail | None = None,
    watch: Callable[[Moment], None] = lambda _moment: None,
    backlog_growth_share: float | None = None,
) -> TuningStory:
    """Tune a job over a sequence of rates. Without a window, four seconds of settling and ten of measuring."""
    from streamtune.labs.timely import tune_on_timely

    spec = find_timely_job(job)
    wanted = parse_rate_changes(rates, spec.job, seed)[:changes]
    check_rates(spec.job, wanted)
    return tune_on_timely(
        spec,
        make_tuner,
        wanted,
        seed=seed,
        settings=_settings(backlog_growth_share),
        guards=guards,
        window=window,
        audit=audit,
        watch=watch,
    )


def _settings(backlog_growth_share: float | None) -> TimelySettings:
    settings = resolved(TimelySettings)
    return settings.replace(labels=changed(settings.labels, backlog_growth_share=backlog_growth_share))
