"""The probability of keeping up over parallelism, one small plot per operator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl

from streamtune.reports.pictures import save_picture
from streamtune.tuners.streamtune import Verdict

mpl.use("Agg")
import matplotlib.pyplot as plt

_COLUMNS = 4


def draw_verdicts(path: Path, plan: Mapping[str, int], verdicts: Mapping[str, Verdict]) -> None:
    rows = -(-len(verdicts) // _COLUMNS)
    figure, plots = plt.subplots(rows, _COLUMNS, figsize=(3 * _COLUMNS, 2.2 * rows), squeeze=False, sharey=True)
    flat = [plot for row in plots for plot in row]
    for plot, (key, verdict) in zip(flat, verdicts.items(), strict=False):
        degrees = range(1, len(verdict.safe) + 1)
        plot.plot(degrees, verdict.safe, color="#1f6f8b")
        plot.axhline(verdict.needed, color="#999999", linewidth=0.7, linestyle=":")
        plot.axvline(plan[key], color="#d1603d", linewidth=1)
        plot.set_title(f"{key}: {plan[key]}", fontsize=9, parse_math=False)
        plot.set_xscale("log")
        plot.set_ylim(-0.03, 1.03)
        plot.spines[["top", "right"]].set_visible(False)
    for plot in flat[len(verdicts) :]:
        plot.axis("off")
    for row in plots:
        row[0].set_ylabel("keeps up", fontsize=8)
    figure.supxlabel("parallelism", fontsize=9)
    figure.tight_layout()
    save_picture(figure, path, dpi=120)
    plt.close(figure)
