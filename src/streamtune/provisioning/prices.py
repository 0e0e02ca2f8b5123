"""Price lists: what cores, memory, starts and stops cost, and the sizes that follow from a model of an operator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from streamtune.frozen import Frozen
from streamtune.provisioning.checking import checked
from streamtune.provisioning.problem import ProvisioningError, Size, read_values
from streamtune.provisioning.sampling.samples import Provision


class PriceList(Frozen):
    """Prices in any one currency. The defaults are round numbers of the large clouds' lists in US dollars."""

    per_core_hour: float = Field(default=0.04, ge=0, allow_inf_nan=False, description="One core for an hour.")
    per_gib_hour: float = Field(default=0.005, ge=0, allow_inf_nan=False, description="One GiB for an hour.")
    start: float = Field(default=0.002, ge=0, allow_inf_nan=False, description="Starting one instance.")
    stop: float = Field(default=0.0005, ge=0, allow_inf_nan=False, description="Stopping one instance.")
    change: float = Field(
        default=0.01, ge=0, allow_inf_nan=False, description="One reconfiguration of a job: its downtime, its risk."
    )
    short_hour: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="An hour in which a running job is short of instances; none: one level of the forecast is served.",
    )
    cores: float = Field(default=1.0, gt=0, allow_inf_nan=False, description="Cores of an instance of no other size.")
    gib: float = Field(default=1.0, gt=0, allow_inf_nan=False, description="GiB of such an instance.")

    def per_epoch(self, cpu: float, memory_mb: float, epoch_s: float) -> float:
        """What an instance costs per epoch.

        >>> round(PriceList(per_core_hour=0.04, per_gib_hour=0.01).per_epoch(2, 1024, 1800), 6)
        0.045
        """
        return (cpu * self.per_core_hour + memory_mb / 1024 * self.per_gib_hour) * epoch_s / 3600

    def instance_per_epoch(self, epoch_s: float) -> float:
        """What an instance of no other size costs per epoch."""
        return self.per_epoch(self.cores, 1024 * self.gib, epoch_s)


def load_prices(path: Path) -> PriceList:
    """A price list from a YAML or JSON file."""
    data = read_values(path)
    if not isinstance(data, dict):
        raise ProvisioningError(f"{path}: must be a mapping such as per_core_hour: 0.04")
    return checked(PriceList, data, path)


def sizes_for(
    provisions: Sequence[Provision], performance_per_s: Sequence[float], prices: PriceList, epoch_s: float
) -> tuple[Size, ...]:
    """The sizes of a planning problem; their names tell cores and MiB."""
    return tuple(
        Size(
            name=f"{one.cpu:g}c{one.memory_mb:g}m",
            cpu=one.cpu,
            memory_mb=one.memory_mb,
            performance_per_s=float(rate),
            price=prices.per_epoch(one.cpu, one.memory_mb, epoch_s),
        )
        for one, rate in zip(provisions, performance_per_s, strict=True)
    )


class SizeAdvice(Frozen):
    """A size and what it costs to have a record served by it."""

    cpu: float
    memory_mb: float
    performance_per_s: float
    per_hour: float
    per_million_records: float


def cheapest_size(
    provisions: Sequence[Provision], performance_per_s: Sequence[float], prices: PriceList
) -> SizeAdvice | None:
    """The provision whose records are cheapest; the smaller one of equals, none where none serves anything.

    >>> small, large = Provision(cpu=1, memory_mb=1024), Provision(cpu=2, memory_mb=1024)
    >>> prices = PriceList(per_core_hour=0.03, per_gib_hour=0.006)
    >>> advice = cheapest_size([small, large], [100.0, 190.0], prices)
    >>> advice.cpu, round(advice.per_hour, 6), round(advice.per_million_records, 6)
    (2.0, 0.066, 0.096491)
    """
    found = []
    for one, rate in zip(provisions, performance_per_s, strict=True):
        if rate > 0:
            hour = prices.per_epoch(one.cpu, one.memory_mb, 3600)
            record = hour / (3600 * rate) * 1e6
            advice = SizeAdvice(
                cpu=one.cpu,
                memory_mb=one.memory_mb,
                performance_per_s=float(rate),
                per_hour=hour,
                per_million_records=record,
            )
            found.append(advice)
    return min(found, key=lambda one: (one.per_million_records, one.cpu, one.memory_mb), default=None)
