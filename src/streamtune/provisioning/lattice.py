"""The compiled dynamic programme over count vectors.

The vectors under the capacity limit form a lattice that is closed downwards. The cheapest way from one vector to
another stops what has to go and then starts what is missing, so one sweep from full to empty and one from empty to
full, over single steps, make the whole transition: O(epochs · sizes · vectors), without a look at pairs. Sorted by
capacity, every vector comes after all that it contains, so each sweep is one pass, and an epoch with a small workload
looks at a short prefix only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Lattice:
    """All vectors under a limit, by rising capacity, with the neighbours one instance up and down (−1: none)."""

    states: npt.NDArray[np.int32]  # vectors × sizes
    up: npt.NDArray[np.int32]
    down: npt.NDArray[np.int32]
    capacity: Floats
    excess: Floats  # capacity without the strongest running instance

    def __len__(self) -> int:
        return len(self.states)


def build_lattice(performance: Floats, limit: float, most_states: int) -> Lattice | None:
    """All vectors whose excess is below ``limit``, or None where they are more than ``most_states``."""
    order = np.argsort(-performance, kind="stable")
    states = _enumerate(performance[order], limit, most_states)
    if len(states) == 0:
        return None
    largest = states.max(axis=0).astype(np.int64) + 2
    if np.prod(largest.astype(np.float64)) > 2.0**62:
        return None
    radix = np.concatenate([np.cumprod(largest[::-1])[::-1][1:], [1]])
    up = _steps_up(states, radix)
    capacity = states @ performance[order]
    strongest = np.where(states > 0, performance[order], 0.0).max(axis=1)
    by_capacity = np.argsort(capacity, kind="stable")
    up, down = _sorted_steps(up, by_capacity)
    back = np.argsort(order, kind="stable")  # columns in the caller's order
    return Lattice(
        states=np.ascontiguousarray(states[by_capacity][:, back]),
        up=np.ascontiguousarray(up[:, back]),
        down=np.ascontiguousarray(down[:, back]),
        capacity=capacity[by_capacity],
        excess=(capacity - strongest)[by_capacity],
    )


@njit(cache=True, nogil=True)
def _enumerate(performance: np.ndarray, limit: float, most: int) -> np.ndarray:
    sizes = performance.shape[0]
    room = min(most, 1024)
    found = np.empty((room, sizes), np.int32)
    vector = np.zeros(sizes, np.int32)
    count = 0
    while True:
        if count == room:
            if room >= most:
                return found[:0]
            room = min(most, room * 4)
            wider = np.empty((room, sizes), np.int32)
            wider[:count] = found
            found = wider
        found[count] = vector
        count += 1
        place = sizes - 1
        while place >= 0:  # an odometer whose digits roll over at the limit
            vector[place] += 1
            capacity = 0.0
            strongest = 0.0
            for size in range(sizes):
                capacity += vector[size] * performance[size]
                if vector[size] > 0:
                    strongest = max(strongest, performance[size])
            if capacity - strongest < limit:
                break
            vector[place] = 0
            place -= 1
        if place < 0:
            return found[:count]


@njit(cache=True, nogil=True)
def _steps_up(states: np.ndarray, radix: np.ndarray) -> np.ndarray:
    count, sizes = states.shape
    keys = np.zeros(count, np.int64)
    for i in range(count):
        for size in range(sizes):
            keys[i] += states[i, size] * radix[size]
    up = np.full((count, sizes), -1, np.int32)
    for size in range(sizes):
        j = 0
        for i in range(count):  # keys rise, so the partner's position only moves forward
            wanted = keys[i] + radix[size]
            while j < count and keys[j] < wanted:
                j += 1
            if j < count and keys[j] == wanted:
                up[i, size] = j
    return up


@njit(cache=True, nogil=True)
def _sorted_steps(up: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    count, sizes = up.shape
    place = np.empty(count, np.int32)
    for i in range(count):
        place[order[i]] = i
    new_up = np.full((count, sizes), -1, np.int32)
    new_down = np.full((count, sizes), -1, np.int32)
    for i in range(count):
        for size in range(sizes):
            j = up[order[i], size]
            if j >= 0:
                new_up[i, size] = place[j]
                new_down[place[j], size] = i
    return new_up, new_down


@njit(cache=True, nogil=True)
def sweep_epochs(
    up: np.ndarray,
    down: np.ndarray,
    capacity: np.ndarray,
    excess: np.ndarray,
    run_cost: np.ndarray,
    value: np.ndarray,  # in: cost of being in each vector before the first epoch; out: after the last
    workload: np.ndarray,
    limits: np.ndarray,
    strongest: float,
    start_cost: float,
    stop_cost: float,
    stop_moves: np.ndarray,  # out (epochs, vectors) int8: the size stopped last, −1 for none
    start_moves: np.ndarray,
) -> None:
    count, sizes = up.shape
    before = count
    for epoch in range(workload.shape[0]):
        top = np.searchsorted(capacity, limits[epoch] + strongest)
        if epoch > 0:
            reach = max(top, before)
            for i in range(reach - 1, -1, -1):
                best = value[i]
                move = -1
                for size in range(sizes):
                    j = up[i, size]
                    if 0 <= j < reach and value[j] + stop_cost < best:
                        best = value[j] + stop_cost
                        move = size
                value[i] = best
                stop_moves[epoch, i] = move
            for i in range(top):
                best = value[i]
                move = -1
                for size in range(sizes):
                    j = down[i, size]
                    if j >= 0 and value[j] + start_cost < best:
                        best = value[j] + start_cost
                        move = size
                value[i] = best
                start_moves[epoch, i] = move
        enough = workload[epoch] * (1.0 - 1e-9)
        for i in range(top):
            if capacity[i] >= enough and excess[i] < limits[epoch]:
                value[i] += run_cost[i]
            else:
                value[i] = np.inf
        value[top : max(before, top)] = np.inf
        before = top


@njit(cache=True, nogil=True)
def trace_back(
    up: np.ndarray, down: np.ndarray, stop_moves: np.ndarray, start_moves: np.ndarray, last: int
) -> np.ndarray:
    """The vectors of the cheapest path that ends in ``last``."""
    epochs = stop_moves.shape[0]
    path = np.empty(epochs, np.int64)
    i = last
    for epoch in range(epochs - 1, -1, -1):
        path[epoch] = i
        if epoch > 0:
            while start_moves[epoch, i] >= 0:
                i = down[i, start_moves[epoch, i]]
            while stop_moves[epoch, i] >= 0:
                i = up[i, stop_moves[epoch, i]]
    return path
