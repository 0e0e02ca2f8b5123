"""JSON lines without Python objects: where ``user``, ``time`` and ``query`` are in each line.

The kernel reads flat objects of strings, numbers and literals, with all escapes. Whatever else it meets (nested values,
escaped keys, broken JSON, bytes that are not UTF-8) it leaves to Python's own parser, which then has the last word:
see ``streamtune.sundog.readers``.
"""

# mypy: disable-error-code="no-any-return, return-value, assignment, arg-type"
# numba compiles what is annotated int here, whichever NumPy integer comes out of an array.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamtune.sundog.kernels.compilation import compiled
from streamtune.sundog.kernels.text import is_utf8

READ, UNSURE, BLANK = 0, 1, 2
USER, TIME, QUERY, OTHER = 0, 1, 2, 3
ABSENT, STRING, WHOLE = 0, 1, 2  # what a field is; anything else is left to Python
_QUOTE, _BACKSLASH, _OPEN, _CLOSE, _COLON, _COMMA = 34, 92, 123, 125, 58, 44
_FAIL = -1


@compiled
def line_starts(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Where lines begin, and the end of the data; a last line needs no line feed."""
    count = 0
    for byte in data:
        count += byte == 10
    if len(data) and data[-1] != 10:
        count += 1
    starts = np.empty(count + 1, np.int64)
    starts[0], line = 0, 0
    for place in range(len(data)):
        if data[place] == 10:
            line += 1
            starts[line] = place + 1
    starts[count] = len(data)
    return starts


@compiled
def parse_lines(
    data: NDArray[np.uint8], starts: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Texts of all fields in one array, a state per line, and where field f of line n begins and ends: ``[f, n]``."""
    lines = len(starts) - 1
    text = np.empty(len(data) + 8, np.uint8)  # no escape is shorter than what it stands for
    state = np.empty(lines, np.uint8)
    begins, ends = np.zeros((3, lines), np.int64), np.zeros((3, lines), np.int64)
    kinds, size = np.zeros(3, np.int64), 0
    for line in range(lines):
        kinds[:] = ABSENT
        before = size
        state[line], size = _parse(data, starts[line], starts[line + 1], text, size, line, begins, ends, kinds)
        has_user = kinds[USER] == STRING or kinds[USER] == WHOLE
        if state[line] == READ and not (has_user and kinds[TIME] == STRING and kinds[QUERY] == STRING):
            state[line] = UNSURE
        if state[line] != READ:
            size = before
    return text, state, begins, ends


@compiled
def _skip(data: NDArray[np.uint8], at: int, end: int) -> int:
    while at < end and (data[at] == 32 or data[at] == 9 or data[at] == 13 or data[at] == 10):
        at += 1
    return at


@compiled
def _parse(
    data: NDArray[np.uint8],
    begin: int,
    end: int,
    text: NDArray[np.uint8],
    size: int,
    line: int,
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    kinds: NDArray[np.int64],
) -> tuple[int, int]:
    at = _skip(data, begin, end)
    if at == end:
        return BLANK, size
    if data[at] != _OPEN or not is_utf8(data, begin, end):
        return UNSURE, size
    at = _skip(data, at + 1, end)
    while at < end and data[at] == _QUOTE:
        key = at + 1
        at = key
        while at < end and data[at] != _QUOTE:
            if data[at] == _BACKSLASH or data[at] < 32:
                return UNSURE, size
            at += 1
        field = _field(data, key, at)
        at = _skip(data, at + 1, end)
        if at >= end or data[at] != _COLON:
            return UNSURE, size
        at = _skip(data, at + 1, end)
        if at >= end:
            return UNSURE, size
        first = size
        if data[at] == _QUOTE:
            at, size, kind = *_string(data, at + 1, end, text, size), STRING
        else:
            at, size, kind = _bare(data, at, end, text, size)
        if at == _FAIL:
            return UNSURE, size
        if field == OTHER:
            size = first
        else:
            begins[field, line], ends[field, line], kinds[field] = first, size, kind
        at = _skip(data, at, end)
        if at >= end:
            return UNSURE, size
        if data[at] == _COMMA:
            at = _skip(data, at + 1, end)
            if at < end and data[at] == _QUOTE:
                continue
            return UNSURE, size
        break
    if at >= end or data[at] != _CLOSE or _skip(data, at + 1, end) != end:
        return UNSURE, size
    return READ, size


@compiled
def _field(data: NDArray[np.uint8], begin: int, end: int) -> int:
    if end - begin == 4:
        if data[begin] == 117 and data[begin + 1] == 115 and data[begin + 2] == 101 and data[begin + 3] == 114:
            return USER
        if data[begin] == 116 and data[begin + 1] == 105 and data[begin + 2] == 109 and data[begin + 3] == 101:
            return TIME
    elif (
        end - begin == 5
        and data[begin] == 113
        and data[begin + 1] == 117
        and data[begin + 2] == 101
        and data[begin + 3] == 114
        and data[begin + 4] == 121
    ):
        return QUERY
    return OTHER


@compiled
def _string(data: NDArray[np.uint8], at: int, end: int, text: NDArray[np.uint8], size: int) -> tuple[int, int]:
    """Copy a string without its escapes; the place behind it (or _FAIL) and the size of ``text``."""
    while at < end:
        byte = data[at]
        if byte == _QUOTE:
            return at + 1, size
        if byte < 32:
            return _FAIL, size
        if byte != _BACKSLASH:
            text[size] = byte
            size += 1
            at += 1
            continue
        if at + 1 >= end:
            return _FAIL, size
        plain = _escaped(np.int64(data[at + 1]))
        if plain > 0:
            text[size] = plain
            size += 1
            at += 2
            continue
        code = _hexadecimal(data, at, end)
        if code < 0:
            return _FAIL, size
        at += 6
        if 0xD800 <= code <= 0xDBFF:
            low = _hexadecimal(data, at, end)
            if 0xDC00 <= low <= 0xDFFF:
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                at += 6
        if 0xD800 <= code <= 0xDFFF:
            code = 0xFFFD  # half of a pair: no character
        size = _encode(code, text, size)
    return _FAIL, size


@compiled
def _escaped(byte: int) -> int:
    """What stands for ``\\n`` and its like; 0 for ``\\u`` and everything that is not an escape."""
    if byte in (_QUOTE, _BACKSLASH, 47):
        return byte
    if byte == 110:
        return 10
    if byte == 116:
        return 9
    if byte == 114:
        return 13
    if byte == 98:
        return 8
    if byte == 102:
        return 12
    return 0


@compiled
def _hexadecimal(data: NDArray[np.uint8], at: int, end: int) -> int:
    """The code in ``\\uXXXX`` at ``at``, or −1."""
    if at + 6 > end or data[at] != _BACKSLASH or data[at + 1] != 117:
        return -1
    code = 0
    for place in range(at + 2, at + 6):
        byte = np.int64(data[place])
        if 48 <= byte <= 57:
            digit = byte - 48
        elif 97 <= byte <= 102:
            digit = byte - 87
        elif 65 <= byte <= 70:
            digit = byte - 55
        else:
            return -1
        code = 16 * code + digit
    return code


@compiled
def _encode(code: int, text: NDArray[np.uint8], size: int) -> int:
    if code < 0x80:
        text[size] = code
        return size + 1
    if code < 0x800:
        text[size], text[size + 1] = 0xC0 | code >> 6, 0x80 | code & 0x3F
        return size + 2
    if code < 0x10000:
        text[size], text[size + 1], text[size + 2] = 0xE0 | code >> 12, 0x80 | code >> 6 & 0x3F, 0x80 | code & 0x3F
        return size + 3
    text[size], text[size + 1] = 0xF0 | code >> 18, 0x80 | code >> 12 & 0x3F
    text[size + 2], text[size + 3] = 0x80 | code >> 6 & 0x3F, 0x80 | code & 0x3F
    return size + 4


@compiled
def _bare(data: NDArray[np.uint8], at: int, end: int, text: NDArray[np.uint8], size: int) -> tuple[int, int, int]:
    """A number or a literal: the place behind it (or _FAIL), the size of ``text``, and WHOLE or OTHER."""
    first = at
    if at < end and data[at] == 45:
        at += 1
    digits = at
    while at < end and 48 <= data[at] <= 57:
        at += 1
    if at > digits:
        if (data[digits] == 48 and at > digits + 1) or (at < end and (data[at] == 46 or data[at] | 32 == 101)):
            return _FAIL, size, OTHER
        for place in range(first, at):
            text[size] = data[place]
            size += 1
        return at, size, WHOLE
    for word in (b"true", b"false", b"null"):
        if first + len(word) <= end:
            same = True
            for place in range(len(word)):
                same &= data[first + place] == word[place]
            if same:
                return first + len(word), size, OTHER
    return _FAIL, size, OTHER
