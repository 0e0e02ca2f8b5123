"""``Workload``: a job spec with the unit in which its source rates are varied."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from streamtune.dataflow.graph import Dataflow, Edge
from streamtune.dataflow.job import DEFAULT_MAX_PARALLELISM, Job
from streamtune.dataflow.operator import Operator
from streamtune.dataflow.physics import OperatorPhysics, smallest_parallelism, true_ratios
from streamtune.dataflow.spec import JobSpec
from streamtune.errors import DataflowError
from streamtune.readings.demand import input_rates
from streamtune.workloads.physics_model import draw_physics, generator

Template = Literal["nexmark", "pqp-linear", "pqp-2way", "pqp-3way", "random"]

PEAK_MULTIPLE = 10
# Tuners such as DS2 leave sources as they are, so a source must not become the bottleneck: at most half busy at peak.
_SOURCE_HEADROOM = 2.0


@dataclass(frozen=True)
class Workload:
    """A job, its physics, and W_u: the source-rate unit of Section V-A of the StreamTune paper (records/s).

    The nominal rates in ``spec`` are 1·W_u.
    """

    spec: JobSpec
    units: Mapping[str, float]
    template: Template

    @property
    def name(self) -> str:
        return self.spec.job.name

    @property
    def physics(self) -> Mapping[str, OperatorPhysics]:
        """The physics of every operator; a workload always has it."""
        return self.spec.physics or {}

    def rates_at(self, multiple: float) -> dict[str, float]:
        """Source rates at ``multiple``·W_u, records/s."""
        if not 0 <= multiple < float("inf"):
            raise DataflowError(f"the multiple of the rate unit must be finite and at least 0, but got {multiple!r}")
        return {source: unit * multiple for source, unit in self.units.items()}

    def input_rates_at(self, multiple: float) -> dict[str, float]:
        """Records/s that reach every operator at ``multiple``·W_u when nothing is a bottleneck."""
        selectivities = {key: physics.selectivity for key, physics in self.physics.items()}
        flow = self.spec.job.dataflow
        return input_rates(flow, selectivities, self.rates_at(multiple), true_ratios(flow, self.physics))

    def needs_at(self, multiple: float) -> dict[str, int | None]:
        """The smallest sufficient parallelism of every operator by its capacity law; None beyond the job's limit."""
        return {
            key: smallest_parallelism(self.physics[key], rate, self.spec.job.limit_of(key))
            for key, rate in self.input_rates_at(multiple).items()
        }

    def is_servable_at(self, multiple: float) -> bool:
        """Whether the job's maximum parallelism serves every operator at ``multiple``·W_u."""
        job, rates = self.spec.job, self.input_rates_at(multiple)
        return all(physics.capacity_per_s(job.limit_of(key)) >= rates[key] for key, physics in self.physics.items())


def assemble(
    name: str,
    template: Template,
    nodes: Sequence[tuple[Operator, Sequence[str]]],
    units: Mapping[str, float],
    seed_path: Sequence[int],
    selectivities: Mapping[str, float] | None = None,
) -> Workload:
    """A workload from operators with their inputs: draws the physics from ``seed_path``, then sizes the sources.

    The physics is drawn before any rate is considered. Only a draw that no allowed parallelism could serve at 10·W_u is
    thrown away and repeated (about one in 4,000 for the catalogue, one in 500 for random jobs).
    Sources get the parallelism that keeps them at most half busy at the peak, as the partitions of a topic would be
    chosen.
    """
    fixed = selectivities or {}
    for attempt in itertools.count():
        rng = generator(*seed_path, attempt)
        physics = {
            operator.id: draw_physics(operator, rng, selectivity=fixed.get(operator.id)) for operator, _ in nodes
        }
        workload = Workload(JobSpec(Job(name, _dataflow(nodes, physics, units)), physics), dict(units), template)
        if workload.is_servable_at(PEAK_MULTIPLE):
            break
    return workload


def _dataflow(
    nodes: Sequence[tuple[Operator, Sequence[str]]],
    physics: Mapping[str, OperatorPhysics],
    units: Mapping[str, float],
) -> Dataflow:
    operators = tuple(
        sized_source(operator, physics[operator.id], units[operator.id]) if operator.is_source else operator
        for operator, _ in nodes
    )
    edges = tuple(
        Edge(source, operator.id, operator.default_partitioning) for operator, inputs in nodes for source in inputs
    )
    return Dataflow(operators, edges)


def sized_source(source: Operator, physics: OperatorPhysics, unit: float) -> Operator:
    """A source with its rate and the parallelism that keeps it at most half busy at the peak."""
    peak = unit * PEAK_MULTIPLE
    limit = DEFAULT_MAX_PARALLELISM
    parallelism = smallest_parallelism(physics, peak * _SOURCE_HEADROOM, limit)
    if parallelism is None:
        raise DataflowError(
            f"a source of {peak:g} records/s at {physics.service_us:g} µs each needs more than {limit} instances: "
            "lower its rate unit",
            operator=source.id,
            field="rate",
        )
    return source.model_copy(update={"rate": float(unit), "parallelism": parallelism})
