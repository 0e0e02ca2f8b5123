"""Rankings of one batch side by side: as many at a time as was said, in the order that was asked for."""

from __future__ import annotations

import threading
from datetime import date, timedelta
from typing import Any, cast

import pytest

from streamtune.sundog.panes import State
from streamtune.sundog.pipeline import Sundog
from streamtune.sundog.stream import _ranked

DAYS = [(date(2014, 1, day), 7) for day in range(1, 7)]


class FakeSundog:
    """Ranks nothing, but waits until as many others do as are wanted at a time."""

    def __init__(self, at_once: int, fails_at: date | None = None) -> None:
        self.meet = threading.Barrier(at_once, timeout=20.0)
        self.fails_at = fails_at
        self.shared = 0

    def share(self) -> None:
        self.shared += 1

    def rank(self, day: date, window: int, state: State) -> Any:
        del state
        if day == self.fails_at:
            raise ValueError(f"no rankings of {day}")
        if self.fails_at is None:
            self.meet.wait()
        return day, window


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_as_many_at_a_time_as_was_said_and_in_order(at_once: int) -> None:
    fake = FakeSundog(at_once)
    assert _ranked(cast(Sundog, fake), DAYS, State(), at_once) == tuple(DAYS)
    assert fake.shared == (at_once > 1), "what all threads need is made before they start"


def test_a_ranking_that_fails_fails_the_batch() -> None:
    fake = FakeSundog(2, fails_at=DAYS[3][0])
    with pytest.raises(ValueError, match=str(DAYS[0][0] + timedelta(days=3))):
        _ranked(cast(Sundog, fake), DAYS, State(), 2)
