"""Log files to lines: users as coupons, times as days, queries as bytes, and whatever is broken with its reason.

Two formats, told apart by their names: Parquet (``*.parquet``) and JSON lines (everything else, gzipped if it ends in
``.gz``). A file is read in *slices*, whole row groups or ranges of bytes; a line belongs to the slice in which it
begins. Blank lines are no lines.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from streamtune.frozen import Frozen
from streamtune.sundog.kernels import json_lines
from streamtune.sundog.kernels.compilation import read_only
from streamtune.sundog.kernels.scanning import coupons_of, days_of
from streamtune.sundog.kernels.times import UNSURE, day_of
from streamtune.sundog.storage import locate, read_bytes, read_compressed, size_of

NOT_JSON, NOT_UTF8, NO_USER, NO_TIME, NO_QUERY = "not_json", "not_utf8", "no_user", "no_time", "no_query"
BAD_TIME, UNREADABLE_FILE, MISSING_COLUMN, WRONG_TYPE = "bad_time", "unreadable_file", "missing_column", "wrong_type"
COLUMNS = ("user", "time", "query")
_ROW_BYTES = 90  # of a line of JSON, roughly
_RAW_KEPT = 500  # characters of a broken line that go to quarantine


class Slice(Frozen):
    """A part of a file: bytes ``begin`` to ``end``, or row groups. ``end`` −1 is the whole (compressed) file."""

    path: str
    parquet: bool
    begin: int
    end: int
    first_row: int = 0
    weight: int = 1  # about as many bytes of JSON lines


@dataclass(frozen=True)
class Reject:
    """A line that cannot be used. ``position`` is its first byte in the (decompressed) file, or its row, from 0."""

    file: str
    position: int
    reason: str
    raw: str


@dataclass
class Lines:
    """Lines that can be used, column by column; a query is ``data[begin:end]``. ``read`` counts the rejects too."""

    coupons: NDArray[np.uint32]
    days: NDArray[np.int32]
    data: NDArray[np.uint8]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    positions: NDArray[np.int64]
    read: int
    rejects: list[Reject] = field(default_factory=list)


def plan_slices(files: Iterable[str], slice_bytes: int, slice_rows: int) -> tuple[list[Slice], list[Reject]]:
    """Slices of about the wanted size, and the files of which nothing can be read."""
    slices: list[Slice] = []
    rejects: list[Reject] = []
    for path in files:
        try:
            if path.lower().endswith(".parquet"):
                slices.extend(_parquet_slices(path, slice_rows))
            elif path.lower().endswith(".gz"):
                slices.append(Slice(path=path, parquet=False, begin=0, end=-1, weight=6 * size_of(path)))
            else:
                size = size_of(path)
                slices.extend(
                    Slice(path=path, parquet=False, begin=begin, end=min(size, begin + slice_bytes), weight=slice_bytes)
                    if begin + slice_bytes <= size
                    else Slice(path=path, parquet=False, begin=begin, end=size, weight=size - begin)
                    for begin in range(0, size, slice_bytes)
                )
        except (OSError, pa.ArrowInvalid) as error:
            rejects.append(Reject(path, 0, UNREADABLE_FILE, str(error)[:_RAW_KEPT]))
    return slices, rejects


def _parquet_slices(path: str, slice_rows: int) -> list[Slice]:
    system, inside = locate(path)
    metadata = pq.read_metadata(inside, filesystem=system)
    slices, begin, rows, before = [], 0, 0, 0
    for group in range(metadata.num_row_groups):
        rows += metadata.row_group(group).num_rows
        if rows >= slice_rows or group == metadata.num_row_groups - 1:
            slices.append(
                Slice(path=path, parquet=True, begin=begin, end=group + 1, first_row=before, weight=_ROW_BYTES * rows)
            )
            begin, before, rows = group + 1, before + rows, 0
    return slices


def group_slices(slices: Sequence[Slice], most: int, tasks: int) -> list[list[Slice]]:
    """Slices in groups of about ``most`` bytes at the most, as even as they can be, the heaviest group first.

    The number of groups is a multiple of ``tasks``, which run at the same time: three even groups on two cores would
    take as long as four. A slice goes, largest first, to the group that is lightest so far.

    >>> parts = [Slice(path=str(n), parquet=False, begin=0, end=10, weight=10) for n in range(6)]
    >>> [len(group) for group in group_slices(parts, most=1000, tasks=2)]
    [3, 3]
    >>> [len(group) for group in group_slices(parts, most=16, tasks=2)]
    [2, 2, 1, 1]
    """
    tasks = max(1, tasks)
    rounds = -(-sum(part.weight for part in slices) // (max(1, most) * tasks))
    count = min(len(slices), max(1, rounds) * tasks)
    lightest = [(0, number) for number in range(count)]
    groups: list[list[int]] = [[] for _ in range(count)]
    for place in sorted(range(len(slices)), key=lambda place: -slices[place].weight):
        weight, number = heapq.heappop(lightest)
        groups[number].append(place)
        heapq.heappush(lightest, (weight + slices[place].weight, number))
    heaviest = sorted(lightest, key=lambda group: (-group[0], group[1]))
    return [[slices[place] for place in sorted(groups[number])] for _, number in heaviest]


def read_slice(part: Slice) -> Lines:
    """The lines of a slice; a file that cannot be read is one reject."""
    try:
        return _read_parquet(part) if part.parquet else _read_json(part)
    except (OSError, pa.ArrowException, EOFError) as error:
        return _rejected(part, UNREADABLE_FILE, str(error))


def _rejected(part: Slice, reason: str, text: str) -> Lines:
    nothing = np.empty(0, np.int64)
    rejects = [Reject(part.path, part.first_row if part.parquet else part.begin, reason, text[:_RAW_KEPT])]
    data = read_only(np.empty(0, np.uint8))
    return Lines(
        nothing.astype(np.uint32), nothing.astype(np.int32), data, nothing, nothing, nothing, read=1, rejects=rejects
    )


# --- JSON lines


def _read_json(part: Slice) -> Lines:
    raw, offset = _bytes_of(part)
    data = read_only(np.frombuffer(raw, np.uint8))
    starts = json_lines.line_starts(data)
    text, state, begins, ends = json_lines.parse_lines(data, starts)
    rejects: list[Reject] = []
    extra: list[bytes] = []
    size = len(text)
    for line in np.flatnonzero(state == json_lines.UNSURE):
        content = raw[starts[line] : starts[line + 1]]
        fields, reason = parse_line(content)
        if reason is not None:
            shown = content[:_RAW_KEPT].decode("utf-8", "replace").rstrip("\r\n")
            rejects.append(Reject(part.path, offset + int(starts[line]), reason, shown))
            continue
        for number, value in enumerate(fields):
            begins[number, line], ends[number, line] = size, size + len(value)
            size += len(value)
        extra.extend(fields)
        state[line] = json_lines.READ
    if extra:
        text = np.concatenate([text, np.frombuffer(b"".join(extra), np.uint8)])
    text = read_only(text)
    usable = np.flatnonzero(state == json_lines.READ)
    begins, ends = begins[:, usable], ends[:, usable]
    days = days_of(text, begins[json_lines.TIME], ends[json_lines.TIME])
    lines = Lines(
        coupons_of(text, begins[json_lines.USER], ends[json_lines.USER]),
        days,
        text,
        begins[json_lines.QUERY],
        ends[json_lines.QUERY],
        offset + starts[usable],
        read=len(usable) + len(rejects),
        rejects=rejects,
    )
    times = [(n, text[begins[json_lines.TIME, n] : ends[json_lines.TIME, n]].tobytes()) for n in _unsure(days)]
    users = begins[json_lines.USER] == ends[json_lines.USER]

    def raw_of(line: int) -> str:
        place = usable[line]
        return raw[starts[place] : starts[place + 1]][:_RAW_KEPT].decode("utf-8", "replace").rstrip("\r\n")

    return _without_broken(lines, part.path, times, users, raw_of)


def _bytes_of(part: Slice) -> tuple[bytes, int]:
    """The bytes of all lines that begin in the slice, and where the first of them stands in the file."""
    if part.end < 0:
        raw = read_compressed(part.path)
        return raw.removeprefix(b"\xef\xbb\xbf"), 3 if raw.startswith(b"\xef\xbb\xbf") else 0
    raw = read_bytes(part.path, max(0, part.begin - 1), part.end)
    if part.begin == 0:
        offset = 3 if raw.startswith(b"\xef\xbb\xbf") else 0
        raw = raw[offset:]
    else:  # what precedes the first line feed belongs to the slice before
        cut = raw.find(b"\n")
        if cut < 0:
            return b"", part.begin
        raw, offset = raw[cut + 1 :], part.begin + cut
    if not raw or raw.endswith(b"\n"):
        return raw, offset
    rest, at, step = [], part.end, 1 << 16
    while True:  # the last line ends in a later slice
        piece = read_bytes(part.path, at, at + step)
        cut = piece.find(b"\n")
        rest.append(piece if cut < 0 else piece[: cut + 1])
        if cut >= 0 or len(piece) < step:
            return raw + b"".join(rest), offset
        at += step


def parse_line(content: bytes) -> tuple[Sequence[bytes], str | None]:
    """User, time and query of one line by Python's parser, or why it has none."""
    try:
        record = json.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        return (), NOT_UTF8
    except (ValueError, RecursionError):
        return (), NOT_JSON
    if not isinstance(record, dict):
        return (), NOT_JSON
    user, time, query = (record.get(column) for column in COLUMNS)
    if isinstance(user, int) and not isinstance(user, bool):
        user = str(user)
    for value, reason in ((user, NO_USER), (time, NO_TIME), (query, NO_QUERY)):
        if not isinstance(value, str):
            return (), reason if value is None else WRONG_TYPE
    return [str(value).encode("utf-8", "replace") for value in (user, time, query)], None


