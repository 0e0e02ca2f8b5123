"""What an ingest has stored against what the plain reader has found; nothing of ``streamtune`` is imported here."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from history.plain_reader import (
    NUMBER_FIELDS,
    TEXT_FIELDS,
    PlainFolder,
    PlainRow,
    Record,
    as_float,
    is_time,
    without_nulls,
)

RejectedRow = tuple[str, int, tuple[str, ...], str]


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
    edges = [{"partitioning": "rebalance", **without_nulls(edge)} for edge in record.get("edges") or []]
    version = 1 if record.get("schema_version") is None else record["schema_version"]
    return _plain({**record, "schema_version": version, "edges": edges})


def _plain(record: Record) -> Record:
    time = record.get("observed_at")
    known = {name: value for name, value in record.items() if name in _KNOWN and value is not None}
    if isinstance(time, str) and is_time(time):
        known["observed_at"] = datetime.fromisoformat(time)
    return {name: _float(without_nulls(value)) for name, value in known.items()}


_KNOWN = {
    "schema_version", *TEXT_FIELDS, *NUMBER_FIELDS, "source_rates", "operators", "edges",
}  # fmt: skip


def _float(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _float(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_float(item) for item in value]
    if isinstance(value, datetime):
        return value.timestamp()
    return as_float(value) if isinstance(value, int) and not isinstance(value, bool) else value


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
