"""Splits by hash: which rows are for training, validation or testing, the same on every machine and in every run.

Never by a random generator, and by job or query, never by row: rows of one job know each other's answers.
"""

from __future__ import annotations

import hashlib


def bucket(key: str, buckets: int) -> int:
    """One of so many buckets, by the first 32 bits of a key's SHA-256; ``history.split`` has it as a Spark column.

    >>> bucket("nexmark-q5", 10_000) == bucket("nexmark-q5", 10_000)
    True
    """
    return int(hashlib.sha256(key.encode()).hexdigest()[:8], 16) % buckets


def rank(key: str) -> float:
    """A number in [0, 1) that orders keys for good.

    >>> 0 <= rank("validation:nexmark-q5") < 1
    True
    """
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) / 2.0**64
