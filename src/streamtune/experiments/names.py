"""The experiments by name. Known without loading any of them, so that a typo is refused at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from streamtune.errors import StreamTuneError

_PAPER = "fig6 fig7a fig7b table3 fig9a fig10 fig11a clusters ablation learning"
_SWEEPS = "error headroom quantile curve jitter"
_ZEROTUNE = "structures parallelism parameters data optimiser ablation speed"
PAPER = [*_PAPER.split(), *(f"sweep-{name}" for name in _SWEEPS.split())]
ZEROTUNE = [f"zerotune-{name}" for name in _ZEROTUNE.split()]
REAL = "zerotune-real"


def check_experiments(names: Sequence[str], real_runs: Path | None = None) -> None:
    """Refuse names that do not exist or do not go together.

    >>> check_experiments(["fig8", "fig6"])
    Traceback (most recent call last):
    streamtune.errors.StreamTuneError: fig8 runs on a real Timely, by itself, but got fig8 fig6: run it alone, then ...
    """
    known = ["paper", *PAPER, "fig8", "zerotune", *ZEROTUNE, REAL]
    for name in names:
        if name not in known:
            raise StreamTuneError(f"unknown experiment '{name}': choose among {', '.join(known)}")
    if "fig8" in names and list(names) != ["fig8"]:
        raise StreamTuneError(
            f"fig8 runs on a real Timely, by itself, but got {' '.join(names)}: run it alone, then the others"
        )
    if len({name.startswith("zerotune") for name in names}) > 1:
        raise StreamTuneError(f"got {' '.join(names)}: run the experiments of the two papers one after the other")
    if real_runs is not None and not real_runs.is_file():
        raise StreamTuneError(f"--real-runs {real_runs} is not a file: give PDSP-Bench's runs.jsonl.gz")
    if REAL in names and real_runs is None:
        raise StreamTuneError(f"{REAL} needs the runs of PDSP-Bench: give their file with --real-runs")
