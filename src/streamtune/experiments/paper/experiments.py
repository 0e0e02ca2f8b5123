"""All experiments by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamtune.errors import StreamTuneError
from streamtune.experiments.coldstart import bench as coldstart
from streamtune.experiments.coldstart import restarts
from streamtune.experiments.paper import main_grid, poor_readings, studies, sweeps
from streamtune.experiments.paper.contest import Arena
from streamtune.experiments.paper.findings import Finding

EXPERIMENTS: dict[str, Callable[[Arena], Finding]] = {
    "fig6": main_grid.fig6,
    "fig7a": main_grid.fig7a,
    "fig7b": studies.fig7b,
    "table3": main_grid.table3,
    "fig9a": studies.fig9a,
    "fig10": studies.fig10,
    "fig11a": studies.fig11a,
    "clusters": studies.clusters,
    "ablation": studies.ablation,
    "learning": poor_readings.learning,
    "learning-poor": poor_readings.poor_readings,
    "sweep-error": sweeps.error_sweep,
    "sweep-headroom": sweeps.headroom_sweep,
    "sweep-quantile": sweeps.quantile_sweep,
    "sweep-curve": sweeps.curve_sweep,
    "sweep-jitter": sweeps.jitter_sweep,
}
# Beside the paper's own experiments.
BEYOND: dict[str, Callable[[Arena], Finding]] = {
    "coldstart": coldstart.coldstart,
    "coldstart-certainty": coldstart.choose_certainty,
    "coldstart-limit": coldstart.limit_alone,
    "coldstart-zerotune": restarts.against_zerotune,
}


def chosen(names: Sequence[str]) -> list[str]:
    """The experiments of these names, ``paper`` for all."""
    if "paper" in names:
        return list(dict.fromkeys([*EXPERIMENTS, *(name for name in names if name in BEYOND)]))
    known = EXPERIMENTS | BEYOND
    for name in names:
        if name not in known:
            raise StreamTuneError(f"unknown experiment '{name}': choose among paper (all), {', '.join(known)}")
    return list(dict.fromkeys(names))
