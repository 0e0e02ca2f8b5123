"""Many sizes: descent for a plan, relaxation for a bound, where the gap is widest first."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamtune.provisioning.descent import best_single_size, descend, improve_block, repaired
from streamtune.provisioning.programme import Instance, affordable_states
from streamtune.provisioning.relaxation import Relaxation, relax_linearly

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

WINDOW = 120  # epochs a window has about
STEPS_A_SECOND = 0.8e9  # of the dynamic programme, on one core of 2020
_FEWEST_STEPS = 2e7


@dataclass
class Found:
    """A plan and what is proven: no plan costs less than ``bound``."""

    counts: Counts
    bound: float


@dataclass
class _Window:
    """One stretch of the horizon: its bound, and how large its next relaxation may be."""

    first: int
    end: int
    instance: Instance
    limits: Floats
    multipliers: Floats  # epochs + 1 × sizes
    bound: float = -np.inf
    steps: float = _FEWEST_STEPS
    exact: int = 0
    is_done: bool = False

    def value_of(self, counts: Counts) -> float:
        mine = counts[self.first : self.end]
        before = self.multipliers[0] if self.instance.initial is None else np.zeros(self.instance.sizes)
        return self.instance.cost(mine) + float(before @ mine[0] - self.multipliers[-1] @ mine[-1])

    def gap(self, counts: Counts) -> float:
        return self.value_of(counts) - self.bound


def search(instance: Instance, limits: Floats, seconds: float, wanted_gap: float, seed: int) -> Found:
    """A plan and a bound for an instance whose whole lattice is too large."""
    end = time.monotonic() + seconds
    steps = _FEWEST_STEPS * max(1.0, instance.epochs / 200)
    linear = relax_linearly(instance, 0.3 * seconds)
    start = best_single_size(instance)
    if linear.counts is not None and instance.cost(repaired(instance, linear.counts)) < instance.cost(start):
        start = repaired(instance, linear.counts)
    found = Found(start, max(0.0, linear.bound))
    if _gap(instance, found) > wanted_gap:
        found.counts = descend(instance, start, seed=seed, steps=steps, is_over=_after(end - 0.7 * seconds))
    windows = _cut(instance, limits, linear.multipliers)
    while time.monotonic() < end and _gap(instance, found) > wanted_gap:
        window = max((w for w in windows if not w.is_done), key=lambda w: w.gap(found.counts), default=None)
        if window is None:
            break
        _tighten(instance, window, found, end, wanted_gap)
        found.bound = max(found.bound, sum(w.bound for w in windows))
        if len(windows) == 1 or seed % len(windows) == 0:
            found.counts = descend(instance, found.counts, seed=seed, steps=2 * steps, is_over=_after(end), patience=6)
        seed += 1
    return found


def _after(end: float) -> Callable[[], bool]:
    return lambda: time.monotonic() >= end


def _gap(instance: Instance, found: Found) -> float:
    cost = instance.cost(found.counts)
    return (cost - found.bound) / cost if cost > 0 else 0.0


def _cut(instance: Instance, limits: Floats, inner: Floats) -> list[_Window]:
    """Cut the horizon near every multiple of a window's length, where the workload is lowest: little runs there."""
    epochs = instance.epochs
    cuts = [0]
    for k in range(1, max(1, round(epochs / WINDOW))):
        middle, reach = k * epochs // round(epochs / WINDOW), WINDOW // 4
        around = np.arange(max(middle - reach, cuts[-1] + 1), min(middle + reach, epochs - 1))
        cuts.append(int(around[np.argmin(instance.workload[around])]))
    rows = np.zeros((epochs + 1, instance.sizes))
    rows[1:epochs] = inner
    return [
        _Window(first, end, instance.window(first, end), limits[first:end], rows[first : end + 1].copy())
        for first, end in zip(cuts, [*cuts[1:], epochs], strict=True)
    ]


def _tighten(instance: Instance, window: _Window, found: Found, end: float, wanted_gap: float) -> None:
    """One relaxation of one window, with more sizes exact than the last."""
    relaxation = _widest(window, found.counts)
    window.steps *= 4
    if relaxation is None:
        window.is_done = window.steps > STEPS_A_SECOND * max(end - time.monotonic(), 0.0)
        return
    window.exact = len(relaxation.exact)
    begun = time.monotonic()
    for turn in range(40):
        if turn == 1:  # the next relaxation takes four times as long a step, and is of use with a few of them
            step_s = time.monotonic() - begun
            window.is_done = 12 * step_s > end - time.monotonic()
        upper = window.value_of(found.counts)
        candidate = found.counts.copy()
        candidate[window.first : window.end] = repaired(window.instance, relaxation.step(upper))
        if instance.cost(candidate) < instance.cost(found.counts):
            found.counts = candidate
        window.bound = max(window.bound, relaxation.bound)
        enough = window.gap(found.counts) <= 0.5 * wanted_gap * abs(upper)
        if enough or relaxation.length < 0.1 or time.monotonic() >= end:
            break
    window.multipliers[1:-1, relaxation.relaxed] = relaxation.best[1:-1]
    if instance.initial is not None and window.first == 0:
        window.multipliers[0, relaxation.relaxed] = relaxation.best[0]
    window.is_done |= not relaxation.relaxed or window.gap(found.counts) <= 0.5 * wanted_gap * abs(upper)
    _polish(instance, window, relaxation, found)


def _polish(instance: Instance, window: _Window, relaxation: Relaxation, found: Found) -> None:
    """The window's exact sizes as one block of the whole plan."""
    if window.instance.epochs < instance.epochs:
        return
    better = improve_block(instance, found.counts, relaxation.exact, len(relaxation.programme.lattice) * 2)
    if better is not None and instance.cost(better) < instance.cost(found.counts):
        found.counts = better


def _widest(window: _Window, counts: Counts) -> Relaxation | None:
    """Keep as many sizes exact as the steps allow, those that the plan uses most in this window first."""
    instance = window.instance
    used = (counts[window.first : window.end] > 0).sum(axis=0)
    by_use = np.argsort(-(used + 1e-3 * instance.performance / instance.performance.max()), kind="stable")
    exact: list[int] = []
    widest: Relaxation | None = None
    for column in by_use.tolist():
        trial = sorted([*exact, column])
        most = affordable_states(instance.only(trial), window.steps)
        relaxation = Relaxation.of(instance, trial, window.limits, window.multipliers, most)
        if relaxation is not None:
            exact, widest = trial, relaxation
    return widest if len(exact) > window.exact else None
