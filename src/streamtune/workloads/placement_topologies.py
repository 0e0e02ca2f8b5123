"""The four topologies of Fischer's first study (Section 4.3), down to the single task instance.

A topology says how many tasks each component has and which share of a task's tuples goes to which task of the next one;
that is what placement is about, and what a dataflow with "hash" on an edge leaves open. Tuples acknowledged by Storm's
acker bolts can be added (Section 5.2).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from streamtune.errors import StreamTuneError

Floats = npt.NDArray[np.float64]

ACK_BYTES = 24.0  # a tuple id, a checksum and the sender
ACKER = "acker"
# The thesis' runs have one task that collects metrics. It sorts between spouts and bolts, which is why Storm's even
# scheduler puts spout i and bolt i on different hosts even where there are as many of each as hosts.
METRICS = "metrics"


@dataclass(frozen=True)
class Component:
    """A spout or bolt with its number of tasks. ``rate`` is what one task of a spout emits when nothing slows it."""

    name: str
    tasks: int
    rate: float = 0.0

    @property
    def is_spout(self) -> bool:
        return self.rate > 0


@dataclass(frozen=True, eq=False)
class Link:
    """Tuples from one component to another: ``shares[i, j]`` tuples go from task i to task j per tuple i handles."""

    source: str
    target: str
    shares: Floats
    tuple_bytes: float


@dataclass(frozen=True, eq=False)
class Topology:
    """Components in the order Storm sorts them, and the links between their tasks."""

    name: str
    components: tuple[Component, ...]
    links: tuple[Link, ...]

    @cached_property
    def first(self) -> dict[str, int]:
        """The position of each component's first task among all."""
        starts = np.cumsum([0, *(component.tasks for component in self.components)])
        return {component.name: int(start) for component, start in zip(self.components, starts, strict=False)}

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        return tuple(f"{component.name}-{n}" for component in self.components for n in range(component.tasks))

    @cached_property
    def operators(self) -> tuple[str, ...]:
        return tuple(component.name for component in self.components for _ in range(component.tasks))

    @cached_property
    def spout_rates(self) -> Floats:
        """Tuples/s that each task emits by itself; 0 for bolts."""
        return np.array([component.rate for component in self.components for _ in range(component.tasks)])

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Components so that senders come before receivers; acknowledgements back to the spouts do not count."""
        forward = [link for link in self.links if link.source != ACKER]
        waiting = {c.name: sum(link.target == c.name for link in forward) for c in self.components}
        found: list[str] = []
        while len(found) < len(waiting):
            ready = [name for name, count in waiting.items() if count == 0 and name not in found]
            if not ready:
                raise StreamTuneError(f"topology '{self.name}' has a cycle")
            found.append(ready[0])
            for link in forward:
                if link.source == ready[0]:
                    waiting[link.target] -= 1
        return tuple(found)

    def acknowledged(self, ackers: int) -> Topology:
        """With Storm's acking: every tuple emitted or handled is reported to an acker, and the acker tells the spout.

        Ids are random and hashed over all ackers, so no placement can make this traffic local.
        """
        spouts = [component for component in self.components if component.is_spout]
        talking = [c for c in self.components if c.is_spout or any(link.target == c.name for link in self.links)]
        to_acker = [
            Link(c.name, ACKER, np.full((c.tasks, ackers), 1.0 / ackers), ACK_BYTES) for c in talking if c.tasks > 0
        ]
        # An acker gets one message per emitted and per handled tuple, and answers once per emitted tuple.
        emitted = sum(component.tasks for component in spouts)
        handled = self._tuples_per_spout_tuple() + 1.0
        back = [Link(ACKER, c.name, np.full((ackers, c.tasks), 1.0 / handled / emitted), ACK_BYTES) for c in spouts]
        return replace(
            self,
            name=f"{self.name}-acked",
            components=(*self.components, Component(ACKER, ackers)),
            links=(*self.links, *to_acker, *back),
        )

    def _tuples_per_spout_tuple(self) -> float:
        """Tuples that bolts handle for one tuple of a spout, on average over spouts."""
        handled = self.handled(self.spout_rates)
        emitted = float(self.spout_rates.sum())
        return (float(handled.sum()) - emitted) / emitted

    def handled(self, spout_rates: Floats) -> Floats:
        """Tuples/s every task handles when each spout task emits as given (rows of a matrix: several cases)."""
        rates = np.array(np.atleast_2d(spout_rates), dtype=np.float64)
        found = rates.copy()
        width = {component.name: component.tasks for component in self.components}
        for name in self.order:
            rows = slice(self.first[name], self.first[name] + width[name])
            for link in self.links:
                if link.source == name and link.source != ACKER:
                    columns = slice(self.first[link.target], self.first[link.target] + width[link.target])
                    found[:, columns] += found[:, rows] @ link.shares
        return found if np.ndim(spout_rates) == 2 else found[0]


def parallel(
    tasks: int, depth: int = 7, tuple_bytes: float = 16.0, rate: float = 4000.0, name: str = "parallel"
) -> Topology:
    """Straight lines: a spout and ``depth`` bolts, keys chosen so that task i only ever talks to task i (Fig. 3).

    >>> len(parallel(10).tasks)
    81
    """
    names = ["spout", *(f"bolt{n}" for n in range(1, depth + 1))]
    components = [Component("spout", tasks, rate), Component(METRICS, 1), *(Component(n, tasks) for n in names[1:])]
    links = [Link(a, b, np.eye(tasks), tuple_bytes) for a, b in itertools.pairwise(names)]
    return Topology(name, tuple(components), tuple(links))


def payload(tasks: int, depth: int = 7, tuple_bytes: float = 3072.0, rate: float = 4000.0) -> Topology:
    """The Parallel topology with tuples of the size of an average e-mail (3 KB)."""
    return parallel(tasks, depth, tuple_bytes, rate, name="payload")


def reference(tasks: int, stages: int = 7, tuple_bytes: float = 12.0, rate: float = 1000.0) -> Topology:
    """Aniello's topology: stages joined by field and shuffle grouping in turn, and an ack bolt at the end (Fig. 5).

    Its bolts emit counters, so that field grouping deals them out as evenly as shuffle grouping does. Its rate is
    set by its own throttling, whatever the placement.
    """
    names = ["spout", *(("stateful" if n % 2 else "simple") + str(n) for n in range(1, stages)), "ackbolt"]
    components = [Component("spout", tasks, rate), Component(METRICS, 1), *(Component(n, tasks) for n in names[1:])]
    spread = np.full((tasks, tasks), 1.0 / tasks)
    links = [Link(a, b, spread, tuple_bytes) for a, b in itertools.pairwise(names)]
    return Topology("reference", tuple(components), tuple(links))


@dataclass(frozen=True)
class OpenGovData:
    """Data of the shape of OpenGov's: daily prices of companies, and the contracts they are awarded. Seeded.

    Prices are geometric random walks with a volatility of their own; contracts follow a Zipf law over companies.
    """

    companies: int = 3000
    days: int = 120
    contracts_per_tick: float = 0.3
    seed: int = 0

    @cached_property
    def doubling_share(self) -> float:
        """The share of (company, day) whose highest price of the last 20 days is above twice the lowest: filter F."""
        rng = np.random.default_rng(self.seed)
        volatility = rng.lognormal(np.log(0.025), 0.7, self.companies)
        steps = rng.normal(0, 1, (self.companies, self.days)) * volatility[:, None]
        prices = np.exp(np.cumsum(steps, axis=1))
        windows = np.lib.stride_tricks.sliding_window_view(prices, 20, axis=1)
        return float((windows.max(axis=2) > 2 * windows.min(axis=2)).mean())

    @cached_property
    def contract_weights(self) -> Floats:
        ranks = np.random.default_rng(self.seed + 1).permutation(self.companies) + 1
        weights = 1.0 / ranks
        normal: Floats = weights / weights.sum()
        return normal


def opengov(hosts: int, data: OpenGovData | None = None, rate: float = 4000.0) -> Topology:
    """Tickers (T) aggregated (A), turned into a ratio (B), filtered (F), joined (J) with contracts (C) (Fig. 2).

    As many bolts of each kind as hosts, half as many of each spout, one output. T, A, B and F are grouped by ticker:
    A to F stay in straight lines. F and C are grouped by company, which is another key, into J.
    """
    data = data or OpenGovData()
    spouts = max(1, hosts // 2)
    rng = np.random.default_rng(data.seed + 2)
    ticker, company = rng.integers(0, hosts, data.companies), rng.integers(0, hosts, data.companies)
    by_ticker = np.bincount(ticker, minlength=hosts) / data.companies
    from_filter = np.zeros((hosts, hosts))
    np.add.at(from_filter, (ticker, company), 1.0)
    from_filter /= np.maximum(1, from_filter.sum(axis=1, keepdims=True))
    by_company = np.bincount(company, weights=data.contract_weights, minlength=hosts)
    line = np.eye(hosts)
    components = (
        Component("T", spouts, rate),
        Component("C", spouts, rate * data.contracts_per_tick),
        Component("A", hosts),
        Component("B", hosts),
        Component("F", hosts),
        Component("J", hosts),
        Component("O", 1),
    )
    links = (
        Link("T", "A", np.tile(by_ticker, (spouts, 1)), 50.0),
        Link("A", "B", line, 66.0),
        Link("B", "F", line, 58.0),
        Link("F", "J", from_filter * data.doubling_share, 58.0),
        Link("C", "J", np.tile(by_company, (spouts, 1)), 110.0),
        Link("J", "O", np.full((hosts, 1), 0.05), 110.0),
    )
    return Topology("opengov", components, links)


TOPOLOGIES: dict[str, Callable[[int], Topology]] = {
    "parallel": parallel,
    "payload": payload,
    "opengov": opengov,
    "reference": reference,
}
# Table 2 of the thesis.
TUPLE_SIZES = {"reference": "12 B", "parallel": "16 B", "opengov": "50 to 110 B", "payload": "3,072 B"}


def topology(name: str, hosts: int) -> Topology:
    """A topology of the thesis, sized for a cluster."""
    if name not in TOPOLOGIES:
        raise StreamTuneError(f"no topology '{name}': choose one of {', '.join(TOPOLOGIES)}")
    return TOPOLOGIES[name](hosts)
