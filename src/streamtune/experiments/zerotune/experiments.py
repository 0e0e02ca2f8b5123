"""The ZeroTune experiments by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from streamtune.errors import StreamTuneError
from streamtune.experiments.paper.findings import Finding
from streamtune.experiments.zerotune.accuracy import (
    parallelism_experiment,
    parameters_experiment,
    structures_experiment,
)
from streamtune.experiments.zerotune.arena import ZeroTuneArena
from streamtune.experiments.zerotune.learning import ablation_experiment, data_experiment, speed_experiment
from streamtune.experiments.zerotune.optimiser import optimiser_experiment
from streamtune.experiments.zerotune.real_runs import real_runs_experiment

ALL = "zerotune"
REAL = "zerotune-real"
EXPERIMENTS: dict[str, Callable[[ZeroTuneArena], Finding]] = {
    "zerotune-structures": structures_experiment,
    "zerotune-parallelism": parallelism_experiment,
    "zerotune-parameters": parameters_experiment,
    "zerotune-data": data_experiment,
    "zerotune-optimiser": optimiser_experiment,
    "zerotune-ablation": ablation_experiment,
    "zerotune-speed": speed_experiment,
}


def chosen(names: Sequence[str], real_runs: Path | None) -> dict[str, Callable[[ZeroTuneArena], Finding]]:
    """The experiments asked for; ``zerotune`` is all of them, real runs included where there are any."""
    known = dict(EXPERIMENTS)
    if real_runs is not None:
        file = real_runs
        known[REAL] = lambda arena: real_runs_experiment(arena, file)
    wanted = list(known) if ALL in names else list(names)
    for name in wanted:
        if name == REAL and REAL not in known:
            raise StreamTuneError(f"{REAL} needs the runs of PDSP-Bench: give their file with --real-runs")
        if name not in known:
            raise StreamTuneError(f"unknown experiment '{name}': choose among {', '.join((ALL, *EXPERIMENTS, REAL))}")
    return {name: known[name] for name in wanted}
