"""64-bit hashes of bytes and numbers, the same on every machine and in every process."""

# mypy: disable-error-code="no-any-return, return-value, assignment, arg-type"
# numba compiles what is annotated int here, whichever NumPy integer comes out of an array.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamtune.sundog.kernels.compilation import compiled

_SEED = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S8 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(8)


@compiled
def mixed(value: np.uint64) -> np.uint64:
    """Every bit of the result depends on every bit of the value (the finaliser of SplitMix64, Steele et al. 2014)."""
    value = (value ^ (value >> _S30)) * _FIRST
    value = (value ^ (value >> _S27)) * _SECOND
    return value ^ (value >> _S31)


@compiled
def hash_bytes(data: NDArray[np.uint8], begin: int, end: int) -> np.uint64:
    """Eight bytes at a time, each word mixed into what was before."""
    hashed = _SEED ^ np.uint64(end - begin)
    at = begin
    while at + 8 <= end:
        word = np.uint64(0)
        for place in range(8):
            word |= np.uint64(data[at + place]) << np.uint64(8 * place)
        hashed = mixed(hashed ^ word) + _SEED
        at += 8
    word = np.uint64(0)
    while at < end:
        word = word << _S8 | np.uint64(data[at])
        at += 1
    return mixed(hashed ^ word)


@compiled
def bucket_of(key: np.uint64, buckets: int) -> int:
    """Which of ``buckets`` a key belongs to."""
    return np.int64(mixed(np.uint64(key) + _SEED) % np.uint64(buckets))
