"""The pictures of docs/results/first-plan.md, from the tables that ``bench coldstart`` wrote.

    python benchmarks/coldstart_pictures.py

Reads ``benchmarks/results/coldstart.json``, writes ``docs/images/first-plan-curve.svg`` and ``first-plan-ways.svg``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from streamtune.experiments.paper.findings import COLOURS, axes, svg

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"


def tables() -> dict[str, Any]:
    findings = json.loads((ROOT / "benchmarks/results/coldstart.json").read_text(encoding="utf-8"))
    return {table["title"]: table["rows"] for finding in findings for table in finding["tables"]}


def share(text: str) -> float:
    return float(text.rstrip("%"))


def curve(rows: list[list[str]]) -> str:
    figure, (plot,) = axes(6.4, 3.6)
    for number, (label, clean, total) in enumerate((("our prior", 1, 2), ("the limit: knows the law", 3, 4))):
        x, y = [float(row[total]) for row in rows], [share(row[clean]) for row in rows]
        plot.plot(x, y, "o-", ms=4, label=label, color=COLOURS[number])
    for row in rows:
        plot.annotate(row[0], (float(row[2]), share(row[1])), textcoords="offset points", xytext=(5, -9), fontsize=7)
    plot.set_xlabel("total parallelism of first plans / oracle")
    plot.set_ylabel("clean first plans, %")
    plot.legend(frameon=False, fontsize=8, loc="lower right")
    return svg(figure)


def ways(kinds: dict[str, list[list[str]]]) -> str:
    figure, plots = axes(9.0, 3.2, 2)
    labels = [row[0] for row in next(iter(kinds.values()))]
    for plot, (title, column) in zip(plots, (("clean first plans, %", 1), ("restarts to settle", 3)), strict=True):
        for number, (kind, rows) in enumerate(kinds.items()):
            places = [place + (number - 1) * 0.27 for place in range(len(labels))]
            plot.barh(places, [share(row[column]) for row in rows], 0.26, label=kind, color=COLOURS[number])
        plot.set_yticks(range(len(labels)), labels if plot is plots[0] else [""] * len(labels), fontsize=7)
        plot.invert_yaxis()
        plot.set_xlabel(title)
    plots[1].legend(frameon=False, fontsize=7)
    return svg(figure)


def main() -> None:
    found = tables()
    kinds = {title.split(":")[0]: rows for title, rows in found.items() if title.endswith("cold starts")}
    pages = {
        "first-plan-curve.svg": curve(found["never seen: share of clean first plans over their total"]),
        "first-plan-ways.svg": ways(kinds),
    }
    for name, text in pages.items():
        (IMAGES / name).write_text(text, encoding="utf-8")
        print(f"docs/images/{name}: {len(text) // 1024} KiB")


if __name__ == "__main__":
    main()
