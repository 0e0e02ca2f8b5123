"""The report of Fig. 8: bars of total parallelism, CDFs of per-epoch latency, and the paper's claims beside them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from streamtune import __version__
from streamtune.experiments.fig8 import Fig8Result, claims, least_total, table
from streamtune.reports.pages import template_environment, write_page

# Okabe and Ito's colours, which colour-blind readers can tell apart; ours comes first.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_DPI = 130
PAPER = (
    "Fig. 8a: StreamTune recommends a lower total parallelism than DS2 and ContTune on Q3, Q5 and Q8 at 10·W_u; "
    "on Q8 83.3 % less than DS2. Fig. 8b to 8d: the CDFs of per-epoch latency are comparable."
)


def draw_fig8(result: Fig8Result) -> Figure:
    """Panels as in the paper: (a) parallelism, then one CDF per query; two in a row, which fits a page."""
    queries = result.settings.queries
    rows = -(-(len(queries) + 1) // 2)
    figure = Figure(figsize=(9.6, 3.3 * rows + 0.4), layout="constrained")
    axes: Sequence[Axes] = list(figure.subplots(rows, 2, squeeze=False).flat)
    _bars(axes[0], result)
    for panel, query in zip(axes[1:], queries, strict=False):
        _cdf(panel, result, query)
    for panel in axes[len(queries) + 1 :]:
        panel.set_axis_off()
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(result.settings.tuners) + 1
    )
    return figure


def _bars(axes: Axes, result: Fig8Result) -> None:
    tuners, queries = result.settings.tuners, result.settings.queries
    width = 0.8 / len(tuners)
    for number, tuner in enumerate(tuners):
        totals = [result.total(query, tuner) or 0.0 for query in queries]
        places = [position + (number - (len(tuners) - 1) / 2) * width for position in range(len(queries))]
        bars = axes.bar(places, totals, width, label=tuner, color=_COLOURS[number % len(_COLOURS)])
        axes.bar_label(bars, labels=[f"{total:g}" if total else "–" for total in totals], fontsize=8)
    least = [least_total(query, result.settings.multiples[-1]) for query in queries]
    starts = [position - 0.45 for position in range(len(queries))]
    axes.hlines(
        least, starts, [start + 0.9 for start in starts], color="black", linewidth=1, label="least for the rate"
    )
    axes.set_xticks(range(len(queries)), list(queries))
    axes.set(title="(a) total parallelism at the last rate", ylabel="instances")
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)


def _cdf(axes: Axes, result: Fig8Result, query: str) -> None:
    for number, tuner in enumerate(result.settings.tuners):
        points = result.latencies(query, tuner).cdf()
        if points:
            latency, share = zip(*points, strict=True)
            axes.step(latency, share, where="post", color=_COLOURS[number % len(_COLOURS)], linewidth=1.6)
    axes.set(title=f"{query}: per-epoch latency", xlabel="ms", ylabel="share of epochs", ylim=(0, 1.02))
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.3, which="both")


def write_fig8(result: Fig8Result, report: Path | None = None, picture: Path | None = None) -> None:
    """The report as one HTML file, and the figure as PNG, whichever is asked for."""
    figure = draw_fig8(result)
    if picture is not None:
        picture.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(picture, format="png", dpi=_DPI, metadata={"Software": None})
    if report is not None:
        report.parent.mkdir(parents=True, exist_ok=True)
        write_page(report, render_fig8(result, figure))


def render_fig8(result: Fig8Result, figure: Figure) -> str:
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    svg = drawn.getvalue()
    found = claims(result)
    return (
        template_environment("streamtune.experiments")
        .get_template("fig8_report.html.j2")
        .render(
            version=__version__,
            paper=PAPER,
            settings=result.settings,
            figure=Markup(svg[svg.index("<svg") :]),
            cells=result.cells,
            table=table(result),
            claims=found,
            kept=sum(claim.holds for claim in found),
        )
    )
