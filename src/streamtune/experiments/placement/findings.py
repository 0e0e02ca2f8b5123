"""``Table``: one table or figure of the study with the thesis' numbers beside ours, as text, HTML and JSON."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from streamtune.outputs import write_whole

Cell = str | float | int | None


@dataclass(frozen=True)
class Chart:
    """Lines over one axis."""

    x: str
    y: str
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Table:
    """What an experiment found."""

    key: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    thesis: str
    note: str = ""
    charts: tuple[Chart, ...] = field(default=())

    def to_record(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "title": self.title,
            "thesis": self.thesis,
            "note": self.note,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "charts": [asdict(chart) for chart in self.charts],
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Table:
        """The reverse of ``to_record``."""
        charts = tuple(Chart(**chart) for chart in record["charts"])
        texts = (record["key"], record["title"], tuple(record["columns"]), tuple(map(tuple, record["rows"])))
        return cls(*texts, record["thesis"], record["note"], charts)

    def to_markdown(self) -> str:
        lines = [f"### {self.title}", "", f"Thesis: {self.thesis}", ""]
        lines += ["| " + " | ".join(self.columns) + " |", "|" + " --- |" * len(self.columns)]
        lines += ["| " + " | ".join(shown(cell) for cell in row) + " |" for row in self.rows]
        return "\n".join([*lines, *(["", self.note] if self.note else []), ""])

    def to_html(self) -> str:
        head = "".join(f"<th>{html.escape(column)}</th>" for column in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(shown(cell))}</td>" for cell in row) + "</tr>" for row in self.rows
        )
        pictures = "".join(f'<img alt="{html.escape(chart.y)}" src="{_picture(chart)}">' for chart in self.charts)
        note = f"<p>{html.escape(self.note)}</p>" if self.note else ""
        return (
            f'<section id="{self.key}"><h2>{html.escape(self.title)}</h2>'
            f"<p><b>Thesis:</b> {html.escape(self.thesis)}</p>"
            f"{pictures}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}</section>"
        )


def shown(cell: Cell) -> str:
    """A cell as text.

    >>> shown(None), shown(12345.6), shown(0.1234), shown("x")
    ('–', '12,346', '0.123', 'x')
    """
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    return f"{cell:,.0f}" if abs(cell) >= 1000 or cell == int(cell) else f"{cell:.3g}"


def _picture(chart: Chart) -> str:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.6))
    for name, (x, y) in chart.lines.items():
        axes.plot(x, y, marker="o", markersize=3, label=name)
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight")
    plt.close(figure)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em;color:#1c2733}"
    "table{border-collapse:collapse;font-size:13px;margin:1em 0}td,th{border:1px solid #cfd8e3;padding:3px 8px;"
    "text-align:right}td:first-child,th:first-child{text-align:left}th{background:#eef3fb}img{max-width:100%}"
)


def write_report(path: Path, tables: Sequence[Table], command: str) -> None:
    """One HTML file that needs nothing else."""
    body = "".join(table.to_html() for table in tables)
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Placement, measured again</title>'
        f"<style>{_STYLE}</style></head><body><h1>Placement by graph partitioning, measured again</h1>"
        f"<p>Made by <code>{html.escape(command)}</code>. Figures and tables of the thesis are on the model of hosts, "
        "calibrated on four real ones; what was measured on real hosts says so in its title.</p>"
        f"{body}</body></html>\n"
    )
    write_whole(path, text)
