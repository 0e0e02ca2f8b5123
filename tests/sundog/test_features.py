"""Features against a slow transcription of their formulas."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtune.sundog.features import FEATURES, PairCounts, compute_features


def plain(n: int, a: int, b: int, total: int) -> dict[str, float]:
    """One pair, one normalisation, straight from the definitions: the distribution of (A, B) over yes and no."""
    table = {(1, 1): n / total, (1, 0): (a - n) / total, (0, 1): (b - n) / total, (0, 0): (total - a - b + n) / total}
    of_a = {1: a / total, 0: 1 - a / total}
    of_b = {1: b / total, 0: 1 - b / total}
    mutual = sum(
        table[x, y] * math.log(table[x, y] / (of_a[x] * of_b[y]))
        for x, y in product((0, 1), repeat=2)
        if table[x, y] > 0
    )

    def divergence(p: float, q: float) -> float:
        return sum(s * math.log(s / t) for s, t in ((p, q), (1 - p, 1 - q)) if s > 0)

    def entropy(*shares: float) -> float:
        return -sum(share * math.log(share) for share in shares if share > 0)

    return {
        "joint": n / total,
        "entity_probability": a / total,
        "related_probability": b / total,
        "conditional": n / a,
        "reverse_conditional": n / b,
        "pmi": math.log((n / total) / ((a / total) * (b / total))),
        "mutual_information": mutual,
        "kl": divergence(n / a, b / total),
        "reverse_kl": divergence(n / b, a / total),
        "entity_entropy": entropy(*of_a.values()),
        "related_entropy": entropy(*of_b.values()),
        "joint_entropy": entropy(*table.values()),
        "conditional_entropy": entropy(*table.values()) - entropy(*of_a.values()),
    }


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int, int, int]:
    n = draw(st.integers(1, 50))
    a, b = n + draw(st.integers(0, 100)), n + draw(st.integers(0, 100))
    return n, a, b, a + b - n + draw(st.integers(0, 1000))


def one_pair(events: tuple[int, int, int], users: tuple[int, int, int]) -> PairCounts:
    one = [np.array([value]) for value in (events[0], users[0], events[1], users[1], events[2], users[2])]
    return PairCounts(*one, *(np.array([code], np.int16) for code in (1, 2, 3, 4, 5)))


@given(counts(), counts())
def test_every_feature(events: tuple[int, int, int, int], users: tuple[int, int, int, int]) -> None:
    row = compute_features(one_pair(events[:3], users[:3]), events[3], users[3])[0]
    got = dict(zip(FEATURES, row.tolist(), strict=True))
    by_events, by_users = plain(*events), plain(*users)
    wanted = {f"{name}_events": value for name, value in by_events.items()}
    wanted |= {f"{name}_users": value for name, value in by_users.items()}
    wanted["both_conditionals_events"] = (by_events["conditional"] + by_events["reverse_conditional"]) / 2
    wanted["both_conditionals_users"] = (by_users["conditional"] + by_users["reverse_conditional"]) / 2
    for name in ("conditional", "reverse_conditional", "joint"):
        wanted[f"{name}_mean"] = (by_events[name] + by_users[name]) / 2
    wanted |= {"entity_type": 1, "related_type": 2, "relation_type": 3, "reverse_relation_type": 4, "relations": 5}
    assert set(got) == set(wanted)
    for name, value in wanted.items():
        assert got[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


@given(st.lists(st.integers(1, 10_000), min_size=4, max_size=4))
def test_estimates_that_contradict_each_other_give_finite_features(users: list[int]) -> None:
    """Sketches may say that more people searched for the pair than for one of the two."""
    row = compute_features(one_pair((1, 1, 1), (users[0], users[1], users[2])), 1, users[3])
    assert np.isfinite(row).all()
