"""Sampling: when a sample is done, what each algorithm visits, control groups of both versions, and real processes."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from streamtune.errors import StreamTuneError
from streamtune.labs.cgroups import CgroupError, Hierarchy, ResourceGroup, find_hierarchy
from streamtune.labs.sampling import ProcessSampler, RunningInstance, sample_beside
from streamtune.outputs import OutputError
from streamtune.provisioning.problem import ProvisioningError
from streamtune.provisioning.sampling.algorithms import dsa, fssa, ladder, ours
from streamtune.provisioning.sampling.belief import CurveBelief
from streamtune.provisioning.sampling.physics import KNOWN, InstancePhysics, SimulatedSampler, calibrate
from streamtune.provisioning.sampling.samples import (
    Convergence,
    Provision,
    Sample,
    has_converged,
    read_samples,
    standard_error,
    write_samples,
)
from streamtune.provisioning.settings import DsaSettings

LADDER = ladder(Provision(cpu=0.1, memory_mb=20), Provision(cpu=1.6, memory_mb=95), 16)


@dataclass
class Scripted:
    """Gives the performance of a list, by the provision's place on the ladder."""

    curve: list[float]
    visited: list[int] = field(default_factory=list)

    def sample(self, provision: Provision) -> Sample:
        place = LADDER.index(provision)
        self.visited.append(place)
        return Sample(cpu=provision.cpu, memory_mb=provision.memory_mb, performance_per_s=self.curve[place])


def real_samples() -> dict[str, list[Sample]]:
    stored = json.loads((Path(__file__).parent / "real_samples.json").read_text())
    return {operator: [Sample(**row) for row in rows] for operator, rows in stored.items()}


def test_a_sample_is_done_when_its_own_spread_says_so() -> None:
    settings = Convergence(spread=0.02, least_chunks=6)
    assert not has_converged([100.0] * 5, settings)
    assert has_converged([100.0] * 6, settings)
    assert not has_converged([100, 150, 60, 120, 90, 170], settings)
    # Pairs (100, 102), (98, 100), (101, 99) have means 101, 99, 100: their sd is 1, over root 3, over 100.
    assert standard_error([100, 102, 98, 100, 101, 99]) == pytest.approx(1 / np.sqrt(3) / 100)


def test_dsa_stretches_its_steps_where_little_happens_and_stops_on_the_plateau() -> None:
    curve = [100.0 * min(k + 1, 6) for k in range(16)]
    script = Scripted(curve)
    dsa(LADDER, script, DsaSettings(up=0.3, stop=0.02, stop_count=2, largest_step=4))
    # 0 → 1 doubles (rate 1 > 0.3: sampled again), 1 → 2 gains 0.5 (again), 2 → 3 gains 0.33 (again), 3 → 4 gains 0.25
    # (step 1), 4 → 5 gains 0.2 (step 1), 5 → 6 gains nothing (first stop, step 4), 6 → 10 nothing (second stop).
    assert script.visited == [0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 10]


def test_dsa_looks_between_where_performance_falls() -> None:
    curve = [100.0, 101, 102, 103, 104, 60, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115]
    script = Scripted(curve)
    dsa(LADDER, script, DsaSettings(up=0.04, stop=0.001, stop_count=2, largest_step=4))
    # 0 → 1 gains 0.01: step 4. 1 → 5 falls: the middle, 3, is sampled, and the next step is 1.
    assert script.visited[:5] == [0, 1, 5, 3, 6]


def test_dsa_ends_where_the_ladder_ends() -> None:
    script = Scripted([2.0**k for k in range(16)])
    dsa(LADDER, script)
    assert script.visited[-1] == 15


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
def test_fixed_steps_reach_the_last_provision(step: int) -> None:
    script = Scripted([1.0] * 16)
    fssa(LADDER, script, step)
    assert script.visited == sorted({*range(0, 16, step), 15})


@pytest.mark.parametrize("count", [12, 14, 16, 17, 18, 30])
def test_ours_never_takes_more_than_a_third(count: int) -> None:
    rungs = ladder(Provision(cpu=0.1, memory_mb=20), Provision(cpu=1.2, memory_mb=96), count)
    noisy = SimulatedSampler(KNOWN["CMO2"], noise=0.3, seed=3)  # never sure, so it takes all it may
    assert len(ours(rungs, noisy)) == count // 3


@pytest.mark.parametrize("operator", list(KNOWN))
def test_ours_needs_a_third_of_the_samples(operator: str) -> None:
    found = ours(LADDER, SimulatedSampler(KNOWN[operator], noise=0.02, seed=1))
    assert len(found) <= len(LADDER) // 3
    belief = CurveBelief.of(found)
    truth = np.log([float(KNOWN[operator].performance(p.cpu, p.memory_mb)) for p in LADDER])
    assert np.sqrt(np.mean((belief.log_performance(LADDER)[0] - truth) ** 2)) < 0.35


def test_the_belief_narrows_with_samples() -> None:
    sampler = SimulatedSampler(KNOWN["CO2"], seed=2)
    few = CurveBelief.of([sampler.sample(LADDER[k]) for k in (0, 8)])
    many = CurveBelief.of([sampler.sample(LADDER[k]) for k in range(0, 16, 2)])
    assert many.log_performance(LADDER)[1].max() < few.log_performance(LADDER)[1].max()


def test_more_resources_are_never_slower_in_the_physics() -> None:
    for physics in KNOWN.values():
        table = physics.performance(np.linspace(0.1, 4, 20)[:, None], np.linspace(16, 200, 20)[None, :])
        assert (np.diff(table, axis=0) >= -1e-9).all()
        assert (np.diff(table, axis=1) >= -1e-9).all()


