"""Many sizes: descent for a plan, and finer and finer quotients of the lattice for a bound."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamtune.provisioning.descent import best_single_size, descend, repaired
from streamtune.provisioning.programme import Instance
from streamtune.provisioning.quotient import Quotient
from streamtune.provisioning.relaxation import relax_linearly

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

STEPS_A_SECOND = 0.8e9  # of the dynamic programme, on one core of 2020
MODULUS = 16  # of the check sum: found to tell vectors apart better than cells alone at the same number of images
_FEWEST_IMAGES, _MOST_IMAGES = 2e4, 2e7
_FINER = 4.0
_LARGEST = 4.0  # times the most images wanted: above it the memory does not suffice


@dataclass
class Found:
    """A plan and what is proven: no plan costs less than ``bound``."""

    counts: Counts
    bound: float


def search(instance: Instance, limits: Floats, seconds: float, wanted_gap: float, seed: int) -> Found:
    """A plan and a bound for an instance whose whole lattice is too large."""
    begun = time.monotonic()
    end = begun + seconds
    linear = relax_linearly(instance, 0.1 * seconds)
    start = best_single_size(instance)
    if linear.counts is not None and instance.cost(repaired(instance, linear.counts)) < instance.cost(start):
        start = repaired(instance, linear.counts)
    found = Found(start, max(0.0, linear.bound))
    if _gap(instance, found) > wanted_gap:
        found.counts = descend(instance, start, seed=seed, is_over=_after(begun + 0.25 * seconds))
    images, took = _FEWEST_IMAGES, 0.0
    while time.monotonic() < end and _gap(instance, found) > wanted_gap:
        seed += 1
        left = end - time.monotonic()
        if images <= _MOST_IMAGES and 1.2 * _FINER * took < left:
            looked = time.monotonic()
            quotient = Quotient.of(instance, limits, images, MODULUS, seed)
            if quotient.height * MODULUS <= _LARGEST * _MOST_IMAGES:  # a weak size beside a strong one: many more
                found.bound = max(found.bound, quotient.bound())
            took, images = time.monotonic() - looked, images * _FINER
            pause = max(took, 0.05 * seconds)
        else:
            pause = left
        found.counts = descend(
            instance, found.counts, seed=seed, is_over=_after(min(end, time.monotonic() + pause)), patience=200
        )
    return found


def _after(end: float) -> Callable[[], bool]:
    return lambda: time.monotonic() >= end


def _gap(instance: Instance, found: Found) -> float:
    cost = instance.cost(found.counts)
    return (cost - found.bound) / cost if cost > 0 else 0.0
