"""The rules of ingest once more, in plain Python and without Spark, Hadoop or Arrow's kernels: a second opinion.

Nothing of ``streamtune`` is imported here. ``read_folder`` says what is in a folder; ``differences`` compares it with
what an ingest has stored.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Record = dict[str, Any]
RejectedRow = tuple[str, int, tuple[str, ...], str]

_NOT_READ = (".bz2", ".zst", ".lz4", ".snappy", ".deflate", ".xz", ".zip", ".7z", ".tar", ".tgz", ".rar")
_TEXT_FIELDS = ("run_id", "job", "engine", "observed_at")
_NUMBER_FIELDS = ("window_s", "latency_ms", "throughput_per_s")
_TIMES = ("busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s")
_RATES = ("records_in_per_s", "records_out_per_s")
_OPERATOR_TEXTS = (
    "id", "type", "window_type", "window_policy", "aggregate_function", "aggregate_class",
)  # fmt: skip
_OPERATOR_NUMBERS = (*_TIMES, *_RATES, "window_length", "window_slide", "tuple_width_in", "tuple_width_out")
_PARTITIONINGS = ("forward", "rebalance", "hash", "broadcast")


@dataclass(frozen=True)
class PlainRow:
    """One record as it was found. ``record`` is None where it could not be parsed."""

    file: str
    position: int
    raw: str
    record: Record | None
    reasons: tuple[str, ...]


@dataclass
class PlainFolder:
    """What a folder holds; ``salvaged`` are rows of damaged files, of which any first part may have been read."""

    files: int = 0
    rows: list[PlainRow] = field(default_factory=list)
    salvaged: dict[str, list[PlainRow]] = field(default_factory=dict)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    long_lines: dict[str, list[str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # by which a file is read, where links lead to it


def read_folder(folder: Path, max_line_bytes: int) -> PlainFolder:
    found = PlainFolder()
    for real, path in sorted(_files(folder).items()):
        found.files += 1
        found.names[real] = path
        name = os.path.basename(path)
        if name.lower().endswith(_NOT_READ) or _has_bad_colon(path) or not _is_clean(path) or not _is_ordinary(real):
            found.refused[_spelled(real), "unsupported_file"] += 1
        elif name.lower().endswith(".parquet"):
            _read_parquet(real, found)
        else:
            _read_text(real, name.lower().endswith(".gz"), max_line_bytes, found)
    return found


def _has_bad_colon(path: str) -> bool:
    """In a name, or in a folder if anything in the path could be meant as a pattern."""
    return ":" in os.path.basename(path) or (":" in path and any(letter in path for letter in "\\[]{}*?^"))


def _files(folder: Path) -> dict[str, str]:
    """Real path → shortest path of every file that is not hidden; one that Java can spell goes before any other."""
    names: dict[str, str] = {}
    seen: set[str] = set()
    waiting = [str(folder)]
    while waiting:
        place = waiting.pop()
        if os.path.realpath(place) in seen:
            continue
        seen.add(os.path.realpath(place))
        for entry in os.scandir(place):
            if entry.name.startswith((".", "_")) or not os.path.exists(entry.path):  # hidden, or a link to nowhere
                continue
            if entry.is_dir():
                waiting.append(entry.path)
                continue
            real = os.path.realpath(entry.path)
            both = (names.get(real, entry.path), entry.path)
            names[real] = min(both, key=lambda path: (not _is_clean(path), len(path), path))
    return names


def _is_clean(path: str) -> bool:
    """Java cannot open a file whose name is not UTF-8."""
    return not any(0xDC80 <= ord(letter) <= 0xDCFF for letter in path)


def _spelled(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _is_ordinary(path: str) -> bool:
    return stat.S_ISREG(os.stat(path).st_mode)


def _read_parquet(path: str, found: PlainFolder) -> None:
    try:
        table = pq.read_table(pa.BufferReader(Path(path).read_bytes()), page_checksum_verification=True)
    except (pa.ArrowException, OSError, ValueError):
        found.refused[path, "unreadable_file"] += 1
        return
    for position, row in enumerate(table.to_pylist(), start=1):
        # How a row of Parquet is written down as text is the ingest's own business.
        found.rows.append(replace(_row(path, position, json.dumps(_without_nulls(row)).encode()), raw=""))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _read_text(path: str, is_gzip: bool, max_line_bytes: int, found: PlainFolder) -> None:
    content, whole = Path(path).read_bytes(), True
    if is_gzip:
        content, whole = _gunzip(content)
    rows, too_long = [], []
    for position, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if len(line) > max_line_bytes:
            too_long.append(line.decode("utf-8", errors="replace"))
        elif line.strip():
            rows.append(_row(path, position, line))
    if whole:
        found.rows += rows
    else:
        found.salvaged[path] = rows
        found.refused[path, "unreadable_file"] += 1
    if too_long and whole:
        found.refused[path, "line_too_long"] += 1
        found.long_lines[path] = too_long


def _gunzip(content: bytes) -> tuple[bytes, bool]:
    """Everything that can be decompressed, and whether that is all."""
    parts = []
    while content:
        member = zlib.decompressobj(wbits=31)
        for byte in (content[at : at + 1] for at in range(len(content))):
            try:
                parts.append(member.decompress(byte))
            except zlib.error:
                return b"".join(parts), False
            if member.eof:
                break
        if not member.eof:
            return b"".join(parts), False
        content = content[len(content) - _left(content) :]
    return b"".join(parts), True


def _left(content: bytes) -> int:
    """How many bytes come after the first gzip member."""
    member = zlib.decompressobj(wbits=31)
    member.decompress(content)
    return len(member.unused_data)


def _row(path: str, position: int, line: bytes) -> PlainRow:
    raw = line.rstrip(b"\r")
    text = raw.decode("utf-8", errors="replace")
    try:
        record = json.loads(raw.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError, ValueError):
        return PlainRow(path, position, text, None, ("broken_json",))
    if not isinstance(record, dict) or not _types_fit(record):
        return PlainRow(path, position, text, None, ("wrong_type",))
    return PlainRow(path, position, text, record, tuple(sorted(set(_reasons(record)))))


def _types_fit(run: Record) -> bool:
    def is_number(value: Any) -> bool:
        return value is None or (isinstance(value, int | float) and not isinstance(value, bool))

    def is_whole(value: Any) -> bool:
        return value is None or (is_number(value) and isinstance(value, int) and -(2**31) <= value < 2**31)

    def is_text(value: Any) -> bool:
        return value is None or isinstance(value, str)

    operators, edges, rates = run.get("operators") or [], run.get("edges") or [], run.get("source_rates") or {}
    if not isinstance(operators, list) or not isinstance(edges, list) or not isinstance(rates, dict):
        return False
    if not all(isinstance(one, dict) for one in (*operators, *edges)):
        return False
    return (
        all(is_text(run.get(name)) for name in _TEXT_FIELDS)
        and _is_time(run.get("observed_at"))
        and is_whole(run.get("schema_version"))
        and all(is_number(run.get(name)) for name in _NUMBER_FIELDS)
        and all(is_number(rate) for rate in rates.values())
        and all(is_text(one.get(name)) for one in operators for name in _OPERATOR_TEXTS)
        and all(is_number(one.get(name)) for one in operators for name in _OPERATOR_NUMBERS)
        and all(is_whole(one.get("parallelism")) for one in operators)
        and all(is_text(one.get(name)) for one in edges for name in ("source", "target", "partitioning"))
    )


def _is_time(value: str | None) -> bool:
    if value is None:
        return True
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _reasons(run: Record) -> Iterator[str]:
    operators, edges = run.get("operators") or [], run.get("edges") or []
    rates = run.get("source_rates") or {}
    needed = ("run_id", "job", "engine", "observed_at", "window_s", "source_rates", "operators", "edges")
    if any(run.get(name) in (None, "") for name in needed) or any(
        one.get(name) in (None, "") for one in operators for name in ("id", "type")
    ):
        yield "missing_field"
    if run.get("schema_version", 1) not in (None, 1, 2):
        yield "unknown_schema_version"
    if edges if run.get("operators") is None else _is_no_dag(operators, edges):
        yield "invalid_dag"
    if not all(map(_features_fit, operators)) or any(
        edge.get("partitioning", "hash") not in _PARTITIONINGS for edge in edges
    ):
        yield "invalid_feature"
    if any((one.get("parallelism") or 0) < 1 for one in operators):
        yield "invalid_parallelism"
    measured = [one.get(name) for one in operators for name in (*_TIMES, *_RATES)]
    if any(map(_is_bad_metric, [*measured, run.get("latency_ms"), run.get("throughput_per_s"), *rates.values()])):
        yield "invalid_metric"
    yield from _flow_reasons(operators, edges)
    sources = {one.get("id") for one in operators if one.get("type") == "source"}
    if any(rates.get(source) is None for source in sources):
        yield "missing_source_rate"
    if set(rates) - sources:
        yield "unknown_source"
    given = [rate for rate in rates.values() if rate is not None]
    if given and not any(given):
        yield "zero_source_rate"
    if run.get("throughput_per_s") == 0 and not any((one.get("records_out_per_s") or 0) > 0 for one in operators):
        yield "zero_throughput"
    window = run.get("window_s")
    if window is not None and not (window >= 10 and math.isfinite(window)):
        yield "window_too_short"


def _features_fit(one: Record) -> bool:
    kind, window, length, slide = (one.get(name) for name in ("type", "window_type", "window_length", "window_slide"))
    if kind and not re.fullmatch("[a-z][a-z0-9_]*", kind):
        return False
    if window not in (None, "sliding", "tumbling") or one.get("window_policy") not in (None, "time", "count"):
        return False
    if (length is None and window) or (length is not None and not 0 < length < math.inf):
        return False
    if slide is not None and not (length is not None and 0 < slide <= length):
        return False
    return not window or (slide is not None) == (window == "sliding")


def _flow_reasons(operators: list[Record], edges: list[Record]) -> Iterator[str]:
    for one in operators:
        times = [one.get(name) for name in _TIMES]
        if None not in times and abs(sum(map(float, times)) - 1000) > 50:  # type: ignore[arg-type]
            yield "times_do_not_add_up"
        taken = one.get("records_in_per_s")
        senders = [
            other for edge in edges if edge.get("target") == one.get("id")
            for other in operators if other.get("id") == edge.get("source")
        ]  # fmt: skip
        sent = [other.get("records_out_per_s") for other in senders]
        if one.get("type") != "source" and taken is not None and None not in sent and taken > sum(sent) * 1.2 + 1:
            yield "inconsistent_flow"


def _is_no_dag(operators: list[Record], edges: list[Record]) -> bool:
    ids = [one.get("id") for one in operators if one.get("id") is not None]
    pairs = [(edge.get("source"), edge.get("target")) for edge in edges]
    if len(set(ids)) < len(ids) or len(set(pairs)) < len(pairs):
        return True
    if any(source == target or source not in ids or target not in ids for source, target in pairs):
        return True
    sources = {one.get("id") for one in operators if one.get("type") == "source"}
    targets = {target for _, target in pairs}
    if not sources or sources & targets or set(ids) - sources - targets:
        return True
    left = list(pairs)
    while left:
        ahead = [pair for pair in left if pair[0] in {target for _, target in left}]
        if len(ahead) == len(left):
            return True
        left = ahead
    return False


def _is_bad_metric(value: float | None) -> bool:
    return value is not None and not 0 <= _as_float(value) < math.inf


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


@dataclass(frozen=True)
class Stored:
    """What an ingest has written: runs by id, and (real path, position, reasons, raw) of what was rejected."""

    runs: dict[str, Record]
    rejected: list[RejectedRow]


def differences(plain: PlainFolder, stored: Stored) -> list[str]:
    """What the ingest has done otherwise than the rules say; nothing, if all is well."""
    problems = []
    refused = Counter(
        (path, reason) for path, position, reasons, _ in stored.rejected if not position for reason in reasons
    )
    if refused != plain.refused:
        problems.append(
            f"rejected files: expected {dict(plain.refused - refused)}, got {dict(refused - plain.refused)}"
        )
    rows = plain.rows + _read_of_damaged(plain, stored)
    expected, expected_runs = _judged(rows, stored, plain.names)
    rejected = Counter(_placed(row, plain) for row in stored.rejected if row[1] and not _is_piece(row, plain))
    # Several rows of a file with a skipped line may become one entry here: they are counted, not put over each other.
    expected_rejected = Counter(_placed(row, plain) for row in expected.elements())
    wrong, missing = rejected - expected_rejected, expected_rejected - rejected
    problems += [f"rejected, but should not be so: {row}" for row in list(wrong)[:5]]
    problems += [f"should be rejected: {row}" for row in list(missing)[:5]]
    problems += [f"lost: {run_id!r}" for run_id in sorted(set(expected_runs) - set(stored.runs))[:5]]
    problems += [f"from nowhere: {run_id!r}" for run_id in sorted(set(stored.runs) - set(expected_runs))[:5]]
    for run_id in set(stored.runs) & set(expected_runs):
        if _plain(stored.runs[run_id]) != expected_runs[run_id]:
            problems.append(f"altered: {run_id!r}: {_plain(stored.runs[run_id])} instead of {expected_runs[run_id]}")
    return problems


def _placed(row: RejectedRow, plain: PlainFolder) -> RejectedRow:
    """Without its position, if a line of its file was skipped: lines after that one are counted as they are read."""
    return (row[0], -1, *row[2:]) if row[0] in plain.long_lines else row


def _is_piece(row: RejectedRow, plain: PlainFolder) -> bool:
    """Where a line above the limit goes over the end of a block, its rest is read as a line of its own: no JSON."""
    return row[2] == ("broken_json",) and any(row[3] in line for line in plain.long_lines.get(row[0], []))


def _read_of_damaged(plain: PlainFolder, stored: Stored) -> list[PlainRow]:
    """Of a damaged file a first part was read, perhaps with a line cut off at its end: which rows are these?"""
    rows: list[PlainRow] = []
    taken = _kept_of_whole(plain, stored)
    for path, salvaged in plain.salvaged.items():
        seen = {
            position: (reasons, raw) for file, position, reasons, raw in stored.rejected if file == path and position
        }
        for row in salvaged:
            known = (row.record or {}).get("run_id")
            kept = known in stored.runs and known not in taken and not row.reasons
            if row.position in seen and seen[row.position][1] == row.raw:
                rows.append(row)
            elif row.position in seen:  # cut off
                rows.append(PlainRow(path, row.position, seen[row.position][1], None, ("broken_json",)))
                break
            elif kept and _plain(stored.runs[known]) == _expected(row.record or {}):
                rows.append(row)
                taken.add(known)
            else:
                break
    return rows


def _kept_of_whole(plain: PlainFolder, stored: Stored) -> set[Any]:
    """Runs of which a whole file has a row that was not rejected: another such row was not kept, so it was not read."""
    sound = [row for row in plain.rows if row.record and not row.reasons]
    rejected = Counter(_spot(row[0], row[1], row[3], plain) for row in stored.rejected)
    found = Counter(_spot(row.file, row.position, row.raw, plain) for row in sound)
    left = found - rejected
    return {(row.record or {}).get("run_id") for row in sound if left[_spot(row.file, row.position, row.raw, plain)]}


def _spot(file: str, position: int, raw: str, plain: PlainFolder) -> tuple[str, int, str]:
    """Where a row is: by its position, or by its text where positions are not exact."""
    return (file, -1, raw) if file in plain.long_lines else (file, position, "")


def _judged(
    rows: list[PlainRow], stored: Stored, names: Mapping[str, str]
) -> tuple[Counter[RejectedRow], dict[str, Record]]:
    """What must be rejected and what kept. Of conflicting sound runs any may be kept, but only one."""
    groups: dict[str, list[PlainRow]] = defaultdict(list)
    rejected: Counter[RejectedRow] = Counter()
    runs: dict[str, Record] = {}
    for row in rows:
        run_id = None if row.record is None else row.record.get("run_id")
        if run_id is None:
            rejected[_as_rejected(row)] += 1
        else:
            groups[run_id].append(row)
    for run_id, group in groups.items():
        kept = _kept(run_id, group, stored, names)
        for row in group:
            same = _expected(row.record or {}) == _expected(kept.record or {})
            if row is not kept:
                rejected[_as_rejected(row, "duplicate" if same else "conflicting_duplicate")] += 1
            elif row.reasons:
                rejected[_as_rejected(row)] += 1
            else:
                runs[run_id] = _expected(row.record or {})
    return rejected, runs


def _kept(run_id: str, group: list[PlainRow], stored: Stored, names: Mapping[str, str]) -> PlainRow:
    """A sound one goes before an unsound one; which of several contents wins is the ingest's own choice.

    Of equal ones the first stays, in the order of the names by which files are read.
    """
    candidates = [row for row in group if not row.reasons] or group
    if run_id in stored.runs:
        chosen = [row for row in candidates if _expected(row.record or {}) == _plain(stored.runs[run_id])]
    else:
        alone = {(path, position) for path, position, reasons, _ in stored.rejected if not _DOUBLE & set(reasons)}
        chosen = [row for row in candidates if (row.file, row.position) in alone]
    return min(chosen or candidates, key=lambda row: (_address(names.get(row.file, row.file)), row.position))


_DOUBLE = {"duplicate", "conflicting_duplicate"}


def _address(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _as_rejected(row: PlainRow, *more: str) -> RejectedRow:
    return (row.file, row.position, tuple(sorted({*row.reasons, *more})), row.raw)


def _expected(record: Record) -> Record:
    """A record as it should come out: without nulls, with defaults, numbers as floats."""
    edges = [{"partitioning": "rebalance", **_without_nulls(edge)} for edge in record.get("edges") or []]
    version = 1 if record.get("schema_version") is None else record["schema_version"]
    return _plain({**record, "schema_version": version, "edges": edges})


def _plain(record: Record) -> Record:
    time = record.get("observed_at")
    known = {name: value for name, value in record.items() if name in _KNOWN and value is not None}
    if isinstance(time, str) and _is_time(time):
        known["observed_at"] = datetime.fromisoformat(time)
    return {name: _float(_without_nulls(value)) for name, value in known.items()}


_KNOWN = {
    "schema_version", *_TEXT_FIELDS, *_NUMBER_FIELDS, "source_rates", "operators", "edges",
}  # fmt: skip


def _float(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _float(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_float(item) for item in value]
    if isinstance(value, datetime):
        return value.timestamp()
    return _as_float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def stored_of(runs: Iterable[Record], rejected: Iterable[tuple[str, int, list[str], str]]) -> Stored:
    """Of rows as Spark gives them; addresses become real paths."""
    by_id = {row["run_id"]: row for row in runs}
    lost = [
        (
            os.path.realpath(file.removeprefix("file:")),
            position,
            tuple(sorted(reasons)),
            "" if file.endswith(".parquet") else raw,
        )
        for file, position, reasons, raw in rejected
    ]
    return Stored(by_id, lost)
