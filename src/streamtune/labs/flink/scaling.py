"""Specs of a big platform at the rates of a small machine: fewer records that each take longer, same parallelism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from streamtune.dataflow import Dataflow
from streamtune.dataflow.physics import OperatorPhysics, smallest_parallelism, true_ratios
from streamtune.dataflow.spec import JobSpec
from streamtune.errors import EngineError
from streamtune.readings.demand import input_rates
from streamtune.workloads import Workload

# A generator and its hand-over cost this much on a slow core; a record that claims to cost less cannot be emulated.
_LEAST_SERVICE_US = 20.0
_SOURCE_SERVICE_US = 50.0


def scale_spec(
    spec: JobSpec, peak_rates: Mapping[str, float], *, max_rate_per_s: float, max_parallelism: int | None = None
) -> JobSpec:
    """The same job with every rate divided by a factor k and every service time multiplied by it.

    What an operator needs, rate times service time, is the same before and after. k is the least factor (at least 1)
    that keeps every operator's input at or below ``max_rate_per_s`` when the sources offer ``peak_rates``. Where
    ``max_parallelism`` is given, service times are also shortened until no operator needs more than that at the peak.

    >>> from streamtune.workloads import load
    >>> q1 = load("nexmark-q1")
    >>> small = scale_spec(q1.spec, q1.rates_at(10), max_rate_per_s=1000.0)
    >>> small.job.source_rates
    {'bids': 100.0}
    """
    if spec.physics is None:
        raise EngineError(f"job '{spec.job.name}' has no physics: there is nothing to scale")
    selectivities = {key: one.selectivity for key, one in spec.physics.items()}
    flow = spec.job.dataflow
    demand = input_rates(flow, selectivities, peak_rates, true_ratios(flow, spec.physics))
    factor = max(1.0, max(demand.values()) / max_rate_per_s)
    small_demand = {key: rate / factor for key, rate in demand.items()}
    physics = {
        key: one.model_copy(update={"service_us": max(_LEAST_SERVICE_US, one.service_us * factor)})
        for key, one in spec.physics.items()
    }
    if max_parallelism is not None:
        physics = {
            key: one if key in spec.job.source_rates else _shortened(one, small_demand[key], max_parallelism)
            for key, one in physics.items()
        }
    scaled = JobSpec(spec.job, physics)
    return scaled.with_rates({source: rate / factor for source, rate in spec.job.source_rates.items()})


def scale_workload(workload: Workload, *, max_rate_per_s: float, max_need: int, limit: int) -> Workload:
    """A workload with rates and service times of a small machine; what operators need stays the same.

    At ten times its unit no operator gets more than ``max_rate_per_s`` or needs more than ``max_need`` instances; none
    may have more than ``limit``. Sources are generators: they cost next to nothing and run with one instance.
    """
    spec = scale_spec(workload.spec, workload.rates_at(10), max_rate_per_s=max_rate_per_s, max_parallelism=max_need)
    factor = next(iter(workload.spec.job.source_rates.values())) / next(iter(spec.job.source_rates.values()))
    flow = spec.job.dataflow
    operators = tuple(
        operator.model_copy(update={"parallelism": 1}) if operator.is_source else operator
        for operator in flow.operators
    )
    cheap = {
        key: truth.model_copy(update={"service_us": _SOURCE_SERVICE_US}) if key in spec.job.source_rates else truth
        for key, truth in (spec.physics or {}).items()
    }
    job = replace(spec.job, dataflow=Dataflow(operators, flow.edges), max_parallelism=limit)
    units = {source: unit / factor for source, unit in workload.units.items()}
    return Workload(JobSpec(job, cheap), units, workload.template)


def _shortened(physics: OperatorPhysics, rate_per_s: float, limit: int) -> OperatorPhysics:
    while smallest_parallelism(physics, rate_per_s, limit) is None:
        physics = physics.model_copy(update={"service_us": physics.service_us * 0.9})
    return physics
