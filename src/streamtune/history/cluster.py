"""The step ``cluster``: which dataflow shapes of a history belong together (StreamTune Section IV-C).

Spark reduces all runs to their distinct shapes and spreads the distances between shapes in blocks; K-means itself needs
a few thousand numbers and runs in the driver. Above ``exact_shapes`` distinct shapes the centres are first sought on a
sample (``many_shapes``). A folder with these files comes out::

    clusters/
      clusters.json          settings, centres, sizes, elbow curve, what is known of the distances
      assignment.parquet     canonical_form, cluster, runs, distance to the centre
      elbow.png, clusters.png    pictures, where ``draw`` is given
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, ValidationError
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from streamtune.dataflow import Dataflow
from streamtune.frozen import Frozen
from streamtune.history.errors import HistoryError
from streamtune.history.many_shapes import Progress, cluster_many_shapes
from streamtune.history.pair_work import SparkPairBounds
from streamtune.history.shapes import CANONICAL_FORM, RUNS, dataflow_of, run_forms, shape_counts
from streamtune.history.store import History
from streamtune.sealed import check_target, has_whole_manifest, whole_folder, write_manifest
from streamtune.similarity import pack
from streamtune.similarity.centre_distances import CentreDistances
from streamtune.similarity.distance_table import DistanceTable
from streamtune.similarity.kmeans import Clusters, Elbow, WeightedShapes, check_k, kmeans, kmeans_with_elbow
from streamtune.similarity.settings import KMeansSettings

CLUSTER = "cluster"
SUMMARY = "clusters.json"
ASSIGNMENT = "assignment.parquet"
VERSION = 1
# Up to this many shapes bounds of all pairs are computed first; above, only those of pairs that are needed.
SHAPES_TO_SURVEY = 4_000


class ClusterSummary(Frozen):
    """One cluster. The edges of its centre are pairs of positions in ``types``."""

    cluster: int
    types: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]
    shapes: int
    runs: int
    mean_distance: float = Field(description="of a run to the centre")
    max_distance: int

    @property
    def centre(self) -> Dataflow:
        return Dataflow.from_edges(self.types, self.edges)


class DistanceSummary(Frozen):
    """What the clustering knows of the distances between shapes."""

    pairs: int
    exact: int = Field(description="pairs whose distance was needed and is known exactly")
    unproven: int = Field(description="pairs whose search was given up: their upper bound was taken")
    unproven_to_centre: int = Field(description="shapes whose distance to their own centre is one of these")


class ClusteringSummary(Frozen):
    """``clusters.json``."""

    version: int = VERSION
    history: str
    runs: int
    shapes: int
    k: int
    chosen_by: str = Field(description="'elbow', or 'user' when k was given")
    settings: KMeansSettings
    mean_squared_distance: float
    iterations: int
    stable: bool = Field(description="false: the centres ran in circles, or the iterations were used up")
    sampled: int | None = Field(
        default=None, description="shapes that k and the first centres were sought on; null: all of them, by all pairs"
    )
    elbow: tuple[float, ...] = Field(description="mean squared distance of a run to its centre for k = 1, 2, …")
    distances: DistanceSummary
    clusters: tuple[ClusterSummary, ...]


@dataclass(frozen=True)
class ClusteredShapes:
    """A clustering with all that a picture of it needs."""

    shapes: WeightedShapes
    clusters: Clusters
    table: DistanceTable | CentreDistances
    summary: ClusteringSummary


Draw = Callable[[ClusteredShapes, Path], None]


def cluster(
    history: History,
    out: Path,
    *,
    k: int | None = None,
    settings: KMeansSettings | None = None,
    draw: Draw | None = None,
    blocks: int | None = None,
    most_shapes: int | None = None,
    progress: Progress = lambda _: None,
) -> ClusteringSummary:
    """Cluster the shapes of a history and write the folder ``out``, whole or not at all; ``draw`` adds pictures.

    Without ``k`` the elbow method chooses it. The number of ``blocks`` that pairs are spread in changes nothing.
    ``most_shapes`` clusters that many of the most frequent shapes and leaves the others without a cluster.
    ``progress`` is told what is being done.
    """
    out = Path(out).absolute()
    check_target(out, "clustering", SUMMARY)
    if not history.runs.exists:
        raise HistoryError(f"there is no history at '{history.location}': make one with 'history ingest' or 'generate'")
    settings = settings or KMeansSettings()
    progress("counting shapes")
    shapes = WeightedShapes.of(most_frequent(shape_counts(history), most_shapes))
    _check_shapes(shapes, k, history)
    progress(f"clustering {len(shapes):,} shapes")
    bounds = SparkPairBounds(history.spark, pack(map(dataflow_of, shapes.forms)), blocks)
    try:
        if len(shapes) > settings.exact_shapes:
            chosen, centres = cluster_many_shapes(shapes, bounds, history.spark, k, settings, progress)
            found = _found(shapes, centres, history.location, chosen, k, settings)
        else:
            found = cluster_shapes(shapes, DistanceTable(len(shapes), bounds), history.location, k, settings)
        _write(out, found, draw)
    finally:
        bounds.close()
    return found.summary


def most_frequent(counts: Mapping[str, int], most: int | None) -> dict[str, int]:
    """The shapes that most runs have; of equally frequent ones the first by name, so that the choice is repeatable.

    >>> most_frequent({"a": 1, "c": 5, "b": 5}, 2)
    {'b': 5, 'c': 5}
    """
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return dict(counts) if most is None else dict(ordered[:most])


def cluster_shapes(
    shapes: WeightedShapes,
    table: DistanceTable,
    history: str,
    k: int | None = None,
    settings: KMeansSettings | None = None,
) -> ClusteredShapes:
    """The clustering without Spark, given a table of distances."""
    settings = settings or KMeansSettings()
    if len(shapes) <= SHAPES_TO_SURVEY:
        table.survey()
    chosen = kmeans_with_elbow(shapes, table, settings) if k is None else Elbow(kmeans(shapes, table, k, settings), ())
    return _found(shapes, table, history, chosen, k, settings)


def _found(
    shapes: WeightedShapes,
    table: DistanceTable | CentreDistances,
    history: str,
    chosen: Elbow,
    k: int | None,
    settings: KMeansSettings,
) -> ClusteredShapes:
    clusters = chosen.clusters
    summary = ClusteringSummary(
        history=history,
        runs=int(shapes.weights.sum()),
        shapes=len(shapes),
        k=clusters.k,
        chosen_by="elbow" if k is None else "user",
        settings=settings,
        mean_squared_distance=clusters.inertia / int(shapes.weights.sum()),
        iterations=clusters.iterations,
        stable=clusters.stable,
        sampled=min(max(settings.sample_shapes, k or 1), len(shapes)) if isinstance(table, CentreDistances) else None,
        elbow=chosen.curve,
        distances=_distance_summary(clusters, table),
        clusters=tuple(_cluster_summary(number, shapes, clusters) for number in range(clusters.k)),
    )
    return ClusteredShapes(shapes, clusters, table, summary)


def read_summary(folder: Path) -> ClusteringSummary:
    """``clusters.json`` of a folder that ``cluster`` wrote."""
    file = Path(folder) / SUMMARY
    try:
        found = ClusteringSummary.model_validate_json(file.read_bytes())
        if not has_whole_manifest(file.parent, SUMMARY):
            raise HistoryError(f"{file} is damaged: it is not what was written. Run 'streamtune cluster' again")
        return found
    except OSError as error:
        raise HistoryError(
            f"{file} cannot be read: {error.strerror}. Give the folder that 'streamtune cluster' wrote"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise HistoryError(
            f"{file} is not a clustering, {place}: {first['msg']}. Run 'streamtune cluster' again"
        ) from error


def centres(folder: Path) -> dict[int, Dataflow]:
    """The DAG in the middle of each cluster."""
    return {each.cluster: each.centre for each in read_summary(folder).clusters}


def assignment(history: History, folder: Path) -> DataFrame:
    """(run_id, cluster) of every run whose shape was there when ``folder`` was written; later shapes are left out."""
    read_summary(folder)
    known = pq.read_table(Path(folder) / ASSIGNMENT, columns=[CANONICAL_FORM, CLUSTER])
    clusters = history.spark.createDataFrame(
        list(zip(*(known.column(name).to_pylist() for name in known.column_names), strict=True)),
        f"{CANONICAL_FORM} string, {CLUSTER} int",
    )
    return run_forms(history).join(sql.broadcast(clusters), CANONICAL_FORM).select("run_id", CLUSTER)


def _check_shapes(shapes: WeightedShapes, k: int | None, history: History) -> None:
    if not len(shapes):
        raise HistoryError(f"the history at '{history.location}' has no runs: ingest or generate some first")
    check_k(shapes, 1 if k is None else k)


def _cluster_summary(number: int, shapes: WeightedShapes, clusters: Clusters) -> ClusterSummary:
    members = clusters.assignment == number
    weights, distances = shapes.weights[members], clusters.distances[members]
    centre = dataflow_of(shapes.forms[clusters.centres[number]])
    return ClusterSummary(
        cluster=number,
        types=centre.types,
        edges=centre.edge_indices,
        shapes=int(members.sum()),
        runs=int(weights.sum()),
        mean_distance=float((weights * distances).sum() / weights.sum()),
        max_distance=int(distances.max()),
    )


def _distance_summary(clusters: Clusters, table: DistanceTable | CentreDistances) -> DistanceSummary:
    own_centre = np.asarray(clusters.centres)[clusters.assignment]
    return DistanceSummary(
        pairs=len(table) * (len(table) - 1) // 2,
        exact=table.exact_pairs,
        unproven=table.unproven,
        unproven_to_centre=int((~table.is_proven(np.arange(len(table)), own_centre)).sum()),
    )


def _write(out: Path, found: ClusteredShapes, draw: Draw | None) -> None:
    with whole_folder(out, "clustering", SUMMARY) as staging:
        write_manifest(staging, found.summary.model_dump_json(indent=1) + "\n", SUMMARY)
        pq.write_table(_assignment_table(found), staging / ASSIGNMENT)
        if draw is not None:
            draw(found, staging)


def _assignment_table(found: ClusteredShapes) -> pa.Table:
    return pa.table(
        {
            CANONICAL_FORM: list(found.shapes.forms),
            CLUSTER: pa.array(found.clusters.assignment, pa.int32()),
            RUNS: pa.array(found.shapes.weights, pa.int64()),
            "distance": pa.array(found.clusters.distances, pa.int32()),
        }
    )
