"""Sixty fixed cases of decision quality over three seeds: the scores that later releases must not fall behind.

python benchmarks/quality.py            # print the scores and what got worse than the stored ones
python benchmarks/quality.py --store    # store them, once per release: tests/experiments/quality.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from streamtune.experiments.quality import FAULTS, SEEDS, Stored, compare, measure, store

PATH = Path(__file__).parents[1] / "tests/experiments/quality.json"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--store", action="store_true", help="what later runs are compared with")
    chosen = arguments.parse_args()
    measured = [measure(seed) for seed in SEEDS]
    found = store(measured)
    print(f"seeds {SEEDS}; mean of the first seed (standard deviation over seeds)")
    print("| fault | restarts / change | ended with backpressure | total / oracle |")
    print("| --- | ---: | ---: | ---: |")
    for fault in FAULTS:
        score, spread = found.scores[fault], found.spreads[fault]
        cells = (
            f"{score.reconfigurations:.2f} ({spread.reconfigurations:.2f})",
            f"{score.backpressure:.1%} ({spread.backpressure:.1%})",
            f"{score.over_oracle:.3f} ({spread.over_oracle:.3f})",
        )
        print(f"| {fault} | {' | '.join(cells)} |")
    if chosen.store:
        PATH.write_text(found.model_dump_json(indent=1) + "\n", encoding="utf-8")
    elif PATH.exists():
        before = Stored.model_validate_json(PATH.read_text(encoding="utf-8"))
        print("\n".join(compare(measured[0], before)) or "nothing is worse than the stored scores")


if __name__ == "__main__":
    main()
