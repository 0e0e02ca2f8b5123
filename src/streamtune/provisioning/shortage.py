r"""Acting before the rate rises, where neither the rate nor the capacities are known for certain.

A plan for one level of the forecast asks for the same certainty in every epoch, however dear it is there. Where an hour
of being short has a price, the cheapest plan weighs it against instances and changes:

.. math:: \min \sum_{\text{stretches } [i, j)} \sum_o \min_n \sum_{t=i}^{j-1} \bigl(p\,n + s\,P[\text{operator } o
   \text{ is short of } n \text{ instances in epoch } t]\bigr) + K \cdot \#\text{changes}

One instance more costs the same at a low rate as at a high one and buys far more safety at the low one, so that such a
plan spends less than one level for all epochs does, at the same number of short minutes. By the price s a user goes
from the cheapest plan to the safest. The dynamic programme over the ends of stretches is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from streamtune.provisioning.ahead import AheadPlan, held_up
from streamtune.provisioning.prices import PriceList
from streamtune.provisioning.problem import SLACK, ProvisioningError
from streamtune.provisioning.settings import AheadSettings
from streamtune.readings.curves import CapacityCurve

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
_NEVER = 1e9


def chance_of_short(curve: CapacityCurve, rates: Floats, rate_sd: Floats) -> Floats:
    """epochs × degrees: how likely it is that a rate, known to ``rate_sd`` (of its logarithm), is not served.

    >>> curve = CapacityCurve(np.log([100.0, 200.0]), np.array([0.1, 0.1]))
    >>> chance_of_short(curve, np.array([100.0]), np.array([0.0])).round(3).tolist()
    [[0.5, 0.0]]
    """
    spread = np.hypot(curve.sd[None, :], rate_sd[:, None])
    away = np.log(np.maximum(rates, 1e-12))[:, None] - curve.log_rate[None, :]
    found: Floats = ndtr(away / np.maximum(spread, 1e-9))  # what is known for certain must not divide by nought
    return found


def falls_behind(curve: CapacityCurve, rates: Floats) -> Bools:
    """epochs × degrees: whether a rate is more than is believed to be served; not of the most where all fall behind."""
    behind = np.log(np.maximum(rates, 1e-12))[:, None] > curve.log_rate[None, :] + SLACK
    behind[behind.all(axis=1), int(curve.log_rate.argmax())] = False
    found: Bools = behind
    return found


def catching_up(curve: CapacityCurve, rates: Floats, waiting_s: float, epoch_s: float) -> Floats:
    """epochs × degrees: the share of an epoch until so many seconds of input, waiting at its start, are worked off.

    >>> curve = CapacityCurve(np.log([100.0, 200.0]), np.zeros(2))
    >>> catching_up(curve, np.array([100.0]), 30.0, 300.0).round(6).tolist()
    [[1.0, 0.1]]
    """
    spare = np.exp(curve.log_rate)[None, :] - rates[:, None]
    needed: Floats = np.minimum((waiting_s * rates)[:, None] / np.maximum(spare * epoch_s, 1e-9), 1.0)
    return needed


def cheapest_stretches(
    short: Sequence[Floats],
    price: float,
    short_price: float,
    change: float,
    current: Sequence[int],
    begun: Sequence[Floats] | None = None,
) -> Counts:
    """epochs × operators; ``short`` is, per operator, epochs × degrees. All prices are per epoch but ``change``.

    Instances of what runs may stay without a change; every later stretch is one. ``begun`` is what is short on top
    where a stretch begins (per operator, epochs × degrees).

    >>> risky = np.array([[0.0, 0.0, 0.0], [0.9, 0.5, 0.0], [0.0, 0.0, 0.0]])
    >>> cheapest_stretches([risky], 1.0, 10.0, 0.1, [1]).ravel().tolist()
    [1, 3, 1]
    >>> cheapest_stretches([risky], 1.0, 20.0, 5.0, [1]).ravel().tolist()
    [1, 3, 3]
    >>> cheapest_stretches([risky], 1.0, 1.0, 0.1, [1]).ravel().tolist()
    [1, 1, 1]
    """
    epochs = len(short[0])
    costs = np.zeros((epochs, epochs + 1))  # of a stretch from … to before …
    degrees = np.zeros((epochs, epochs + 1, len(short)), dtype=np.int64)
    staying = np.zeros(epochs + 1)
    for place, one in enumerate(short):
        each = price * np.arange(1, one.shape[1] + 1) + short_price * one
        sums = np.vstack([np.zeros(one.shape[1]), np.cumsum(each, axis=0)])
        spent = sums[None, :, :] - sums[:-1, None, :]
        if begun is not None:
            spent = spent + short_price * begun[place][:, None, :]
        degrees[:, :, place] = spent.argmin(axis=2) + 1
        costs += spent.min(axis=2)
        staying += sums[:, min(current[place], one.shape[1]) - 1]
    best, before = np.full(epochs + 1, np.inf), np.zeros(epochs + 1, dtype=np.int64)
    best[0] = 0.0
    for end in range(1, epochs + 1):
        found = best[:end] + costs[:end, end] + change
        before[end] = int(found.argmin())
        best[end] = found[before[end]]
        if staying[end] <= best[end]:
            best[end], before[end] = staying[end], -1
    counts = np.tile(np.asarray(current, dtype=np.int64), (epochs, 1))
    end = epochs
    while end > 0 and before[end] >= 0:
        counts[before[end] : end] = degrees[before[end], end]
        end = int(before[end])
    return counts


def plan_weighed(
    rates: Floats,
    spread: Floats,
    curves: Mapping[str, CapacityCurve],
    current: Mapping[str, int],
    prices: PriceList,
    epoch_s: float,
    settings: AheadSettings,
    last_rate: float = 0.0,
) -> AheadPlan:
    """The cheapest plan where ``prices.short_hour`` is paid for every hour in which an operator is short.

    ``rates`` are medians, one per epoch, and ``spread`` the deviation of their logarithm. Operators without a curve
    keep what they have.
    """
    if prices.short_hour is None:
        raise ProvisioningError("the price list has no price for an hour of being short (short_hour)")
    rates = held_up(rates, last_rate, epoch_s, settings) * (1 + settings.headroom)
    keys = tuple(curves)
    sd = np.hypot(spread, settings.within_step_sd)
    cut = [CapacityCurve(one.log_rate[: settings.largest], one.sd[: settings.largest]) for one in curves.values()]
    risks = [chance_of_short(curve, rates, sd) for curve in cut]
    behind = settings.behind_epochs or _NEVER
    # What falls behind is short from then on: it waits, and has to be caught up with.
    dear = [np.where(falls_behind(curve, rates), behind, risk) for curve, risk in zip(cut, risks, strict=True)]
    price, short_price = prices.instance_per_epoch(epoch_s), prices.short_hour * epoch_s / 3600
    # What a change lets wait is short until it is worked off.
    begun = [catching_up(curve, rates, settings.downtime_s, epoch_s) for curve in cut]
    counts = cheapest_stretches(dear, price, short_price, prices.change, [current[key] for key in keys], begun)
    changed = np.diff(np.vstack([[current[key] for key in keys], counts]), axis=0) != 0
    changes = int(changed.any(axis=1).sum())
    epochs = np.arange(len(rates))
    places = [np.minimum(counts[:, k], risk.shape[1]) - 1 for k, risk in enumerate(risks)]
    short = sum(float(risk[epochs, place].sum()) for risk, place in zip(risks, places, strict=True))
    cost = price * float(counts.sum()) + short_price * short + prices.change * changes
    least = [float(risk[:, -1].max()) for risk in risks]
    hopeless = tuple(key for key, chance in zip(keys, least, strict=True) if chance > 0.5)
    return AheadPlan(keys, counts, epoch_s, cost, changes, hopeless)
