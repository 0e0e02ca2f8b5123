"""Repetitions of the tuning experiment on a real Flink as one table, against the three targets.

    python benchmarks/flink_repeats.py build/flink-repeat-*.json.gz

The pieces are those of ``make bench-flink-repeats``; jobs that are not the paper's are left out. The table is kept in
``benchmarks/results/flink-repeats.json``.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

from streamtune.cli.bench import print_finding
from streamtune.experiments.flink_findings import repeats_finding, stories_of

RESULTS = Path(__file__).parent / "results" / "flink-repeats.json"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("pieces", type=Path, nargs="+", help="the pieces of each repetition")
    arguments.add_argument("--results", type=Path, default=RESULTS)
    chosen = arguments.parse_args()
    repeats = [stories_of(json.loads(gzip.decompress(path.read_bytes()))) for path in sorted(chosen.pieces)]
    finding = repeats_finding(repeats)
    print_finding(finding)
    chosen.results.write_text(json.dumps(finding.to_record(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
