"""Two pictures of a session: the best so far over the trials, and every configuration as a line over its knobs."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np

from streamtune.autoconfig.journal import make_folder
from streamtune.autoconfig.problem import Problem
from streamtune.autoconfig.trial import Trial, scores
from streamtune.outputs import write_whole

_MOST_KNOBS = 14


def draw(trials: Sequence[Trial], problem: Problem, folder: Path) -> list[Path]:
    """Write ``convergence.svg`` and ``parallel.svg``; matplotlib without a display."""
    import matplotlib as mpl

    mpl.use("Agg")
    make_folder(folder)
    return [_convergence(trials, problem, folder), _parallel(trials, problem, folder)]


def _convergence(trials: Sequence[Trial], problem: Problem, folder: Path) -> Path:
    import matplotlib.pyplot as plt

    sign = 1.0 if problem.objective.maximise else -1.0
    good = [trial for trial in trials if trial.value is not None]
    figure, plot = plt.subplots(figsize=(8, 3.4))
    plot.plot(
        [t.number for t in good], [float(t.value or 0.0) for t in good], "o", ms=3.5, color="#1f6f8b", label="trial"
    )
    if good:
        best = list(accumulate((sign * float(t.value or 0.0) for t in good), max))
        plot.step(
            [t.number for t in good], [sign * value for value in best], where="post", color="#d1603d", label="best"
        )
        failed = [t.number for t in trials if t.failed]
        plot.plot(
            failed, [min(float(t.value or 0.0) for t in good)] * len(failed), "x", color="#4a4e57", label="failed"
        )
        plot.legend(frameon=False, fontsize=8)
    plot.set_xlabel("trial")
    plot.set_ylabel(f"value ({problem.objective.direction})")
    return _save(figure, folder / "convergence.svg")


def _parallel(trials: Sequence[Trial], problem: Problem, folder: Path) -> Path:
    import matplotlib.pyplot as plt

    names = list(problem.space.knobs)[:_MOST_KNOBS]
    good = [trial for trial in trials if trial.value is not None]
    values = np.array(scores(good, problem.objective.maximise))
    figure, plot = plt.subplots(figsize=(max(6.0, 1.1 * len(names)), 3.8))
    colours = plt.get_cmap("viridis")
    span = float(np.ptp(values)) if len(good) else 0.0
    for place in np.argsort(values):  # the best ones are drawn last, on top
        full = problem.space.filled(good[place].knobs)
        heights = [_height(problem, name, full[name]) for name in names]
        share = (values[place] - values.min()) / span if span else 1.0
        plot.plot(range(len(names)), heights, color=colours(share), alpha=0.3 + 0.7 * share, lw=0.8 + 1.2 * share)
    plot.set_xticks(range(len(names)), names, rotation=25, ha="right", fontsize=8)
    plot.set_yticks([0, 1], ["low", "high"])
    plot.set_title("yellow is best", fontsize=8, loc="left")
    return _save(figure, folder / "parallel.svg")


def _height(problem: Problem, name: str, value: int | float | str | bool) -> float:
    knob = problem.space.knobs[name]
    if knob.type == "category":
        return knob.position(value) / max(1, len(knob.choices) - 1)
    return knob.to_unit(value)[0]


def _save(figure: object, path: Path) -> Path:
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    assert isinstance(figure, Figure)
    figure.tight_layout()
    drawn = io.BytesIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    write_whole(path, drawn.getvalue())
    plt.close(figure)
    return path
