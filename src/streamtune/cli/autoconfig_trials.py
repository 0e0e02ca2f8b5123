"""Trials on the screen: a live table on a terminal, a line per trial elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from streamtune.cli.output import err, plain

if TYPE_CHECKING:
    from streamtune.autoconfig.choice import Best
    from streamtune.autoconfig.problem import Problem
    from streamtune.autoconfig.trial import Trial

_MOST_KNOBS = 8
_FRAME = 8
"""Lines of the screen that are not rows: title, headings, borders, the best one when it has scrolled away."""


class TrialsView:
    """What ``run`` shows while it runs. A context; ``tell`` is given every trial as it ends."""

    def __init__(self, problem: Problem, steps: int, *, live: bool, console: Console = err) -> None:
        self._problem = problem
        self._steps = steps
        self._console = console
        self._shown: deque[Trial] = deque(maxlen=max(3, console.size.height - _FRAME))
        self._seen: dict[int, Trial] = {}
        self._live = Live(console=console, auto_refresh=False, transient=True) if live and console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def tell(self, trial: Trial, best: Best | None) -> None:
        if self._live is None:
            self._print(trial, best)
            return
        self._shown.append(trial)
        self._seen[trial.number] = trial
        number = None if best is None else best.number
        self._live.update(self._table(trial, number), refresh=True)

    def _table(self, last: Trial, best: int | None) -> Table:
        """The newest trials, and the best one above them when it is older."""
        rows = list(self._shown)
        if best is not None and best in self._seen and best < rows[0].number:
            rows.insert(0, self._seen[best])
        return trials_table(rows, self._problem, best, title=f"Trial {last.number + 1} of {self._steps}")

    def _print(self, trial: Trial, best: Best | None) -> None:
        value = f"failed: {trial.reason}" if trial.value is None else f"{trial.value:.6g}"
        mark = " *" if best is not None and best.number == trial.number else ""
        knobs = ", ".join(f"{name}={short(item)}" for name, item in list(trial.knobs.items())[:_MOST_KNOBS])
        more = " …" if len(trial.knobs) > _MOST_KNOBS else ""
        self._console.print(
            f"{trial.number + 1}/{self._steps}  {plain(value)}{mark}  {trial.seconds:.1f} s  {plain(knobs)}{more}",
            highlight=False, soft_wrap=True, style="dim",
        )  # fmt: skip


def trials_table(trials: Sequence[Trial], problem: Problem, best: int | None = None, title: str = "Trials") -> Table:
    """A row per trial; the best one is marked."""
    names = list(problem.space.knobs)[:_MOST_KNOBS]
    table = Table("trial", *(plain(name) for name in names), "value", "s", title=title, title_justify="left")
    for trial in trials:
        value = "failed" if trial.value is None else f"{trial.value:.6g}"
        cells = [plain(short(trial.knobs[name])) if name in trial.knobs else "–" for name in names]
        mark = " *" if trial.number == best else ""
        style = "bold" if mark else None
        table.add_row(str(trial.number), *cells, f"{value}{mark}", f"{trial.seconds:.1f}", style=style)
    return table


def short(value: object) -> str:
    """A knob's value in a cell."""
    return f"{value:.5g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
