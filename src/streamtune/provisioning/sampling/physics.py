"""Performance over CPU and memory: the simulator's physics of an instance, calibrated on real curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from pydantic import Field
from scipy.optimize import least_squares

from streamtune.dataflow.physics import ResourcePhysics
from streamtune.frozen import Frozen
from streamtune.provisioning.problem import ProvisioningError
from streamtune.provisioning.sampling.samples import Provision, Sample

Floats = npt.NDArray[np.float64]


class InstancePhysics(Frozen):
    """The truth of one simulated operator instance."""

    rate_per_core: float = Field(gt=0, description="a: records/s of one core that never waits.")
    cores: float = Field(default=1.0, gt=0, description="C: cores the operator can use.")
    bend: float = Field(default=8.0, gt=0, description="k: how sharply it saturates.")
    miss_s: float = Field(default=0.0, ge=0, description="b: seconds a record waits when no state fits.")
    miss_cpu: float = Field(default=0.5, ge=0, le=1, description="κ: how much of the waiting is work of the CPU.")
    state_mb: float = Field(default=1.0, gt=0, description="s: MiB of state.")
    process_mb: float = Field(default=14.0, ge=0, description="m₀: MiB the process needs itself.")
    shape: float = Field(default=1.0, gt=0, description="γ: 1 rises gradually, less than 1 drops off a cliff.")

    @property
    def resources(self) -> ResourcePhysics:
        """The same for an operator of a simulated job, whose service time is that of one core."""
        names = ("cores", "bend", "miss_cpu", "state_mb", "process_mb", "shape")
        known = {name: getattr(self, name) for name in names}
        return ResourcePhysics(**known, miss=self.miss_s * self.rate_per_core)

    def performance(self, cpu: npt.ArrayLike, memory_mb: npt.ArrayLike) -> Floats:
        """Records/s of one instance: :class:`ResourcePhysics` has the formula.

        >>> InstancePhysics(rate_per_core=100, cores=2, bend=50).performance([0.5, 4.0], 64).round(3).tolist()
        [50.0, 200.0]
        """
        c, m = np.broadcast_arrays(np.asarray(cpu, dtype=np.float64), np.asarray(memory_mb, dtype=np.float64))
        resources = self.resources
        relative = [resources.relative(one, other) for one, other in zip(c.flat, m.flat, strict=True)]
        return self.rate_per_core * np.array(relative).reshape(c.shape)


def calibrate(samples: Sequence[Sample]) -> tuple[InstancePhysics, float]:
    """The physics that fits real samples best, and its root mean square error in log performance."""
    usable = [one for one in samples if one.performance_per_s > 0]
    if len(usable) < 4:
        raise ProvisioningError(f"{len(usable)} samples with a performance are too few: calibrate on at least 4")
    cpu = np.array([one.cpu for one in usable])
    memory = np.array([one.memory_mb for one in usable])
    target = np.log([one.performance_per_s for one in usable])
    rate = float(np.exp(np.median(target - np.log(np.minimum(cpu, 1.0)))))

    def physics(x: Floats) -> InstancePhysics:
        return InstancePhysics(
            rate_per_core=float(np.exp(x[0])),
            cores=float(np.exp(x[1])),
            miss_s=float(np.exp(x[2])),
            state_mb=float(np.exp(x[3])),
            shape=float(np.exp(x[4])),
        )

    def residual(x: Floats) -> Floats:
        return np.asarray(np.log(physics(x).performance(cpu, memory)) - target)

    low = [np.log(rate) - 3, np.log(0.3), -30.0, np.log(1.0), np.log(0.05)]
    high = [np.log(rate) + 4, np.log(64.0), 2.0, np.log(max(2.0, 2 * memory.max())), np.log(4.0)]
    best = min(
        (
            least_squares(
                residual,
                np.clip([np.log(rate), np.log(cores), np.log(miss / rate), np.log(state), 0.0], low, high),
                bounds=(low, high),
                loss="soft_l1",
                f_scale=0.1,
            )
            for cores in (1.0, 2.0)
            for miss in (1e-6, 5.0)
            for state in (memory.max() / 2, memory.max())
        ),
        key=lambda found: found.cost,
    )
    return physics(best.x), float(np.sqrt(np.mean(residual(best.x) ** 2)))


@dataclass
class SimulatedSampler:
    """Samples from physics with noise, where no control groups may be used; seconds are simulated too."""

    physics: InstancePhysics
    noise: float = 0.02
    seed: int = 0
    sample_s: float = 2.0
    _generator: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._generator = np.random.default_rng(self.seed)

    def sample(self, provision: Provision) -> Sample:
        truth = float(self.physics.performance(provision.cpu, provision.memory_mb))
        seen = truth * float(np.exp(self.noise * self._generator.standard_normal()))
        return Sample(
            cpu=provision.cpu,
            memory_mb=provision.memory_mb,
            performance_per_s=seen,
            spread=self.noise,
            seconds=self.sample_s,
        )


# What `calibrate` found on the four operators under control groups v1 on a busy machine of two cores; for CO1 and CO2,
# which have no state, without the memory term. tests/provisioning/real_samples.json holds the samples.
KNOWN: dict[str, InstancePhysics] = {
    "CO1": InstancePhysics(rate_per_core=94_500, cores=1.08),
    "CO2": InstancePhysics(rate_per_core=178_700, cores=0.88),
    "CMO1": InstancePhysics(rate_per_core=124_100, cores=0.96, miss_s=4.35e-4, state_mb=50.0, shape=2.41),
    "CMO2": InstancePhysics(rate_per_core=149_200, cores=0.77, miss_s=2.89e-4, state_mb=59.0, shape=1.17),
}
