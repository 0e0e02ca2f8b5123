"""``make bench-drift``: 2,000 windows of the same, then the code or the data of an operator changes. What is asked for?

Draws docs/images/drift.svg, instances of the operator window by window beside the fewest that keep up, and writes
benchmarks/results/drift.json: for each change and each of SEEDS (5) noises, the window from which on the plan keeps up
with no more than a third above the fewest.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from tuners.drifting import CHANGES, NOTHING, NOTICED_WITHIN, STABLE_WINDOWS, Change, followed, settled

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "drift.json"
PICTURE = ROOT / "docs" / "images" / "drift.svg"
BEFORE, AFTER = 6, 12


def curve(change: Change, seed: int) -> list[int]:
    """The instances that each window ran with: some before the change, then as they were asked for."""
    noise = np.random.default_rng(seed)
    tuner = settled(noise, STABLE_WINDOWS - BEFORE)
    asked = followed(tuner, NOTHING, noise, BEFORE)
    return [5, *asked, *followed(tuner, change, noise, AFTER, plan=asked[-1])][:-1]


def noticed_after(change: Change, degrees: list[int]) -> int | None:
    """Windows under the change until the plan is right, and stays right."""
    right = [change.least <= degree <= math.ceil(change.least * 4 / 3) + 1 for degree in degrees[BEFORE:]]
    wrong = [number for number, is_right in enumerate(right) if not is_right]
    last = wrong[-1] + 1 if wrong else 0
    return None if last == len(right) else last


def draw(curves: dict[str, list[int]]) -> None:
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    pyplot.rcParams["svg.hashsalt"] = "drift"
    figure: Figure
    figure, axes = pyplot.subplots(1, len(CHANGES), figsize=(9, 2.8), sharey=True, layout="constrained")
    at = range(-BEFORE, AFTER)
    for axis, change in zip(axes, CHANGES, strict=True):
        least = [NOTHING.least if window < 0 else change.least for window in at]
        axis.step(at, curves[change.what], where="post", label="instances that run", color="#0b6fa4")
        axis.step(at, least, where="post", label="fewest that keep up", color="#888888", linestyle="--")
        axis.axvspan(0, NOTICED_WITHIN, color="#f2c14e", alpha=0.3, label="three windows")
        axis.set_title(change.what, fontsize=10)
        axis.set_xlabel("windows since the change")
        axis.set_ylim(0, None)
    axes[0].set_ylabel("instances")
    axes[-1].legend(fontsize=8, loc="upper right")
    figure.savefig(PICTURE, metadata={"Date": None})


def main() -> int:
    seeds = range(int(os.environ.get("SEEDS", "5")))
    result: dict[str, object] = {"stable_windows": STABLE_WINDOWS}
    slowest = 0
    drawn: dict[str, list[int]] = {}
    for change in CHANGES:
        curves = [curve(change, seed) for seed in seeds]
        drawn[change.what] = curves[0]
        after = [noticed_after(change, degrees) for degrees in curves]
        slowest = max([slowest, *(AFTER if one is None else one for one in after)])
        print(f"{change.what}: right after {after} windows; instances {curves[0][BEFORE - 1 :]}", flush=True)
        result[change.what] = {"least": change.least, "right_after_windows": after, "instances": curves}
    draw(drawn)
    RESULTS.write_text(json.dumps(result) + "\n")
    return 0 if slowest <= NOTICED_WITHIN else 1


if __name__ == "__main__":
    sys.exit(main())
