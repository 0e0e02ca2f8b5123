"""A picture of a model: the DAG in the middle of each cluster, with its size and score."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from streamtune.models.bundle import ClusterModel, ModelBundle
from streamtune.reports.cluster_pictures import draw_dataflow
from streamtune.reports.pictures import save_picture

_PANEL_INCHES = (9.0, 1.9)


def draw_model(bundle: ModelBundle, path: Path) -> None:
    """One panel per encoder, the global one first."""
    models = [bundle.fallback, *bundle.clusters]
    width, height = _PANEL_INCHES
    figure = Figure(figsize=(width, height * len(models)))
    panels = figure.subplots(len(models), 1, squeeze=False)[:, 0]
    for panel, model in zip(panels, models, strict=True):
        panel.set_axis_off()
        panel.set_title(_title(model), fontsize=9, loc="left")
        if model.centre is None:
            panel.text(0.02, 0.5, "all jobs, whatever their shape", va="center", color="#5b6472")
        else:
            draw_dataflow(panel, model.centre, "#2f6fbd", (width * 0.9, height * 0.75))
    figure.tight_layout()
    save_picture(figure, path, dpi=130)


def _title(model: ClusterModel) -> str:
    score = model.member.metrics.get("auc_pr")
    known = "not scored" if score is None or score != score else f"AUC-PR {score:.3f} on jobs never seen"
    return f"{model.name}: {model.member.runs:,} runs of {model.member.jobs:,} jobs, {known}"
