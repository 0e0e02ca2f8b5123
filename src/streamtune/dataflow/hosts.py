"""``Host`` and ``Cluster``: the machines a job runs on, and how many instances each of them gets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from pydantic import Field

from streamtune.dataflow.job import ParallelismPlan
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

    Slots are filled host after host in turn, as Flink does with ``taskmanager.load-balance.mode: slots``: the first
    instances of every operator are spread over all hosts, and a host whose slots are taken is passed over.

    >>> cluster = Cluster((Host(cores=4), Host(cores=2)))
    >>> cluster.cores, cluster.instances([1, 4, 6]).tolist()
    (6, [[1, 0], [2, 2], [4, 2]])
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
    def _instances_by_degree(self) -> npt.NDArray[np.int64]:
        """(cores + 1) × hosts: the instances on each host of an operator with parallelism 0, 1, 2, …"""
        rounds = range(max(host.cores for host in self.hosts))
        turns = [place for turn in rounds for place, host in enumerate(self.hosts) if turn < host.cores]
        taken = np.zeros((len(turns) + 1, len(self.hosts)), dtype=np.int64)
        taken[np.arange(1, len(turns) + 1), turns] = 1
        return np.cumsum(taken, axis=0)

    def instances(self, degrees: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Instances per host for every parallelism in an array of any shape; hosts are the last axis."""
        degrees = np.asarray(degrees, dtype=np.int64)
        if degrees.size and int(degrees.max()) > self.cores:
            raise DataflowError(
                f"parallelism {int(degrees.max())} needs as many cores, but the {len(self.hosts)} hosts have "
                f"{self.cores}: lower the parallelism or add hosts"
            )
        placed: npt.NDArray[np.int64] = self._instances_by_degree[degrees]
        return placed

    def check_plan(self, plan: ParallelismPlan) -> None:
        """Refuse a plan with an operator above the cores of all hosts (the constraint of ZeroTune's Eq. 1)."""
        for operator_id, degree in plan.items():
            if degree > self.cores:
                raise DataflowError(
                    f"the plan asks for parallelism {degree}, the {len(self.hosts)} hosts have {self.cores} cores: "
                    "lower it or add hosts",
                    operator=operator_id,
                )
