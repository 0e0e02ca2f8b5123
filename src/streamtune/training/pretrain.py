"""Pre-training on Spark: one task per cluster, each reading its own cluster's runs alone, and one for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from streamtune.dataflow import Dataflow
from streamtune.history.errors import HistoryError
from streamtune.history.featurise import encoder_of
from streamtune.history.label import labelling_of
from streamtune.history.schema import STORED_RUN
from streamtune.history.store import History
from streamtune.models.assigned import nearest_cluster
from streamtune.models.bundle import GLOBAL, Centre, Manifest, Member, MemberFiles, ModelBundle, write_bundle
from streamtune.models.encoder.tables import COLUMNS
from streamtune.models.features import FeatureEncoder
from streamtune.models.transfer.fitting import fit_transfer
from streamtune.models.transfer.model import TransferModel
from streamtune.models.transfer.past import PastOperators
from streamtune.spark.settings import TableSettings
from streamtune.training.capacity import past_and_types
from streamtune.training.guesses import is_guessed
from streamtune.training.settings import PretrainSettings
from streamtune.training.task import RESULT, train_task

CLUSTER = "cluster"
Progress = Callable[[str, str], None]


@dataclass(frozen=True)
class Clustering:
    """Which run belongs to which cluster (columns run_id, cluster), and the DAG in the middle of each."""

    assignment: DataFrame
    centres: Mapping[int, Dataflow]


def pretrain(
    history: History,
    out: Path,
    *,
    clustering: Clustering | None = None,
    engine: str | None = None,
    settings: PretrainSettings | None = None,
    progress: Progress = lambda _name, _message: None,
) -> Manifest:
    """Train the global encoder and one per cluster, and write the bundle."""
    settings = settings or PretrainSettings()
    engine = engine or _only_engine(history)
    encoder = encoder_of(history)
    data = _describe(history, engine)
    if data["runs"] < settings.min_runs_to_cluster:
        progress(GLOBAL, f"{data['runs']} runs are fewer than {settings.min_runs_to_cluster}: no clusters")
        clustering = None
    training = _training_table(history, engine, clustering)
    sizes = _sizes(training)
    names = {GLOBAL: None} | {
        f"cluster-{number}": number
        for number, runs in sorted(sizes.items())
        if number >= 0 and runs >= settings.min_cluster_runs
    }
    for number, runs in sorted(sizes.items()):
        if number >= 0 and runs < settings.min_cluster_runs:
            progress(f"cluster-{number}", f"{runs} runs are too few: left to the global encoder")
    done, failed = _train_all(training, names, encoder, settings, progress)
    if GLOBAL not in done:
        raise HistoryError(f"the global encoder could not be trained: {failed[GLOBAL]}")
    progress("capacity", "reading capacity curves of all operators")
    labelling = labelling_of(history)
    past, capacity = past_and_types(history, engine, labelling, settings.past.most_jobs)
    progress("capacity", f"done: {len(capacity.types)} operator types, {len(past)} past operators")
    centres = {} if clustering is None else clustering.centres
    written = [_with_centre(done[name], names[name], centres) for name in names if name in done]
    transfer = _transfer(past, written, settings)
    write_bundle(
        out,
        encoder,
        written,
        engine=engine,
        data=data,
        settings=settings.model_dump(mode="json"),
        failed=failed,
        capacity=capacity,
        labelling=labelling,
        transfer=transfer,
    )
    return ModelBundle.load(out).manifest


def _transfer(past: PastOperators, members: list[MemberFiles], settings: PretrainSettings) -> TransferModel | None:
    """The hierarchical prior, with the clusters that jobs will be assigned to."""
    if not (past.trains & (past.sums.count > 0)).any():
        return None
    centres = {files.member.name: files.centre.dataflow for files in members if files.centre is not None}
    return TransferModel(fit_transfer(past, lambda flow: nearest_cluster(flow, centres)[0], settings.past), past)


def _only_engine(history: History) -> str:
    engines = sorted(row.engine for row in history.runs.read().select("engine").distinct().toLocalIterator())
    if len(engines) != 1:
        raise HistoryError(
            f"models are trained per engine, but the history has {', '.join(engines) or 'none'}: "
            "choose one with --engine"
        )
    return str(engines[0])


def _describe(history: History, engine: str) -> dict[str, Any]:
    """Counts and a fingerprint: the sum of the content hashes, which no order of rows changes."""
    runs = history.runs.read().where(sql.col("engine") == engine)
    hashes = sql.sum(sql.col("content_hash").cast("decimal(38,0)")).cast("string")
    row = runs.agg(sql.count("*").alias("runs"), sql.countDistinct("job").alias("jobs"), hashes.alias("hash")).first()
    if row is None or not row.runs:
        raise HistoryError(f"the history at '{history.location}' has no runs of engine '{engine}'")
    return {"runs": int(row.runs), "jobs": int(row.jobs), "fingerprint": str(row.hash)}


def _training_table(history: History, engine: str, clustering: Clustering | None) -> DataFrame:
    """Features with labels, written by cluster, so that a task reads its own cluster's files alone."""
    wanted = (sql.col("engine") == engine) & ~is_guessed()
    ids = history.runs.read(columns=STORED_RUN).where(wanted).select("run_id")
    joined = history.features.read().join(history.labels.read().drop("day"), "run_id").join(ids, "run_id")
    if clustering is None:
        joined = joined.withColumn(CLUSTER, sql.lit(-1))
    else:
        joined = joined.join(clustering.assignment.select("run_id", CLUSTER), "run_id", "left")
        joined = joined.withColumn(CLUSTER, sql.coalesce(sql.col(CLUSTER).cast("int"), sql.lit(-1)))
    table = History(history.spark, history.location, TableSettings(partition_by=(CLUSTER,))).table("training")
    table.replace(joined.select(*COLUMNS, "split", CLUSTER).repartition(CLUSTER), "pretrain")
    return table.read()


