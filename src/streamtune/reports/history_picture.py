"""A picture of a history: how many runs there are of each size of dataflow."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from streamtune.history.show import Summary
from streamtune.outputs import write_whole
from streamtune.reports.pages import ReportError


def draw_sizes(summary: Summary, path: str | Path) -> None:
    """Runs by number of operators as a picture, as in Fig. 5 of the StreamTune paper."""
    if not summary.by_operators:
        raise ReportError("there is nothing to draw: the history has no valid runs")
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    sizes = range(min(summary.by_operators), max(summary.by_operators) + 1)
    counts = [summary.by_operators.get(size, 0) for size in sizes]
    bars = axes.bar([str(size) for size in sizes], counts, color="#4c72b0")
    axes.bar_label(bars, labels=[f"{count:,}" if count else "" for count in counts], padding=2, fontsize=8)
    axes.set(
        xlabel="operators in the dataflow", ylabel="runs", title=f"{summary.valid:,} runs by size of their dataflow"
    )
    axes.margins(y=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    drawn = BytesIO()
    figure.savefig(drawn, dpi=120, format=Path(path).suffix.lstrip(".").lower())
    write_whole(Path(path), drawn.getvalue())
