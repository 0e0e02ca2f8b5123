"""A million damaged files and answers from outside, read or refused: ``make bench-input-fuzz``.

Job specs, overrides, config files, graphs, hosts, problems, samples, spaces, audit trails, Flink's answers, run records
(Parquet, gzip), state files, bundles, knowledge bases and requests to the service (``tests/input_targets.py``). Writes
benchmarks/results/input-fuzz.json and puts what was read badly into tests/fuzz_corpus, where a test reads it again.
CASES (1000000), SEED (0), WORK (build/input-fuzz): slices of 2,000 are noted there, and the benchmark goes on from
them; with SLICE_S it stops by itself after so many seconds.
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

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from input_fuzz import damaged, keep, problem  # type: ignore[import-not-found]
from input_targets import targets
from small_model import write_small_model

RESULTS = Path(__file__).parent / "results" / "input-fuzz.json"
SLICE = 2_000
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
# PyYAML takes ten times as long as all other readers: each of its targets is drawn a quarter as often.
YAML_SHARE = 0.25


def one_slice(seed: int, cases: int, every: list[Any], work: Path) -> dict[str, Any]:
    done: Counter[str] = Counter()
    bad: list[dict[str, str]] = []
    draw = random.Random(seed)
    often = [YAML_SHARE if target.name.endswith(".yaml") else 1.0 for target in every]
    for _ in range(cases):
        (target,) = draw.choices(every, often)
        content = damaged(target, draw)
        done[target.name] += 1
        found = problem(target, content, work)
        if found is not None:
            bad.append({"target": target.name, "problem": found, "kept": keep(target, content).name})
    return {"seed": seed, "cases": dict(done), "bad": bad}


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


def main() -> int:
    cases, first = int(os.environ.get("CASES", "1000000")), int(os.environ.get("SEED", "0"))
    work = Path(os.environ.get("WORK", "build/input-fuzz"))
    work.mkdir(parents=True, exist_ok=True)
    if not (work / "model").exists():
        write_small_model(work / "model")
    read_slices(first, cases, work)
    return summarised([json.loads(note.read_text()) for note in sorted(work.glob("*.json"))])


def summarised(slices: list[dict[str, Any]]) -> int:
    done: Counter[str] = Counter()
    for one in slices:
        done.update(one["cases"])
    bad = [entry for one in slices for entry in one["bad"]]
    kinds = Counter((entry["target"], entry["problem"][:80]) for entry in bad)
    result = {"inputs": done.total(), "by_target": dict(sorted(done.items())), "read_badly": len(bad), "bad": bad[:200]}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{done.total():,} inputs, {len(bad):,} read badly")
    for (target, what), count in kinds.most_common(30):
        print(f"  {count:6} × {target}: {what}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
