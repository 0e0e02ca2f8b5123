"""What the commands of ``streamtune sundog`` share: options, the Spark session, progress, checks of what was given."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamtune.cli.output import err, plain
from streamtune.cli.sundog_checks import check_place
from streamtune.errors import StreamTuneError
from streamtune.outputs import check_folder
from streamtune.spark.settings import SparkSettings, parse_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamtune.sundog.pipeline import Sundog
    from streamtune.sundog.ranking import Scorer

Knowledge = Annotated[Path, typer.Option(help="Folder with entities.jsonl and relations.jsonl.")]
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
def spark_session(master: str | None, conf: list[str] | None) -> Iterator[SparkSession]:
    """A Spark session; one that is started here is stopped at the end."""
    settings = SparkSettings(master=master, conf=parse_conf(conf or []))
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        from streamtune.spark.session import build_session
    except ModuleNotFoundError as error:
        raise StreamTuneError(f"{error.name} is not installed: pip install 'streamtune[spark]'") from error
    err.print(f"starting Spark ({settings.effective.get('spark.master', 'as submitted')})", style="dim")
    running = SparkSession.getActiveSession()
    try:
        spark = build_session(settings)
    except (PySparkException, Py4JError) as error:
        problem = str(error).strip().partition("\n")[0]
        raise StreamTuneError(f"Spark does not start: {problem}. Check --spark-master and --spark-conf") from error
    try:
        yield spark
    except (PySparkException, Py4JError) as error:
        raise StreamTuneError(f"Spark stopped: {str(error).strip().partition(chr(10))[0]}") from error
    finally:
        if running is None:
            spark.stop()


@contextmanager
def step(what: str) -> Iterator[dict[str, float]]:
    """Say what is being done and how long it took."""
    start = time.monotonic()
    took: dict[str, float] = {}
    with err.status(f"{plain(what)} …"):
        yield took
    took["seconds"] = round(time.monotonic() - start, 2)
    err.print(f"{plain(what)}: {took['seconds']:.1f} s", style="dim")


def parse_day(text: str, option: str = "--as-of") -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise StreamTuneError(f"{option} must be a day such as 2014-01-20, but got {text!r}") from None


def whole_address(text: str) -> str:
    """Workers have working folders of their own: a local path must be a whole one."""
    return text.rstrip("/") if "://" in text else str(Path(text).absolute())


def make_pipeline(
    spark: SparkSession, knowledge: Path, place: str, top: int, scorer: Scorer | None = None, **settings: Any
) -> Sundog:
    from streamtune.sundog.knowledge import load_knowledge
    from streamtune.sundog.pipeline import Sundog
    from streamtune.sundog.ranking import OneFeature
    from streamtune.sundog.settings import SundogSettings

    with step("reading the knowledge base"):
        known = load_knowledge(knowledge)
    skipped = f"; {known.skipped_relations:,} relations lead nowhere" if known.skipped_relations else ""
    err.print(f"{len(known.ids):,} entities, {len(known.pairs.low):,} related pairs{skipped}", style="dim")
    return Sundog(spark, known, whole_address(place), SundogSettings(top=top, **settings), scorer or OneFeature())


def load_scorer(model: Path | None, windows: list[int]) -> Scorer | None:
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


def refuse_foreign(place: str) -> None:
    """Replaces folders that Sundog wrote; leaves others of the same name alone."""
    check_place(place)
    folder = Path(place)
    if "://" not in place:
        check_folder(folder, "--out")
    ours = (folder / "state" / "_manifest").is_dir()
    for name in ("features", "rankings", "quarantine", "state"):
        inside = folder / name
        if not ours and (inside.is_file() or (inside.is_dir() and any(inside.iterdir()))):
            raise StreamTuneError(f"{inside} is there and not from Sundog: choose another --out, or remove it")
