"""Steps of the pipeline as real processes that are really killed, and their tables read without Spark or Hadoop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

LIMIT_S = 600.0
STREAMTUNE = ("-c", "from streamtune.cli import main; main()")


@dataclass(frozen=True)
class Ended:
    """How a process ended: killed or by itself, and how long it ran after it had announced its first progress."""

    killed: bool
    code: int
    after_first_s: float
    log: str


def run_step(
    arguments: Sequence[str],
    work: Path,
    announced: Callable[[str], bool],
    kill_after_s: float | None = None,
) -> Ended:
    """Run ``streamtune`` in a session of its own; kill it, JVM and Python workers included, so long after the start.

    ``announced`` looks at what the process has printed so far, or at the files it writes, for the first progress.
    """
    log = work / "step.log"
    scratch = work / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch), "COLUMNS": "200"}
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, *STREAMTUNE, *arguments],
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    first = killed = None
    deadline = time.monotonic() + LIMIT_S
    try:
        while process.poll() is None and time.monotonic() < deadline:
            now = time.monotonic()
            if first is None and announced(log.read_text(errors="replace")):
                first = now
            if first is not None and kill_after_s is not None and now - first >= kill_after_s:
                killed = True
                break
            time.sleep(0.005 if kill_after_s is not None else 0.02)
        ended = time.monotonic()
    finally:
        _kill_group(process)
    return Ended(bool(killed), process.returncode, ended - (first or ended), log.read_text(errors="replace"))


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the group, and to Spark's Python workers, which have a group of their own."""
    try:
        others = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        others = []
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for other in others:
        with suppress(psutil.NoSuchProcess):
            other.kill()
    process.wait()
    psutil.wait_procs(others, timeout=30)


def manifest_of(table: Path) -> dict[str, Any]:
    """The manifest that counts; empty where there is no table."""
    numbered = sorted((table / "_manifest").glob("[0-9]*.json")) if table.is_dir() else []
    return json.loads(numbered[-1].read_text()) if numbered else {}


def table_rows(table: Path) -> Counter[str]:
    """All rows of a table, each as text, however they lie in files; parts must hold as many as their manifest says."""
    rows: Counter[str] = Counter()
    manifest = manifest_of(table)
    for part in manifest.get("parts", ()):
        found = [text for file in sorted((table / f"part={part}").rglob("*.parquet")) for text in _rows_of(file, table)]
        assert len(found) == manifest["rows"][part], f"{table}/part={part}: {len(found)} rows, not {manifest['rows']}"
        rows.update(found)
    return rows


def _rows_of(file: Path, table: Path) -> list[str]:
    keys = dict(name.split("=", 1) for name in file.relative_to(table).parts[1:-1] if "=" in name)
    return [json.dumps({**row, **keys}, sort_keys=True, default=str) for row in pq.ParquetFile(file).read().to_pylist()]


# When and by which process an encoder was trained, and how long that took: no two runs agree on these.
OF_ONE_RUN = ("seconds", "trained_at", "trained_by")


def bundle_of(folder: Path) -> dict[str, Any] | None:
    """What a bundle says, every checksum proven, without what only one run can say; None where there is none.

    The checksums are of all files, so weights, warm-up data and priors are compared byte by byte.
    """
    from streamtune.models.bundle import ModelBundle

    if not folder.exists():
        return None
    manifest = ModelBundle.load(folder).manifest.model_dump(mode="json")
    members = [{name: member[name] for name in member if name not in OF_ONE_RUN} for member in manifest["members"]]
    return {**manifest, "members": members}


def leftovers(location: Path) -> list[str]:
    """What nobody needs any more: parts that no manifest names, staged rows, files and folders half written."""
    found = [path for path in (location / "_staging").glob("*") if not path.name.startswith(".")]
    for table in (path for path in location.iterdir() if (path / "_manifest").is_dir()):
        named = {
            part for file in (table / "_manifest").glob("[0-9]*.json") for part in json.loads(file.read_text())["parts"]
        }
        found += [path for path in table.glob("part=*") if path.name.removeprefix("part=") not in named]
        found += [path for path in (table / "_manifest").glob(".*") if not path.name.endswith(".crc")]
    found += [path for path in location.glob(".*") if not path.name.endswith(".crc")]
    return sorted(str(path.relative_to(location)) for path in found)
