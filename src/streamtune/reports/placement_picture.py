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
Point = tuple[float, float]
MOST_NUMBERS = 30  # arrows that have their bytes/s written beside them


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
    axes.set_xlim(-1.45, 1.45)
    axes.set_ylim(-1.45, 1.45)
    axes.set_axis_off()
    boxes = [
        axes.text(
            x, y, _label(placed, place), ha="center", va="center", fontsize=8, zorder=3,
            bbox={"boxstyle": "round,pad=0.4", "facecolor": "#eef3fb", "edgecolor": "#33517a"},
        )
        for place, (x, y) in enumerate(where)
    ]  # fmt: skip
    figure.canvas.draw()  # boxes have their sizes now: arrows end at them, not under them
    to_data = axes.transData.inverted()
    patches = [patch for box in boxes if (patch := box.get_bbox_patch()) is not None]
    extents = [patch.get_window_extent().transformed(to_data) for patch in patches]
    _arrows(axes, placed, where, [(box.width / 2, box.height / 2) for box in extents])
    axes.set_title(
        f"{placed.scheduler}: {_rate(placed.remote_bytes_per_s)} of {_rate(placed.problem.graph.total_bytes_per_s)} "
        f"between hosts, imbalance {placed.imbalance:.3f}"
    )
    try:
        save_picture(figure, path, dpi=120, bbox_inches="tight")
    finally:
        plt.close(figure)


def _border(centre: Point, half: Point, towards: Point) -> Point:
    """Where the line from the centre of a box leaves it, a little outside.

    >>> _border((0.0, 0.0), (1.0, 2.0), (10.0, 0.0))
    (1.02, 0.0)
    """
    dx, dy = towards[0] - centre[0], towards[1] - centre[1]
    share = min(half[0] / abs(dx) if dx else math.inf, half[1] / abs(dy) if dy else math.inf) * 1.02
    return centre[0] + share * dx, centre[1] + share * dy


def _arrows(axes: Any, placed: Placement, where: list[Point], halves: list[Point]) -> None:
    flows = placed.traffic.copy()
    np.fill_diagonal(flows, 0.0)
    largest = flows.max()
    if largest <= 0:
        return
    shown = list(zip(*np.nonzero(flows > largest / 200), strict=True))
    for a, b in shown:
        strength = float(flows[a, b] / largest)
        axes.annotate(
            "", xy=_border(where[b], halves[b], where[a]), xytext=_border(where[a], halves[a], where[b]), zorder=1,
            arrowprops={
                "arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "lw": 0.4 + 3.6 * strength, "mutation_scale": 12,
                "color": "#b5482a", "alpha": 0.25 + 0.6 * strength, "connectionstyle": "arc3,rad=0.12",
            },
        )  # fmt: skip
        if len(shown) <= MOST_NUMBERS:
            (xa, ya), (xb, yb) = where[a], where[b]
            # Beside the middle of the arc, two fifths of the way: both directions stay readable.
            x, y = xa + 0.4 * (xb - xa) + 0.055 * (yb - ya), ya + 0.4 * (yb - ya) - 0.055 * (xb - xa)
            axes.text(x, y, _rate(float(flows[a, b])), fontsize=7, ha="center", va="center", zorder=2, color="#6b2a17")


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