def _unsure(days: NDArray[np.int32]) -> NDArray[np.int64]:
    return np.flatnonzero(days == UNSURE)


def _without_broken(
    lines: Lines, path: str, times: list[tuple[int, bytes]], empty_users: NDArray[np.bool_], raw_of: Any
) -> Lines:
    """Ask Python about times the kernel was not sure of; sort out what remains broken, and lines without a user."""
    reasons: dict[int, str] = {}
    for line, text in times:
        day = day_of(text.decode("utf-8", "replace"))
        if day is None:
            reasons[int(line)] = BAD_TIME
        else:
            lines.days[line] = day
    reasons.update(dict.fromkeys(map(int, np.flatnonzero(empty_users)), NO_USER))
    if not reasons:
        return lines
    rejects = [Reject(path, int(lines.positions[n]), reason, raw_of(n)) for n, reason in sorted(reasons.items())]
    kept = np.ones(len(lines.days), bool)
    kept[list(reasons)] = False
    return Lines(
        lines.coupons[kept],
        lines.days[kept],
        lines.data,
        lines.begins[kept],
        lines.ends[kept],
        lines.positions[kept],
        lines.read,
        lines.rejects + rejects,
    )


# --- Parquet


def _read_parquet(part: Slice) -> Lines:
    system, inside = locate(part.path)
    with pq.ParquetFile(inside, filesystem=system) as file:
        absent = [column for column in COLUMNS if column not in file.schema_arrow.names]
        if absent:
            return _rejected(part, MISSING_COLUMN, ", ".join(absent))
        table = file.read_row_groups(range(part.begin, part.end), columns=list(COLUMNS), use_threads=False)
    try:
        users, queries = _texts(table["user"]), _texts(table["query"])
        days, unsure = _days(table["time"])
    except pa.ArrowException as error:
        return _rejected(part, WRONG_TYPE, str(error))
    broken = np.zeros(table.num_rows, bool)
    rejects: list[Reject] = []
    for column, reason in (("query", NO_QUERY), ("time", NO_TIME), ("user", NO_USER)):
        if table[column].null_count:
            null = table[column].is_null().to_numpy()
            rejects.extend(_parquet_reject(part, table, int(row), reason) for row in np.flatnonzero(null & ~broken))
            broken |= null
    kept = np.flatnonzero(~broken)
    lines = Lines(
        coupons_of(users[0], users[1][kept], users[2][kept]),
        days[kept],
        queries[0],
        queries[1][kept],
        queries[2][kept],
        part.first_row + kept,
        read=table.num_rows,
        rejects=rejects,
    )
    back = np.full(table.num_rows, -1)
    back[kept] = np.arange(len(kept))
    times = [(int(back[row]), text) for row, text in unsure if back[row] >= 0]
    empty = users[1][kept] == users[2][kept]

    def raw_of(line: int) -> str:
        return _parquet_reject(part, table, int(kept[line]), "").raw

    return _without_broken(lines, part.path, times, empty, raw_of)


