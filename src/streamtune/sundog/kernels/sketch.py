"""Unique users: HyperLogLog sketches whose estimate depends on the set of users alone.

A user is a *coupon* of 32 bits: 26 bits of the hash, and the number of leading zeros of the rest plus one. A set of
up to ``MOST_COUPONS`` different coupons is kept as it is, and its size is the estimate (among 3,000 users the chance
that any two share a coupon is 1 in 45). A larger one is 2¹⁴ registers, and its estimate is Ertl's (*New cardinality
estimation algorithms for HyperLogLog sketches*, 2017, Algorithm 6), standard error 1.04/√2¹⁴ = 0.81 %. Both forms,
and which of the two it is, follow from the set of users: not from the order of lines, the number of batches or the
way of merging.

In memory a sketch is 32-bit words: sorted coupons, or ``DENSE_WORDS`` words of four registers each.
"""

# mypy: disable-error-code="no-any-return, return-value, assignment, arg-type"
# numba compiles what is annotated int here, whichever NumPy integer comes out of an array.

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from streamtune.sundog.kernels.compilation import compiled

PRECISION = 14
REGISTERS = 1 << PRECISION
DENSE_WORDS = REGISTERS // 4
MOST_COUPONS = 3000
SEEN_ROOM = 8192  # of the table that counts up to MOST_COUPONS + 1 different coupons
_INDEX_BITS = 26
_BETWEEN = _INDEX_BITS - PRECISION  # index bits of a coupon that are value bits of a register
_LARGEST = 64 - PRECISION + 1
_TOP = np.uint64(1 << 63)
_INFINITY_ALPHA = 1.0 / (2.0 * math.log(2.0))


@compiled
def coupon_of(hashed: np.uint64) -> np.uint32:
    """The coupon of a user's 64-bit hash."""
    index = hashed >> np.uint64(64 - _INDEX_BITS)
    rest = hashed << np.uint64(_INDEX_BITS)
    zeros = 0
    while zeros < 64 - _INDEX_BITS and rest & _TOP == np.uint64(0):
        rest <<= np.uint64(1)
        zeros += 1
    return np.uint32(index << np.uint64(6) | np.uint64(zeros + 1))


@compiled
def _offer(registers: NDArray[np.uint8], coupon: np.uint32) -> None:
    """Raise the register of a coupon, as if the user's hash had been split after 14 bits."""
    index = np.int64(coupon) >> 6
    low = index & ((1 << _BETWEEN) - 1)
    if low == 0:
        value = _BETWEEN + (np.int64(coupon) & 63)
    else:
        value = 1
        while not low >> (_BETWEEN - value) & 1:
            value += 1
    place = index >> _BETWEEN
    if registers[place] < value:
        registers[place] = value


@compiled
def _unpack(words: NDArray[np.uint32], begin: int, registers: NDArray[np.uint8]) -> None:
    """Raise all registers to those of a dense sketch."""
    for word in range(DENSE_WORDS):
        held = words[begin + word]
        for part in range(4):
            value = np.uint8(held >> np.uint32(8 * part) & np.uint32(255))
            if registers[4 * word + part] < value:
                registers[4 * word + part] = value


@compiled
def _pack(registers: NDArray[np.uint8], words: NDArray[np.uint32], begin: int) -> None:
    for word in range(DENSE_WORDS):
        held = np.uint32(0)
        for part in range(4):
            held |= np.uint32(registers[4 * word + part]) << np.uint32(8 * part)
        words[begin + word] = held


@compiled
def _sigma(share: float) -> float:
    if share == 1.0:
        return np.inf
    step, total, before = 1.0, share, -1.0
    while total != before:
        share *= share
        before = total
        total += share * step
        step += step
    return total


@compiled
def _tau(share: float) -> float:
    if share in (0.0, 1.0):
        return 0.0
    step, total, before = 1.0, 1.0 - share, -1.0
    while total != before:
        share = math.sqrt(share)
        before = total
        step *= 0.5
        total -= (1.0 - share) ** 2 * step
    return total / 3.0


@compiled
def estimate(words: NDArray[np.uint32], begin: int, length: int) -> int:
    """Unique users of the sketch ``words[begin:begin + length]``, as a whole number."""
    if length <= MOST_COUPONS:
        return length
    registers = np.zeros(REGISTERS, np.uint8)
    _unpack(words, begin, registers)
    return _estimate_registers(registers)


@compiled
def _estimate_registers(registers: NDArray[np.uint8]) -> int:
    histogram = np.zeros(_LARGEST + 1, np.int64)
    for register in registers:
        histogram[register] += 1
    total = REGISTERS * _tau(1.0 - histogram[_LARGEST] / REGISTERS)
    for value in range(_LARGEST - 1, 0, -1):
        total = 0.5 * (total + histogram[value])
    total += REGISTERS * _sigma(histogram[0] / REGISTERS)
    return np.int64(round(_INFINITY_ALPHA * REGISTERS * REGISTERS / total))


