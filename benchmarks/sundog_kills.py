"""``make bench-sundog-kills``: kill −9 of Sundog's stream at 20 random moments; its tables must equal the batch's.

The stream runs as a process of its own, one file per micro-batch, windows of 2 and 7 days. Before every start three
files arrive, with lines of all days (so most are late) and a broken one; at a moment drawn by the seed the whole
session is killed, JVM included. After the last kill it runs to its end, and every table, quarantine included, is
compared with a batch run over the same files, row for row. What was done is kept in ``--work``, so that it can be
stopped (``--for-s 300``) and goes on. Writes ``benchmarks/results/sundog_kills.json``.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[1] / "tests")  # in the place of this folder, which has a sundog.py

from streamtune.spark.session import build_session  # noqa: E402
from streamtune.spark.settings import SparkSettings  # noqa: E402
from streamtune.sundog.knowledge import load_knowledge  # noqa: E402
from streamtune.sundog.panes import Panes  # noqa: E402
from streamtune.sundog.pipeline import Sundog  # noqa: E402
from sundog.examples import ENTITIES, RELATIONS, make_lines, write_knowledge  # noqa: E402
from sundog.test_stream_of_logs import SETTINGS, assert_same_tables, fresh_days, run_follower  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "sundog_kills.json"
LATEST_S = 6.0  # after the start, when a kill comes at the latest


def deliver(folder: Path, number: int) -> None:
    """A file that appears whole."""
    folder.mkdir(exist_ok=True)
    lines = [json.dumps(line) for line in make_lines(30, seed=number)]
    waiting = folder / f".{number:03d}.jsonl"
    waiting.write_text("".join(f"{line}\n" for line in [*lines, "oops"]), encoding="utf-8")
    waiting.rename(folder / f"{number:03d}.jsonl")


def kill_until(kills: int, work: Path, deadline: float) -> dict[str, Any]:
    """Kill the stream until it was killed so often, or until the time is up."""
    notes = work / "kills.json"
    state = json.loads(notes.read_text(encoding="utf-8")) if notes.exists() else {"files": 0, "moments": [], "ended": 0}
    while len(state["moments"]) < kills and time.monotonic() < deadline:
        for _ in range(3):
            state["files"] += 1
            deliver(work / "in", state["files"])
        moment = random.Random(f"{state['files']}").uniform(0.2, LATEST_S)
        if run_follower(work / "kb", work / "in", work / "stream", moment):
            state["ended"] += 1
        else:
            state["moments"].append(round(moment, 2))
        notes.write_text(json.dumps(state), encoding="utf-8")
        print(f"killed {len(state['moments'])} times, {state['files']} files", flush=True)
    return dict(state)


def compare(work: Path) -> dict[str, int]:
    """Fails where any row differs."""
    spark = build_session(SparkSettings(master="local[2]", app_name="sundog-kills"))
    try:
        knowledge = load_knowledge(work / "kb")
        stream = Sundog(spark, knowledge, str(work / "stream"), SETTINGS)
        batch = Sundog(spark, knowledge, str(work / "batch"), SETTINGS)
        report = batch.run([str(work / "in")], fresh_days(stream), [2, 7])
        assert_same_tables(work / "stream", work / "batch")
        counts = Panes(spark, f"{work}/stream/state").require(knowledge.fingerprint).counts
        if counts != report.counts:
            raise AssertionError(f"the stream counted {counts}, the batch {report.counts}")
        return dict(counts.model_dump())
    finally:
        spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--work", type=Path, required=True, help="what was done so far")
    parser.add_argument("--for-s", type=float, default=1e9, help="kill no more after so many seconds")
    asked = parser.parse_args()
    work = asked.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    if not (work / "kb").exists():
        write_knowledge(work / "kb", ENTITIES, RELATIONS)
    deadline = time.monotonic() + asked.for_s
    state = kill_until(asked.kills, work, deadline)
    if len(state["moments"]) < asked.kills or time.monotonic() > deadline:
        print("time is up: call this again to go on")
        return
    if not run_follower(work / "kb", work / "in", work / "stream", None):
        raise SystemExit("the stream did not come to its end")
    record = {"kills": len(state["moments"]), "moments_s": state["moments"], "counts": compare(work)}
    RESULTS.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({**record, "same_tables": True}))


if __name__ == "__main__":
    main()