@pytest.mark.parametrize("operator", list(KNOWN))
def test_the_physics_fits_what_was_measured(operator: str) -> None:
    assert calibrate(real_samples()[operator])[1] < 0.2


def test_calibration_finds_the_truth() -> None:
    truth = InstancePhysics(rate_per_core=1000, cores=1.0, miss_s=0.01, state_mb=60, shape=1.5)
    sampler = SimulatedSampler(truth, noise=0.0)
    samples = [sampler.sample(Provision(cpu=c, memory_mb=m)) for c in (0.2, 0.5, 1, 2) for m in (20, 40, 60, 100)]
    found, error = calibrate(samples)
    assert error < 0.05
    assert found.rate_per_core == pytest.approx(1000, rel=0.1)
    with pytest.raises(ProvisioningError, match="1 samples with a performance are too few"):
        calibrate(samples[:1])


def test_samples_survive_a_file(tmp_path: Path) -> None:
    samples = [Sample(cpu=1, memory_mb=64, performance_per_s=5.0)]
    write_samples(tmp_path / "co1.json", "CO1", samples, {"sampler": "test"})
    assert read_samples(tmp_path / "co1.json") == ("CO1", samples)
    with pytest.raises(OutputError, match="cannot be written: it is a folder"):
        write_samples(tmp_path, "CO1", samples, {})
    (tmp_path / "bad.json").write_text('{"operator": "x", "samples": [{"cpu": -1}]}')
    with pytest.raises(ProvisioningError, match="a sample's cpu: Input should be greater than 0, but got -1"):
        read_samples(tmp_path / "bad.json")


def fake_version_2(mount: Path, controllers: str = "cpuset cpu io memory pids") -> None:
    (mount / "cgroup.controllers").write_text(controllers)
    (mount / "cgroup.subtree_control").write_text("")


def test_version_2_writes_its_own_files(tmp_path: Path) -> None:
    fake_version_2(tmp_path)
    hierarchy = find_hierarchy(tmp_path)
    group = ResourceGroup(hierarchy, "one")
    group.limit(0.5, 64)
    assert (tmp_path / "one" / "cpu.max").read_text() == "10000 20000"
    assert (tmp_path / "one" / "memory.max").read_text() == str(64 << 20)
    assert group.process_files == (tmp_path / "one" / "cgroup.procs",)
    (tmp_path / "one" / "cpu.stat").write_text("usage_usec 1500000\nnr_throttled 7\n")
    (tmp_path / "one" / "memory.current").write_text(str(3 << 20))
    assert (group.usage().cpu_s, group.usage().throttled_periods, group.usage().peak_memory_mb) == (1.5, 7, 3.0)


def test_a_machine_without_control_groups_gets_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CgroupError, match=r"no control groups for cpu and cpuacct and memory .* Use the simulator"):
        find_hierarchy(tmp_path)
    fake_version_2(tmp_path, "cpuset io")
    with pytest.raises(CgroupError, match="do not offer cpu and memory: use the simulator"):
        find_hierarchy(tmp_path)


def real_hierarchy() -> Hierarchy:
    try:
        return find_hierarchy()
    except CgroupError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("operator", ["CO1", "CMO2"])
def test_a_real_sample_stays_within_its_quota(operator: str) -> None:
    hierarchy = real_hierarchy()
    mine = f"streamtune-{os.getpid()}-*"
    before = set(hierarchy.cpu.glob(mine))
    settings = Convergence(most_s=1.0, least_chunks=2, spread=0.5)
    sampler = ProcessSampler(operator, state_mb=8, convergence=settings, hierarchy=hierarchy)
    sample = sampler.sample(Provision(cpu=0.2, memory_mb=48))
    assert sample.performance_per_s > 0
    assert sample.cpu_used is not None
    assert sample.cpu_used < 0.3
    assert sample.throttled is not None
    assert sample.throttled > 0  # it wanted more than its quota
    assert set(hierarchy.cpu.glob(mine)) == before  # its group is gone again


def test_sampling_beside_the_live_stream_loses_nothing() -> None:
    hierarchy = real_hierarchy()
    small, large = Provision(cpu=0.3, memory_mb=40), Provision(cpu=0.8, memory_mb=40)
    stream = list(range(5_000))
    with (
        RunningInstance("CO2", small, hierarchy, 1) as sampling,
        RunningInstance("CO2", large, hierarchy, 1) as normal,
    ):
        sampled, served = sample_beside(sampling, [normal], stream, share=0.25)
    assert sampled + served == len(stream)
    assert sampled == pytest.approx(0.25 * len(stream), rel=0.1)


def test_provisions_that_no_machine_has() -> None:
    hierarchy = real_hierarchy()
    for provision, message in (
        (Provision(cpu=4096, memory_mb=64), "4096 cores cannot be sampled: this machine has"),
        (Provision(cpu=0.1, memory_mb=1e9), r"1000000000 MiB cannot be sampled: this machine has \d+ MiB"),
        (Provision(cpu=1, memory_mb=2), "2 MiB cannot hold the interpreter"),
    ):
        with pytest.raises(StreamTuneError, match=message):
            RunningInstance("CO1", provision, hierarchy, 1)
    with pytest.raises(StreamTuneError, match="unknown operator 'CO9'"):
        RunningInstance("CO9", Provision(cpu=0.1, memory_mb=64), hierarchy, 1)
