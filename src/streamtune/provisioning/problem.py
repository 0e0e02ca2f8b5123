"""The planning problem of QEScalor (Eq. 1 to 3): sizes with prices, start and stop costs, a workload over epochs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from streamtune.dataflow.documents import DocumentError, read_document
from streamtune.errors import StreamTuneError
from streamtune.frozen import Frozen

SLACK = 1e-9  # relative: eleven instances of 0.1 records/s serve 1.1 records/s

MOST_INSTANCES = 1_000_000
MOST_CORES, MOST_MIB = 1024, 64 * 2**20  # of any machine that there is


class ProvisioningError(StreamTuneError):
    """A problem that cannot be read, or that no plan can solve."""


def cores(number: float) -> str:
    """
    >>> cores(1), cores(0.5)
    ('1 core', '0.5 cores')
    """
    return "1 core" if number == 1 else f"{number:g} cores"


def fits_nowhere(cpu: float, memory_mb: float) -> str:
    """What is said about more than any machine has."""
    most = f"none has more than {MOST_CORES:,} cores or {MOST_MIB // 2**20} TiB"
    return f"({cores(cpu)}, {memory_mb:g} MiB) fits on no machine: {most}. Check the units"


class Size(Frozen):
    """One way to equip an instance, what it does per second, and what it costs per epoch."""

    name: str = Field(min_length=1, description="How plans call it.")
    cpu: float = Field(gt=0, allow_inf_nan=False, description="Cores.")
    memory_mb: float = Field(gt=0, allow_inf_nan=False, description="MiB of memory.")
    performance_per_s: float = Field(ge=0, allow_inf_nan=False, description="Records/s that one instance serves.")
    price: float = Field(ge=0, allow_inf_nan=False, description="Cost of one running instance per epoch.")


class Machine(Frozen):
    """The largest machine there is: a size that does not fit on it cannot be started."""

    cpu: float = Field(gt=0, allow_inf_nan=False, description="Cores.")
    memory_mb: float = Field(gt=0, allow_inf_nan=False, description="MiB of memory.")


class Problem(Frozen):
    """Cheapest numbers of instances of each size in each epoch, so that every epoch's workload is served.

    >>> small = Size(name="small", cpu=1, memory_mb=512, performance_per_s=100, price=1)
    >>> Problem(sizes=(small,), start_cost=1, stop_cost=0, workload=(50, 250)).epochs
    2
    """

    sizes: tuple[Size, ...] = Field(min_length=1, description="The sizes to choose from.")
    start_cost: float = Field(ge=0, allow_inf_nan=False, description="Cost of starting one instance.")
    stop_cost: float = Field(ge=0, allow_inf_nan=False, description="Cost of stopping one instance.")
    workload: tuple[float, ...] = Field(min_length=1, description="Records/s to serve in each epoch.")
    initial: dict[str, int] | None = Field(
        default=None, description="What runs before the first epoch; without it the first epoch starts free of charge."
    )
    largest_machine: Machine | None = Field(default=None, description="Sizes must fit on it, where given.")

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        names = [size.name for size in self.sizes]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two sizes are called '{name}': give each its own name")
        for epoch, rate in enumerate(self.workload):
            if not math.isfinite(rate) or rate < 0:
                raise ValueError(f"the workload of epoch {epoch} must be finite and at least 0, but got {rate}")
        for name, count in (self.initial or {}).items():
            if name not in names:
                raise ValueError(f"initial: there is no size '{name}': the sizes are {', '.join(names)}")
            if count < 0:
                raise ValueError(f"initial: '{name}' must be at least 0, but got {count}")
            if count > MOST_INSTANCES:
                raise ValueError(f"initial: '{name}' must be at most {MOST_INSTANCES:,}, but got {count:,}")
        self._check_machine()
        self._check_served()
        return self

    def _check_machine(self) -> None:
        for size in self.sizes:
            if size.cpu > MOST_CORES or size.memory_mb > MOST_MIB:
                raise ValueError(f"size '{size.name}' {fits_nowhere(size.cpu, size.memory_mb)}")
        if self.largest_machine is None:
            return
        for size in self.sizes:
            if size.cpu > self.largest_machine.cpu or size.memory_mb > self.largest_machine.memory_mb:
                raise ValueError(
                    f"size '{size.name}' ({cores(size.cpu)}, {size.memory_mb:g} MiB) fits on no machine: the "
                    f"largest has {cores(self.largest_machine.cpu)} and {self.largest_machine.memory_mb:g} MiB"
                )

    def _check_served(self) -> None:
        peak = max(self.workload)
        if peak > 0 and all(size.performance_per_s == 0 for size in self.sizes):
            raise ValueError(
                f"nothing can serve the workload of epoch {self.workload.index(peak)} ({peak:g} records/s): "
                "every size has a performance of 0"
            )
        strongest = max(size.performance_per_s for size in self.sizes)
        if peak > 0 and peak / strongest > MOST_INSTANCES:
            raise ValueError(
                f"the workload of epoch {self.workload.index(peak)} ({peak:g} records/s) needs more than a million "
                f"instances of the strongest size ({strongest:g} records/s): check the units of both"
            )

    @property
    def epochs(self) -> int:
        return len(self.workload)

    def size(self, name: str) -> Size:
        """The size of this name."""
        for size in self.sizes:
            if size.name == name:
                return size
        raise ProvisioningError(f"there is no size '{name}': the sizes are {', '.join(s.name for s in self.sizes)}")


def check_method(method: str, problem: Problem) -> None:
    """Refuse a way to plan that there is not; loads no solver."""
    name, colon, size = method.partition(":")
    if name == "cba" and size:
        problem.size(size)
    elif colon or name not in ("exact", "qcesa", "peak"):
        raise ProvisioningError(f"unknown method '{method}': choose exact, qcesa, cba:SIZE or peak")


def load_problem(path: Path) -> Problem:
    """A problem from a YAML or JSON file; ``workload`` may be the name of a CSV beside it."""
    data = read_values(path)
    if not isinstance(data, dict):
        raise ProvisioningError(f"{path}: must be a mapping with sizes, start_cost, stop_cost and workload")
    return problem_of(data, path)


def problem_of(data: dict[str, Any], path: Path) -> Problem:
    """Check what was read; every error names the file and the field."""
    from streamtune.provisioning.checking import checked

    if isinstance(data.get("workload"), str):
        from streamtune.provisioning.workload import read_workload

        try:
            data = {**data, "workload": read_workload(path.parent / data["workload"])}
        except ProvisioningError as error:
            raise ProvisioningError(f"{path}: workload: {error}") from error
    return checked(Problem, data, path)


def read_values(path: Path) -> Any:
    """The plain values in a YAML or JSON file."""
    try:
        return read_document(path)
    except DocumentError as error:
        raise ProvisioningError(f"{path} {error.problem}") from error
