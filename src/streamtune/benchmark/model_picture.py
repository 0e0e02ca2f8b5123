"""A picture of a model: the DAG in the middle of each cluster, with its size and score."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from streamtune.benchmark.dag_drawing import BOX_HEIGHT, BOX_WIDTH, draw_dag
from streamtune.dataflow import Dataflow
from streamtune.encoder.bundle import ClusterModel, ModelBundle

_COLUMNS = 4


def draw_model(bundle: ModelBundle, path: Path) -> None:
    """One panel per encoder, the global one first."""
    models = [bundle.fallback, *bundle.clusters]
    rows = -(-len(models) // _COLUMNS)
    figure, grid = plt.subplots(
        rows, min(_COLUMNS, len(models)), figsize=(3.4 * min(_COLUMNS, len(models)), 2.6 * rows), squeeze=False
    )
    panels = list(grid.flat)
    for panel, model in zip(panels, models, strict=False):
        panel.set_axis_off()
        panel.set_title(_title(model), fontsize=8, loc="left")
        if model.centre is None:
            panel.text(0.5, 0.5, "all jobs", ha="center", va="center", color="grey", transform=panel.transAxes)
        else:
            _draw_dag(panel, model.centre)
    for panel in panels[len(models) :]:
        panel.set_axis_off()
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _title(model: ClusterModel) -> str:
    score = model.member.metrics.get("auc_pr")
    known = "–" if score is None or score != score else f"{score:.3f}"
    return f"{model.name}: {model.member.runs:,} runs, {model.member.jobs:,} jobs\nAUC-PR {known}"


def _draw_dag(panel: Axes, flow: Dataflow) -> None:
    """From left to right, nodes as points with their type below."""
    edges = [(edge.source, edge.target) for edge in flow.edges]
    place = {box.operator: (box.x / BOX_WIDTH, -box.y / BOX_HEIGHT) for box in draw_dag(list(flow.index), edges).boxes}
    for a, b in edges:
        panel.annotate(
            "", xy=place[b], xytext=place[a], arrowprops={"arrowstyle": "-|>", "color": "#8a94a6", "lw": 0.9}
        )
    for operator in flow.operators:
        x, y = place[operator.id]
        panel.plot([x], [y], "o", color="#2f6fbd", markersize=6)
        panel.text(x, y - 0.16, operator.type.replace("_", "\n"), ha="center", va="top", fontsize=6)
    panel.margins(0.2, 0.35)
