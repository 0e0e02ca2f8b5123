"""Fig. 8 of the StreamTune paper (Section V-F) on a real Timely Dataflow.

Every tuner takes Nexmark Q3, Q5 and Q8 from the initial plan through a sequence of source rates that ends at 10·W_u.
What counts is the total parallelism it then recommends (Fig. 8a) and the per-epoch latencies under it (Fig. 8b to 8d).
Rates are scaled to this machine (``workloads.timely``); all tuners get the same observations and the same bound.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from pydantic import Field

from streamtune.control.controller import StopReason
from streamtune.control.guards import Guards
from streamtune.dataflow import Job
from streamtune.engines.base import Deployment, MeasurementWindow
from streamtune.engines.simulator import SimulatorSettings, find_oracle
from streamtune.engines.timely import EpochLatencies, TimelyEngine, TimelySettings
from streamtune.errors import StreamTuneError
from streamtune.experiments.paper.findings import Shown
from streamtune.frozen import Frozen
from streamtune.labs.timely import DEFAULT_WINDOW, measure_latency, tune_on_timely
from streamtune.readings import LabelSettings
from streamtune.settings import Settings
from streamtune.tuners import Tuner, make_tuner
from streamtune.workloads import timely

MakeTuner = Callable[[str, Job], Tuner]
Tell = Callable[[str], None]

OURS = "streamtune"
LATENCY_TOLERANCE = 1.25
# Latency that grows faster than this over half a minute is a queue that grows without end, not noise.
FALLS_BEHIND_MS_PER_S = 20.0


class Fig8Settings(Settings):
    """What is run. The defaults take about a quarter of an hour on an idle machine."""

    tuners: tuple[str, ...] = Field(default=(OURS, "ds2", "conttune"), description="methods to compare")
    queries: tuple[str, ...] = Field(default_factory=lambda: tuple(timely.names()), description="workloads")
    multiples: tuple[float, ...] = Field(
        default=(5.0, 10.0), min_length=1, description="source rates in W_u, one tuning process each; the last counts"
    )
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1, description="draws records and service times")
    settle_s: float = Field(default=DEFAULT_WINDOW.settle_s, ge=0, description="wait after a change before measuring")
    window_s: float = Field(default=DEFAULT_WINDOW.length_s, gt=0, description="length of one observation")
    latency_windows: int = Field(default=3, ge=1, description="observations of the final plan for its latencies")
    max_reconfigurations: int = Field(default=6, ge=1, description="bound per change of rates")
    backlog_growth_share: float | None = Field(
        default=None, gt=0, description="count a growing queue as a bottleneck too (labels.LabelSettings); none: off"
    )

    @property
    def window(self) -> MeasurementWindow:
        return MeasurementWindow(self.settle_s, self.window_s)


class Cell(Frozen):
    """One tuner on one query under one seed."""

    query: str
    tuner: str
    seed: int
    plan: dict[str, int]
    total_parallelism: int
    reconfigurations: tuple[int, ...]
    stop_reason: StopReason
    bottleneck_left: bool
    latency_ms: tuple[float, ...]
    open_epochs: int
    latency_growth_ms_per_s: float | None

    @property
    def place(self) -> tuple[str, str, int]:
        return self.query, self.tuner, self.seed

    @property
    def latencies(self) -> EpochLatencies:
        return EpochLatencies((), self.latency_ms, self.open_epochs)


class Fig8Result(Frozen):
    """All cells so far with the settings they were made under."""

    settings: Fig8Settings
    cells: tuple[Cell, ...] = ()

    def of(self, query: str, tuner: str) -> list[Cell]:
        return [cell for cell in self.cells if (cell.query, cell.tuner) == (query, tuner)]

    def total(self, query: str, tuner: str) -> float | None:
        """Mean total parallelism over the seeds."""
        cells = self.of(query, tuner)
        return sum(cell.total_parallelism for cell in cells) / len(cells) if cells else None

    def latencies(self, query: str, tuner: str) -> EpochLatencies:
        """All epochs of all seeds."""
        found = EpochLatencies((), ())
        for cell in self.of(query, tuner):
            found = found.and_then(cell.latencies)
        return found

    def growth_ms_per_s(self, query: str, tuner: str) -> float | None:
        """Mean trend of per-epoch latency over the seeds."""
        found = [cell.latency_growth_ms_per_s for cell in self.of(query, tuner)]
        known = [growth for growth in found if growth is not None]
        return sum(known) / len(known) if known else None

    @property
    def is_complete(self) -> bool:
        return len(self.cells) == len(self.settings.tuners) * len(self.settings.queries) * len(self.settings.seeds)


class Claim(Frozen):
    """Something the paper says, and what was measured here."""

    query: str
    rival: str
    text: str
    measured: str
    holds: bool


def claims(result: Fig8Result) -> list[Claim]:
    """Ours against every rival: parallelism not above, p95 of per-epoch latency within 1.25 times."""
    found: list[Claim] = []
    rivals = [tuner for tuner in result.settings.tuners if tuner != OURS]
    for query in result.settings.queries:
        ours, own = result.total(query, OURS), result.latencies(query, OURS)
        for rival in rivals:
            theirs, other = result.total(query, rival), result.latencies(query, rival)
            if ours is None or theirs is None:
                continue
            less, growth = 1 - ours / theirs, result.growth_ms_per_s(query, rival)
            lags = growth is not None and growth > FALLS_BEHIND_MS_PER_S
            found.append(
                Claim(
                    query=query,
                    rival=rival,
                    text="total parallelism not above",
                    measured=f"{ours:g} against {theirs:g} ({less:+.1%} saved)"
                    + (f"; {rival} falls behind by {growth:.0f} ms/s" if lags else ""),
                    holds=ours <= theirs,
                )
            )
            p95, rival_p95 = own.percentile_ms(95), other.percentile_ms(95)
            found.append(
                Claim(
                    query=query,
                    rival=rival,
                    text=f"p95 of per-epoch latency within {LATENCY_TOLERANCE:g} ×",
                    measured=f"{p95:,.0f} ms against {rival_p95:,.0f} ms ({p95 / rival_p95:.2f} ×)",
                    holds=p95 <= LATENCY_TOLERANCE * rival_p95,
                )
            )
    return found


def least_total(query: str, multiple: float) -> int:
    """The least total parallelism that serves the whole rate, by the emulated service times; no tuner sees it."""
    workload = timely.load(query)
    job = workload.spec.job
    fixed = {source.id: job.initial_plan[source.id] for source in job.dataflow.sources}
    rates = workload.rates_at(multiple)
    return find_oracle(job, workload.physics, rates, fixed=fixed, settings=SimulatorSettings.exact()).total


def table(result: Fig8Result) -> Shown:
    """Fig. 8 in figures: a row per query and tuner, over all seeds."""
    rows = []
    for query in result.settings.queries:
        least = least_total(query, result.settings.multiples[-1])
        for tuner in result.settings.tuners:
            cells, found = result.of(query, tuner), result.latencies(query, tuner)
            if cells:
                totals = ", ".join(str(cell.total_parallelism) for cell in cells)
                growth = result.growth_ms_per_s(query, tuner)
                trend = "–" if growth is None else f"{growth:.1f}"
                p50, p95 = (f"{found.percentile_ms(percent):,.0f}" for percent in (50, 95))
                rows.append((f"{query}, {tuner}", totals, str(least), p50, p95, trend))
    headings = ("query, tuner", "total parallelism (seeds)", "least for the rate", "p50 ms", "p95 ms", "trend ms/s")
    return Shown("", headings, tuple(rows))


def run_fig8(
    settings: Fig8Settings | None = None,
    *,
    make: MakeTuner = make_tuner,
    results: Path | None = None,
    most_cells: int | None = None,
    tell: Tell = lambda _text: None,
) -> Fig8Result:
    """Run what ``results`` does not hold yet, at most ``most_cells`` of it; every cell is saved when it is done."""
    settings = settings or Fig8Settings()
    result = _resume(settings, results)
    done = {cell.place for cell in result.cells}
    wanted = [
        (query, tuner, seed) for seed in settings.seeds for query in settings.queries for tuner in settings.tuners
    ]
    for query, tuner, seed in [place for place in wanted if place not in done][:most_cells]:
        cell = run_cell(query, tuner, seed, settings, make)
        result = result.model_copy(update={"cells": (*result.cells, cell)})
        tell(
            f"{query}, {tuner}, seed {seed}: total parallelism {cell.total_parallelism}, "
            f"p95 {cell.latencies.percentile_ms(95):,.0f} ms, {sum(cell.reconfigurations)} reconfigurations"
        )
        if results is not None:
            _save(result, results)
    return result


def run_cell(query: str, tuner: str, seed: int, settings: Fig8Settings, make: MakeTuner = make_tuner) -> Cell:
    """One tuner through all rates of one query, then its latencies."""
    workload = timely.load(query)
    found: list[EpochLatencies] = []

    def measure(engine: TimelyEngine, deployment: Deployment) -> None:
        found.append(measure_latency(engine, deployment, settings.window, settings.latency_windows))

    story = tune_on_timely(
        workload.spec,
        lambda job: make(tuner, job),
        [workload.rates_at(multiple) for multiple in settings.multiples],
        seed=seed,
        settings=TimelySettings(labels=LabelSettings(backlog_growth_share=settings.backlog_growth_share)),
        guards=Guards(max_reconfigurations=settings.max_reconfigurations),
        window=settings.window,
        afterwards=measure,
    )
    last, latencies = story.changes[-1], found[0]
    return Cell(
        query=query,
        tuner=tuner,
        seed=seed,
        plan=dict(last.plan),
        total_parallelism=last.total_parallelism,
        reconfigurations=tuple(change.reconfigurations for change in story.changes),
        stop_reason=last.stop_reason,
        bottleneck_left=last.backpressure,
        latency_ms=tuple(round(value, 3) for value in latencies.latency_ms),
        open_epochs=latencies.open_epochs,
        latency_growth_ms_per_s=latencies.growth_ms_per_s,
    )


def _resume(settings: Fig8Settings, results: Path | None) -> Fig8Result:
    if results is None or not results.exists():
        return Fig8Result(settings=settings)
    try:
        known = Fig8Result.model_validate_json(results.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StreamTuneError(f"{results} is not a result of Fig. 8: remove it or choose another file") from error
    if known.settings != settings:
        raise StreamTuneError(f"{results} was made under other settings: remove it or choose another file")
    return known


def _save(result: Fig8Result, path: Path) -> None:
    """Atomically, so that a killed run leaves the file as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    unfinished.write_text(json.dumps(result.model_dump(mode="json"), indent=1) + "\n", encoding="utf-8")
    os.replace(unfinished, path)
