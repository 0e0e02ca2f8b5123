"""The rules of ingest once more, in plain Python and without Spark, Hadoop or Arrow's kernels: a second opinion.

Nothing of ``streamtune`` is imported here. ``read_folder`` says what is in a folder; ``plain_comparison`` compares it
with what an ingest has stored.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Record = dict[str, Any]

_NOT_READ = (".bz2", ".zst", ".lz4", ".snappy", ".deflate", ".xz", ".zip", ".7z", ".tar", ".tgz", ".rar")
TEXT_FIELDS = ("run_id", "job", "engine", "observed_at")
NUMBER_FIELDS = ("window_s", "latency_ms", "throughput_per_s")
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
        found.rows.append(replace(_row(path, position, json.dumps(without_nulls(row)).encode()), raw=""))


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


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
        all(is_text(run.get(name)) for name in TEXT_FIELDS)
        and is_time(run.get("observed_at"))
        and is_whole(run.get("schema_version"))
        and all(is_number(run.get(name)) for name in NUMBER_FIELDS)
        and all(is_number(rate) for rate in rates.values())
        and all(is_text(one.get(name)) for one in operators for name in _OPERATOR_TEXTS)
        and all(is_number(one.get(name)) for one in operators for name in _OPERATOR_NUMBERS)
        and all(is_whole(one.get("parallelism")) for one in operators)
        and all(is_text(one.get(name)) for one in edges for name in ("source", "target", "partitioning"))
    )


def is_time(value: str | None) -> bool:
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
    return value is not None and not 0 <= as_float(value) < math.inf


def as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
