"""A week of simulated time, 40 jobs, two services, faults of every kind and 200 kills: no law may be broken.

python benchmarks/service_soak.py --days 7 --kills 200 --results benchmarks/results/service.json
python benchmarks/service_soak.py --days 30 --kills 800 --name soak_month --results benchmarks/results/service.json

Memory, the store's files and the number of changes are noted every six hours; after four weeks or more they are said to
be flat or not, the last week against the one before.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from service.soak import FLAT, Soak, growth


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=7)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--window-s", type=float, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--name", default="soak", help="of the part of the results")
    parser.add_argument("--evidence", type=Path, default=Path("build/soak-faults.jsonl"), help="a line for every fault")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)  # stores that fail and clusters that are away are what this is about
    began = time.monotonic()
    given.evidence.parent.mkdir(parents=True, exist_ok=True)
    given.evidence.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="streamtune-soak-") as folder:
        soak = Soak(Path(folder), seed=given.seed, window_s=given.window_s, evidence=given.evidence)

        sizes: list[dict[str, float]] = []

        def progress(hours: float) -> None:
            sizes.append(soak.sizes())
            done = f"{len(soak.inspector.rescales)} changes, {soak.kills} kills, {len(soak.inspector.faults)} faults"
            done += f", {sizes[-1]['memory_mb']:.0f} MB, store {sizes[-1]['store_mb']:.1f} MB"
            print(f"hour {hours:.0f}: {done}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)

        soak.run(given.days * 86400, given.kills, progress=progress)
        soak.settle()
        grown = {name: growth(sizes, name) for name in ("memory_mb", "store_mb")}
        told = {
            **soak.report(),
            "growth_of_the_last_week": grown,
            "sizes": sizes,
            "window_s": given.window_s,
            "seconds": round(time.monotonic() - began),
        }
    print(json.dumps({**told, "sizes": sizes[-1:]}, indent=2))
    for name, share in grown.items():
        if share is not None:
            print(f"{name}: {'flat' if share <= FLAT else 'GROWS'}, {share:+.1%} from one week to the next")
    if given.results:
        known = json.loads(given.results.read_text()) if given.results.exists() else {}
        given.results.write_text(json.dumps({**known, given.name: told}, indent=2) + "\n")
    return 1 if told["faults"] or any(share is not None and share > FLAT for share in grown.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
