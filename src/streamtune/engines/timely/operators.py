"""What the operators of an emulated job compute: plain Python, one object per instance, no Timely in here.

``take`` is called with every record, ``advance`` when no record before a moment of event time can come any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from streamtune.dataflow import Operator, Window
from streamtune.engines.timely.records import SECOND_US, Copies, Record, mix, salt

# Start value, step and finish of each aggregate. All but avg are whole numbers, so that order never matters.
_FOLDS: dict[str, tuple[Any, Callable[[Any, int], Any], Callable[[Any], int]]] = {
    "count": (0, lambda held, _value: held + 1, lambda held: int(held)),
    "sum": (0, lambda held, value: held + value, lambda held: int(held)),
    "min": (None, lambda held, value: value if held is None else min(held, value), lambda held: int(held)),
    "max": (None, lambda held, value: value if held is None else max(held, value), lambda held: int(held)),
    "avg": ((0, 0), lambda held, value: (held[0] + value, held[1] + 1), lambda held: int(held[0] // held[1])),
}


def fold_of(function: str) -> tuple[Any, Callable[[Any, int], Any], Callable[[Any], int]]:
    """An aggregate by name; an unknown one counts records."""
    return _FOLDS.get(function, _FOLDS["count"])


class Core(ABC):
    """The computation of one instance."""

    @abstractmethod
    def take(self, record: Record, key: int, side: int, out: list[Record]) -> None:
        """A record arrived; append what it emits immediately."""

    def advance(self, frontier_us: int, out: list[Record]) -> bool:  # noqa: ARG002
        """Every record before ``frontier_us`` has arrived; append what that completes. True if anything fired."""
        return False


class Stateless(Core):
    """Map, filter, flat_map and anything else that looks at one record at a time."""

    def __init__(self, copies: Copies) -> None:
        self._copies = copies

    def take(self, record: Record, key: int, side: int, out: list[Record]) -> None:  # noqa: ARG002
        self._copies.emit(record, out)


class Sink(Core):
    """The end of the line; keeps what it gets when asked to."""

    def __init__(self, kept: list[Record] | None) -> None:
        self._kept = kept

    def take(self, record: Record, key: int, side: int, out: list[Record]) -> None:  # noqa: ARG002
        if self._kept is not None:
            self._kept.append(record)


class RunningAggregate(Core):
    """The aggregate of a key so far, with every record; the values depend on the order of arrival."""

    def __init__(self, function: str, copies: Copies) -> None:
        self._start, self._step, self._finish = fold_of(function)
        self._held: dict[int, Any] = {}
        self._copies = copies

    def take(self, record: Record, key: int, side: int, out: list[Record]) -> None:  # noqa: ARG002
        held = self._held[key] = self._step(self._held.get(key, self._start), record[2])
        self._copies.emit((record[0], record[1], self._finish(held)), out)


class CountWindowAggregate(Core):
    """The last ``length`` records of a key, every ``slide`` records; which ones depends on the order of arrival."""

    def __init__(self, function: str, window: Window, copies: Copies) -> None:
        self._start, self._step, self._finish = fold_of(function)
        length, self._slide = max(1, round(window.length)), max(1, round(window.period))
        self._seen: dict[int, int] = defaultdict(int)
        self._values: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=length))
        self._copies = copies

    def take(self, record: Record, key: int, side: int, out: list[Record]) -> None:  # noqa: ARG002
        values = self._values[key]
        values.append(record[2])
        self._seen[key] += 1
        if self._seen[key] % self._slide == 0:
            held = self._start
            for value in values:
                held = self._step(held, value)
            self._copies.emit((record[0], record[1], self._finish(held)), out)


class TimeWindows:
    """Event-time windows: which ones a record belongs to, and which ones are complete."""

    def __init__(self, window: Window) -> None:
        self.length_us = max(1, round(window.length * SECOND_US))
        self.slide_us = max(1, round(window.period * SECOND_US))

    def ends(self, time_us: int) -> range:
        """The ends of the windows that hold a moment.

        >>> windows = TimeWindows(Window(type="sliding", length=10, slide=4))
        >>> [end // SECOND_US for end in windows.ends(9 * SECOND_US)]
        [18, 14, 10]
        """
        last_start = time_us - time_us % self.slide_us
        return range(last_start + self.length_us, time_us, -self.slide_us)


class WindowAggregate(Core):
    """One result per key and window, when the window is complete, with the window's last moment as its time."""

    def __init__(self, operator_salt: int, function: str, window: Window, copies: Copies) -> None:
        self._salt = operator_salt
        self._start, self._step, self._finish = fold_of(function)
        self._windows = TimeWindows(window)
        self._held: dict[int, dict[int, Any]] = defaultdict(dict)
        self._copies = copies

    def take(self, record: Record, key: int, side: int, out: list[Record]) -> None:  # noqa: ARG002
        for end in self._windows.ends(record[1]):
            groups = self._held[end]
            groups[key] = self._step(groups.get(key, self._start), record[2])

    def advance(self, frontier_us: int, out: list[Record]) -> bool:
        complete = sorted(end for end in self._held if end <= frontier_us)
        for end in complete:
            for key, held in self._held.pop(end).items():
                self._copies.emit((mix(self._salt ^ mix(end) ^ key), end - 1, self._finish(held)), out)
        return bool(complete)


class WindowJoin(Core):
    """Every pair of records with the same key in the same window, when the window is complete."""

    def __init__(self, operator_salt: int, window: Window) -> None:
        self._salt = operator_salt
        self._windows = TimeWindows(window)
        self._held: dict[int, tuple[dict[int, list[Record]], dict[int, list[Record]]]] = {}

    def take(self, record: Record, key: int, side: int, out: list[Record]) -> None:  # noqa: ARG002
        for end in self._windows.ends(record[1]):
            sides = self._held.get(end)
            if sides is None:
                sides = self._held[end] = ({}, {})
            sides[side].setdefault(key, []).append(record)

    def advance(self, frontier_us: int, out: list[Record]) -> bool:
        complete = sorted(end for end in self._held if end <= frontier_us)
        for end in complete:
            left, right = self._held.pop(end)
            for key, here in left.items():
                for there in right.get(key, ()):
                    out.extend(pair(self._salt, one, there, end - 1) for one in here)
        return bool(complete)


class IncrementalJoin(Core):
    """Every pair with the same key at most ``life_us`` apart in event time, as soon as the second one arrives."""

    def __init__(self, operator_salt: int, life_us: int) -> None:
        self._salt = operator_salt
        self._life_us = life_us
        self._held: tuple[dict[int, deque[Record]], dict[int, deque[Record]]] = ({}, {})
        self._arrivals: tuple[deque[tuple[int, int]], deque[tuple[int, int]]] = (deque(), deque())

    def take(self, record: Record, key: int, side: int, out: list[Record]) -> None:
        for other in self._held[1 - side].get(key, ()):
            if abs(other[1] - record[1]) <= self._life_us:
                left, right = (record, other) if side == 0 else (other, record)
                out.append(pair(self._salt, left, right, max(left[1], right[1])))
        self._held[side].setdefault(key, deque()).append(record)
        self._arrivals[side].append((record[1], key))

    def advance(self, frontier_us: int, out: list[Record]) -> bool:  # noqa: ARG002
        """Forget what nothing can match any more; records come nearly in the order of their times."""
        for held, arrivals in zip(self._held, self._arrivals, strict=True):
            while arrivals and arrivals[0][0] < frontier_us - self._life_us:
                _, key = arrivals.popleft()
                records = held[key]
                records.popleft()
                if not records:
                    del held[key]
        return False


def pair(operator_salt: int, left: Record, right: Record, time_us: int) -> Record:
    """The record that two matching ones give."""
    return mix(operator_salt ^ left[0] ^ mix(right[0])), time_us, left[2] + right[2]


def make_core(
    operator: Operator, copies: Copies, *, join_life_s: float, kept: list[Record] | None, is_last: bool
) -> Core:
    """The computation of one instance of an operator; ``kept`` is where a last operator leaves its results."""
    if operator.type == "sink" or is_last:
        return Sink(kept)
    own, window = salt("operator", operator.id), operator.window
    function = operator.aggregate.function if operator.aggregate else "count"
    match operator.type:
        case "aggregate":
            return RunningAggregate(function, copies)
        case "window_aggregate" if window is not None:
            if window.policy == "count":
                return CountWindowAggregate(function, window, copies)
            return WindowAggregate(own, function, window, copies)
        case "window_join" if window is not None and window.policy == "time":
            return WindowJoin(own, window)
        case "join" | "window_join":
            return IncrementalJoin(own, round(join_life_s * SECOND_US))
        case _:
            return Stateless(copies)
