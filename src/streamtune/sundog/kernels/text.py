"""How text becomes tokens: names and queries take the same way, so that they can meet.

Every character is replaced by its *folding*: compatibility decomposition (NFKD), case folding, decomposition again;
then accents (the combining diacritical marks) and invisible format characters are dropped, and everything that is
neither a letter, a digit nor a mark of a script that needs it (Devanagari's vowels, Arabic's points) becomes a space.
A token is what stands between spaces. So ``Å``, ``å`` and ``A`` are one token, as in the thesis, where villages of that
name meet the English article; ``Straße`` is ``strasse``; ``AT&T`` is two tokens; ``ø`` and ``ł``, which are letters
and not accented ones, stay what they are. Folding goes character by character: no language, no context.
"""

# mypy: disable-error-code="no-any-return, return-value, assignment, arg-type"
# numba compiles what is annotated int here, whichever NumPy integer comes out of an array.

from __future__ import annotations

import unicodedata
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamtune.sundog.kernels.compilation import compiled, inlined

SPACE = 0x20
TABLE_SIZE = 0x20000  # the planes in which scripts are; CJK extensions above are letters and fold to themselves
_LAST_IDEOGRAPH = 0x3FFFF
_ACCENT_BLOCKS = ((0x0300, 0x036F), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x20D0, 0x20FF), (0xFE20, 0xFE2F))
MOST_GROWTH = 11  # bytes of folding per byte of text, at most (ﷺ, which is a whole sentence)
BROKEN = -1  # what the kernel returns for bytes that are not UTF-8


class Folding(NamedTuple):
    """The foldings of all characters below ``TABLE_SIZE``: UTF-8 bytes ``pool[start[c]:start[c + 1]]``.

    That of an ASCII character is one byte, which stands once more in ``ascii``.
    """

    ascii: NDArray[np.uint8]
    start: NDArray[np.int32]
    pool: NDArray[np.uint8]


def fold(character: str) -> str:
    """The folding of one character.

    >>> fold("Å"), fold("ß"), fold("½"), fold("&")
    ('a', 'ss', '1 2', ' ')
    """
    if ord(character) >= TABLE_SIZE:
        return character if ord(character) <= _LAST_IDEOGRAPH else " "
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
    return "".join(map(_kept, decomposed))


def _kept(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Cf" or any(low <= ord(character) <= high for low, high in _ACCENT_BLOCKS):
        return ""
    return character if category[0] in "LNM" else " "


def normalise(text: str) -> str:
    """Tokens with one space between two.

    >>> normalise("  The Å–Film: FANTÔMAS! ")
    'the a film fantomas'
    """
    return " ".join("".join(map(fold, text)).split())


@cache
def folding() -> Folding:
    """The table, worked out once in a process (a fifth of a second)."""
    foldings = [
        b" " if 0xD800 <= code <= 0xDFFF else fold(chr(code)).encode("utf-8", "replace") for code in range(TABLE_SIZE)
    ]
    start = np.zeros(TABLE_SIZE + 1, np.int32)
    np.cumsum([len(folded) for folded in foldings], out=start[1:])
    pool = np.frombuffer(b"".join(foldings), np.uint8).copy()
    return Folding(pool[:128].copy(), start, pool)


@inlined
def fold_bytes(
    table: Folding, data: NDArray[np.uint8], begin: int, end: int, folded: NDArray[np.uint8], ends: NDArray[np.int32]
) -> int:
    """Fold UTF-8 ``data[begin:end]`` into ``folded``; ``ends`` gets the end of each token. The number of tokens.

    Tokens lie end to end in ``folded``: the first begins at 0, the next where the one before it ends.
    ``BROKEN`` where the bytes are not UTF-8. ``folded`` needs room for ``MOST_GROWTH`` bytes per byte.
    """
    tokens, size, token_begin, at = 0, 0, 0, begin
    while at < end:
        byte = data[at]
        if byte < 0x80:
            at += 1
            out = table.ascii[byte]
            if out != SPACE:
                folded[size] = out
                size += 1
            elif size > token_begin:
                ends[tokens] = size
                tokens += 1
                token_begin = size
            continue
        code, at = _decode(data, at, end)
        if code < 0:
            return BROKEN
        if code < TABLE_SIZE:
            for place in range(table.start[code], table.start[code + 1]):
                out = table.pool[place]
                if out != SPACE:
                    folded[size] = out
                    size += 1
                elif size > token_begin:
                    ends[tokens] = size
                    tokens += 1
                    token_begin = size
        elif code <= _LAST_IDEOGRAPH:
            for place in range(at - 4, at):
                folded[size] = data[place]
                size += 1
        elif size > token_begin:
            ends[tokens] = size
            tokens += 1
            token_begin = size
    if size > token_begin:
        ends[tokens] = size
        tokens += 1
    return tokens


@compiled
def _decode(data: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """The character that begins at ``at`` (not ASCII) and where the next begins; −1 for what is not UTF-8."""
    first = np.int64(data[at])
    if 0xC2 <= first <= 0xDF:
        size, code, least = 2, first & 0x1F, 0x80
    elif 0xE0 <= first <= 0xEF:
        size, code, least = 3, first & 0x0F, 0x800
    elif 0xF0 <= first <= 0xF4:
        size, code, least = 4, first & 0x07, 0x10000
    else:
        return -1, at
    if at + size > end:
        return -1, at
    for place in range(at + 1, at + size):
        following = np.int64(data[place])
        if following & 0xC0 != 0x80:
            return -1, at
        code = code << 6 | following & 0x3F
    if code < least or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        return -1, at
    return code, at + size


@compiled
def is_utf8(data: NDArray[np.uint8], begin: int, end: int) -> bool:
    at = begin
    while at < end:
        if data[at] < 0x80:
            at += 1
            continue
        code, at = _decode(data, at, end)
        if code < 0:
            return False
    return True
