r"""Acting before the rate rises: from a forecast and what is believed about capacities to the next change and its time.

Pure functions; the supervisor calls :func:`plan_ahead` and applies what it says.

A running job pays for instances and for changes: every reconfiguration of a Flink job stops all of it for a moment, so
one change costs the same whichever operators it touches. The cheapest plan over the horizon is then a partition of the
epochs into stretches, each with every operator at the most it needs there:

.. math:: \min \sum_{\text{stretches } [i, j)} p\,(j - i) \sum_o \max_{i \le t < j} n_o^t + K \cdot \#\text{changes}

which a dynamic programme over the ends of stretches solves exactly in O(T²). Where instances are started and stopped
one by one (no downtime for the rest), Eq. 1 to 3 apply to each operator alone, in closed form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from numba import njit
from pydantic import Field

from streamtune.frozen import Frozen
from streamtune.provisioning.levels import plan_one_size
from streamtune.provisioning.prices import PriceList
from streamtune.provisioning.problem import SLACK, ProvisioningError
from streamtune.provisioning.settings import AheadSettings

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Capacity(Protocol):
    """What is believed about one operator: the fewest instances that serve a job's rate (of all sources together)."""

    def instances_for(self, rate_per_s: float) -> int: ...


class FixedCapacity(Frozen):
    """So many of the job's records/s per instance, whatever the number of instances."""

    per_instance: float = Field(gt=0, allow_inf_nan=False, description="Records/s of the job's sources per instance.")

    def instances_for(self, rate_per_s: float) -> int:
        """
        >>> FixedCapacity(per_instance=100).instances_for(250)
        3
        """
        return max(1, int(np.ceil(rate_per_s / self.per_instance * (1 - SLACK))))


@dataclass(frozen=True)
class AheadPlan:
    """Instances of every operator in every epoch, what they cost, and the next change."""

    operators: tuple[str, ...]
    counts: Counts  # epochs × operators
    epoch_s: float
    cost: float
    changes: int
    short: tuple[str, ...]  # operators whose limit is below what the rate needs
    needed: Counts | None = None  # epochs × operators: what a limit may cut, where that is known

    @property
    def short_epochs(self) -> int:
        """In so many epochs some operator has fewer instances than the rate needs."""
        return 0 if self.needed is None else int((self.counts < self.needed).any(axis=1).sum())

    @property
    def covered(self) -> float:
        """The share of the others."""
        return 1 - self.short_epochs / len(self.counts)

    @property
    def instance_hours(self) -> float:
        return float(self.counts.sum() * self.epoch_s / 3600)

    def next_change(self, current: Mapping[str, int]) -> tuple[float, dict[str, int]] | None:
        """Seconds from now, and the instances to have then; None where nothing changes over the horizon."""
        now = np.array([current[key] for key in self.operators])
        for epoch, row in enumerate(self.counts):
            if (row != now).any():
                return float(epoch * self.epoch_s), dict(zip(self.operators, map(int, row), strict=True))
        return None

    def as_dict(self) -> dict[str, Any]:
        return {
            "epoch_s": self.epoch_s,
            "cost": self.cost,
            "changes": self.changes,
            "instance_hours": self.instance_hours,
            "short": list(self.short),
            "plan": [dict(zip(self.operators, map(int, row), strict=True)) for row in self.counts],
        }


def needed_instances(
    rates: Floats, capacities: Mapping[str, Capacity], largest: int | None
) -> tuple[Counts, tuple[str, ...]]:
    """epochs × operators, cut at the limit, and the operators that it cuts."""
    cache: dict[tuple[str, float], int] = {}
    rows = np.ones((len(rates), len(capacities)), dtype=np.int64)
    for column, (key, capacity) in enumerate(capacities.items()):
        for epoch, rate in enumerate(rates):
            place = (key, float(rate))
            if place not in cache:
                cache[place] = capacity.instances_for(float(rate))
            rows[epoch, column] = cache[place]
    if largest is None:
        return rows, ()
    short = tuple(key for column, key in enumerate(capacities) if rows[:, column].max() > largest)
    return np.minimum(rows, largest), short


