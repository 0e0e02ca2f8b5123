"""The simulator applies the sizes of a plan: the same physics as the samples, mixed sizes included."""

from __future__ import annotations

import pytest

from streamtune.dataflow import Plan
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.dataflow.plan import Instances, InstanceSize
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.simulator import Simulator, SimulatorSettings
from streamtune.provisioning.sampling.physics import KNOWN
from streamtune.workloads import load

RATE = 20_000.0


def spec() -> JobSpec:
    """Q1 with a map that is CMO1: 124,100 records/s on a core that never waits, less where its state does not fit."""
    found = load("nexmark-q1").spec
    known = KNOWN["CMO1"]
    slow = OperatorPhysics(service_us=1e6 / known.rate_per_core, resources=known.resources)
    physics = {key: OperatorPhysics(service_us=0.1) for key in found.job.dataflow.index}
    return JobSpec(found.job, {**physics, _map(found): slow})


def _map(found: JobSpec) -> str:
    flow = found.job.dataflow
    return next(one.id for one in flow.operators if not one.is_source and one.type != "sink")


def served(*groups: tuple[int, float, float], rate: float = RATE) -> float:
    """Records/s that the map takes with these instances (count, cores, MiB)."""
    job = spec()
    engine = Simulator.of(job, settings=SimulatorSettings.exact())
    key = _map(job)
    sizes = [Instances(count=n, size=InstanceSize(cpu=cpu, memory_mb=mb)) for n, cpu, mb in groups]
    degrees = dict.fromkeys(job.job.dataflow.index, 1) | {key: sum(n for n, _, _ in groups)}
    deployment = engine.deploy(job.job, Plan(degrees, resources={key: sizes}))
    engine.set_source_rates(deployment, dict.fromkeys(job.job.source_rates, rate))
    seen = engine.observe(deployment, MeasurementWindow(60, 60))
    return seen.operators[key].records_in_per_s


@pytest.mark.parametrize(("cpu", "memory_mb"), [(0.05, 96.0), (0.1, 30.0), (0.2, 20.0)])
def test_an_instance_serves_what_its_samples_say(cpu: float, memory_mb: float) -> None:
    expected = float(KNOWN["CMO1"].performance(cpu, memory_mb))
    assert expected < 40_000
    assert served((1, cpu, memory_mb), rate=80_000.0) == pytest.approx(expected, rel=0.02)


def test_mixed_sizes_add_up() -> None:
    one, other = KNOWN["CMO1"].performance([0.05, 0.2], 96.0).tolist()
    assert served((2, 0.05, 96.0), (1, 0.2, 96.0), rate=80_000.0) == pytest.approx(2 * one + other, rel=0.02)


def test_more_memory_never_serves_less() -> None:
    found = [served((1, 0.1, memory_mb), rate=80_000.0) for memory_mb in (16, 24, 40, 64, 96)]
    assert found == sorted(found)
    assert found[-1] > 3 * found[0]


def test_without_sizes_nothing_changes() -> None:
    job = spec()
    engine = Simulator.of(job, settings=SimulatorSettings.exact())
    deployment = engine.deploy(job.job, Plan(dict.fromkeys(job.job.dataflow.index, 1)))
    engine.set_source_rates(deployment, dict.fromkeys(job.job.source_rates, RATE))
    seen = engine.observe(deployment, MeasurementWindow(60, 60))
    assert seen.operators[_map(job)].records_in_per_s == pytest.approx(RATE * len(job.job.source_rates), rel=0.01)


def test_a_rescale_changes_the_sizes() -> None:
    job, key = spec(), _map(spec())
    engine = Simulator.of(job, settings=SimulatorSettings.exact())
    small, large = InstanceSize(cpu=0.05, memory_mb=96), InstanceSize(cpu=0.9, memory_mb=96)
    plan = Plan(dict.fromkeys(job.job.dataflow.index, 1), resources={key: [Instances(count=1, size=small)]})
    deployment = engine.deploy(job.job, plan)
    engine.set_source_rates(deployment, dict.fromkeys(job.job.source_rates, RATE))
    assert engine.observe(deployment, MeasurementWindow(60, 60)).has_backpressure
    deployment = engine.rescale(deployment, plan.replace(resources={key: [Instances(count=1, size=large)]}))
    assert not engine.observe(deployment, MeasurementWindow(120, 60)).has_backpressure
