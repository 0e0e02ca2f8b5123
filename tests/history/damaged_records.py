"""Run records damaged in every way, through the real ingest: each is stored as a run, or rejected with its place.

JSON lines, gzipped ones and Parquet. What is stored must be a run by the product's own type, which shares no code with
the rules of ingest; what is rejected must have its file, its position and a reason; and the two together must be all
that was written.
"""

from __future__ import annotations

import gzip
import io
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError
from pyspark.sql import SparkSession

from good_run import GOOD_RUN
from input_fuzz import changed, mutated
from streamtune.dataflow import Run
from streamtune.history.ingest import IngestReport, ingest
from streamtune.history.store import History

Record = dict[str, Any]


def damaged_line(draw: random.Random, name: str) -> bytes:
    """A record as one line that is not blank; some are sound."""
    record = {**GOOD_RUN, "run_id": name}
    if draw.random() < 0.7:
        return json.dumps(changed(record, draw)).encode()
    return mutated(json.dumps(record).encode(), draw).replace(b"\n", b" ").strip() or b"oops"


def damaged_parquet(draw: random.Random, name: str) -> bytes:
    """A file of a few records with hostile values, or with damaged bytes."""
    rows = [{**GOOD_RUN, "run_id": f"{name}-{n}"} for n in range(3)]
    if draw.random() < 0.6:
        rows[1] = changed(rows[1], draw)
    out = io.BytesIO()
    try:
        pq.write_table(pa.Table.from_pylist(rows), out, write_page_checksum=True)
    except (pa.ArrowException, OverflowError, AttributeError, TypeError, ValueError):  # nothing that Parquet can hold
        return damaged_parquet(draw, name)
    return out.getvalue() if draw.random() < 0.5 else mutated(out.getvalue(), draw)


def read_badly(spark: SparkSession, work: Path, draw: random.Random, *, lines: int, files: int) -> list[str]:
    """What is wrong with one ingest of so many lines in one file, and so many damaged gzip and Parquet files."""
    folder = work / "in"
    folder.mkdir(parents=True)
    written = [damaged_line(draw, f"run-{n}") for n in range(lines)]
    (folder / "lines.jsonl").write_bytes(b"\n".join(written))
    for n in range(files):
        packed = gzip.compress(json.dumps({**GOOD_RUN, "run_id": f"packed-{n}"}).encode() + b"\n", mtime=0)
        (folder / f"packed-{n}.jsonl.gz").write_bytes(mutated(packed, draw))
        (folder / f"typed-{n}.parquet").write_bytes(damaged_parquet(draw, f"typed-{n}"))
    history = History(spark, str(work / "history"))
    return _problems(history, ingest(history, [str(folder)]), written)


def _problems(history: History, report: IngestReport, written: list[bytes]) -> list[str]:
    rejected = [row.asDict() for row in history.rejected.read().collect()] if history.rejected.exists else []
    stored = [row.asDict(recursive=True) for row in history.runs.read().collect()] if history.runs.exists else []
    problems = [f"not a run: {row['run_id']!r}: {wrong}" for row in stored if (wrong := _wrong(row)) is not None]
    problems += [
        f"rejected without a reason or a place: {row}"
        for row in rejected
        if not row["reasons"] or not row["source_file"] or row["position"] < 0
    ]
    if report.rows_in != report.valid + report.rejected or report.valid != len(stored):
        problems.append(f"counts do not add up: {report}, {len(stored)} stored")
    return problems + _lines_lost(written, stored, rejected)


def _wrong(row: Record) -> str | None:
    fields = {key: value for key, value in row.items() if key not in ("day", "content_hash")}
    try:
        Run.model_validate({**fields, "observed_at": fields["observed_at"].isoformat() + "Z"})
    except ValidationError as error:
        return str(error.errors()[0])[:300]
    return None


def _lines_lost(written: list[bytes], stored: list[Record], rejected: list[Record]) -> list[str]:
    """Every line must be among the rejected ones by its position, or its run among the stored ones; never in both."""
    ids = Counter(row["run_id"] for row in stored)
    positions = Counter(row["position"] for row in rejected if row["source_file"].endswith("lines.jsonl"))
    problems = [f"line {position} is rejected {count} times" for position, count in positions.items() if count > 1]
    for position, line in enumerate(written, start=1):
        if not positions[position]:
            try:
                name = json.loads(line)["run_id"]
            except (ValueError, TypeError, KeyError) as error:
                problems.append(f"neither rejected nor a record (line {position}): {line[:200]!r}: {error}")
                continue
            if not ids[name]:
                problems.append(f"lost: line {position}, {name!r}: {line[:200]!r}")
            ids[name] -= 1
    twice = [name for name, left in ids.items() if left > 0 and not str(name).startswith(("packed-", "typed-"))]
    return [*problems, *(f"from nowhere: {name!r}" for name in twice)]
