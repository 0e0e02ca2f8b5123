"""The live table of a tuning process."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live

from streamtune.cli.output import operator_table, share, styled
from streamtune.control.controller import Moment
from streamtune.dataflow import Job


class LiveTable:
    """Shows every operator with its rate, busy and backpressured share and parallelism while tuning goes on."""

    def __init__(self, job: Job, changes: int, console: Console) -> None:
        self._job = job
        self._changes = changes
        self._applied = 0
        self._live = Live(console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, moment: Moment) -> None:
        if moment.kind == "applied":
            self._applied += 1
            return
        seen = moment.observation
        if seen is None:
            return
        rates = ", ".join(f"{source} {rate:,.0f}/s" for source, rate in moment.rates.items())
        title = f"change {moment.change + 1} of {self._changes}: {rates}"
        table = operator_table(title, "p", "in/s", "busy", "blocked")
        blocked = set(seen.backpressured())
        for operator in self._job.dataflow.operators:
            m = seen.operators[operator.id]
            stopped = share(m.backpressured_share)
            table.add_row(
                operator.id,
                str(m.parallelism),
                f"{m.records_in_per_s:,.0f}",
                f"{share(m.busy_share)} {'█' * round(8 * min(1.0, m.busy_share)):<8}",
                styled((stopped, "red")) if operator.id in blocked else stopped,
            )
        table.caption = f"total parallelism {seen.plan.total}, {self._applied} reconfigurations so far"
        self._live.update(table)
