"""Better and better plans: exact dynamic programmes over a few sizes at a time, the others held."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from streamtune.provisioning.levels import needed_counts, plan_one_size
from streamtune.provisioning.programme import Instance, Programme, affordable_states

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def single_size_plan(instance: Instance, column: int) -> Counts:
    """The optimum with one size alone; what ``initial`` holds of the others is stopped, or kept where cheaper."""
    counts = np.zeros((instance.epochs, instance.sizes), dtype=np.int64)
    needed = needed_counts(instance.workload, float(instance.performance[column]))
    for size in range(instance.sizes):
        before = None if instance.initial is None else int(instance.initial[size])
        if size == column or before:
            wanted = needed if size == column else np.zeros_like(needed)
            counts[:, size] = plan_one_size(
                wanted, float(instance.price[size]), instance.start_cost, instance.stop_cost, before
            )
    return counts


def best_single_size(instance: Instance) -> Counts:
    """The cheapest of the one-size optima."""
    plans = [single_size_plan(instance, size) for size in range(instance.sizes) if instance.performance[size] > 0]
    return min(plans, key=instance.cost)


def improve_block(instance: Instance, counts: Counts, block: list[int], most_states: int) -> Counts | None:
    """Solve for the block's sizes exactly while the others stay; None where the block is too large."""
    fixed = counts.copy()
    fixed[:, block] = 0
    left = np.maximum(instance.workload - fixed @ instance.performance, 0.0)
    left[left <= 1e-9 * instance.workload] = 0.0
    part = instance.only(block, left)
    programme = Programme.of(part, part.limits(), most_states)
    if programme is None:
        return None
    fixed[:, block] = programme.solve()[1]
    return fixed


def descend(
    instance: Instance, counts: Counts, *, seed: int, steps: float, is_over: Callable[[], bool], patience: int = 12
) -> Counts:
    """Improve random blocks, in which used sizes come first, until ``patience`` blocks in a row gain nothing."""
    generator = np.random.default_rng(seed)
    cost, idle, width = instance.cost(counts), 0, min(3, instance.sizes)
    while idle < patience and not is_over():
        weight = 0.2 + (counts > 0).mean(axis=0)
        block = sorted(generator.choice(instance.sizes, size=width, replace=False, p=weight / weight.sum()).tolist())
        better = improve_block(instance, counts, block, affordable_states(instance.only(block), steps))
        if better is None:
            width = max(1, width - 1)
            idle += width == 1
            continue
        if instance.cost(better) < cost - 1e-9 * max(cost, 1.0):
            counts, cost, idle = better, instance.cost(better), 0
        else:
            idle += 1
            width = min(width + 1, instance.sizes, 6)
    return counts


def repaired(instance: Instance, counts: Counts) -> Counts:
    """Add what a relaxed solution lacks by rounding: the cheapest single instance that suffices, else the strongest."""
    counts = counts.copy()
    strongest = int(np.argmax(instance.performance))
    missing = instance.workload * (1 - 1e-9) - counts @ instance.performance
    for epoch in np.flatnonzero(missing > 0):
        # All but the last of what is missing by the strongest size, the last by the cheapest that suffices.
        whole = int(missing[epoch] // instance.performance[strongest])
        counts[epoch, strongest] += whole
        left = missing[epoch] - whole * instance.performance[strongest]
        if left > 0:
            enough = np.flatnonzero(instance.performance >= left)
            counts[epoch, int(enough[np.argmin(instance.price[enough])])] += 1
    return counts
