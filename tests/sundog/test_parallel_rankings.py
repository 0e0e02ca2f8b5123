"""Rankings of one batch side by side: as many at a time as was said, in the order that was asked for."""

from __future__ import annotations

import threading
from datetime import date
from functools import partial

import pytest

from streamtune.sundog.stream import side_by_side
from streamtune.sundog.windows import Ranked

DAYS = [date(2014, 1, day) for day in range(1, 7)]


def ranked(day: date) -> Ranked:
    return Ranked(day, 7, pairs=1, entities=1, ranked=1, events=1, users=1)


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_as_many_at_a_time_as_was_said_and_in_order(at_once: int) -> None:
    meet = threading.Barrier(at_once, timeout=20.0)  # opens when so many wait at it

    def rank(day: date) -> Ranked:
        meet.wait()
        return ranked(day)

    found = side_by_side([partial(rank, day) for day in DAYS], at_once)
    assert found == tuple(map(ranked, DAYS))


def test_a_ranking_that_fails_fails_the_batch() -> None:
    def rank(day: date) -> Ranked:
        if day == DAYS[3]:
            raise ValueError(f"no rankings of {day}")
        return ranked(day)

    with pytest.raises(ValueError, match="no rankings of 2014-01-04"):
        side_by_side([partial(rank, day) for day in DAYS], 2)


def test_nothing_to_rank_is_no_ranking() -> None:
    assert side_by_side([], 4) == ()
