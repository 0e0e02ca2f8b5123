"""The best rows of every group."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamtune.sundog.kernels.compilation import compiled


@compiled
def first_of_groups(
    group: NDArray[np.int32],
    score: NDArray[np.float32],
    users: NDArray[np.int64],
    events: NDArray[np.int64],
    most: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the first ``most`` of every group in order, and their ranks from 1.

    Rows of a group lie together. Higher scores come first, then more users, then more events, then earlier rows. The
    best so far are kept in order and a better row is inserted among them: groups are small, and so is ``most``.
    """
    rows = len(group)
    chosen, rank = np.empty(rows, np.int64), np.empty(rows, np.int64)
    begin, size = 0, 0  # where the current group's best rows begin, and how many they are
    for row in range(rows):
        if row == 0 or group[row] != group[row - 1]:
            begin, size = begin + size, 0
        place = begin + size
        while place > begin and _before(score, users, events, row, chosen[place - 1]):
            if place < begin + most:
                chosen[place] = chosen[place - 1]
            place -= 1
        if place < begin + most:
            chosen[place] = row
            rank[begin + size if size < most else begin + most - 1] = min(size + 1, most)
            size = min(size + 1, most)
    return chosen[: begin + size], rank[: begin + size]


@compiled
def _before(
    score: NDArray[np.float32], users: NDArray[np.int64], events: NDArray[np.int64], one: int, other: int
) -> bool:
    if score[one] != score[other]:
        return bool(score[one] > score[other])
    if users[one] != users[other]:
        return bool(users[one] > users[other])
    return bool(events[one] > events[other])
