"""``streamtune sundog``: fresh rankings of related entities from search logs, on Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from streamtune.cli.output import err, out, plain, print_json
from streamtune.errors import StreamTuneError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamtune.sundog.panes import Counts
    from streamtune.sundog.pipeline import Sundog
    from streamtune.sundog.ranking import Scorer
    from streamtune.sundog.stream import BatchReport
    from streamtune.sundog.windows import Ranked

app = typer.Typer(
    name="sundog",
    help="Fresh rankings of related entities from search logs: generate, run, stream, train, rank, evaluate, show.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Knowledge = Annotated[Path, typer.Option(help="Folder with entities.jsonl and relations.jsonl.")]
Out = Annotated[str, typer.Option(help="Output folder: features, rankings, quarantine and state.")]
Place = Annotated[str, typer.Argument(help="Output folder of 'run' or 'stream'.")]
AsOf = Annotated[str, typer.Option(help="Last day of the window, YYYY-MM-DD, UTC.")]
Windows = Annotated[list[int], typer.Option("--window", min=1, max=3650, help="Days in the window; may be repeated.")]
Window = Annotated[int, typer.Option("--window", min=1, max=3650, help="Days in the window.")]
Top = Annotated[int, typer.Option(min=1, help="Related entities in a ranking.")]
ModelOption = Annotated[Path | None, typer.Option("--model", help="Model that 'train' made; else p(related | entity).")]
Truth = Annotated[Path | None, typer.Option(help="The 'truth' folder that 'generate' made.")]
Labels = Annotated[Path | None, typer.Option(help="JSON lines with entity, related and grade (0 to 4).")]
Master = Annotated[str | None, typer.Option("--spark-master", help="Spark master; default: local[*].")]
Conf = Annotated[list[str] | None, typer.Option("--spark-conf", help="Spark property key=value; may be repeated.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


@contextmanager
def _session(master: str | None, conf: list[str] | None) -> Iterator[SparkSession]:
    """A Spark session; one that is started here is stopped at the end."""
    try:
        from pyspark.sql import SparkSession

        from streamtune.spark.session import build_session, parse_conf
        from streamtune.spark.settings import SparkSettings
    except ModuleNotFoundError as error:
        raise StreamTuneError(f"{error.name} is not installed: pip install 'streamtune[spark]'") from error
    settings = SparkSettings(master=master, conf=parse_conf(conf or []))
    err.print(f"starting Spark ({settings.effective.get('spark.master', 'as submitted')})", style="dim")
    running = SparkSession.getActiveSession()
    spark = build_session(settings)
    try:
        yield spark
    finally:
        if running is None:
            spark.stop()


@contextmanager
def _step(what: str) -> Iterator[dict[str, float]]:
    """Say what is being done and how long it took."""
    start = time.monotonic()
    took: dict[str, float] = {}
    with err.status(f"{plain(what)} …"):
        yield took
    took["seconds"] = round(time.monotonic() - start, 2)
    err.print(f"{plain(what)}: {took['seconds']:.1f} s", style="dim")


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise StreamTuneError(f"--as-of must be a day such as 2014-01-20, but got {text!r}") from None


def _address(text: str) -> str:
    """Workers have working folders of their own: a local path must be a whole one."""
    return text.rstrip("/") if "://" in text else str(Path(text).absolute())


def _pipeline(
    spark: SparkSession, knowledge: Path, place: str, top: int, scorer: Scorer | None = None, **settings: Any
) -> Sundog:
    from streamtune.sundog.knowledge import load_knowledge
    from streamtune.sundog.pipeline import Sundog
    from streamtune.sundog.ranking import OneFeature
    from streamtune.sundog.settings import SundogSettings

    with _step("reading the knowledge base"):
        known = load_knowledge(knowledge)
    skipped = f"; {known.skipped_relations:,} relations lead nowhere" if known.skipped_relations else ""
    err.print(f"{len(known.ids):,} entities, {len(known.pairs.low):,} related pairs{skipped}", style="dim")
    return Sundog(spark, known, _address(place), SundogSettings(top=top, **settings), scorer or OneFeature())


def _scorer(model: Path | None, windows: list[int]) -> Scorer | None:
    if model is None:
        return None
    from streamtune.sundog.model import TreeModel

    trees = TreeModel.load(model)
    for window in windows:
        if window != trees.card.window:
            raise StreamTuneError(
                f"{model} was trained on windows of {trees.card.window} days, but --window is {window}: "
                "train one for this window"
            )
    return trees


def _refuse_foreign(place: str) -> None:
    """Folders of ours are replaced; others of the same name are left alone."""
    folder = Path(place)
    if folder.is_file():
        raise StreamTuneError(f"--out {place} is a file: give a folder")
    ours = (folder / "state" / "_manifest").is_dir()
    for name in ("features", "rankings", "quarantine", "state"):
        inside = folder / name
        if not ours and (inside.is_file() or (inside.is_dir() and any(inside.iterdir()))):
            raise StreamTuneError(f"{inside} is there and not from Sundog: choose another --out, or remove it")


@app.command()
def generate(
    folder: Annotated[Path, typer.Argument(help="Where knowledge, truth and logs are written.")],
    lines: Annotated[int, typer.Option(min=1, help="Log lines in all.")] = 100_000,
    days: Annotated[int, typer.Option(min=1, max=3650, help="Days of the log.")] = 30,
    start: Annotated[str, typer.Option(help="First day.")] = "2013-12-02",
    entities: Annotated[int, typer.Option(min=10, help="Entities of the knowledge base.")] = 2000,
    users: Annotated[int, typer.Option(min=1, help="People who search.")] = 10_000,
    file_format: Annotated[str, typer.Option("--format", help="jsonl or parquet.")] = "jsonl",
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same lines.")] = 0,
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
    if folder.exists() and not folder.is_dir():
        raise StreamTuneError(f"{folder} is not a folder: choose another")
    if (folder / "logs").exists() and not (folder / "truth").is_dir() and any((folder / "logs").iterdir()):
        raise StreamTuneError(f"{folder / 'logs'} holds files that generate did not make: choose another folder")
    first = _day(start)
    with _session(spark_master, spark_conf) as spark:
        from streamtune.sundog.generator import generate as run_generate
        from streamtune.sundog.settings import LogSettings, WorldSettings

        world = WorldSettings(entities=entities, days=days, start=first, seed=seed)
        with _step(f"generating {lines:,} lines of {days} days") as took:
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
    day = _day(as_of)
    _refuse_foreign(out_folder)
    scorer = _scorer(model, window)
    with _session(spark_master, spark_conf) as spark:
        sundog = _pipeline(spark, knowledge, out_folder, top, scorer, buckets=buckets)
        with _step("counting and ranking") as took:
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
    _refuse_foreign(out_folder)
    scorer = _scorer(model, window)
    with _session(spark_master, spark_conf) as spark:
        from streamtune.sundog.panes import Counts
        from streamtune.sundog.settings import RankDays, StreamSettings
        from streamtune.sundog.stream import follow

        if rank_days not in list(RankDays):
            raise StreamTuneError(f"--rank is touched, newest or none, but got {rank_days!r}")
        sundog = _pipeline(spark, knowledge, out_folder, top, scorer, retention_days=retention)
        settings = StreamSettings(
            windows=tuple(window),
            rank=RankDays(rank_days),
            late_days=late_days,
            once=once,
            every_s=every_s,
            max_files=max_files,
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

        query = follow(sundog, _address(folder), settings, on_batch=note)
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
    day = _day(as_of)
    scorer = _scorer(model, window)
    with _session(spark_master, spark_conf) as spark:
        sundog = _pipeline(spark, knowledge, place, top, scorer)
        with _step("ranking") as took:
            rankings = tuple(sundog.rank(day, days) for days in window)
    if as_json:
        print_json({"rankings": [_ranked(ranked) for ranked in rankings], **took})
    else:
        _print_rankings(rankings)


@app.command()
def train(
    place: Place,
    as_of: AsOf,
    model: Annotated[Path, typer.Option(help="Where the model is written: a folder.")],
    window: Window = 7,
    truth: Truth = None,
    labels: Labels = None,
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation, by query.")] = 10,
    most_pairs: Annotated[int, typer.Option(min=10, help="Labelled pairs to learn from, at most.")] = 30_000,
    seed: Annotated[int, typer.Option(min=0, help="Draws folds and samples.")] = 0,
    spark_master: Master = None,
    spark_conf: Conf = None,
    as_json: JsonOption = False,
) -> None:
    """Train a ranking model on the features of one day and window: boosted trees, a sweep with cross-validation.

    \b
    Examples:
      streamtune sundog train out --as-of 2013-12-20 --window 7 --truth world/truth --model model
      streamtune sundog train out --as-of 2026-11-17 --labels judged.jsonl --model model --json
    """
    day = _day(as_of)
    with _session(spark_master, spark_conf) as spark:
        from streamtune.sundog.labels import read_grades, sample_queries
        from streamtune.sundog.settings import SweepSettings
        from streamtune.sundog.tables import read_table
        from streamtune.sundog.training import examples
        from streamtune.sundog.training import train as run_train

        grades = read_grades(truth, labels, day)
        table = sample_queries(read_table(_address(place), "features", day, window), grades.relevance, most_pairs, seed)
        data = examples(table, grades.relevance)
        with _step(f"training on {len(data.label):,} pairs of {data.queries:,} queries") as took:
            settings = SweepSettings(folds=folds, seed=seed)
            trees = run_train(data, day=day, window=window, settings=settings, spark=spark)
    trees.save(model)
    importance = dict(list(trees.importance().items())[:8])
    if as_json:
        print_json({**trees.card.model_dump(mode="json"), "importance": importance, **took})
        return
    out.print(f"NDCG@10 {trees.card.ndcg:.4f} in cross-validation with {trees.card.parameters}", highlight=False)
    out.print("most useful: " + ", ".join(f"{name} {share:.0%}" for name, share in importance.items()), highlight=False)


@app.command()
def evaluate(
    place: Place,
    as_of: AsOf,
    window: Window = 7,
    on: Annotated[str | None, typer.Option(help="Day of the judgements; default: --as-of.")] = None,
    truth: Truth = None,
    labels: Labels = None,
    queries: Annotated[int, typer.Option(min=1, help="Judge so many of the most searched entities.")] = 60,
    as_json: JsonOption = False,
) -> None:
    """Measure the rankings of a day and window against judgements: relevance and, from planted truth, freshness.

    \b
    Examples:
      streamtune sundog evaluate out --as-of 2013-12-20 --truth world/truth
      streamtune sundog evaluate out --as-of 2013-12-10 --on 2013-12-20 --window 30 --truth world/truth --json
    """
    day = _day(as_of)
    from streamtune.sundog.evaluation import judge
    from streamtune.sundog.labels import most_searched, read_grades
    from streamtune.sundog.tables import read_table

    grades = read_grades(truth, labels, _day(on) if on else day)
    rankings = read_table(_address(place), "rankings", day, window)
    chosen = most_searched(rankings, queries)
    kinds = {"relevance": grades.relevance, **({"freshness": grades.recency} if grades.recency else {})}
    found = {kind: judge(rankings, of_kind, chosen).mean for kind, of_kind in kinds.items()}
    if as_json:
        print_json({"queries": len(chosen), **found})
        return
    table = Table()
    table.add_column(f"{len(chosen)} queries")
    measures = list(next(iter(found.values())))
    for measure in measures:
        table.add_column(measure, justify="right")
    for kind, means in found.items():
        table.add_row(kind, *(f"{means[measure]:.4f}" for measure in measures))
    out.print(table)


@app.command()
def show(
    entity: Annotated[str, typer.Argument(help="Id of an entity, or one of its names if --knowledge is given.")],
    place: Annotated[str, typer.Option("--out", help="Output folder of 'run' or 'stream'.")],
    window: Window = 7,
    knowledge: Annotated[Path | None, typer.Option(help="Knowledge base, for names.")] = None,
    page: Annotated[Path | None, typer.Option(help="Write an HTML page with the ranking over days.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the ranking of an entity over days: what rose, what fell, and the features behind it.

    \b
    Examples:
      streamtune sundog show E0000042 --out live
      streamtune sundog show "brad pitt" --out live --knowledge kb --window 30 --page brad-pitt.html
    """
    from streamtune.sundog.history import entity_history, find_entity
    from streamtune.sundog.page import write_page

    if page is not None and page.exists() and not page.is_file():
        raise StreamTuneError(f"--page {page} is not an ordinary file: choose another")
    key, names = find_entity(entity, knowledge)
    found = entity_history(_address(place), key, window, names)
    if page is not None:
        write_page(found, page)
        err.print(f"page: {plain(str(page))}", highlight=False, soft_wrap=True)
    if as_json:
        print_json(found.to_record())
        return
    table = Table(title=f"{plain(found.name)}: {window} days to {found.days[-1]}", title_justify="left")
    for heading in ("rank", "related", "before", "score", "users", "p(related | entity)", "events"):
        table.add_column(heading, justify="left" if heading == "related" else "right")
    for row in found.newest:
        before = "new" if row.before is None else f"{row.before} {row.move}"
        table.add_row(
            str(row.rank),
            plain(row.name),
            before,
            f"{row.score:.4f}",
            f"{row.users:,}",
            f"{row.conditional:.4f}",
            f"{row.events:,}",
        )
    out.print(table)
    for line in found.reasons:
        out.print(plain(line), highlight=False)
