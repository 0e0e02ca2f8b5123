"""Which pairs the knowledge base relates: a Bloom filter first, then the exact table.

The filter is a blocked one (Putze, Sanders, Singler 2007): all bits of a pair lie in one 512-bit block, which is one
line of the processor's cache. Nearly all pairs that people type are unrelated, and for those one look suffices.
"""

# mypy: disable-error-code="no-any-return, return-value, assignment, arg-type"
# numba compiles what is annotated int here, whichever NumPy integer comes out of an array.

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamtune.sundog.kernels.compilation import compiled
from streamtune.sundog.kernels.hashing import mixed

_1, _6, _9, _32, _63, _511 = (np.uint64(number) for number in (1, 6, 9, 32, 63, 511))
_SALT = np.uint64(0xD6E8FEB86659FD93)
WORDS = 8  # 64-bit words in a block
BITS = 8  # bits set per pair
UNRELATED = -1


class Relations(NamedTuple):
    """The filter's words, and an open hash table from pair (smaller << 32 | larger) to the pair's number."""

    filter: NDArray[np.uint64]
    key: NDArray[np.uint64]
    number: NDArray[np.int32]


def build_relations(low: NDArray[np.int32], high: NDArray[np.int32], false_positives: float) -> Relations:
    """Of the pairs ``(low[i], high[i])``, low < high, each once; pair i gets number i."""
    blocks = max(1, math.ceil(len(low) * bits_per_pair(false_positives) / (64 * WORDS)))
    size = 16
    while size < 2 * len(low):
        size *= 2
    key, number = np.zeros(size, np.uint64), np.zeros(size, np.int32)
    words = np.zeros(blocks * WORDS, np.uint64)
    _fill(words, key, number, low.astype(np.int32), high.astype(np.int32))
    return Relations(words, key, number)


def bits_per_pair(false_positives: float) -> float:
    """Bits that hold the rate: those of a plain filter with ``BITS`` hashes, and some for blocks of uneven load.

    >>> round(bits_per_pair(0.01), 1)
    10.8
    """
    plain = -BITS / math.log(1.0 - false_positives ** (1.0 / BITS))
    return 1.1 * plain + 0.0015 / false_positives**0.5 * plain


@compiled
def pair_key(one: int, other: int) -> np.uint64:
    """Whichever way round; never 0, since the larger of two different numbers is not."""
    return np.uint64(min(one, other)) << _32 | np.uint64(max(one, other))


@compiled
def _fill(
    words: NDArray[np.uint64],
    table: NDArray[np.uint64],
    number: NDArray[np.int32],
    low: NDArray[np.int32],
    high: NDArray[np.int32],
) -> None:
    blocks, mask = np.uint64(len(words) // WORDS), np.uint64(len(table) - 1)
    for pair in range(len(low)):
        key = pair_key(low[pair], high[pair])
        hashed = mixed(key)
        bits = mixed(hashed ^ _SALT)
        block = np.int64(hashed % blocks) * WORDS
        for _ in range(BITS - 1):
            bit = bits & _511
            words[block + np.int64(bit >> _6)] |= _1 << (bit & _63)
            bits >>= _9
        bit = (hashed >> _32) & _511
        words[block + np.int64(bit >> _6)] |= _1 << (bit & _63)
        place = hashed & mask
        while table[place] != np.uint64(0):
            place = (place + _1) & mask
        table[place] = key
        number[place] = pair


@compiled
def may_be_related(relations: Relations, one: int, other: int) -> bool:
    """False only for pairs that are not in the knowledge base."""
    hashed = mixed(pair_key(one, other))
    bits = mixed(hashed ^ _SALT)
    block = np.int64(hashed % np.uint64(len(relations.filter) // WORDS)) * WORDS
    for _ in range(BITS - 1):
        bit = bits & _511
        if (relations.filter[block + np.int64(bit >> _6)] >> (bit & _63)) & _1 == np.uint64(0):
            return False
        bits >>= _9
    bit = (hashed >> _32) & _511
    return (relations.filter[block + np.int64(bit >> _6)] >> (bit & _63)) & _1 != np.uint64(0)


@compiled
def number_of_pair(relations: Relations, one: int, other: int) -> int:
    """The pair's number, or UNRELATED."""
    key = pair_key(one, other)
    mask = np.uint64(len(relations.key) - 1)
    place = mixed(key) & mask
    while relations.key[place] != np.uint64(0):
        if relations.key[place] == key:
            return np.int64(relations.number[place])
        place = (place + _1) & mask
    return UNRELATED
