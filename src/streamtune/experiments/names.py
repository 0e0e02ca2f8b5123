"""The experiments by name. Known without loading any of them, so that a typo is refused at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from streamtune.errors import StreamTuneError

_PAPER = "fig6 fig7a fig7b table3 fig9a fig10 fig11a clusters ablation learning learning-poor"
_SWEEPS = "error headroom quantile curve jitter"
_ZEROTUNE = "structures parallelism parameters data optimiser ablation speed"
_SUNDOG = "table2 fig3 table4 table5 table6 fig4 trends"
_REAL_SOURCES = "movietweetings spark-commits"
PAPER = [*_PAPER.split(), *(f"sweep-{name}" for name in _SWEEPS.split())]
BEYOND = ["coldstart", "coldstart-certainty", "coldstart-limit", "coldstart-zerotune"]
ZEROTUNE = [f"zerotune-{name}" for name in _ZEROTUNE.split()]
REAL = "zerotune-real"
SUNDOG = [f"sundog-{name}" for name in _SUNDOG.split()]
SUNDOG_REAL = [f"sundog-{name}" for name in _REAL_SOURCES.split()]
_PLACEMENT = "fig6 fig7 fig8 fig9 fig10 fig11 fig12 table1 table2 curve ordinary"
PLACEMENT = [f"placement-{name}" for name in _PLACEMENT.split()]
PLACEMENT_REAL = ["placement-real-flink", "placement-real-timely"]

AUTOCONFIG = [f"autoconfig-{name}" for name in ["fig4", "fig5", "fig6", "fig7", "noise"]]


def check_experiments(names: Sequence[str], real_runs: Path | None = None, real_data: Path | None = None) -> None:
    """Refuse names that do not exist or do not go together.

    >>> check_experiments(["fig8", "fig6"])
    Traceback (most recent call last):
    streamtune.errors.StreamTuneError: fig8 runs on a real Timely, by itself, but got fig8 fig6: run it alone, then ...
    """
    known = [
        *("paper", *PAPER, *BEYOND, "fig8", "zerotune", *ZEROTUNE, REAL, "sundog", *SUNDOG, *SUNDOG_REAL),
        *("placement", *PLACEMENT, *PLACEMENT_REAL, "autoconfig", *AUTOCONFIG),
    ]
    for name in names:
        if name not in known:
            raise StreamTuneError(f"unknown experiment '{name}': choose among {', '.join(known)}")
    if "fig8" in names and list(names) != ["fig8"]:
        raise StreamTuneError(
            f"fig8 runs on a real Timely, by itself, but got {' '.join(names)}: run it alone, then the others"
        )
    if len({paper_of(name) for name in names}) > 1:
        raise StreamTuneError(f"got {' '.join(names)}: run the experiments of different papers one after the other")
    if real_runs is not None and not real_runs.is_file():
        raise StreamTuneError(f"--real-runs {real_runs} is not a file: give PDSP-Bench's runs.jsonl.gz")
    if REAL in names and real_runs is None:
        raise StreamTuneError(f"{REAL} needs the runs of PDSP-Bench: give their file with --real-runs")
    if real_data is not None and not real_data.is_dir():
        raise StreamTuneError(f"--real-data {real_data} is not a folder: give the one that holds movietweetings")
    for name in names:
        if name in SUNDOG_REAL and real_data is None:
            raise StreamTuneError(f"{name} needs data from outside: give its folder with --real-data")


def paper_of(name: str) -> str:
    """The paper that an experiment belongs to.

    >>> paper_of("sundog-fig3"), paper_of("placement"), paper_of("fig6")
    ('sundog', 'placement', 'streamtune')
    """
    family = name.partition("-")[0]
    return family if family in ("sundog", "zerotune", "placement", "autoconfig") else "streamtune"
