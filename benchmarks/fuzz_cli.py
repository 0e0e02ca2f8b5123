"""20,000 hostile command lines over every option of every command: ``make bench-fuzz``.

Writes benchmarks/results/fuzz.json: cases, and the command lines that ended badly. Exit code 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from cli_fuzz import command_lines, problem, without_pauses, write_inputs

RESULTS = Path(__file__).parent / "results" / "fuzz.json"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    bad: list[dict[str, object]] = []
    done = 0
    with tempfile.TemporaryDirectory(prefix="streamtune-fuzz-") as scratch:
        folder = Path(scratch)
        write_inputs(folder)
        without_pauses()
        os.environ["JAVA_HOME"] = "/nope"  # whatever gets as far as Spark is refused there, quickly
        os.environ["XDG_STATE_HOME"] = str(folder / "state")

        @seed(asked.seed)
        @settings(
            max_examples=asked.cases,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(words=command_lines())
        def one(words: list[str]) -> None:
            nonlocal done
            done += 1
            found = problem(words, folder)
            if found is not None:
                bad.append({"words": words, "problem": found})

        one()
    asked.results.write_text(json.dumps({"cases": done, "seed": asked.seed, "bad": bad}, indent=1) + "\n")
    print(f"{done:,} command lines, {len(bad):,} ended badly")
    for entry in bad[:20]:
        print(f"  {entry['words']}: {str(entry['problem'])[:300]}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