def _sizes(training: DataFrame) -> dict[int, int]:
    return {int(row[CLUSTER]): int(row["count"]) for row in training.groupBy(CLUSTER).count().toLocalIterator()}


def _train_all(
    training: DataFrame,
    names: Mapping[str, int | None],
    encoder: FeatureEncoder,
    settings: PretrainSettings,
    progress: Progress,
) -> tuple[dict[str, MemberFiles], dict[str, str]]:
    """A Spark job per encoder, side by side; one that fails is tried again, and then reported, alone.

    Where clusters go on from the global encoder, that one is trained first.
    """
    done: dict[str, MemberFiles] = {}
    failed: dict[str, str] = {}

    def train_one(name: str) -> MemberFiles:
        number = names[name]
        start = done[GLOBAL].weights if settings.from_global and name != GLOBAL and GLOBAL in done else None
        rows = training if number is None else training.where(sql.col(CLUSTER) == number)
        problem = ""
        for attempt in range(1, settings.attempts + 1):
            progress(name, "training" if attempt == 1 else f"attempt {attempt}, because: {problem}")
            try:
                return _train_in_one_task(rows, name, encoder, settings, start)
            except Exception as error:  # whatever Spark or a task raises: one cluster must not stop the others
                problem = str(error).strip().splitlines()[0][:500] if str(error).strip() else type(error).__name__
        raise HistoryError(problem)

    def train_side_by_side(some: list[str]) -> None:
        if not some:
            return
        in_session = inheritable_thread_target(training.sparkSession)
        with ThreadPoolExecutor(max_workers=len(some)) as pool:
            futures = {pool.submit(in_session(train_one), name): name for name in some}
            for future in as_completed(futures):
                name = futures[future]
                try:
                    done[name] = future.result()
                except HistoryError as error:
                    failed[name] = str(error)
                    progress(name, f"failed: {error}")
                else:
                    member = done[name].member
                    progress(name, f"done: {member.runs} runs of {member.jobs} jobs in {member.seconds:.0f} s")

    clusters = [name for name in names if name != GLOBAL]
    if settings.from_global:
        train_side_by_side([GLOBAL])
        train_side_by_side(clusters)
    else:
        # Clusters first: the global encoder sees all runs and would keep a core busy while small clusters wait.
        train_side_by_side([*clusters, GLOBAL])
    return done, failed


def _train_in_one_task(
    rows: DataFrame, name: str, encoder: FeatureEncoder, settings: PretrainSettings, start: bytes | None
) -> MemberFiles:
    task = partial(
        train_task,
        name=name,
        features=encoder.to_json(),
        training=settings.training.model_dump_json(),
        warmup_runs=settings.warmup_runs,
        start=start,
    )
    result = rows.select(*COLUMNS, "split").coalesce(1).mapInArrow(task, RESULT).first()
    if result is None:
        raise HistoryError("there are no runs to learn from")
    if result.error is not None:
        raise HistoryError(result.error)
    member = Member.model_validate_json(result.member)
    return MemberFiles(member, bytes(result.weights), bytes(result.warmup))


def _with_centre(files: MemberFiles, number: int | None, centres: Mapping[int, Dataflow]) -> MemberFiles:
    centre = None if number is None else centres.get(number)
    return MemberFiles(files.member, files.weights, files.warmup, None if centre is None else Centre.of(centre))
