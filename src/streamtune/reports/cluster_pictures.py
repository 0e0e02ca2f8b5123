"""Pictures of a clustering: the elbow curve, and the shapes on a map with the centre DAG of each cluster beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path as Outline
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from streamtune.dataflow import Dataflow
from streamtune.reports.dag_drawing import BOX_HEIGHT, BOX_WIDTH, draw_dag

if TYPE_CHECKING:
    from streamtune.history.cluster import ClusteredShapes, ClusteringSummary, ClusterSummary

ELBOW = "elbow.png"
MAP = "clusters.png"
# More points than this cannot be told apart, and multidimensional scaling takes the cube of their number.
MOST_POINTS = 400
MOST_CENTRES = 12
_DPI = 130
_MAP_INCHES = 6.6
_PANEL_INCHES = (6.4, 2.3)
_LARGEST_BOX_INCHES = 0.85
# Okabe and Ito's colours, which colour-blind readers can tell apart, and as many markers as there may be centres.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b4fa0", "#7a7a00")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "8")
_STEP = re.compile(r"([MLCZ])([^MLCZ]*)")


def draw_pictures(found: ClusteredShapes, folder: Path) -> None:
    """Write both pictures; the elbow only where the elbow method was used."""
    if found.summary.elbow:
        _save(_elbow_figure(found.summary), folder / ELBOW)
    _save(_map_figure(found), folder / MAP)


def _elbow_figure(summary: ClusteringSummary) -> Figure:
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.add_subplot()
    values = 1 + np.asarray(summary.elbow)
    ks = np.arange(1, len(values) + 1)
    axes.plot(ks[[0, -1]], values[[0, -1]], color="#b0b0b0", linestyle="--", linewidth=1)
    axes.plot(ks, values, color=_COLOURS[0], marker="o", markersize=5)
    axes.plot([summary.k], [values[summary.k - 1]], "o", markersize=13, fillstyle="none", color=_COLOURS[1], mew=2)
    axes.annotate(
        f"k = {summary.k}",
        (summary.k, values[summary.k - 1]),
        textcoords="offset points",
        xytext=(12, 10),
        color=_COLOURS[1],
        weight="bold",
    )
    axes.set(
        yscale="log",
        xlabel="number of clusters k",
        ylabel="1 + mean squared edit distance\nof a run to its centre",
        title=f"{summary.shapes:,} dataflow shapes of {summary.runs:,} runs; "
        + ("the elbow is furthest below the chord" if summary.k > 1 else "no elbow: one cluster"),
    )
    axes.title.set_fontsize(9.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.tick_params(which="both", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", which="both", color="#e8e8e8", linewidth=0.6)
    axes.set_axisbelow(True)
    return figure


def _map_figure(found: ClusteredShapes) -> Figure:
    shown = found.summary.clusters[:MOST_CENTRES]
    columns = 1 if len(shown) <= 4 else 2
    rows = -(-len(shown) // columns)
    width, height = _PANEL_INCHES
    figure = Figure(figsize=(_MAP_INCHES + columns * width, max(_MAP_INCHES, rows * height)), layout="constrained")
    grid = figure.add_gridspec(rows, columns + 1, width_ratios=[_MAP_INCHES, *[width] * columns])
    _draw_map(figure.add_subplot(grid[:, 0]), found)
    for position, cluster in enumerate(shown):
        panel = figure.add_subplot(grid[position % rows, 1 + position // rows])
        _draw_centre(panel, cluster, (width, max(_MAP_INCHES / rows, height)))
    return figure


def _draw_map(axes: Axes, found: ClusteredShapes) -> None:
    """Shapes where their distances put them, as well as a plane can."""
    members = _most_frequent(found)
    places = _scaled(found.table.estimate(members))
    assignment, weights = found.clusters.assignment[members], found.shapes.weights[members]
    areas = 18 + 160 * np.sqrt(weights / weights.max())
    is_centre = np.isin(members, found.clusters.centres)
    for cluster in found.summary.clusters:
        colour, marker = _look(cluster.cluster)
        chosen = (assignment == cluster.cluster) & ~is_centre
        x, y = places[chosen].T
        axes.scatter(x, y, s=areas[chosen], c=colour, marker=marker, alpha=0.6, linewidths=0)
    for index in np.flatnonzero(is_centre):
        colour, marker = _look(int(assignment[index]))
        x, y = places[index]
        axes.scatter([x], [y], s=230, c=colour, marker=marker, edgecolors="black", linewidths=1.4, zorder=3)
        axes.annotate(
            str(assignment[index]),
            (x, y),
            textcoords="offset points",
            xytext=(11, 9),
            weight="bold",
            zorder=4,
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )
    summary = found.summary
    shown = "" if len(members) == summary.shapes else f", of which the {len(members):,} most frequent are shown"
    axes.set_title(
        f"{summary.shapes:,} dataflow shapes of {summary.runs:,} runs{shown}\n"
        "edit distances as distances in the plane (MDS); size: runs; numbered: centres",
        fontsize=9.5,
        loc="left",
    )
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.06)
    axes.tick_params(labelsize=7, colors="#808080")
    axes.spines[:].set_color("#d0d0d0")


def _most_frequent(found: ClusteredShapes) -> NDArray[np.int64]:
    """The centres, and the shapes with the most runs."""
    order = np.lexsort((np.arange(len(found.shapes)), -found.shapes.weights))
    centres = np.asarray(found.clusters.centres, np.int64)
    others = order[~np.isin(order, centres)]
    return np.sort(np.concatenate([centres, others[: max(0, MOST_POINTS - len(centres))]]))


def _scaled(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Multidimensional scaling: Torgerson's classical solution, then SMACOF from there, so that nothing is drawn."""
    from sklearn.manifold import smacof

    count = len(distances)
    if count < 3:
        return np.column_stack([np.arange(count) * distances.max(initial=1.0), np.zeros(count)])
    centring = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-0.5 * centring @ distances**2 @ centring)
    start = vectors[:, [-1, -2]] * np.sqrt(np.maximum(values[[-1, -2]], 1e-9))
    # An eigenvector's sign is arbitrary: make the largest entry positive.
    start *= np.sign(start[np.abs(start).argmax(axis=0), [0, 1]])
    places, _ = smacof(distances, n_components=2, init=start, n_init=1, normalized_stress=False)
    return np.asarray(places)


