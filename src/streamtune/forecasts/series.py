"""Rates over time on a regular grid, read from a file or put together from observations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamtune.dataflow.documents import DocumentError, is_heading, read_rows
from streamtune.errors import StreamTuneError

Floats = npt.NDArray[np.float64]
DAY_S = 86_400.0
MOMENTS = 365 * DAY_S  # smaller times are seconds since some beginning, not moments
_MOST_SECONDS = 1e11  # since 1970: the year 5138
_NATURAL = (1.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 21_600.0, DAY_S)
_NEAR = 0.02


class ForecastError(StreamTuneError):
    """Rates that cannot be read, or from which nothing can be foreseen."""


@dataclass(frozen=True)
class RateSeries:
    """Records/s in steps of equal length. ``held`` steps had no observation and keep the last one before them."""

    values: Floats
    step_s: float
    start_s: float = 0.0
    held: int = 0

    def __len__(self) -> int:
        return len(self.values)

    @property
    def end_s(self) -> float:
        """When the last step ends."""
        return self.start_s + len(self.values) * self.step_s

    @property
    def day(self) -> int | None:
        """Steps per day, or None where a day is not a whole number of at least two steps."""
        steps = DAY_S / self.step_s
        return round(steps) if steps >= 2 and abs(steps - round(steps)) < 1e-6 else None

    @property
    def season(self) -> int | None:
        """Steps per day, once two whole days have been seen: a season seen once is a coincidence."""
        return self.day if self.day is not None and len(self) >= 2 * self.day else None

    def until(self, steps: int) -> RateSeries:
        """The first ``steps`` steps."""
        return RateSeries(self.values[:steps], self.step_s, self.start_s, self.held)

    def coarser(self, step_s: float, how: str = "max") -> RateSeries:
        """Longer steps: their highest rate (what has to be served), or their mean."""
        ratio = round(step_s / self.step_s)
        if ratio < 1 or abs(ratio * self.step_s - step_s) > 1e-6 * step_s:
            raise ForecastError(
                f"steps of {self.step_s:g} s do not make up steps of {step_s:g} s: choose a multiple of {self.step_s:g}"
            )
        whole = len(self.values) // ratio * ratio
        if whole == 0:
            raise ForecastError(f"{len(self.values)} steps of {self.step_s:g} s are less than one of {step_s:g} s")
        blocks = self.values[:whole].reshape(-1, ratio)
        merged = blocks.max(axis=1) if how == "max" else blocks.mean(axis=1)
        return RateSeries(merged, step_s, self.start_s, self.held)


def series_of(
    moments: Sequence[tuple[float, float]], *, step_s: float | None = None, longest_gap: int = 12, place: str = "rates"
) -> RateSeries:
    """Put observations (seconds, records/s) on a regular grid; several in one step are averaged.

    A missing step keeps the last value: interpolation would leak the future into the past. More than ``longest_gap``
    missing in a row are refused.

    >>> series_of([(0, 5.0), (60, 7.0), (180, 9.0)]).values.tolist()
    [5.0, 7.0, 7.0, 9.0]
    """
    if len(moments) < 2:
        told = "one rate is no series" if moments else "there is no rate"
        raise ForecastError(f"{place}: {told}: at least 2 are needed to foresee anything")
    ordered = sorted(moments)
    for when, rate in ordered:
        if not math.isfinite(rate) or rate < 0:
            raise ForecastError(f"{place}: the rate at {_moment(when)} must be finite and at least 0, but got {rate:g}")
    if ordered[-1][0] > _MOST_SECONDS:
        raise ForecastError(f"{place}: the time {ordered[-1][0]:g} is no number of seconds: milliseconds? Give seconds")
    times = np.array([when for when, _ in ordered])
    rates = np.array([rate for _, rate in ordered])
    gaps = np.diff(times)
    rising = np.sort(gaps[gaps > 0])  # the lower median: the mean of two gaps would be the length of neither
    step = natural_step(float(rising[(len(rising) - 1) // 2])) if step_s is None and len(rising) else (step_s or 0.0)
    if step <= 0:
        raise ForecastError(f"{place}: all {len(moments)} rates have the same time: nothing can be foreseen from them")
    # Stamps jitter around their grid: round to the nearest step instead of cutting off.
    cells = np.round((times - times[0]) / step).astype(np.int64)
    if cells[-1] > 50_000_000:
        raise ForecastError(f"{place}: {cells[-1]:,} steps of {step:g} s are too many: check the times, or set a step")
    total, count = np.bincount(cells, weights=rates), np.bincount(cells)
    seen = np.flatnonzero(count)
    widest = int(np.diff(seen).max()) - 1 if len(seen) > 1 else 0
    if widest > longest_gap:
        at = float(times[0] + step * (seen[int(np.argmax(np.diff(seen)))] + 1))
        raise ForecastError(
            f"{place}: {widest} steps of {step:g} s in a row are missing from {_moment(at)}: "
            f"at most {longest_gap} are bridged. Fill the gap, or give the part behind it alone"
        )
    last_seen = np.maximum.accumulate(np.where(count > 0, np.arange(len(count)), 0))
    values = (total[seen] / count[seen])[np.searchsorted(seen, last_seen)]
    return RateSeries(values, step, float(times[0]), int((count == 0).sum()))


def natural_step(seconds: float) -> float:
    """The step that was meant, where stamps jitter.

    >>> natural_step(59.982), natural_step(298.0), natural_step(77.0)
    (60.0, 300.0, 77.0)
    """
    nearest = min(_NATURAL, key=lambda step: abs(step - seconds))
    return nearest if abs(nearest - seconds) <= _NEAR * nearest else seconds


def read_series(path: Path, *, step_s: float | None = None, longest_gap: int = 12) -> RateSeries:
    """A CSV (also .gz) with a time and a rate per line; the first line may be a header.

    The time is ISO (2026-11-18 02:45:00), a number of seconds, or a number of minutes where the header says ``minute``.
    """
    rows = [(line, row) for line, row in _rows(path) if row]  # times say what is missing, empty lines do not matter
    first = rows[0][1] if rows else []
    if rows and len(first) < 2:
        raise ForecastError(f"{path}: each line needs a time and a rate, but the first is {','.join(first)!r}")
    factor = 60.0 if rows and first[0].strip().lower() == "minute" else 1.0
    moments: list[tuple[float, float]] = []
    for place, (line, row) in enumerate(rows):
        try:
            moments.append((factor * seconds_of(row[0]), float(row[1])))
        except (ValueError, IndexError):
            if place > 0 or not is_heading(row[1]):
                text = ",".join(row)
                raise ForecastError(f"{path}, line {line}: expected a time and a rate, but got {text!r}") from None
    return series_of(moments, step_s=step_s, longest_gap=longest_gap, place=str(path))


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    try:
        return read_rows(path)
    except DocumentError as error:
        raise ForecastError(f"{path} {error.problem}") from error


def seconds_of(text: str) -> float:
    """A number of seconds, or an ISO date and time (UTC where it does not say)."""
    try:
        return float(text)
    except ValueError:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _moment(seconds: float) -> str:
    if seconds < MOMENTS:
        return f"{seconds:g} s"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def total_rates(rows: Iterable[tuple[float, dict[str, float]]]) -> list[tuple[float, float]]:
    """What all sources of a job are offered together, from records of a history (seconds, source → records/s)."""
    return [(when, float(sum(rates.values()))) for when, rates in rows]
