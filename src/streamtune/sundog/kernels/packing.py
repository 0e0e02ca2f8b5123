"""From sightings to rows of (day, key, events, sketch), and from many such rows to one per day and key.

A *key* is 32 bits: 0 is everything, 1 … E the entities, E + 1 … the related pairs (``keys``). A *sighting* is a key in
the upper half of 64 bits and the coupon of the user in the lower one; every line makes one per key. Sorted, the
sightings of a key lie together: their number is its events, their different coupons its users.
"""

# mypy: disable-error-code="no-any-return, return-value, assignment, arg-type"
# numba compiles what is annotated int here, whichever NumPy integer comes out of an array.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamtune.sundog.kernels.compilation import compiled
from streamtune.sundog.kernels.hashing import bucket_of
from streamtune.sundog.kernels.sketch import (
    DENSE_WORDS,
    MOST_COUPONS,
    SEEN_ROOM,
    most_words,
    union_size,
    write_distinct,
    write_union,
)

_32 = np.uint64(32)


@compiled
def split_by_day(
    sightings: NDArray[np.uint64], slots: NDArray[np.uint16], days: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The sightings with those of one day together, and where each day begins."""
    starts = np.zeros(days + 1, np.int64)
    for slot in slots:
        starts[slot + 1] += 1
    for day in range(days):
        starts[day + 1] += starts[day]
    filled = starts[:-1].copy()
    apart = np.empty(len(sightings), np.uint64)
    for place in range(len(sightings)):
        slot = slots[place]
        apart[filled[slot]] = sightings[place]
        filled[slot] += 1
    return apart, starts


@compiled
def count_sorted(
    sightings: NDArray[np.uint64], starts: NDArray[np.int64], first_day: int, buckets: int
) -> tuple[
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.uint32],
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.uint32],
]:
    """Rows of sorted sightings, bucket by bucket: row and word starts of the buckets, then the columns.

    Columns: day, key, events, length of the sketch in words, and all words. Within a bucket rows are sorted by day and
    key. ``starts[d]:starts[d + 1]`` are the sightings of day ``first_day + d``.
    """
    row_starts, word_starts = np.zeros(buckets + 1, np.int64), np.zeros(buckets + 1, np.int64)
    for day in range(len(starts) - 1):
        at = starts[day]
        while at < starts[day + 1]:
            key, begin = sightings[at] >> _32, at
            while at < starts[day + 1] and sightings[at] >> _32 == key:
                at += 1
            bucket = bucket_of(key, buckets)
            row_starts[bucket + 1] += 1
            word_starts[bucket + 1] += most_words(at - begin)
    for bucket in range(buckets):
        row_starts[bucket + 1] += row_starts[bucket]
        word_starts[bucket + 1] += word_starts[bucket]
    rows, row, word = row_starts[-1], row_starts[:-1].copy(), word_starts[:-1].copy()
    days, keys, events = np.empty(rows, np.int32), np.empty(rows, np.uint32), np.empty(rows, np.int64)
    lengths, words = np.empty(rows, np.int32), np.empty(word_starts[-1], np.uint32)
    for day in range(len(starts) - 1):
        at = starts[day]
        while at < starts[day + 1]:
            key, begin = sightings[at] >> _32, at
            while at < starts[day + 1] and sightings[at] >> _32 == key:
                at += 1
            bucket = bucket_of(key, buckets)
            place = row[bucket]
            days[place], keys[place], events[place] = first_day + day, key, at - begin
            lengths[place] = write_distinct(sightings, begin, at, words, word[bucket])
            word[bucket] += lengths[place]
            row[bucket] += 1
    return row_starts, np.concatenate((word_starts[:-1], word)), days, keys, events, lengths, words


@compiled
def merge_rows(
    order: NDArray[np.int64],
    days: NDArray[np.int32],
    keys: NDArray[np.uint32],
    events: NDArray[np.int64],
    lengths: NDArray[np.int32],
    words: NDArray[np.uint32],
) -> tuple[NDArray[np.int32], NDArray[np.uint32], NDArray[np.int64], NDArray[np.int32], NDArray[np.uint32]]:
    """One row per day and key; ``order`` sorts the rows by day and key."""
    rows = len(order)
    begins = np.empty(rows, np.int64)
    begin = 0
    for row in range(rows):
        begins[row] = begin
        begin += lengths[row]
    groups, room = 0, 0
    at = 0
    while at < rows:
        first, total, dense = at, 0, False
        while at < rows and keys[order[at]] == keys[order[first]] and days[order[at]] == days[order[first]]:
            total += lengths[order[at]]
            dense |= lengths[order[at]] > MOST_COUPONS
            at += 1
        room += DENSE_WORDS if dense else most_words(total)
        groups += 1
    out_days, out_keys, out_events = np.empty(groups, np.int32), np.empty(groups, np.uint32), np.zeros(groups, np.int64)
    out_lengths, out_words = np.empty(groups, np.int32), np.empty(room, np.uint32)
    at, word = 0, 0
    for group in range(groups):
        first = at
        while at < rows and keys[order[at]] == keys[order[first]] and days[order[at]] == days[order[first]]:
            out_events[group] += events[order[at]]
            at += 1
        out_days[group], out_keys[group] = days[order[first]], keys[order[first]]
        out_lengths[group] = write_union(words, begins, lengths, order, first, at, out_words, word)
        word += out_lengths[group]
    return out_days, out_keys, out_events, out_lengths, out_words[:word]


@compiled
def count_rows(
    order: NDArray[np.int64],
    keys: NDArray[np.uint32],
    events: NDArray[np.int64],
    lengths: NDArray[np.int32],
    words: NDArray[np.uint32],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Key, events and users of all rows of a key together, whatever their days; ``order`` sorts the rows by key."""
    rows = len(order)
    begins = np.empty(rows, np.int64)
    begin = 0
    for row in range(rows):
        begins[row] = begin
        begin += lengths[row]
    groups = 0
    for at in range(rows):
        groups += at == 0 or keys[order[at]] != keys[order[at - 1]]
    out_keys, out_events, users = np.empty(groups, np.int64), np.zeros(groups, np.int64), np.empty(groups, np.int64)
    seen = np.zeros(SEEN_ROOM, np.uint32)
    at = 0
    for group in range(groups):
        first, key = at, keys[order[at]]
        while at < rows and keys[order[at]] == key:
            out_events[group] += events[order[at]]
            at += 1
        out_keys[group] = key
        users[group] = union_size(words, begins, lengths, order, first, at, seen)
    return out_keys, out_events, users