def plan_ahead(
    rates: npt.ArrayLike,
    capacities: Mapping[str, Capacity],
    current: Mapping[str, int],
    prices: PriceList,
    epoch_s: float,
    settings: AheadSettings | None = None,
    last_rate: float | None = None,
) -> AheadPlan:
    """The cheapest plan that serves ``rates`` (a quantile of the forecast, one per epoch) from what runs now.

    >>> plan = plan_ahead([100, 100, 300], {"join": FixedCapacity(per_instance=100)}, {"join": 1}, PriceList(), 900)
    >>> plan.next_change({"join": 1})
    (1800.0, {'join': 3})
    """
    settings = settings or AheadSettings()
    wanted = np.asarray(rates, dtype=np.float64)
    if wanted.ndim != 1 or len(wanted) == 0 or not np.isfinite(wanted).all() or (wanted < 0).any():
        raise ProvisioningError("a plan needs at least one rate, each finite and at least 0")
    wanted = held_up(wanted, last_rate or 0.0, epoch_s, settings) * (1 + settings.headroom)
    whole, _ = needed_instances(wanted, capacities, None)
    needed = whole if settings.largest is None else np.minimum(whole, settings.largest)
    short = tuple(key for column, key in enumerate(capacities) if (whole[:, column] > needed[:, column]).any())
    now = np.array([current[key] for key in capacities], dtype=np.int64)
    price = prices.instance_per_epoch(epoch_s)
    if settings.changes == "job":
        counts = plan_stretches(needed, price, prices.change, now)
    else:
        columns = [
            plan_one_size(needed[:, k], price, prices.start, prices.stop, int(now[k])) for k in range(needed.shape[1])
        ]
        counts = np.column_stack(columns)
    change = np.diff(np.vstack([now[None, :], counts]), axis=0)
    changes = int((change != 0).any(axis=1).sum())
    turned = (
        prices.change * changes
        if settings.changes == "job"
        else prices.start * np.maximum(change, 0).sum() + prices.stop * np.maximum(-change, 0).sum()
    )
    cost = float(price * counts.sum() + turned)
    return AheadPlan(tuple(capacities), counts, epoch_s, cost, changes, short, whole)


def held_up(rates: Floats, last_rate: float, epoch_s: float, settings: AheadSettings) -> Floats:
    """Rates that are not below the last one for as long as the settings say.

    >>> held_up(np.array([1.0, 2.0, 3.0]), 2.5, 60.0, AheadSettings(hold_s=60.0)).tolist()
    [2.5, 2.0, 3.0]
    """
    held = max(1, round(settings.hold_s / epoch_s)) if settings.hold_s > 0 else 0
    return np.concatenate([np.maximum(rates[:held], last_rate), rates[held:]])


def plan_stretches(needed: Counts, price: float, change: float, current: Counts | None = None) -> Counts:
    """The cheapest stretches (see above); ``current`` may run on where it suffices, without a change.

    >>> plan_stretches(np.array([[1], [3], [1], [3]]), 1.0, 5.0).ravel().tolist()
    [3, 3, 3, 3]
    >>> plan_stretches(np.array([[1], [3], [1], [3]]), 1.0, 0.5).ravel().tolist()
    [1, 3, 1, 3]
    """
    known = np.zeros(needed.shape[1], dtype=np.int64) if current is None else np.asarray(current, dtype=np.int64)
    return np.asarray(stretch_counts(np.ascontiguousarray(needed), price, change, known, current is not None))


@njit(cache=True, nogil=True)
def stretch_counts(
    needed: np.ndarray, price: float, change: float, current: np.ndarray, is_running: bool
) -> np.ndarray:
    """The dynamic programme: the cheapest way to have served the epochs before ``end``, for every end."""
    epochs, operators = needed.shape
    stay = 0  # so many epochs what runs now suffices
    if is_running:
        while stay < epochs and (needed[stay] <= current).all():
            stay += 1
    best = np.empty(epochs + 1)
    before = np.zeros(epochs + 1, np.int64)
    best[0] = change if is_running else 0.0  # the first stretch is a change too, unless it is what runs
    for end in range(1, epochs + 1):
        best[end] = np.inf
        top = np.zeros(operators, np.int64)
        for begin in range(end - 1, -1, -1):
            top = np.maximum(top, needed[begin])
            cost = best[begin] + price * (end - begin) * top.sum() + (change if begin > 0 else 0.0)
            if cost <= best[end]:
                best[end] = cost
                before[end] = begin
        if end <= stay and price * end * current.sum() <= best[end]:
            best[end] = price * end * current.sum()
            before[end] = -1
    counts = np.empty((epochs, operators), np.int64)
    end = epochs
    while end > 0:
        first = before[end]
        if first < 0:
            counts[:end] = current
            break
        top = np.zeros(operators, np.int64)
        for epoch in range(first, end):
            top = np.maximum(top, needed[epoch])
        counts[first:end] = top
        end = int(first)
    return counts
