"""20,000 hostile command lines over every option of every command: ``make bench-fuzz``.

Writes benchmarks/results/fuzz.json: cases, and the command lines that ended badly. Exit code 1 if there are any. Each
slice of 1,000 is noted in build/fuzz when it is done: started again, the benchmark goes on; remove it to begin anew.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from cli_fuzz import command_lines, problem, warm_up, without_pauses, write_inputs
from small_model import write_small_model

RESULTS = Path(__file__).parent / "results" / "fuzz.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--slice", type=int, default=1_000, help="cases of one seed")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="stop after the slice that ends behind this"
    )
    parser.add_argument("--work", type=Path, default=Path("build/fuzz"), help="slices done are noted here")
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    if not (asked.work / "model").exists():
        write_small_model(asked.work / "model")
    for number in range(-(-asked.cases // asked.slice)):
        note = asked.work / f"{number}.json"
        if note.exists() or time.monotonic() - begun > asked.seconds:
            continue
        note.write_text(json.dumps(one_slice(number, min(asked.slice, asked.cases - number * asked.slice), asked.work)))
        print(f"slice {number}: {time.monotonic() - begun:.0f} s", flush=True)
    slices = [
        json.loads(note.read_text()) for note in sorted(asked.work.glob("*.json"), key=lambda note: int(note.stem))
    ]
    return summarised(slices)


def one_slice(seed_number: int, cases: int, work: Path) -> dict[str, Any]:
    """So many command lines drawn by one seed, in a folder of their own."""
    done: Counter[str] = Counter()
    bad: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="streamtune-fuzz-") as scratch:
        folder = Path(scratch)
        write_inputs(folder, work / "model")
        without_pauses()
        os.environ["JAVA_HOME"] = "/nope"  # whatever gets as far as Spark is refused there, quickly
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        warm_up(folder)

        @seed(seed_number)
        @settings(
            max_examples=cases,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(words=command_lines())
        def one(words: list[str]) -> None:
            done[words[0]] += 1
            found = problem(words, folder)
            if found is not None:
                bad.append({"words": words, "problem": found})

        one()
    return {"seed": seed_number, "cases": dict(done), "bad": bad}


def summarised(slices: list[dict[str, Any]]) -> int:
    """Print and write down; the exit code."""
    by_command: Counter[str] = Counter()
    for one in slices:
        by_command.update(one["cases"])
    bad = [entry for one in slices for entry in one["bad"]]
    result = {"cases": by_command.total(), "by_command": dict(sorted(by_command.items())), "bad": bad}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{by_command.total():,} command lines, {len(bad):,} ended badly")
    for entry in bad[:20]:
        print(f"  {entry['words']}: {str(entry['problem'])[:300]}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
