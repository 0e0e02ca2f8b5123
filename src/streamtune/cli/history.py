"""``streamtune history``: the data pipeline on Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from streamtune.cli.options import changed, current_config, resolved, setting
from streamtune.cli.output import err, out, print_json
from streamtune.errors import StreamTuneError
from streamtune.extras import require
from streamtune.history.settings import FeaturiseSettings, FollowSettings, ValidationSettings, default_validation
from streamtune.labs.settings import GenerateSettings
from streamtune.outputs import check_folder, check_picture
from streamtune.readings.settings import LabelSettings
from streamtune.spark.settings import SparkSettings, TableSettings, parse_conf

if TYPE_CHECKING:
    from streamtune.history.ingest import IngestReport
    from streamtune.history.show import Summary
    from streamtune.history.store import History

app = typer.Typer(
    name="history",
    help="Execution histories on Spark: generate, ingest, label, featurise, show.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Location = Annotated[str, typer.Argument(help="Where the history is: a folder, or an address Spark can reach.")]
Master = Annotated[
    str | None, typer.Option("--spark-master", help="Spark master, for instance spark://host:7077; default: local[*].")
]
Conf = Annotated[list[str] | None, typer.Option("--spark-conf", help="Spark property key=value; may be repeated.")]
TableFormat = Annotated[
    str | None,
    setting(TableSettings, "format", "--table-format", help="File format of tables: parquet, orc, delta…"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


@contextmanager
def open_history(
    location: str,
    master: str | None,
    conf: list[str] | None,
    table_format: str | None,
    *,
    must_exist: bool = True,
) -> Iterator[History]:
    """The history with a Spark session; one that is started here is stopped at the end."""
    settings = resolved(SparkSettings, master=master)
    settings = settings.replace(conf={**settings.conf, **parse_conf(conf or [])})
    tables = resolved(TableSettings, format=table_format)
    check_location(location, must_exist=must_exist)
    require("pyspark", "pandas", "pyarrow", extra="spark", what="an execution history")
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from streamtune.history.store import History
    from streamtune.spark.errors import stopped, told_by_spark
    from streamtune.spark.session import build_session

    err.print(f"starting Spark ({settings.effective.get('spark.master', 'as submitted')})", style="dim")
    running = SparkSession.getActiveSession()
    try:
        spark = build_session(settings)
    except (PySparkException, Py4JError) as error:
        raise StreamTuneError(
            f"Spark does not start: {told_by_spark(error)}. Check --spark-master and --spark-conf"
        ) from error
    try:
        yield History(spark, location, tables)
    except BrokenPipeError:  # whoever reads what is printed has gone
        raise
    except (PySparkException, Py4JError, OSError) as error:
        raise stopped(error, location) from error
    finally:
        if running is None:
            spark.stop()


def check_location(location: str, *, must_exist: bool) -> None:
    """Refuse a history that cannot be, before Spark starts; one behind an address only Spark can look for."""
    if not location.strip():
        raise StreamTuneError("the history needs a place, but got an empty one: give a folder")
    if ":" in location:
        return
    try:
        folder = Path(location)
        if folder.exists() and not folder.is_dir():
            raise StreamTuneError(f"'{location}' is a file, but a history is a folder: check the path")
        if not must_exist:
            check_folder(folder)
        there = folder.is_dir() and any(folder.iterdir())
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise StreamTuneError(f"'{location}' cannot be used: {why}. Give another folder") from error
    if must_exist and not there:
        raise StreamTuneError(f"there is no history at '{location}': make one with 'history ingest' or 'generate'")


def check_sources(sources: list[str]) -> None:
    """Refuse local files and folders that are not there, before Spark starts; patterns it must look for itself."""
    for source in sources:
        try:
            is_plain = not any(sign in source for sign in "*?[]{}\\:")
            if not source.strip() or (is_plain and not Path(source).exists()):
                raise StreamTuneError(f"no file or folder '{source}': check the path")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise StreamTuneError(f"'{source}' cannot be read: {why}. Check the path") from error


def check_clustering(folder: Path) -> None:
    """Refuse a folder that 'streamtune cluster' has not written, before Spark starts."""
    try:
        there = (folder / "clusters.json").is_file()
    except (OSError, ValueError):
        there = False
    if not there:
        raise StreamTuneError(
            f"{folder / 'clusters.json'} cannot be read: there is none. Give the folder that 'streamtune cluster' wrote"
        )


@contextmanager
def _step(what: str) -> Iterator[dict[str, float]]:
    """Say what is being done and how long it took."""
    start = time.monotonic()
    took: dict[str, float] = {}
    with err.status(f"{what} …"):
        yield took
    took["seconds"] = round(time.monotonic() - start, 2)
    err.print(f"{what}: {took['seconds']:.1f} s", style="dim")


@app.command()
def generate(
    location: Location,
    runs: Annotated[int | None, setting(GenerateSettings, "runs")] = None,
    seed: Annotated[int | None, setting(GenerateSettings, "seed", help="Draws jobs, rates and plans.")] = None,
    near_share: Annotated[float | None, setting(GenerateSettings, "near_share")] = None,
    random_share: Annotated[float | None, setting(GenerateSettings, "random_share")] = None,
    random_jobs: Annotated[int | None, setting(GenerateSettings, "random_jobs")] = None,
    max_parallelism: Annotated[int | None, setting(GenerateSettings, "max_parallelism")] = None,
    spark_master: Master = None,
    spark_conf: Conf = None,
    table_format: TableFormat = None,
    as_json: JsonOption = False,
) -> None:
    """Generate a history with the simulator: Nexmark, PQP and random jobs, random and near-optimal plans.

    \b
    Examples:
      streamtune history generate my-history --runs 10000
      streamtune history generate my-history --runs 500 --seed 1 --near-share 0.8
    """
    settings = resolved(
        GenerateSettings,
        runs=runs,
        seed=seed,
        near_share=near_share,
        random_share=random_share,
        random_jobs=random_jobs,
        max_parallelism=max_parallelism,
    )
    with open_history(location, spark_master, spark_conf, table_format, must_exist=False) as history:
        from streamtune.labs.histories import generate as run_generate

        with _step(f"generating {settings.runs:,} runs") as took:
            added = run_generate(history, settings)
    asked = settings.runs
    speed = added / took["seconds"] if took["seconds"] else 0.0
    if as_json:
        print_json({"asked": asked, "added": added, **took, "runs_per_s": round(speed, 1)})
    else:
        out.print(f"{added:,} runs added, {asked - added:,} were there already; {speed:,.0f} runs/s")


@app.command()
def ingest(
    location: Location,
    sources: Annotated[list[str], typer.Argument(help="Files, folders or glob patterns: JSON lines (.gz) or Parquet.")],
    input_format: Annotated[str, typer.Option("--format", help="What the input is: runs or pdsp.")] = "runs",
    follow: Annotated[bool, typer.Option("--follow", help="Go on reading new files of one folder.")] = False,
    once: Annotated[bool, typer.Option("--once", help="With --follow: stop when all files are read.")] = False,
    every_s: Annotated[
        float | None, setting(FollowSettings, "every_s", help="With --follow: seconds between two looks.")
    ] = None,
    max_files: Annotated[
        int | None, setting(FollowSettings, "max_files", help="With --follow: most files in one batch.")
    ] = None,
    min_window_s: Annotated[float | None, setting(ValidationSettings, "min_window_s")] = None,
    tolerate: Annotated[list[str] | None, typer.Option(help="A reason that does not reject; may be repeated.")] = None,
    spark_master: Master = None,
    spark_conf: Conf = None,
    table_format: TableFormat = None,
    as_json: JsonOption = False,
) -> None:
    """Read runs from files; what is not fit goes to the table 'rejected' with its reasons.

    \b
    Examples:
      streamtune history ingest my-history runs/*.jsonl.gz
      streamtune history ingest my-history incoming/ --follow
      streamtune history ingest pdsp-history pdsp/runs.jsonl.gz --format pdsp --tolerate parallelism_vector_length
    """
    if once and not follow:
        raise StreamTuneError("--once needs --follow: without it, ingest reads everything once anyway")
    for name, value in (("--every-s", every_s), ("--max-files", max_files)):
        if value is not None and not follow:
            raise StreamTuneError(f"{name} needs --follow, but got {value:g} without it: leave it out")
    following = resolved(FollowSettings, once=once or None, every_s=every_s, max_files=max_files)
    if follow and len(sources) != 1:
        raise StreamTuneError(f"--follow reads one folder, but got {len(sources)} sources")
    validation = _validation(input_format, min_window_s, tolerate)
    check_sources(sources)
    with open_history(location, spark_master, spark_conf, table_format, must_exist=False) as history:
        if follow:
            report = _follow(history, sources[0], input_format, validation, following)
        else:
            from streamtune.history.ingest import ingest as run_ingest

            with _step(f"ingesting {', '.join(sources)}"):
                report = run_ingest(history, sources, format_name=input_format, validation=validation)
    _print_report(report, as_json)


def _validation(input_format: str, min_window_s: float | None, tolerate: list[str] | None) -> ValidationSettings:
    asked = {"min_window_s": min_window_s, "tolerate": frozenset(tolerate) if tolerate else None}
    if current_config().gives(ValidationSettings, "min_window_s"):
        return resolved(ValidationSettings, **asked)
    usual = default_validation(input_format).min_window_s  # a format may ask for longer windows
    return changed(resolved(ValidationSettings, min_window_s=usual), **asked)


def _follow(
    history: History,
    folder: str,
    input_format: str,
    validation: ValidationSettings,
    settings: FollowSettings,
) -> IngestReport:
    from streamtune.history.ingest import IngestReport
    from streamtune.history.stream import follow as run_follow

    total = IngestReport(0, 0, 0, 0, new=False)

    def note(report: IngestReport) -> None:
        nonlocal total
        total += report
        err.print(f"+{report.valid:,} valid, +{report.rejected:,} rejected ({report.files} files)", style="dim")

    query = run_follow(history, folder, settings, format_name=input_format, validation=validation, on_batch=note)
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
    return total


def _print_report(report: IngestReport, as_json: bool) -> None:
    if as_json:
        print_json(asdict(report))
        return
    seen = "" if report.new or not report.files else " (these files were ingested before; nothing has changed)"
    out.print(
        f"{report.files:,} files, {report.rows_in:,} rows in = {report.valid:,} valid + "
        f"{report.rejected:,} rejected{seen}"
    )


@app.command()
def label(
    location: Location,
    threshold: Annotated[float | None, setting(LabelSettings, "busy_threshold", "--threshold")] = None,
    share: Annotated[float | None, setting(LabelSettings, "backpressure_share", "--share")] = None,
    spark_master: Master = None,
    spark_conf: Conf = None,
    table_format: TableFormat = None,
    as_json: JsonOption = False,
) -> None:
    """Label the operators of all runs: 1 bottleneck, 0 none, −1 not known (Algorithm 1 of the StreamTune paper).

    \b
    Examples:
      streamtune history label my-history
      streamtune history label my-history --share 0.05
    """
    settings = resolved(LabelSettings, busy_threshold=threshold, backpressure_share=share)
    with open_history(location, spark_master, spark_conf, table_format) as history:
        from streamtune.history.label import label as run_label
        from streamtune.history.show import summarise

        with _step("labelling") as took:
            runs = run_label(history, settings)
        labels = summarise(history).by_label
    if as_json:
        print_json({"runs": runs, "labels": labels, **took})
    else:
        counted = ", ".join(f"{count:,} × {value}" for value, count in labels.items())
        out.print(f"{runs:,} runs labelled: {counted or 'no operators'}")


@app.command()
def featurise(
    location: Location,
    test_share: Annotated[float | None, setting(FeaturiseSettings, "test_share")] = None,
    spark_master: Master = None,
    spark_conf: Conf = None,
    table_format: TableFormat = None,
    as_json: JsonOption = False,
) -> None:
    """Fit the feature encoder on the training jobs and apply it to all runs.

    \b
    Examples:
      streamtune history featurise my-history
      streamtune history featurise my-history --test-share 0.3
    """
    settings = resolved(FeaturiseSettings, test_share=test_share)
    with open_history(location, spark_master, spark_conf, table_format) as history:
        from streamtune.history.featurise import encoder_path
        from streamtune.history.featurise import featurise as run_featurise

        with _step("featurising") as took:
            encoder = run_featurise(history, settings)
        runs, path = history.features.rows(), encoder_path(history)
    if as_json:
        print_json({"runs": runs, "encoder": path, "columns": encoder.names, **took})
    else:
        out.print(f"{runs:,} runs, {encoder.width} feature columns; the encoder is {path}", soft_wrap=True)


@app.command()
def show(
    location: Location,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the sizes of the dataflows to this file (PNG or SVG).")
    ] = None,
    jobs: Annotated[int, typer.Option(min=0, help="How many jobs to list.")] = 10,
    spark_master: Master = None,
    spark_conf: Conf = None,
    table_format: TableFormat = None,
    as_json: JsonOption = False,
) -> None:
    """Count what is in a history: by engine, by job, by reason of rejection, by number of operators.

    \b
    Examples:
      streamtune history show my-history
      streamtune history show my-history --plot sizes.png
    """
    if plot is not None:
        check_picture(plot)
    with open_history(location, spark_master, spark_conf, table_format) as history:
        from streamtune.history.show import summarise
        from streamtune.reports.history_picture import draw_sizes as draw

        with _step("counting"):
            summary = summarise(history)
        if plot is not None:
            draw(summary, plot)
    if as_json:
        print_json(summary.to_record())
    else:
        _print_summary(summary, jobs)
    if plot is not None:
        err.print(f"wrote {plot}", style="dim")


def _print_summary(summary: Summary, jobs: int) -> None:
    out.print(
        f"{summary.rows_in:,} rows in = {summary.valid:,} valid + {summary.rejected:,} rejected, {summary.days:,} days"
    )
    listed = dict(list(summary.by_job.items())[:jobs])
    _print_counts("engine", summary.by_engine)
    _print_counts(f"job (of {len(summary.by_job):,})", listed)
    _print_counts("reason", summary.by_reason)
    _print_counts("label", summary.by_label)
    _print_counts("operators", summary.by_operators)


def _print_counts(title: str, counts: dict[Any, int]) -> None:
    """A table with bars: a histogram in the terminal."""
    if not counts:
        return
    largest = max(counts.values())
    table = Table(box=None, pad_edge=False)
    table.add_column(title, overflow="fold", min_width=10)
    table.add_column("rows", justify="right")
    table.add_column("")
    for key, count in counts.items():
        table.add_row(str(key), f"{count:,}", "█" * max(1, round(40 * count / largest)))
    out.print()
    out.print(table)