def _parquet_reject(part: Slice, table: pa.Table, row: int, reason: str) -> Reject:
    values = {column: table[column][row].as_py() for column in COLUMNS}
    return Reject(part.path, part.first_row + row, reason, json.dumps(values, default=str)[:_RAW_KEPT])


def _texts(column: pa.ChunkedArray) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Bytes of a column of texts (or whole numbers), and where each begins and ends."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        if not pa.types.is_integer(column.type):
            raise pa.ArrowInvalid(f"expected texts, but got {column.type}")
        column = column.cast(pa.string())
    array = column.cast(pa.large_string()).combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], pa.large_string())
    _, offsets, data = array.buffers()
    starts = (
        np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
        if offsets
        else np.zeros(1, np.int64)
    )
    content = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
    return read_only(content), starts[:-1].copy(), starts[1:].copy()


def _days(column: pa.ChunkedArray) -> tuple[NDArray[np.int32], list[tuple[int, bytes]]]:
    """Days of a column of timestamps, dates or ISO 8601 texts, and the texts the kernel was not sure of."""
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        utc = column.cast(pa.timestamp("us", "UTC"), safe=False) if getattr(column.type, "tz", None) else column
        days = pc.fill_null(utc.cast(pa.timestamp("us"), safe=False).cast(pa.int64()), 0).to_numpy() // 86_400_000_000
        return days.astype(np.int32), []
    if pa.types.is_integer(column.type):
        raise pa.ArrowInvalid(f"expected ISO 8601 texts or timestamps, but got {column.type}")
    data, begins, ends = _texts(column)
    days = days_of(data, begins, ends)
    return days, [(int(row), data[begins[row] : ends[row]].tobytes()) for row in _unsure(days)]
