"""``streamtune sundog``: fresh rankings of related entities from search logs, on Spark."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamtune.cli import sundog_model
from streamtune.cli.history import check_sources
from streamtune.cli.output import err, out, plain, print_json
from streamtune.cli.sundog_checks import check_followed, check_knowledge, check_output_of_run
from streamtune.cli.sundog_shared import (
    AsOf,
    Conf,
    JsonOption,
    Knowledge,
    Master,
    ModelOption,
    Place,
    Top,
    Windows,
    load_scorer,
    make_pipeline,
    parse_day,
    refuse_foreign,
    spark_session,
    step,
    whole_address,
)
from streamtune.errors import StreamTuneError
from streamtune.outputs import check_folder
from streamtune.settings import LARGEST_SEED

if TYPE_CHECKING:
    from streamtune.sundog.panes import Counts
    from streamtune.sundog.stream import BatchReport
    from streamtune.sundog.windows import Ranked

app = typer.Typer(
    name="sundog",
    help="Fresh rankings of related entities from search logs: generate, run, stream, train, rank, evaluate, show.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def generate(
    folder: Annotated[Path, typer.Argument(help="Where knowledge, truth and logs are written.")],
    lines: Annotated[int, typer.Option(min=1, help="Log lines in all.")] = 100_000,
    days: Annotated[int, typer.Option(min=1, max=3650, help="Days of the log.")] = 30,
    start: Annotated[str, typer.Option(help="First day.")] = "2013-12-02",
    entities: Annotated[int, typer.Option(min=10, help="Entities of the knowledge base.")] = 2000,
    users: Annotated[int, typer.Option(min=1, help="People who search.")] = 10_000,
    file_format: Annotated[str, typer.Option("--format", help="jsonl or parquet.")] = "jsonl",
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="The same seed gives the same lines.")] = 0,
    spark_master: Master = None,
    spark_conf: Conf = None,
    as_json: JsonOption = False,
) -> None:
    """Generate search logs over a made-up knowledge base, with planted truth about what is relevant and fresh.

    \b
    Examples:
      streamtune sundog generate world --lines 1000000 --days 53
      streamtune sundog generate world --format parquet --entities 20000 --seed 1
    """
    if file_format not in ("jsonl", "parquet"):
        raise StreamTuneError(f"--format is jsonl or parquet, but got {file_format!r}")
    check_folder(folder)
    if (folder / "logs").exists() and not (folder / "truth").is_dir() and any((folder / "logs").iterdir()):
        raise StreamTuneError(f"{folder / 'logs'} holds files that generate did not make: choose another folder")
    first = parse_day(start, "--start")
    with spark_session(spark_master, spark_conf) as spark:
        from streamtune.sundog.generator import generate as run_generate
        from streamtune.sundog.settings import LogSettings, WorldSettings

        world = WorldSettings(entities=entities, days=days, start=first, seed=seed)
        with step(f"generating {lines:,} lines of {days} days") as took:
            made = run_generate(spark, folder, world, LogSettings(lines=lines, users=users, format=file_format))
    if as_json:
        print_json({"lines": made, "folder": str(folder), **took})
    else:
        out.print(f"{made:,} lines in {plain(str(folder))}/logs; also knowledge and truth", highlight=False)


@app.command()
def run(
    logs: Annotated[list[str], typer.Argument(help="Log files, folders or patterns: JSON lines (.gz) or Parquet.")],
    knowledge: Knowledge,
    as_of: AsOf,
    out_folder: Annotated[str, typer.Option("--out", help="Output folder: features, rankings, quarantine and state.")],
    window: Windows = [7],  # noqa: B006  (typer reads it, nobody writes it)
    model: ModelOption = None,
    top: Top = 10,
    buckets: Annotated[int, typer.Option(min=1, max=4096, help="Parts into which keys are divided.")] = 8,
    spark_master: Master = None,
    spark_conf: Conf = None,
    as_json: JsonOption = False,
) -> None:
    """Count the lines of logs and rank related entities, for a window that ends on a day.

    Lines have user, time (ISO 8601) and query. The tables features and rankings are plain Parquet folders.

    \b
    Examples:
      streamtune sundog run world/logs --knowledge world/knowledge --as-of 2013-12-20 --window 7 --out out
      streamtune sundog run 'logs/*.jsonl.gz' --knowledge kb --as-of 2026-11-17 --window 1 --window 30 --out out --json
    """
    day = parse_day(as_of)
    refuse_foreign(out_folder)
    check_knowledge(knowledge)
    check_sources(logs)
    scorer = load_scorer(model, window)
    with spark_session(spark_master, spark_conf) as spark:
        sundog = make_pipeline(spark, knowledge, out_folder, top, scorer, buckets=buckets)
        with step("counting and ranking") as took:
            report = sundog.run(logs, [day], window)
    if as_json:
        print_json(
            {
                "counts": report.counts.model_dump(),
                "reasons": report.reasons,
                "days": [known.isoformat() for known in report.days],
                "rankings": [_ranked(ranked) for ranked in report.rankings],
                **took,
            }
        )
        return
    _print_counts(report.counts, report.reasons)
    _print_rankings(report.rankings)


def _ranked(ranked: Ranked) -> dict[str, Any]:
    return {**asdict(ranked), "day": ranked.day.isoformat()}


def _print_counts(counts: Counts, reasons: dict[str, int]) -> None:
    out.print(
        f"{counts.lines:,} lines: {counts.with_entity:,} name an entity, {counts.without_entity:,} none, "
        f"{counts.broken:,} are broken",
        highlight=False,
    )
    for reason, number in reasons.items():
        out.print(f"  {reason}: {number:,}", highlight=False)
    out.print(
        f"{counts.candidate_pairs:,} pairs: {counts.passed_filter:,} passed the filter, "
        f"{counts.related_pairs:,} are related",
        highlight=False,
    )


def _print_rankings(rankings: tuple[Ranked, ...]) -> None:
    for ranked in rankings:
        days = f"{ranked.window} day{'s' if ranked.window > 1 else ''} to {ranked.day}"
        out.print(
            f"{days}: {ranked.events:,} events of {ranked.users:,} users, {ranked.pairs:,} pairs, "
            f"{ranked.ranked:,} ranked for {ranked.entities:,} entities",
            highlight=False,
        )


@app.command()
def stream(
    folder: Annotated[str, typer.Argument(help="Folder to follow; files must be moved into it whole.")],
    knowledge: Knowledge,
    out_folder: Annotated[str, typer.Option("--out", help="Output folder; a stream that was stopped goes on from it.")],
    window: Windows = [1, 7, 30],  # noqa: B006
    model: ModelOption = None,
    top: Top = 10,
    rank_days: Annotated[
        str, typer.Option("--rank", help="Days ranked after a batch: touched by its lines, newest, or none.")
    ] = "touched",
    late_days: Annotated[int, typer.Option(min=0, help="Days behind the newest that late lines let rank again.")] = 30,
    retention: Annotated[int | None, typer.Option(min=1, help="Days that the state keeps; default: all.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop when all files are read.")] = False,
    every_s: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 5.0,
    max_files: Annotated[int, typer.Option(min=1, help="Most files in one batch.")] = 100,
    buckets: Annotated[
        int, typer.Option(min=1, max=4096, help="Parts into which keys are divided; a new --out keeps to it.")
    ] = 8,
    parallel_rankings: Annotated[
        int, typer.Option(min=1, max=64, help="Rankings of a batch that are made side by side.")
    ] = 1,
    spark_master: Master = None,
    spark_conf: Conf = None,
    as_json: JsonOption = False,
) -> None:
    """Follow a folder of logs and keep rankings fresh; every line counts once, also after a crash.

    \b
    Examples:
      streamtune sundog stream incoming --knowledge kb --out live --window 1 --window 7
      streamtune sundog stream incoming --knowledge kb --out live --once --rank newest
    """
    if rank_days not in ("touched", "newest", "none"):
        raise StreamTuneError(f"--rank is touched, newest or none, but got {rank_days!r}")
    refuse_foreign(out_folder)
    check_knowledge(knowledge)
    check_followed(folder)
    scorer = load_scorer(model, window)
    with spark_session(spark_master, spark_conf) as spark:
        from streamtune.sundog.panes import Counts
        from streamtune.sundog.settings import RankDays, StreamSettings
        from streamtune.sundog.stream import follow

        sundog = make_pipeline(spark, knowledge, out_folder, top, scorer, retention_days=retention, buckets=buckets)
        settings = StreamSettings(
            windows=tuple(window),
            rank=RankDays(rank_days),
            late_days=late_days,
            once=once,
            every_s=every_s,
            max_files=max_files,
            parallel_rankings=parallel_rankings,
        )
        batches: list[BatchReport] = []

        def note(report: BatchReport) -> None:
            batches.append(report)
            err.print(
                f"batch {len(batches)}: {report.counts.lines:,} lines, {len(report.rankings)} rankings, "
                f"state {report.state_bytes / 1e6:.1f} MB",
                style="dim",
                highlight=False,
            )

        query = follow(sundog, whole_address(folder), settings, on_batch=note)
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            query.stop()
        state = sundog.panes.load()
    counts, reasons = (state.counts, state.reasons) if state else (Counts(), {})
    if as_json:
        print_json({"batches": len(batches), "counts": counts.model_dump(), "reasons": reasons})
    else:
        _print_counts(counts, reasons)


@app.command()
def rank(
    place: Place,
    knowledge: Knowledge,
    as_of: AsOf,
    window: Windows = [7],  # noqa: B006
    model: ModelOption = None,
    top: Top = 10,
    spark_master: Master = None,
    spark_conf: Conf = None,
    as_json: JsonOption = False,
) -> None:
    """Rank again from the state, without reading logs: another day, another window, another model.

    \b
    Examples:
      streamtune sundog rank out --knowledge kb --as-of 2013-12-21 --window 30
      streamtune sundog rank out --knowledge kb --as-of 2013-12-21 --window 7 --model model
    """
    day = parse_day(as_of)
    check_knowledge(knowledge)
    check_output_of_run(place)
    scorer = load_scorer(model, window)
    with spark_session(spark_master, spark_conf) as spark:
        sundog = make_pipeline(spark, knowledge, place, top, scorer)
        with step("ranking") as took:
            rankings = tuple(sundog.rank(day, days) for days in window)
    if as_json:
        print_json({"rankings": [_ranked(ranked) for ranked in rankings], **took})
    else:
        _print_rankings(rankings)


for command in (sundog_model.train, sundog_model.evaluate, sundog_model.show):
    app.command()(command)
