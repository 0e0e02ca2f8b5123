"""ISO 8601 times to days since 1970, UTC."""

# mypy: disable-error-code="no-any-return, return-value, assignment, arg-type"
# numba compiles what is annotated int here, whichever NumPy integer comes out of an array.

from __future__ import annotations

import re
from datetime import UTC, date, datetime

import numpy as np
from numpy.typing import NDArray

from streamtune.sundog.kernels.compilation import compiled

_ISO_8601 = re.compile("[0-9WTZ :.,+-]+")
UNSURE = -(2**31)  # the kernel leaves it to ``day_of``
_EPOCH = date(1970, 1, 1).toordinal()


def day_of(text: str) -> int | None:
    """Days since 1970 of any time that Python reads as ISO 8601; without an offset it is UTC. None for anything else.

    >>> day_of("1970-01-02T00:30:00+01:00"), day_of("19700103T101010Z"), day_of("yesterday")
    (0, 2, None)
    """
    if not _ISO_8601.fullmatch(text.strip()):  # Python takes any character between date and time
        return None
    try:
        time = datetime.fromisoformat(text.strip())
        return (time.astimezone(UTC) if time.tzinfo else time).toordinal() - _EPOCH
    except (ValueError, OverflowError):
        return None


@compiled
def _digits(data: NDArray[np.uint8], at: int, count: int) -> int:
    """The number that ``count`` digits at ``at`` make, or −1."""
    number = 0
    for place in range(at, at + count):
        digit = np.int64(data[place]) - 48
        if digit < 0 or digit > 9:
            return -1
        number = 10 * number + digit
    return number


@compiled
def _civil_day(year: int, month: int, day: int) -> int:
    """Days since 1970 (Hinnant's days_from_civil), or UNSURE for a day that is not in the calendar."""
    if year < 1 or month < 1 or month > 12 or day < 1:
        return UNSURE
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    longest = 28 + leap if month == 2 else 30 if month in (4, 6, 9, 11) else 31
    if day > longest:
        return UNSURE
    shifted = year - 1 if month <= 2 else year
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@compiled
def parse_day(data: NDArray[np.uint8], begin: int, end: int) -> int:
    """``YYYY-MM-DD[(T| )HH:MM[:SS[.digits]][Z|±HH[[:]MM]]]``; UNSURE for anything else."""
    if end - begin < 10 or data[begin + 4] != 45 or data[begin + 7] != 45:
        return UNSURE
    day = _civil_day(_digits(data, begin, 4), _digits(data, begin + 5, 2), _digits(data, begin + 8, 2))
    if day == UNSURE or end - begin == 10:
        return day
    at = begin + 10
    if end - at < 6 or data[at + 3] != 58 or (data[at] != 84 and data[at] != 32):
        return UNSURE
    hour, minute = _digits(data, at + 1, 2), _digits(data, at + 4, 2)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59:
        return UNSURE
    at += 6
    if at + 3 <= end and data[at] == 58:
        second = _digits(data, at + 1, 2)
        if second < 0 or second > 59:
            return UNSURE
        at += 3
        if at + 2 <= end and data[at] == 46:
            at += 1
            first = at
            while at < end and 48 <= data[at] <= 57:
                at += 1
            if at == first:
                return UNSURE
    if at == end or (at + 1 == end and data[at] == 90):
        return day
    if data[at] != 43 and data[at] != 45:
        return UNSURE
    sign = 1 if data[at] == 43 else -1
    size = end - at
    if size == 3:
        offset = 60 * _digits(data, at + 1, 2)
    elif size == 5:
        offset = 60 * _digits(data, at + 1, 2) + _digits(data, at + 3, 2)
    elif size == 6 and data[at + 3] == 58:
        offset = 60 * _digits(data, at + 1, 2) + _digits(data, at + 4, 2)
    else:
        return UNSURE
    offset_minutes = _digits(data, end - 2, 2)
    if _digits(data, at + 1, 2) < 0 or offset_minutes < 0 or offset >= 24 * 60 or (size > 3 and offset_minutes > 59):
        return UNSURE
    return day + (60 * hour + minute - sign * offset) // (24 * 60)
