"""One size: the optimum in closed form.

Instances of one size are interchangeable, so a plan is a stack of levels: level k runs where at least k instances run.
Each level decides alone. Between two epochs that need it, a gap of g epochs is bridged iff price · g ≤ start + stop
cost. Filling the gaps of at most G epochs on every level at once is the morphological closing of the needed counts
with a segment of G + 1 epochs: a running maximum followed by a running minimum.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamtune.provisioning.problem import SLACK

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def needed_counts(workload: Floats, performance: float) -> Counts:
    """The fewest instances of one size that serve each epoch.

    >>> needed_counts(np.array([0.0, 1.0, 100.0, 101.0]), 100.0).tolist()
    [0, 1, 1, 2]
    """
    return np.ceil(workload / performance * (1 - SLACK)).astype(np.int64)


def bridged_epochs(cost: float, price: float, epochs: int) -> int:
    """The longest idle stretch that costs at most ``cost``."""
    if price * epochs <= cost:
        return epochs
    return int(np.floor(cost / price * (1 + SLACK)))


def running_maximum(values: Counts, width: int) -> Counts:
    """The maximum of each value and the ``width - 1`` before it, in O(n log width).

    >>> running_maximum(np.array([1, 5, 2, 0, 0]), 3).tolist()
    [1, 5, 5, 5, 2]
    """
    result, reach = values.copy(), 1
    while reach < width:
        step = min(reach, width - reach)
        result[step:] = np.maximum(result[step:], result[:-step].copy()) if step < len(result) else result[step:]
        reach += step
    return result


def closing(values: Counts, longest_gap: int) -> Counts:
    """Fill every valley of at most ``longest_gap`` epochs up to its lower brim.

    >>> closing(np.array([3, 1, 2, 0, 0, 2]), 1).tolist(), closing(np.array([3, 1, 2, 0, 0, 2]), 2).tolist()
    ([3, 2, 2, 0, 0, 2], [3, 2, 2, 2, 2, 2])
    """
    width = min(longest_gap, len(values)) + 1
    outside = np.zeros(width, dtype=values.dtype)
    widened = running_maximum(np.concatenate([outside, values, outside]), width)
    # The minimum over the following epochs is the negated maximum over the reversed, negated values.
    narrowed = -running_maximum(-widened[::-1], width)[::-1]
    return np.asarray(narrowed[width : width + len(values)])


def plan_one_size(
    needed: Counts, price: float, start_cost: float, stop_cost: float, initial: int | None = None
) -> Counts:
    """The cheapest counts of one size (Eq. 1) that are at least ``needed``.

    At the borders a level has one neighbour only: the first epoch starts free of charge (without ``initial``), and
    nothing is charged for what still runs at the end.
    """
    epochs = len(needed)
    gap = bridged_epochs(start_cost + stop_cost, price, epochs)
    levels = needed if initial is None else np.concatenate([[initial], needed])
    counts = np.maximum(levels, closing(levels, gap))
    if initial is None:
        lead = min(bridged_epochs(start_cost, price, epochs), epochs - 1)
        early = np.maximum.accumulate(levels[: lead + 1][::-1])[::-1]
        counts[: lead + 1] = np.maximum(counts[: lead + 1], early)
    trail = min(bridged_epochs(stop_cost, price, epochs), len(levels) - 1)
    late = np.maximum.accumulate(levels[len(levels) - 1 - trail :])
    counts[len(levels) - 1 - trail :] = np.maximum(counts[len(levels) - 1 - trail :], late)
    return np.asarray(counts if initial is None else counts[1:], dtype=np.int64)
