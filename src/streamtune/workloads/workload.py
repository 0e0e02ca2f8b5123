"""``Workload``: a job spec with the unit in which its source rates are varied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from streamtune.dataflow.graph import Dataflow, Edge
from streamtune.dataflow.job import DEFAULT_MAX_PARALLELISM, Job
from streamtune.dataflow.operator import Operator
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.dataflow.spec import JobSpec
from streamtune.errors import DataflowError
from streamtune.workloads.demand import input_rates, smallest_parallelism
from streamtune.workloads.physics_model import draw_physics

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
        return input_rates(self.spec.job.dataflow, selectivities, self.rates_at(multiple))

    def needs_at(self, multiple: float) -> dict[str, int | None]:
        """The smallest sufficient parallelism of every operator by its capacity law; None beyond the job's limit."""
        limit = self.spec.job.max_parallelism
        return {
            key: smallest_parallelism(self.physics[key], rate, limit)
            for key, rate in self.input_rates_at(multiple).items()
        }


def assemble(
    name: str,
    template: Template,
    nodes: Sequence[tuple[Operator, Sequence[str]]],
    units: Mapping[str, float],
    rng: np.random.Generator,
    selectivities: Mapping[str, float] | None = None,
) -> Workload:
    """A workload from operators with their inputs: draws the physics, then sets rates and sizes the sources.

    The physics is drawn before a rate is looked at, so it cannot depend on one. Sources get the parallelism that
    keeps them at most half busy at the peak of 10·W_u, as the partitions of a topic would be chosen.
    """
    fixed = selectivities or {}
    physics = {operator.id: draw_physics(operator, rng, selectivity=fixed.get(operator.id)) for operator, _ in nodes}
    operators = tuple(
        _sized_source(operator, physics[operator.id], units[operator.id]) if operator.is_source else operator
        for operator, _ in nodes
    )
    edges = tuple(
        Edge(source, operator.id, operator.default_partitioning) for operator, inputs in nodes for source in inputs
    )
    return Workload(JobSpec(Job(name, Dataflow(operators, edges)), physics), dict(units), template)


def _sized_source(source: Operator, physics: OperatorPhysics, unit: float) -> Operator:
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
