"""``Host`` and ``Hosts``: where instances can run, how big each place is, and what a byte between them costs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, ValidationError

from streamtune.dataflow.documents import DocumentError, read_document
from streamtune.frozen import Frozen
from streamtune.placement.graph import Floats, Ints, PlacementError

# How much heavier than a byte between two hosts of one zone a byte between zones counts, at the mean price.
ZONE_EMPHASIS = 10.0
MOST_HOSTS = 100_000


class Host(Frozen):
    """One place to run instances."""

    name: str = Field(min_length=1, description="How the host is called in the answer.")
    cpu: float = Field(default=1.0, gt=0, allow_inf_nan=False, description="Its size relative to the others.")
    memory_mb: float | None = Field(default=None, ge=0, allow_inf_nan=False, description="Unlimited when left out.")
    zone: str = Field(default="", description="Hosts of one zone exchange bytes without a price.")


class _HostEntry(Host):
    count: int = Field(default=1, ge=1, le=MOST_HOSTS)

    def hosts(self) -> list[Host]:
        names = [self.name] if self.count == 1 else [f"{self.name}-{place}" for place in range(self.count)]
        return [
            Host.model_construct(name=name, cpu=self.cpu, memory_mb=self.memory_mb, zone=self.zone) for name in names
        ]


class _Price(Frozen):
    source: str = Field(alias="from")
    target: str = Field(alias="to")
    price_per_gb: float = Field(ge=0, allow_inf_nan=False)


class _HostsFile(Frozen):
    hosts: tuple[_HostEntry, ...] = Field(min_length=1)
    price_per_gb: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    prices: tuple[_Price, ...] = ()


@dataclass(frozen=True)
class Hosts:
    """The hosts of one cluster and the price of a gigabyte between zones.

    >>> hosts = Hosts.equal(3)
    >>> len(hosts), hosts.names
    (3, ('h0', 'h1', 'h2'))
    """

    hosts: tuple[Host, ...]
    price_per_gb: float = 0.0
    prices: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.hosts:
            raise PlacementError("there are no hosts: give at least one")
        names = [host.name for host in self.hosts]
        if len(set(names)) < len(names):
            double = next(name for place, name in enumerate(names) if name in names[:place])
            raise PlacementError(f"the host '{double}' is there twice: give every host its own name")

    @classmethod
    def equal(cls, count: int) -> Hosts:
        """``count`` hosts of one size, called h0, h1, …"""
        if not 1 <= count <= MOST_HOSTS:
            raise PlacementError(f"the number of hosts must be between 1 and {MOST_HOSTS}, but got {count}")
        return cls(
            tuple(Host.model_construct(name=f"h{place}", cpu=1.0, memory_mb=None, zone="") for place in range(count))
        )

    @classmethod
    def of(cls, hosts: Iterable[Host], price_per_gb: float = 0.0) -> Hosts:
        return cls(tuple(hosts), price_per_gb)

    def __len__(self) -> int:
        return len(self.hosts)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(host.name for host in self.hosts)

    @cached_property
    def index(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    @cached_property
    def cpu(self) -> Floats:
        return np.array([host.cpu for host in self.hosts])

    @cached_property
    def memory_mb(self) -> Floats:
        return np.array([np.inf if host.memory_mb is None else host.memory_mb for host in self.hosts])

    @cached_property
    def zone_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(host.zone for host in self.hosts))

    @cached_property
    def zones(self) -> Ints:
        """The zone of every host, by position in ``zone_names``."""
        place = {name: position for position, name in enumerate(self.zone_names)}
        return np.array([place[host.zone] for host in self.hosts], dtype=np.int64)

    @cached_property
    def zone_prices(self) -> Floats:
        """Price of a gigabyte from zone to zone; 0 within a zone."""
        count = len(self.zone_names)
        prices = np.full((count, count), self.price_per_gb)
        for (source, target), price in self.prices.items():
            known = [name for name in (source, target) if name not in self.zone_names]
            if known:
                raise PlacementError(f"a price names zone '{known[0]}', but the zones are {', '.join(self.zone_names)}")
            prices[self.zone_names.index(source), self.zone_names.index(target)] = price
        np.fill_diagonal(prices, 0.0)
        return prices

    @cached_property
    def zone_weights(self) -> Floats:
        """What a byte between hosts of two zones counts in the objective; 1 between hosts of one zone.

        Across zones it counts 1 + 10 · price / mean price, symmetric: the price decides, and remote bytes within a
        zone still count. Zones without any price all count 11.
        """
        count = len(self.zone_names)
        if count == 1:
            return np.ones((1, 1))
        prices = (self.zone_prices + self.zone_prices.T) / 2
        off = ~np.eye(count, dtype=bool)
        mean = float(prices[off].mean())
        relative = prices / mean if mean > 0 else np.ones((count, count))
        weights = 1.0 + ZONE_EMPHASIS * relative
        np.fill_diagonal(weights, 1.0)
        return weights


def read_hosts(text: str) -> Hosts:
    """``10`` for ten equal hosts, or a YAML/JSON file with a list of hosts (or ``hosts:`` and prices between zones)."""
    if re.fullmatch("[+-]?[0-9]{1,18}", text.strip()):
        return Hosts.equal(int(text))
    path = Path(text)
    if path.suffix not in {".yaml", ".yml", ".json"}:
        raise PlacementError(f"--hosts: expected a number such as 10, or a YAML or JSON file, but got {text!r}")
    try:
        data = read_document(path)
    except DocumentError as error:
        raise PlacementError(f"--hosts: {path} {error.problem}") from error
    return parse_hosts(data, file=f"--hosts: {path}")


def parse_hosts(data: Any, *, file: str = "<hosts>") -> Hosts:
    """Hosts from plain values. ``cores`` may stand for ``cpu`` and ``memory_gb`` for ``memory_mb``."""
    if isinstance(data, list):
        data = {"hosts": data}
    if not isinstance(data, dict):
        raise PlacementError(f"{file}: must be a list of hosts, but got {data!r}")
    entries = data.get("hosts")
    if isinstance(entries, list):
        data = {**data, "hosts": [_with_aliases(entry, place) for place, entry in enumerate(entries)]}
    try:
        parsed = _HostsFile.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "it"
        raise PlacementError(f"{file}: {place}: {first['msg'].lower()}, but got {first['input']!r}") from error
    prices = {(price.source, price.target): price.price_per_gb for price in parsed.prices}
    both_ways = {**{(b, a): value for (a, b), value in prices.items()}, **prices}
    try:
        found = Hosts(tuple(host for entry in parsed.hosts for host in entry.hosts()), parsed.price_per_gb, both_ways)
        found.zone_prices  # noqa: B018  computed here so that a price for an unknown zone is refused at once
    except PlacementError as error:
        raise PlacementError(f"{file}: {error}") from error
    return found


def _with_aliases(entry: Any, place: int) -> Any:
    if isinstance(entry, str):
        return {"name": entry}
    if not isinstance(entry, dict):
        return entry
    fields = dict(entry)
    if "cores" in fields and "cpu" not in fields:
        fields["cpu"] = fields.pop("cores")
    if "memory_gb" in fields and "memory_mb" not in fields:
        value = fields.pop("memory_gb")
        fields["memory_mb"] = value * 1000 if isinstance(value, int | float) else value
    if "name" not in fields:
        fields["name"] = str(fields.pop("id", f"h{place}"))
    return fields