@compiled
def estimates(lengths: NDArray[np.int32], words: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Of sketches that lie one behind the other."""
    users = np.empty(len(lengths), np.int64)
    begin = 0
    for row in range(len(lengths)):
        users[row] = estimate(words, begin, np.int64(lengths[row]))
        begin += lengths[row]
    return users


@compiled
def write_distinct(sorted_coupons: NDArray[np.uint64], begin: int, end: int, words: NDArray[np.uint32], at: int) -> int:
    """The sketch of the coupons in the lower halves of ``sorted_coupons[begin:end]``, into ``words``; its length.

    Needs room for ``most_words(end - begin)``.
    """
    count = 0
    for place in range(begin, end):
        if place == begin or sorted_coupons[place] != sorted_coupons[place - 1]:
            if count == MOST_COUPONS:
                count += 1
                break
            words[at + count] = np.uint32(sorted_coupons[place] & np.uint64(0xFFFFFFFF))
            count += 1
    if count <= MOST_COUPONS:
        return count
    registers = np.zeros(REGISTERS, np.uint8)
    for place in range(begin, end):
        _offer(registers, np.uint32(sorted_coupons[place] & np.uint64(0xFFFFFFFF)))
    _pack(registers, words, at)
    return DENSE_WORDS


@compiled
def most_words(coupons: int) -> int:
    """Room that the sketch of so many coupons, not all of them different, may need."""
    return coupons if coupons <= MOST_COUPONS else DENSE_WORDS


@compiled
def write_union(
    words: NDArray[np.uint32],
    begins: NDArray[np.int64],
    lengths: NDArray[np.int32],
    rows: NDArray[np.int64],
    first: int,
    last: int,
    into: NDArray[np.uint32],
    at: int,
) -> int:
    """The union of the sketches ``rows[first:last]`` into ``into`` at ``at``; its length in words."""
    if last - first == 1:
        length = np.int64(lengths[rows[first]])
        into[at : at + length] = words[begins[rows[first]] : begins[rows[first]] + length]
        return length
    total, dense = 0, False
    for place in range(first, last):
        total += lengths[rows[place]]
        dense |= lengths[rows[place]] > MOST_COUPONS
    if not dense:
        gathered = np.empty(total, np.uint64)
        filled = 0
        for place in range(first, last):
            begin = begins[rows[place]]
            for word in range(begin, begin + lengths[rows[place]]):
                gathered[filled] = np.uint64(words[word])
                filled += 1
        if total <= 32:
            _insertion_sort(gathered)
        else:
            gathered.sort()
        return write_distinct(gathered, 0, total, into, at)
    registers = np.zeros(REGISTERS, np.uint8)
    for place in range(first, last):
        _raise(registers, words, begins[rows[place]], np.int64(lengths[rows[place]]))
    _pack(registers, into, at)
    return DENSE_WORDS


@compiled
def union_size(
    words: NDArray[np.uint32],
    begins: NDArray[np.int64],
    lengths: NDArray[np.int32],
    rows: NDArray[np.int64],
    first: int,
    last: int,
    seen: NDArray[np.uint32],
) -> int:
    """The estimate of ``write_union``'s sketch, without making it.

    Coupons are counted in a hash table rather than sorted; their upper bits are a hash already. ``seen`` has
    ``SEEN_ROOM`` places, all zero, and is all zero again afterwards.
    """
    if last - first == 1:
        return estimate(words, begins[rows[first]], np.int64(lengths[rows[first]]))
    total, dense = 0, False
    for place in range(first, last):
        total += lengths[rows[place]]
        dense |= lengths[rows[place]] > MOST_COUPONS
    if not dense:
        distinct = _count_distinct(words, begins, lengths, rows, first, last, seen, min(total, MOST_COUPONS + 1))
        if distinct <= MOST_COUPONS:
            return distinct
    registers = np.zeros(REGISTERS, np.uint8)
    for place in range(first, last):
        _raise(registers, words, begins[rows[place]], np.int64(lengths[rows[place]]))
    return _estimate_registers(registers)


@compiled
def _raise(registers: NDArray[np.uint8], words: NDArray[np.uint32], begin: int, length: int) -> None:
    """Raise the registers by a sketch of either form."""
    if length > MOST_COUPONS:
        _unpack(words, begin, registers)
    else:
        for word in range(begin, begin + length):
            _offer(registers, words[word])


@compiled
def _count_distinct(
    words: NDArray[np.uint32],
    begins: NDArray[np.int64],
    lengths: NDArray[np.int32],
    rows: NDArray[np.int64],
    first: int,
    last: int,
    seen: NDArray[np.uint32],
    most: int,
) -> int:
    """Different coupons, counted up to ``most``. A coupon is never 0, so 0 is a free place."""
    bits = 3
    while 1 << bits < 2 * most:
        bits += 1
    shift, mask, distinct = np.uint32(32 - bits), np.int64((1 << bits) - 1), 0
    for place in range(first, last):
        begin = begins[rows[place]]
        for word in range(begin, begin + lengths[rows[place]]):
            coupon = words[word]
            at = np.int64(coupon >> shift)
            while seen[at] != 0 and seen[at] != coupon:
                at = at + 1 & mask
            if seen[at] == 0:
                seen[at] = coupon
                distinct += 1
                if distinct == most:
                    break
        if distinct == most:
            break
    seen[: 1 << bits] = 0
    return distinct


@compiled
def _insertion_sort(values: NDArray[np.uint64]) -> None:
    for place in range(1, len(values)):
        value = values[place]
        before = place - 1
        while before >= 0 and values[before] > value:
            values[before + 1] = values[before]
            before -= 1
        values[before + 1] = value
