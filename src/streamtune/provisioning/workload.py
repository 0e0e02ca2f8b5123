"""The rates of a planning problem from a CSV: one row per epoch, and nothing in it taken for something else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import time
from pathlib import Path

import numpy as np

from streamtune.dataflow.documents import DocumentError, is_heading, read_rows
from streamtune.forecasts.series import DAY_S, seconds_of
from streamtune.provisioning.problem import ProvisioningError

VALUES = ("workload", "rate", "records_per_s", "value")
TIMES = ("time", "timestamp", "minute", "date")
_JITTER = 0.25  # of a step
Row = tuple[int, list[str]]  # with its line


def read_workload(path: Path) -> list[float]:
    """The column whose heading says that it is the rate, else the last; one row per epoch.

    A gap, a word, a row of other length and a step that is missing between the times are refused with their line.
    """
    try:
        rows = read_rows(path)
    except DocumentError as error:
        raise ProvisioningError(f"{path} {error.problem}") from error
    heading = [cell.strip().lower() for cell in rows[0][1]] if rows and is_heading("".join(rows[0][1][-1:])) else []
    data = rows[1:] if heading else rows
    if not data:
        raise ProvisioningError(f"{path} holds no workload: it needs one number per epoch")
    width = max(len(rows[0][1]), 1)
    column = _rate_column(path, heading, width)
    values = [_rate(path, row, column, width) for row in data]
    if len(data) == 1 and not heading and len(data[0][1]) > 1:
        raise ProvisioningError(f"{path} has a single row of {len(data[0][1])} columns: write one row per epoch")
    _check_steps(path, heading, data, column)
    return values


def _rate_column(path: Path, heading: Sequence[str], width: int) -> int:
    named = [place for place, name in enumerate(heading) if name in VALUES]
    if len(named) == 1:
        return named[0]
    if heading and heading[-1] in TIMES:
        raise ProvisioningError(
            f"{path}: the last column is called '{heading[-1]}', and no other one is the rate: call one of them 'rate'"
        )
    return width - 1


def _rate(path: Path, row: Row, column: int, width: int) -> float:
    line, cells = row
    if len(cells) != width and "".join(cells).strip():
        count = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
        raise ProvisioningError(f"{path}, line {line}: {count}, but the first row has {width}")
    text = cells[column].strip() if column < len(cells) else ""
    try:
        return float(text)
    except ValueError:
        got = repr(text) if text else "nothing"
        raise ProvisioningError(
            f"{path}, line {line}: expected records/s, but got {got}. Fill the gap or remove the epoch"
        ) from None


def _check_steps(path: Path, heading: Sequence[str], data: Sequence[Row], column: int) -> None:
    """Where another column holds times, they must rise in equal steps: a step that is missing is no epoch."""
    named = [place for place, name in enumerate(heading) if name in TIMES and place != column]
    width = len(data[0][1])
    place = named[0] if named else 1 - column if width == 2 else None
    times = None if place is None else _times([cells[place] for _, cells in data])
    if times is None or len(times) < 2:
        return
    gaps = np.diff(times)
    if (gaps <= 0).any():
        if named:
            line = data[int(np.argmax(gaps <= 0)) + 1][0]
            raise ProvisioningError(f"{path}, line {line}: its time is not after the one before it: sort the rows")
        return  # numbers, but no times
    step = float(np.sort(gaps)[(len(gaps) - 1) // 2])
    for (line, _), gap in zip(data[1:], gaps.tolist(), strict=True):
        steps = round(gap / step)
        if steps > 1:
            missing = "one epoch is" if steps == 2 else f"{steps - 1} epochs are"
            raise ProvisioningError(f"{path}, line {line}: {missing} missing before it. Fill the gap")
        if abs(gap - steps * step) > _JITTER * step:
            raise ProvisioningError(
                f"{path}, line {line}: {gap:g} s after the row before it, but epochs are {step:g} s: make them equal"
            )


def _times(cells: Sequence[str]) -> list[float] | None:
    """Seconds; the time of day goes on after midnight. None where a cell is no time."""
    found: list[float] = []
    for cell in cells:
        try:
            found.append(seconds_of(cell))
        except ValueError:
            try:
                clock = time.fromisoformat(cell.strip())
            except ValueError:
                return None
            now = 3600.0 * clock.hour + 60.0 * clock.minute + clock.second
            days = found[-1] // DAY_S if found else 0.0
            found.append(days * DAY_S + now + (DAY_S if found and days * DAY_S + now < found[-1] else 0.0))
    return found
