"""Where rows are and how days are counted; loads nothing."""

from __future__ import annotations

from datetime import date

_EPOCH = date(1970, 1, 1).toordinal()


def day_number(day: date) -> int:
    """Days since 1970."""
    return day.toordinal() - _EPOCH


def day_of_number(number: int) -> date:
    return date.fromordinal(number + _EPOCH)


def table_folder(out: str, table: str, day: date, window: int) -> str:
    """Where the rows of one day and window are, in the way that every reader of partitioned Parquet understands."""
    return f"{out}/{table}/day={day.isoformat()}/window={window}"
