"""A million damaged files and answers from outside, read or refused: ``make bench-input-fuzz``.

Job specs, overrides, config files, graphs, hosts, problems, samples, spaces, rates, audit trails, Flink's answers (each
call, and whole tuning processes), rescale journals, state files, bundles, knowledge bases and requests to the service
(``tests/input_targets.py``); and, a tenth of all, run records through the ingest on Spark, as JSON lines, gzip and
Parquet (``tests/history/damaged_records.py``). Writes benchmarks/results/input-fuzz.json, with inputs and seconds by
target, and puts what was read badly into tests/fuzz_corpus, where a test reads it again; of records the seed is enough.
CASES (1000000), SEED (0), WORK (build/input-fuzz): slices of 2,000 (of records 5,100) are noted there, and the
benchmark goes on from them; with SLICE_S it stops by itself after so many seconds, RECORDS=0 leaves Spark out.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[1] / "tests")  # in the place of this folder, which has a history.py
from input_fuzz import damaged, keep, problem  # noqa: E402
from input_targets import targets  # noqa: E402
from small_model import write_small_model  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "input-fuzz.json"
SLICE = 2_000
# Many small plans, each run once: compiling them costs more than it saves.
SPARK = {"spark.sql.shuffle.partitions": "2", "spark.sql.codegen.wholeStage": "false", "spark.ui.enabled": "false"}
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
# What takes milliseconds is drawn less often than what takes microseconds.
SHARES = {".yaml": 0.25, "tune-": 0.1, "bundle-": 0.5}
RECORD_SHARE = 0.1
LINES, FILES = 5_000, 50


def share(name: str) -> float:
    return next((of for piece, of in SHARES.items() if piece in name), 1.0)


def one_slice(seed: int, cases: int, every: list[Any], work: Path) -> dict[str, Any]:
    done: Counter[str] = Counter()
    bad: list[dict[str, str]] = []
    draw = random.Random(seed)
    often = [share(target.name) for target in every]
    seconds: Counter[str] = Counter()
    for _ in range(cases):
        (target,) = draw.choices(every, often)
        begun = time.perf_counter()
        content = damaged(target, draw)
        found = problem(target, content, work)
        done[target.name] += 1
        seconds[target.name] += time.perf_counter() - begun
        if found is not None:
            bad.append({"target": target.name, "problem": found, "kept": keep(target, content).name})
    return {"seed": seed, "cases": dict(done), "seconds": dict(seconds), "bad": bad}


def read_slices(first: int, cases: int, work: Path) -> None:
    """All slices that are not noted yet, until time is up."""
    until = time.monotonic() + float(os.environ.get("SLICE_S", "inf"))
    with tempfile.TemporaryDirectory(prefix="streamtune-inputs-", dir=IN_MEMORY) as scratch:
        sound, damaged_ones = Path(scratch) / "sound", Path(scratch) / "work"
        sound.mkdir()
        damaged_ones.mkdir()
        every = targets(sound, work / "model")
        for number in range(-(-cases // SLICE)):
            note = work / f"{first + number}.json"
            if note.exists() or time.monotonic() > until:
                continue
            found = one_slice(first + number, min(SLICE, cases - number * SLICE), every, damaged_ones)
            note.write_text(json.dumps(found))
            print(f"slice {number}: {len(found['bad'])} read badly", flush=True)


def read_records(first: int, cases: int, work: Path) -> None:
    """Slices of records, each through one ingest."""
    until = time.monotonic() + float(os.environ.get("SLICE_S", "inf"))
    numbers = range(first, first + -(-cases // (LINES + 2 * FILES)))
    waiting = [number for number in numbers if not (work / f"records-{number}.json").exists()]
    if not waiting or until <= time.monotonic():
        return
    from history.damaged_records import read_badly
    from streamtune.spark.session import build_session
    from streamtune.spark.settings import SparkSettings

    spark = build_session(SparkSettings(master="local[2]", conf=SPARK, app_name="input-fuzz"))
    for number in waiting:
        if time.monotonic() > until:
            break
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="streamtune-records-", dir=IN_MEMORY) as scratch:
            try:
                wrong = read_badly(spark, Path(scratch), random.Random(number), lines=LINES, files=FILES)
            except Exception as error:  # an input that ends the ingest is what we are looking for
                wrong = [f"{type(error).__name__}: {error}"[:500]]
        seconds = time.perf_counter() - begun
        found = {
            "seed": number,
            "cases": {"records-lines": LINES, "records-gzip": FILES, "records-parquet": FILES},
            "seconds": {"records": seconds},
            "bad": [{"target": "records", "problem": one, "kept": f"seed {number}"} for one in wrong],
        }
        (work / f"records-{number}.json").write_text(json.dumps(found))
        print(f"records {number}: {len(wrong)} read badly, {seconds:.0f} s", flush=True)
    spark.stop()


def main() -> int:
    cases, first = int(os.environ.get("CASES", "1000000")), int(os.environ.get("SEED", "0"))
    work = Path(os.environ.get("WORK", "build/input-fuzz"))
    work.mkdir(parents=True, exist_ok=True)
    if not (work / "model").exists():
        write_small_model(work / "model")
    of_records = round(RECORD_SHARE * cases) if os.environ.get("RECORDS", "1") != "0" else 0
    read_slices(first, cases - of_records, work)
    read_records(first, of_records, work)
    return summarised([json.loads(note.read_text()) for note in sorted(work.glob("*.json"))])


def summarised(slices: list[dict[str, Any]]) -> int:
    done: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for one in slices:
        done.update(one["cases"])
        seconds.update(one["seconds"])
    bad = [entry for one in slices for entry in one["bad"]]
    kinds = Counter((entry["target"], entry["problem"][:80]) for entry in bad)
    result = {
        "inputs": done.total(),
        "seconds": round(seconds.total()),
        "by_target": dict(sorted(done.items())),
        "seconds_by_target": {name: round(value, 1) for name, value in sorted(seconds.items())},
        "read_badly": len(bad),
        "bad": bad[:200],
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{done.total():,} inputs in {seconds.total():,.0f} s, {len(bad):,} read badly")
    for name, count in sorted(done.items()):
        print(f"  {count:9,} {name}" + (f", {1000 * seconds[name] / count:.2f} ms each" if name in seconds else ""))
    for (target, what), count in kinds.most_common(30):
        print(f"  {count:6} × {target}: {what}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
