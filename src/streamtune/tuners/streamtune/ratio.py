"""A ratio of two flows of records over many windows, which follows when the data changes."""

from __future__ import annotations

import math

from streamtune.readings.selectivity import observed_selectivity

# What a window still counts after one more: half after some seventy.
_KEPT = 0.99
# A window is off when its ratio differs by so much (a third), and by so many times of what is usual here.
_OFF = 0.3
_OFF_USUAL = 4.0
_SETTLED_WINDOWS = 5
# A window that passed nothing on counts as off by this much: operators with long windows have many of these.
_SILENT = 3.0
_USUAL_KEPT = 0.9


class ObservedRatio:
    """Records out per record in. Two windows in a row that are off in the same direction make it start from them.

    >>> ratio = ObservedRatio()
    >>> for given in (10, 10, 11, 10, 9, 10, 30, 30):
    ...     _ = ratio.add(given, 10)
    >>> round(ratio.value, 2)
    3.0
    """

    def __init__(self) -> None:
        self._given = 0.0
        self._taken = 0.0
        self._windows = 0
        self._usual = 0.0
        self._doubted: tuple[float, float, float] | None = None

    @property
    def value(self) -> float:
        """NaN before anything was taken."""
        return float(observed_selectivity(self._taken, self._given))

    def add(self, given: float, taken: float) -> bool:
        """One window, in which something was taken; whether the ratio is not what it was."""
        off = self._off(given, taken)
        before, self._doubted, has_changed = self._doubted, None, False
        if self._windows >= _SETTLED_WINDOWS and _OFF_USUAL * self._usual < abs(off) < _SILENT and abs(off) > _OFF:
            if before is not None and before[2] * off > 0:
                self._given, self._taken, self._windows, has_changed = before[0], before[1], 1, True
            else:
                self._doubted = (given, taken, off)
        else:
            self._usual += (1 - _USUAL_KEPT) * (abs(off) - self._usual)
        self._given = self._given * _KEPT + given
        self._taken = self._taken * _KEPT + taken
        self._windows += 1
        return has_changed

    def _off(self, given: float, taken: float) -> float:
        """The logarithm of how many times its usual value this window's ratio is."""
        if not self._taken > 0:
            return 0.0
        if given <= 0 or self._given <= 0:
            return 0.0 if given <= 0 and self._given <= 0 else math.copysign(_SILENT, given)
        return math.log(given / taken * self._taken / self._given)