def _draw_centre(panel: Axes, cluster: ClusterSummary, inches: tuple[float, float]) -> None:
    colour, marker = _look(cluster.cluster)
    panel.set_axis_off()
    panel.plot([0.012], [1.06], marker=marker, color=colour, markersize=8, transform=panel.transAxes, clip_on=False)
    panel.text(
        0.035,
        1.06,
        f"cluster {cluster.cluster}: {cluster.runs:,} runs of {cluster.shapes:,} shape{'s' * (cluster.shapes > 1)}, "
        f"distance to this centre {cluster.mean_distance:.1f} on average, {cluster.max_distance} at most",
        fontsize=8.5,
        va="center",
        transform=panel.transAxes,
    )
    draw_dataflow(panel, cluster.centre, colour, inches)


def draw_dataflow(panel: Axes, flow: Dataflow, colour: str, inches: tuple[float, float]) -> None:
    """Boxes with types, from left to right, as large as ``inches`` (width, height) allow."""
    drawing = draw_dag(list(flow.index), [(edge.source, edge.target) for edge in flow.edges])
    width, height = inches[0] * 0.97, inches[1] * 0.8
    scale = min(width / max(drawing.width, 1), height / max(drawing.height, 1), _LARGEST_BOX_INCHES / BOX_WIDTH)
    panel.set_xlim(0, width / scale)
    middle = drawing.height / 2
    panel.set_ylim(middle + height / scale / 2, middle - height / scale / 2)
    for wire in drawing.wires:
        panel.add_patch(PathPatch(_outline(wire.path), fill=False, edgecolor="#7a8494", linewidth=1.0))
        panel.add_patch(PathPatch(_outline(wire.arrow), facecolor="#7a8494", edgecolor="#7a8494", linewidth=0.8))
    for box in drawing.boxes:
        place = (box.x, box.y)
        panel.add_patch(
            FancyBboxPatch(
                place,
                BOX_WIDTH,
                BOX_HEIGHT,
                boxstyle="round,pad=0,rounding_size=18",
                facecolor=f"{colour}22",
                edgecolor=colour,
                linewidth=1.1,
            )
        )
        words = flow.operator(box.operator).type.split("_")
        room = min(BOX_WIDTH * scale * 72 / (0.6 * max(map(len, words))), BOX_HEIGHT * scale * 72 / (1.3 * len(words)))
        panel.text(
            box.x + BOX_WIDTH / 2,
            box.y + BOX_HEIGHT / 2,
            "\n".join(words),
            ha="center",
            va="center",
            fontsize=min(8.5, room),
            linespacing=1.05,
        )


def _outline(path: str) -> Outline:
    """SVG path data, as ``dag_drawing`` writes it, for matplotlib."""
    points: list[tuple[float, float]] = []
    codes: list[int] = []
    kinds = {"M": Outline.MOVETO, "L": Outline.LINETO, "C": Outline.CURVE4, "Z": Outline.CLOSEPOLY}
    for kind, text in _STEP.findall(path):
        numbers = [float(number) for number in text.split()]
        ends = list(zip(numbers[::2], numbers[1::2], strict=True)) or [points[0]]
        points += ends
        codes += [int(kinds[kind])] * len(ends)
    return Outline(points, codes)


def _look(cluster: int) -> tuple[str, str]:
    return _COLOURS[cluster % len(_COLOURS)], _MARKERS[cluster % len(_MARKERS)]


def _save(figure: Figure, path: Path) -> None:
    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=_DPI)
