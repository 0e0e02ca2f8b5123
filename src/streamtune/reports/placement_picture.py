"""Hosts with their instances and the traffic between them, as a picture."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from streamtune.placement.graph import PlacementError
from streamtune.placement.problem import Placement
from streamtune.reports.pictures import save_picture

MOST_HOSTS = 40


def draw(placed: Placement, path: Path) -> None:
    """Hosts on a circle, one line per operator they hold; the width of an arrow is its share of the largest flow."""
    hosts = placed.problem.hosts
    if len(hosts) > MOST_HOSTS:
        raise PlacementError(f"a drawing holds up to {MOST_HOSTS} hosts, but got {len(hosts)}: leave --plot out")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    size = max(6.0, 1.1 * len(hosts) ** 0.8 + 4)
    figure, axes = plt.subplots(figsize=(size, size))
    angle = 2 * math.pi / len(hosts)
    where = [(math.sin(angle * place), math.cos(angle * place)) for place in range(len(hosts))]
    _arrows(axes, placed, where)
    for place, (x, y) in enumerate(where):
        axes.text(
            x, y, _label(placed, place), ha="center", va="center", fontsize=8, zorder=3,
            bbox={"boxstyle": "round,pad=0.4", "facecolor": "#eef3fb", "edgecolor": "#33517a"},
        )  # fmt: skip
    axes.set_xlim(-1.45, 1.45)
    axes.set_ylim(-1.45, 1.45)
    axes.set_axis_off()
    axes.set_title(
        f"{placed.scheduler}: {_rate(placed.remote_bytes_per_s)} of {_rate(placed.problem.graph.total_bytes_per_s)} "
        f"between hosts, imbalance {placed.imbalance:.3f}"
    )
    try:
        save_picture(figure, path, dpi=120, bbox_inches="tight")
    finally:
        plt.close(figure)


def _arrows(axes: Any, placed: Placement, where: list[tuple[float, float]]) -> None:
    flows = placed.traffic.copy()
    np.fill_diagonal(flows, 0.0)
    largest = flows.max()
    if largest <= 0:
        return
    for a, b in zip(*np.nonzero(flows > largest / 200), strict=True):
        strength = float(flows[a, b] / largest)
        axes.annotate(
            "", xy=where[b], xytext=where[a], zorder=1,
            arrowprops={
                "arrowstyle": "-|>", "shrinkA": 26, "shrinkB": 26, "lw": 0.4 + 3.6 * strength,
                "color": "#b5482a", "alpha": 0.25 + 0.6 * strength, "connectionstyle": "arc3,rad=0.08",
            },
        )  # fmt: skip


def _label(placed: Placement, host: int) -> str:
    graph = placed.problem.graph
    inside = np.flatnonzero(placed.part == host)
    kinds = graph.operators or tuple(task.rsplit("-", 1)[0] for task in graph.tasks)
    counts = Counter(kinds[task] for task in inside)
    lines = [f"{kind} × {count}" if count > 1 else kind for kind, count in counts.most_common(6)]
    if len(counts) > 6:
        lines.append(f"… {len(counts) - 6} more")
    zone = placed.problem.hosts.hosts[host].zone
    return "\n".join([placed.problem.hosts.names[host] + (f" ({zone})" if zone else ""), *(lines or ["empty"])])


def _rate(value: float) -> str:
    for unit in ("B/s", "kB/s", "MB/s", "GB/s"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB/s"
