"""Better and better plans: exact dynamic programmes over a few sizes at a time, the others held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from streamtune.provisioning.levels import needed_counts, plan_one_size
from streamtune.provisioning.programme import Instance, Programme, affordable_states

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_STEPS = 4e7  # elementary steps of one improvement: about 50 ms
_LENGTHS = (12, 24, 48, 96, 240, 1_000_000)  # epochs of a part


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


def improve_block(
    instance: Instance, counts: Counts, block: list[int], most_states: int, first: int = 0, end: int | None = None
) -> Counts | None:
    """Solve for the block's sizes from epoch ``first`` to before ``end`` while the rest stays; None if too large."""
    end = instance.epochs if end is None else end
    fixed = counts[first:end].copy()
    fixed[:, block] = 0
    workload = instance.workload[first:end]
    left = np.maximum(workload - fixed @ instance.performance, 0.0)
    left[left <= 1e-9 * workload] = 0.0
    part = instance.only(block, left)
    if first > 0:
        part = replace(part, initial=counts[first - 1, block])
    programme = Programme.of(part, part.limits(), most_states)
    if programme is None:
        return None
    after = counts[end, block] if end < instance.epochs else None
    better = counts.copy()
    better[first:end, block] = programme.solve(after=after)[1]
    return better


def descend(
    instance: Instance, counts: Counts, *, seed: int, is_over: Callable[[], bool], patience: int = 12
) -> Counts:
    """Improve random blocks of sizes, over the whole horizon or a part of it, until ``patience`` of them gain nothing.

    Sizes that the plan uses come first. Few sizes over many epochs take turns with many sizes over few.
    """
    generator = np.random.default_rng(seed)
    cost, idle = instance.cost(counts), 0
    while idle < patience and not is_over():
        first, end, width = _part(instance, generator)
        weight = 0.1 + (counts[first:end] > 0).mean(axis=0)
        block = sorted(generator.choice(instance.sizes, size=width, replace=False, p=weight / weight.sum()).tolist())
        better = None
        while better is None and block:
            states = affordable_states(replace(instance.only(block), workload=instance.workload[first:end]), _STEPS)
            better = improve_block(instance, counts, block, states, first, end)
            if better is None:
                block.pop(int(generator.integers(len(block))))
        found = cost if better is None else instance.cost(better)
        if better is not None and found < cost - 1e-9 * max(cost, 1.0):
            counts, cost, idle = better, found, 0
        else:
            idle += 1
    return counts


def _part(instance: Instance, generator: np.random.Generator) -> tuple[int, int, int]:
    """Epochs and the number of sizes to improve: the fewer epochs, the more sizes."""
    length = int(generator.choice(_LENGTHS))
    width = min(instance.sizes, int(generator.integers(2, 5)) + (2 if length <= 96 else 0) + (2 if length <= 24 else 0))
    if length >= instance.epochs:
        return 0, instance.epochs, width
    first = int(generator.integers(0, instance.epochs - length + 1))
    return first, first + length, width


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
