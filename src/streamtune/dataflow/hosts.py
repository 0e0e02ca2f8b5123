"""``Host`` and ``Cluster``: the machines a job runs on. What runs where is decided in ``placement``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from pydantic import Field

from streamtune.dataflow.plan import Instance, Plan
from streamtune.errors import DataflowError
from streamtune.frozen import Frozen

# The clock rate at which an operator takes the service time that its physics names.
REFERENCE_GHZ = 2.0


class Host(Frozen):
    """One machine with the physical features of Table I of the ZeroTune paper. It offers one slot per core.

    >>> Host(cores=8, ghz=2.0, memory_gb=64, network_gbps=10).speed
    1.0
    """

    kind: str = "host"
    cores: int = Field(ge=1)
    ghz: float = Field(default=REFERENCE_GHZ, gt=0, allow_inf_nan=False)
    memory_gb: float = Field(default=64.0, gt=0, allow_inf_nan=False)
    network_gbps: float = Field(default=10.0, gt=0, allow_inf_nan=False)

    @property
    def speed(self) -> float:
        """How many times faster than the reference clock it serves a record."""
        return self.ghz / REFERENCE_GHZ


@dataclass(frozen=True)
class Cluster:
    """The hosts of one deployment.

    >>> Cluster((Host(cores=4), Host(cores=2))).cores
    6
    """

    hosts: tuple[Host, ...]

    def __post_init__(self) -> None:
        if not self.hosts:
            raise DataflowError("a cluster needs at least one host", field="hosts")

    @classmethod
    def of(cls, hosts: Iterable[Host]) -> Cluster:
        return cls(tuple(hosts))

    @cached_property
    def cores(self) -> int:
        return sum(host.cores for host in self.hosts)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """How the hosts are called in the placement of a plan: h0, h1, …"""
        return tuple(f"h{place}" for place in range(len(self.hosts)))

    def check_plan(self, plan: Plan) -> None:
        """Refuse a plan with an operator above the cores of all hosts (the constraint of ZeroTune's Eq. 1).

        A plan with a placement may share cores as it likes, but has to put every instance on a host that is there.
        """
        if plan.placement is not None:
            self._check_placement(plan)
            return
        for operator_id, degree in plan.items():
            if degree > self.cores:
                raise DataflowError(
                    f"the plan asks for parallelism {degree}, the {len(self.hosts)} hosts have {self.cores} cores: "
                    "lower it or add hosts",
                    operator=operator_id,
                )

    def _check_placement(self, plan: Plan) -> None:
        placement = plan.placement or {}
        for operator, degree in plan.items():
            for number in range(degree):
                host = placement.get(Instance(operator, number))
                if host is None:
                    raise DataflowError(
                        f"the placement leaves out instance {number}: place every instance, or none", operator=operator
                    )
                if host not in self.names:
                    raise DataflowError(
                        f"the placement puts instance {number} on '{host}', but the hosts are {self.names[0]} to "
                        f"{self.names[-1]}: choose one of them",
                        operator=operator,
                    )
