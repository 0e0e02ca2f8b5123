"""When a session ends: trials, seconds and money, counted over all of it."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from streamtune.autoconfig.trial import Trial
from streamtune.frozen import Frozen

_SECONDS_PER_HOUR = 3600.0


class Budget(Frozen):
    """When a session ends. Time and money count what trials took, also before a crash."""

    steps: int = Field(default=60, ge=1, description="Trials in all.")
    seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="Seconds of trials in all.")
    money: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="Money for trials in all.")
    price_per_hour: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="Of what trials run on.")

    def spent(self, trials: Sequence[Trial]) -> str | None:
        """Which limit is reached, in words.

        The next trial is expected to take as long as the mean one: what would break the budget is not begun.
        """
        if len(trials) >= self.steps:
            return f"{self.steps} steps"
        used = sum(trial.seconds for trial in trials)
        expected = used / len(trials) if trials else 0.0
        if self.seconds is not None and used + expected > self.seconds:
            return f"time: {_short(used)} of {self.seconds:g} s{_next(expected, ' s')}"
        if self.money is not None and self.price_per_hour is not None:
            price = self.price_per_hour / _SECONDS_PER_HOUR
            if (used + expected) * price > self.money:
                return f"money: {_short(used * price)} of {self.money:g}{_next(expected * price)}"
        return None

    def in_words(self) -> str:
        """The limits.

        >>> Budget(steps=30, seconds=7200, money=20, price_per_hour=4.8).in_words()
        '30 trials, 7200 s, 20 of money at 4.8 an hour'
        """
        found = [f"{self.steps} trials"]
        if self.seconds is not None:
            found.append(f"{self.seconds:g} s")
        if self.money is not None and self.price_per_hour is not None:
            found.append(f"{self.money:g} of money at {self.price_per_hour:g} an hour")
        return ", ".join(found)


def _short(value: float) -> str:
    """Three digits where there are less, whole numbers else.

    >>> _short(0.4567), _short(30.0), _short(12345.6)
    ('0.457', '30', '12346')
    """
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _next(expected: float, unit: str = "") -> str:
    return f", the next trial would take about {_short(expected)}{unit}" if expected else ""
