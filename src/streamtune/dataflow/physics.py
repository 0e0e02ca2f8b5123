"""The hidden truth of an emulated job: read by the simulator and the Flink workload, by nothing that learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field, field_validator

from streamtune.dataflow.graph import Dataflow
from streamtune.dataflow.plan import Instances
from streamtune.frozen import Frozen

# A capacity that misses a rate by float noise alone still serves it.
_ROUNDING = 1e-9


class ResourcePhysics(Frozen):
    r"""What an instance does with its cores and its memory, relative to one core that never waits.

    .. math:: \frac{1}{\mathit{rel}(c, m)} = \frac{1}{\mathrm{sat}(c)} +
              \frac{b}{\mathrm{sat}(c)^\kappa}\max(0, 1 - \tfrac{m - m_0}{s})^{\gamma}

    :math:`\mathrm{sat}(c) = (c^{-k} + C^{-k})^{-1/k}`: linear in the cores up to the C that the operator's threads can
    use. The second term is the time a record waits for state that does not fit: s MiB of state, :math:`m_0` MiB for the
    process itself; large γ is a cliff just below s, γ = 1 a gradual rise.

    >>> ResourcePhysics(cores=2, bend=50).relative(0.5, 64)
    0.5
    """

    cores: float = Field(default=1.0, gt=0, description="C: cores the operator can use")
    bend: float = Field(default=8.0, gt=0, description="k: how sharply it saturates")
    miss: float = Field(default=0.0, ge=0, description="b: service times a record waits when no state fits")
    miss_cpu: float = Field(default=0.5, ge=0, le=1, description="κ: how much of the waiting is work of the CPU")
    state_mb: float = Field(default=1.0, gt=0, description="s: MiB of state")
    process_mb: float = Field(default=14.0, ge=0, description="m₀: MiB the process needs itself")
    shape: float = Field(default=1.0, gt=0, description="γ: 1 rises gradually, less than 1 drops off a cliff")

    def relative(self, cpu: float, memory_mb: float) -> float:
        """Records served, over what one core that never waits serves."""
        missing = min(max(1 - (memory_mb - self.process_mb) / self.state_mb, 0.0), 1.0) ** self.shape
        served = (cpu**-self.bend + self.cores**-self.bend) ** (-1 / self.bend)
        return float(1 / (1 / served + self.miss * missing / served**self.miss_cpu))


class OperatorPhysics(Frozen):
    """What one operator really costs, and how it really scales.

    One instance alone serves a record in ``service_us`` on average; p instances together serve
    ``p / (1 + contention·(p−1) + coherency·p·(p−1))`` times as many (Gunther's universal scalability law).
    ``skew`` is by how much the hottest subtask of many exceeds the mean share of the records, ``cv`` the coefficient
    of variation of the service time, ``fire_share`` the part of a window operator's work that is done when it fires.
    Where a plan chooses sizes of instances, ``resources`` says what an instance does with its size; without it an
    instance works in proportion to its cores, up to one, and needs no memory.
    """

    service_us: float = Field(gt=0, allow_inf_nan=False, description="time one instance needs for a record, µs")
    selectivity: float = Field(default=1.0, ge=0, allow_inf_nan=False, description="records out per record in")
    contention: float = Field(default=0.0, ge=0, lt=1, description="of the universal scalability law")
    coherency: float = Field(default=0.0, ge=0, lt=1, description="of the universal scalability law")
    skew: float = Field(
        default=0.0, ge=0, le=1, description="by how much the hottest of many subtasks exceeds the mean"
    )
    cv: float = Field(default=0.0, ge=0, le=2, description="coefficient of variation of the service time")
    shares: Mapping[str, float] = Field(
        default_factory=dict, description="reader → share of the output that it gets; a reader not named gets all of it"
    )
    fire_share: float = Field(default=0.1, ge=0, lt=1, description="part of a window's work that is done when it fires")
    resources: ResourcePhysics | None = Field(default=None, description="what an instance does with cores and memory")

    @field_validator("shares")
    @classmethod
    def _shares_within_bounds(cls, shares: Mapping[str, float]) -> Mapping[str, float]:
        for reader, share in shares.items():
            if not 0 < share <= 1:
                raise ValueError(f"the share of '{reader}' must be above 0 and at most 1, but got {share!r}")
        return shares

    def speedup(self, parallelism: int) -> float:
        """How many times the capacity of one instance ``parallelism`` instances have, skew aside."""
        p = parallelism
        return p / (1 + self.contention * (p - 1) + self.coherency * p * (p - 1))

    def hot_factor(self, parallelism: int) -> float:
        """Load of the hottest subtask over the mean load: 1 at p = 1, rising to 1 + skew."""
        return 1 + self.skew * (1 - 1 / parallelism)

    def capacity_per_s(self, parallelism: int) -> float:
        """Records/s that ``parallelism`` instances sustain: the hottest subtask is the limit.

        >>> OperatorPhysics(service_us=1000).capacity_per_s(4)
        4000.0
        """
        return 1e6 / self.service_us * self.speedup(parallelism) / self.hot_factor(parallelism)

    def equipped(self, groups: Sequence[Instances]) -> float:
        """Mean speed of instances of these sizes, over an instance of one core that never waits.

        Records are dealt out in proportion to what each instance does, as QEScalor's stream distributor does: a weak
        instance beside strong ones does not hold them up.

        >>> from streamtune.dataflow.plan import InstanceSize
        >>> small, large = InstanceSize(cpu=0.5, memory_mb=512), InstanceSize(cpu=4, memory_mb=512)
        >>> mixed = [Instances(count=3, size=small), Instances(count=1, size=large)]
        >>> round(OperatorPhysics(service_us=1000).equipped(mixed), 3)
        0.625
        """
        physics = self.resources or _ONE_CORE
        total = sum(group.count for group in groups)
        return sum(g.count * physics.relative(g.size.cpu, g.size.memory_mb) for g in groups) / total


# Linear in the cores, up to exactly one.
_ONE_CORE = ResourcePhysics(bend=200.0)


def smallest_parallelism(physics: OperatorPhysics, rate_per_s: float, limit: int) -> int | None:
    """The smallest parallelism up to ``limit`` whose capacity is at least ``rate_per_s``; None if there is none.

    >>> smallest_parallelism(OperatorPhysics(service_us=1000), 3500, 100)
    4
    """
    for parallelism in range(1, limit + 1):
        if physics.capacity_per_s(parallelism) >= rate_per_s * (1 - _ROUNDING):
            return parallelism
    return None


def true_ratios(flow: Dataflow, physics: Mapping[str, OperatorPhysics]) -> dict[tuple[str, str], float]:
    """Records over every edge per record into its writer: selectivity times the reader's share."""
    return {
        (edge.source, edge.target): physics[edge.source].selectivity * physics[edge.source].shares.get(edge.target, 1.0)
        for edge in flow.edges
    }
