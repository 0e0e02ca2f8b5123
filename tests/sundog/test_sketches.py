"""Unique users: error, and that only the set of users counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamtune.sundog.kernels.sketch import MOST_COUPONS, coupon_of, estimates
from streamtune.sundog.packed import Packed


def sketch(hashes: np.ndarray, key: int = 7) -> Packed:
    """The sketch of a set of users, made in one go."""
    rows = [one_user(int(value), key) for value in hashes]
    return Packed.joined(rows).merged() if rows else Packed.empty()


def one_user(value: int, key: int = 7) -> Packed:
    coupon = np.array([coupon_of(np.uint64(value))], np.uint32)
    return Packed(np.zeros(1, np.int32), np.array([key], np.uint32), np.ones(1, np.int64), np.ones(1, np.int32), coupon)


def many_users(random: np.random.Generator, count: int) -> Packed:
    """Rows of single users, without a Python object each."""
    coupons = coupons_of_hashes(random.integers(0, 2**64, count, dtype=np.uint64))
    ones = np.ones(count, np.int64)
    return Packed(ones.astype(np.int32) * 0, np.full(count, 7, np.uint32), ones, ones.astype(np.int32), coupons)


def coupons_of_hashes(hashes: np.ndarray) -> np.ndarray:
    return np.array([coupon_of(value) for value in hashes], np.uint32)


def users(packed: Packed) -> list[int]:
    return [int(value) for value in estimates(packed.lengths, packed.words)]


def same(one: Packed, other: Packed) -> bool:
    columns = ("days", "keys", "events", "lengths", "words")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in columns)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=60), st.integers(1, 5), st.randoms())
@settings(max_examples=60)
def test_merging_knows_no_order(hashes: list[int], parts: int, random: object) -> None:
    whole = sketch(np.array(hashes, np.uint64))
    shuffled = list(hashes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    pieces = [sketch(np.array(shuffled[part::parts], np.uint64)) for part in range(parts)]
    assert same(Packed.joined(pieces).merged(), whole)
    coupons = {int(coupon_of(np.uint64(value))) for value in hashes}
    assert users(whole) == ([len(coupons)] if hashes else [])


@pytest.mark.parametrize("size", [MOST_COUPONS - 1, MOST_COUPONS, MOST_COUPONS + 1, 4 * MOST_COUPONS])
def test_large_sketches_know_no_order_either(size: int) -> None:
    everyone = many_users(np.random.default_rng(size), size)
    whole = everyone.merged()
    thirds = [rows_of(everyone, slice(part, None, 3)).merged() for part in range(3)]
    overlapping = [rows_of(everyone, slice(0, size // 2)).merged(), rows_of(everyone, slice(size // 4, None)).merged()]
    for pieces in (thirds, overlapping):
        merged = Packed.joined(pieces).merged()
        assert np.array_equal(merged.words, whole.words)
    nested = Packed.joined([Packed.joined(thirds[:2]).merged(), thirds[2]]).merged()
    assert same(nested, whole)
    if size <= MOST_COUPONS:
        assert abs(users(whole)[0] - size) <= 1, "small sets are counted, not estimated"


@given(st.data(), st.integers(1, 12))
@settings(max_examples=40)
def test_counting_a_union_is_as_good_as_making_it(data: st.DataObject, days: int) -> None:
    """Windows only need numbers: ``totals`` must say what the merged sketches would, to the last digit."""
    sizes = st.sampled_from([0, 1, 5, 40, MOST_COUPONS // 2, MOST_COUPONS, MOST_COUPONS + 1, 3 * MOST_COUPONS])
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    crowd = coupons_of_hashes(random.integers(0, 2**64, 4 * MOST_COUPONS, dtype=np.uint64))
    parts = []
    for day in range(days):
        for key in (3, 9):
            coupons = random.choice(crowd, data.draw(sizes))
            ones = np.ones(len(coupons), np.int64)
            columns = (day * ones).astype(np.int32), (key * ones).astype(np.uint32), ones, ones.astype(np.int32)
            parts.append(Packed(*columns, coupons).merged())
    panes = Packed.joined(parts)
    one_day = Packed(0 * panes.days, panes.keys, panes.events, panes.lengths, panes.words).merged()
    keys, events, found = panes.totals()
    assert keys.tolist() == one_day.keys.tolist()
    assert events.tolist() == one_day.events.tolist()
    assert found.tolist() == users(one_day)


def rows_of(packed: Packed, part: slice) -> Packed:
    return Packed(*(getattr(packed, name)[part] for name in ("days", "keys", "events", "lengths", "words")))


@pytest.mark.slow
def test_standard_error_is_below_one_percent() -> None:
    random = np.random.default_rng(5)
    for size in (5_000, 30_000):
        errors = [users(many_users(random, size).merged())[0] / size - 1 for _ in range(40)]
        # 1.04 / √2¹⁴ = 0.81 %; of 40 samples the root mean square has a standard deviation of 0.81 % / √80 = 0.09 %.
        assert np.sqrt(np.mean(np.square(errors))) < 0.0108
        assert abs(np.mean(errors)) < 4 * 0.0081 / np.sqrt(40), "unbiased"


def test_days_and_keys_stay_apart() -> None:
    rows = Packed(
        np.array([2, 1, 2, 1], np.int32),
        np.array([5, 5, 5, 4], np.uint32),
        np.array([1, 2, 3, 4], np.int64),
        np.ones(4, np.int32),
        np.array([9, 9, 8, 9], np.uint32),
    )
    merged = rows.merged()
    assert merged.days.tolist() == [1, 1, 2]
    assert merged.keys.tolist() == [4, 5, 5]
    assert merged.events.tolist() == [4, 2, 4]
    assert merged.lengths.tolist() == [1, 1, 2]
    assert merged.words.tolist() == [9, 9, 8, 9]
