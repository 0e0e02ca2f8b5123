"""The inner loop: lines to sightings of everything, of entities and of related pairs."""

# mypy: disable-error-code="no-any-return, return-value, assignment, arg-type"
# numba compiles what is annotated int here, whichever NumPy integer comes out of an array.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamtune.sundog.kernels.compilation import compiled
from streamtune.sundog.kernels.hashing import hash_bytes
from streamtune.sundog.kernels.relations import UNRELATED, Relations, may_be_related, number_of_pair
from streamtune.sundog.kernels.sketch import coupon_of
from streamtune.sundog.kernels.text import BROKEN, MOST_GROWTH
from streamtune.sundog.kernels.times import parse_day
from streamtune.sundog.kernels.trie import Trie, find_entities

EVERYTHING = 0  # the key of all lines with an entity; entity e has e + 1, pair p has entities + 1 + p
WITH_ENTITY, WITHOUT_ENTITY, NOT_UTF8 = 0, 1, 2  # what became of a line
CANDIDATES, PASSED, RELATED = 0, 1, 2  # pairs seen, those that passed the filter, those that are related
_32 = np.uint64(32)


@compiled
def scan(
    trie: Trie,
    relations: Relations,
    entities: int,
    data: NDArray[np.uint8],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    coupons: NDArray[np.uint32],
    slots: NDArray[np.uint16],
) -> tuple[NDArray[np.uint64], NDArray[np.uint16], NDArray[np.uint8], NDArray[np.int64]]:
    """Sightings with their day slots, what became of each line, and how many pairs came how far."""
    lines = len(begins)
    longest = 1
    for line in range(lines):
        longest = max(longest, ends[line] - begins[line])
    room = longest * MOST_GROWTH + 8
    folded, token_ends, known = np.empty(room, np.uint8), np.empty(room, np.int32), np.empty(room, np.uint64)
    found = np.empty(64, np.int32)
    sightings, of_slot = np.empty(4 * lines + 64, np.uint64), np.empty(4 * lines + 64, np.uint16)
    outcome, pairs = np.empty(lines, np.uint8), np.zeros(3, np.int64)
    size = 0
    for line in range(lines):
        count = find_entities(trie, data, begins[line], ends[line], folded, token_ends, known, found)
        while count > len(found):
            found = np.empty(4 * count, np.int32)
            count = find_entities(trie, data, begins[line], ends[line], folded, token_ends, known, found)
        if count == BROKEN:
            outcome[line] = NOT_UTF8
            continue
        if count == 0:
            outcome[line] = WITHOUT_ENTITY
            continue
        outcome[line] = WITH_ENTITY
        need = size + 1 + count + count * (count - 1) // 2
        if need > len(sightings):
            sightings, of_slot = _grown(sightings, of_slot, size, 2 * need)
        coupon, begin = np.uint64(coupons[line]), size
        sightings[size] = np.uint64(EVERYTHING) << _32 | coupon
        size += 1
        for one in range(count):
            sightings[size] = np.uint64(found[one] + 1) << _32 | coupon
            size += 1
            for other in range(one):
                pairs[CANDIDATES] += 1
                if may_be_related(relations, found[one], found[other]):
                    pairs[PASSED] += 1
                    pair = number_of_pair(relations, found[one], found[other])
                    if pair != UNRELATED:
                        pairs[RELATED] += 1
                        sightings[size] = np.uint64(entities + 1 + pair) << _32 | coupon
                        size += 1
        of_slot[begin:size] = slots[line]
    return sightings[:size], of_slot[:size], outcome, pairs


@compiled
def _grown(
    sightings: NDArray[np.uint64], slots: NDArray[np.uint16], size: int, room: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint16]]:
    more, more_slots = np.empty(room, np.uint64), np.empty(room, np.uint16)
    more[:size], more_slots[:size] = sightings[:size], slots[:size]
    return more, more_slots


@compiled
def coupons_of(data: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The coupon of each user ``data[begin:end]``."""
    coupons = np.empty(len(begins), np.uint32)
    for line in range(len(begins)):
        coupons[line] = coupon_of(hash_bytes(data, begins[line], ends[line]))
    return coupons


@compiled
def days_of(data: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int32]:
    """The day of each time ``data[begin:end]``, or UNSURE."""
    days = np.empty(len(begins), np.int32)
    for line in range(len(begins)):
        days[line] = parse_day(data, begins[line], ends[line])
    return days
