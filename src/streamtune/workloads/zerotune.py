"""The queries of the ZeroTune paper's experiments: parameters of Table III, structures, hosts and physics.

Seen in training: linear, 2-way and 3-way joins over the training ranges, on the hosts that Table II marks as seen.
Never in training: chained filters, 4- to 6-way joins, the testing ranges, the other hosts, and the public benchmarks
(``streamtune.workloads.iot``). All sources of a query have one event rate, as in the paper's generator.

A query is drawn from (seed, its number, structure): it does not depend on how many others there are.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from streamtune.dataflow.graph import Dataflow, Edge
from streamtune.dataflow.hosts import Cluster
from streamtune.dataflow.job import Job
from streamtune.dataflow.operator import Operator
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.dataflow.spec import JobSpec
from streamtune.errors import StreamTuneError
from streamtune.workloads import iot
from streamtune.workloads.cloudlab import SEEN_KINDS, SEEN_WORKERS, UNSEEN_KINDS, UNSEEN_WORKERS, draw_cluster
from streamtune.workloads.physics_model import draw_physics, generator
from streamtune.workloads.pqp import QueryDesign, QueryRanges, pick
from streamtune.workloads.settings import PARAMETERS, SEEN_STRUCTURES, STRUCTURES

_STREAM = 5
_DESIGN, _PHYSICS, _HOSTS = 0, 1, 2
# XL, the largest class of parallelism in Table III, ends below 128.
MAX_PARALLELISM = 127

# structure → (sources, filters behind each)
_PQP_STRUCTURES = {
    "linear": (1, 1),
    "2-way-join": (2, 1),
    "3-way-join": (3, 1),
    "2-chained-filters": (1, 2),
    "3-chained-filters": (1, 3),
    "4-chained-filters": (1, 4),
    "4-way-join": (4, 1),
    "5-way-join": (5, 1),
    "6-way-join": (6, 1),
}
UNSEEN_STRUCTURES = tuple(name for name in _PQP_STRUCTURES if name not in SEEN_STRUCTURES)
BENCHMARK_STRUCTURES = tuple(iot.QUERIES)

_SEEN_RATES = (100, 200, 400, 500, 700, 1e3, 2e3, 3e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2.5e5, 5e5, 1e6)
_UNSEEN_RATES = (
    *(50, 75, 150, 300, 450, 600, 850, 1.5e3, 4e3, 7.5e3, 1.5e4, 3.5e4, 1.75e5, 3.75e5, 7.5e5),
    *(1.5e6, 2e6, 3e6, 4e6),
)


@dataclass(frozen=True)
class ParameterRanges:
    """One column of Table III."""

    event_rates: tuple[float, ...] = _SEEN_RATES
    query: QueryRanges = field(default_factory=QueryRanges)
    kinds: tuple[str, ...] = SEEN_KINDS
    workers: tuple[int, ...] = SEEN_WORKERS
    homogeneous: bool | None = None


SEEN = ParameterRanges()
UNSEEN = ParameterRanges(
    event_rates=_UNSEEN_RATES,
    query=QueryRanges(
        tuple_widths=tuple(range(6, 16)),
        window_lengths_tuples=(2, 3, 4, 7, 17, 37, 62, 82, 150, 200, 250, 300, 350, 400),
        window_durations_s=(0.05, 0.1, 0.15, 0.2, 0.325, 0.75, 1.5, 2.5, 4, 5, 6, 7, 8, 9, 10),
    ),
    kinds=UNSEEN_KINDS,
    workers=UNSEEN_WORKERS,
)
# What Experiment 3 moves out of the training range, one parameter at a time.


def with_unseen(parameter: str) -> ParameterRanges:
    """The training ranges with one parameter from the testing range."""
    match parameter:
        case "event_rate":
            return replace(SEEN, event_rates=UNSEEN.event_rates)
        case "workers":
            return replace(SEEN, workers=UNSEEN.workers)
        case "hosts":
            return replace(SEEN, kinds=UNSEEN.kinds)
        case "tuple_width":
            return replace(SEEN, query=replace(SEEN.query, tuple_widths=UNSEEN.query.tuple_widths))
        case "window_length":
            return replace(SEEN, query=replace(SEEN.query, window_lengths_tuples=UNSEEN.query.window_lengths_tuples))
        case "window_duration":
            return replace(SEEN, query=replace(SEEN.query, window_durations_s=UNSEEN.query.window_durations_s))
        case _:
            raise StreamTuneError(f"unknown parameter '{parameter}': choose one of {', '.join(PARAMETERS)}")


@dataclass(frozen=True)
class ZeroTuneQuery:
    """A query with its physics and the hosts it is to run on."""

    spec: JobSpec
    structure: str
    cluster: Cluster

    @property
    def job(self) -> Job:
        return self.spec.job

    @property
    def physics(self) -> dict[str, OperatorPhysics]:
        return dict(self.spec.physics or {})

    @property
    def largest_parallelism(self) -> int:
        return min(self.job.max_parallelism, self.cluster.cores)


def draw_query(structure: str, number: int, seed: int = 0, ranges: ParameterRanges = SEEN) -> ZeroTuneQuery:
    """Query ``number`` of a structure.

    >>> draw_query("2-way-join", 7).job.dataflow.types
    ('source', 'filter', 'source', 'filter', 'window_join', 'window_aggregate', 'sink')
    """
    if structure not in STRUCTURES:
        raise StreamTuneError(f"unknown structure '{structure}': choose one of {', '.join(STRUCTURES)}")
    path = (seed, _STREAM, zlib.crc32(structure.encode()), number)
    rng = generator(*path, _DESIGN)
    if structure in iot.QUERIES:
        nodes, selectivities = iot.QUERIES[structure]()
    else:
        nodes, selectivities = QueryDesign(rng, ranges.query).nodes(*_PQP_STRUCTURES[structure]), {}
    rate = float(pick(rng, ranges.event_rates))
    cluster = draw_cluster(generator(*path, _HOSTS), ranges.kinds, ranges.workers, homogeneous=ranges.homogeneous)
    physics_rng = generator(*path, _PHYSICS)
    physics = {
        operator.id: draw_physics(operator, physics_rng, selectivity=selectivities.get(operator.id))
        for operator, _ in nodes
    }
    job = Job(f"{structure}-{seed}-{number}", _dataflow(nodes, rate), MAX_PARALLELISM)
    return ZeroTuneQuery(JobSpec(job, physics), structure, cluster)


def _dataflow(nodes: Sequence[tuple[Operator, Sequence[str]]], rate: float) -> Dataflow:
    operators = tuple(
        operator.model_copy(update={"rate": rate}) if operator.is_source else operator for operator, _ in nodes
    )
    edges = tuple(
        Edge(source, operator.id, operator.default_partitioning) for operator, inputs in nodes for source in inputs
    )
    return Dataflow(operators, edges)


def random_degrees(query: ZeroTuneQuery, rng: np.random.Generator) -> dict[str, int]:
    """Random enumeration: any parallelism up to the cores for every operator."""
    return {key: int(rng.integers(1, query.largest_parallelism + 1)) for key in query.job.dataflow.index}
