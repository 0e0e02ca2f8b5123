"""Days of a real trace on the simulator, under the supervisor: proactive against reactive, downtimes included.

The first half of a trace trains the forecaster. Each method then lives through the same days: the supervisor watches
the job in windows of five minutes and changes it when backpressure is there, the rate has moved, or (proactive) the
forecast says so. What counts is the simulator's truth minute by minute, not what any tuner saw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from streamtune.control.controller import Controller
from streamtune.control.guards import Guards
from streamtune.control.settings import SupervisorSettings
from streamtune.control.supervisor import Supervisor
from streamtune.dataflow import BACKPRESSURE_SHARE, Observation, Plan
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.base import Deployment, MeasurementWindow
from streamtune.engines.simulator import Simulator, SimulatorSettings
from streamtune.engines.simulator.kernel import BLOCKED
from streamtune.engines.simulator.metrics import EPOCH, observation_of
from streamtune.engines.simulator.oracle import find_oracle
from streamtune.experiments.provisioning.traces import load_trace, scaled
from streamtune.forecasts.boosting import QuantileBoosting
from streamtune.forecasts.series import RateSeries
from streamtune.frozen import Frozen
from streamtune.provisioning.prices import PriceList
from streamtune.provisioning.settings import AheadSettings
from streamtune.tuners.ahead import Ahead
from streamtune.tuners.base import Tuner
from streamtune.tuners.ds2 import DS2
from streamtune.tuners.settings import DS2Settings
from streamtune.tuners.streamtune import StreamTune
from streamtune.workloads import load

Floats = npt.NDArray[np.float64]
LEVELS = (0.5, 0.7, 0.9)
_WAITING_S = 1.0  # a minute counts when more than so many seconds of input wait at its end


class DayStudy(Frozen):
    """One job, and how it is watched."""

    job: str = Field(default="nexmark-q1", description="The job; all its sources together follow the trace.")
    window_s: float = Field(default=300.0, description="Seconds between two looks.")
    peak_instances: int = Field(default=24, description="Instances that the widest operator needs at the trace's peak.")
    downtime_s: float = Field(default=10.0, description="Of a restart; a live rescale takes about 1.")
    horizon: int = Field(default=12, description="Windows to look ahead.")
    train_share: float = Field(default=0.5, gt=0, lt=1, description="The early part, to learn from.")


@dataclass(frozen=True)
class Setting:
    """One point of the trade-off: how far a method stays on the safe side."""

    method: str  # streamtune, ds2, ahead or perfect
    headroom: float = 0.0
    level: float = 0.9
    change: float = 0.01  # price of a change, with the default price list


@dataclass
class Ledger:
    """What really happened, minute by minute."""

    minutes: int = 0
    backpressured: int = 0
    instance_s: float = 0.0  # of what can be tuned: sources run all the time
    changes: int = 0


class TracedSimulator(Simulator):
    """The simulator with sources that follow a trace, whoever looks; it keeps the books as well.

    Each rate holds for ``minute_s`` seconds: 60, or fewer where the trace runs faster than it was recorded.
    """

    def __init__(
        self, spec: JobSpec, rates: Floats, settings: SimulatorSettings, seed: int, minute_s: float = 60.0
    ) -> None:
        super().__init__({spec.job.name: spec.physics or {}}, settings, seed=seed)
        offered = spec.job.source_rates
        self._shares = {key: rate / sum(offered.values()) for key, rate in offered.items()}
        self._tuned = [one.id for one in spec.job.dataflow.operators if not one.is_source]
        self._rates, self._minute_s, self.ledger = rates, minute_s, Ledger()
        self.now_s = 0.0

    @property
    def is_over(self) -> bool:
        return self.now_s >= self._minute_s * len(self._rates)

    def rescale(self, deployment: Deployment, plan: Plan) -> Deployment:
        self.ledger.changes += 1
        return super().rescale(deployment, plan)

    def observe(self, deployment: Deployment, window: MeasurementWindow) -> Observation:
        running = self._find(deployment)
        simulation = running.simulation
        self._live(deployment, max(0.0, running.changed_s + window.settle_s - simulation.now_s))
        simulation.reset_totals()
        begun = simulation.now_s
        self._live(deployment, window.length_s)
        seen = observation_of(simulation, running.random)
        # What the sources were offered in the mean, as an engine measures it.
        first, last = int(begun // self._minute_s), int(simulation.now_s // self._minute_s)
        minutes = self._rates[first : max(first + 1, last)]
        mean = float(minutes.mean()) if len(minutes) else float(self._rates[-1])
        return seen.model_copy(update={"source_rates": {key: mean * share for key, share in self._shares.items()}})

    def _live(self, deployment: Deployment, seconds: float) -> None:
        simulation = self._find(deployment).simulation
        end = simulation.now_s + seconds
        while end - simulation.now_s > 1e-6:
            minute = int((simulation.now_s + 1e-6) // self._minute_s)
            rate = float(self._rates[min(minute, len(self._rates) - 1)])
            simulation.set_rates({key: rate * share for key, share in self._shares.items()})
            before = simulation.totals.sums[:, BLOCKED].copy()
            # Downtimes end between two steps: a rest shorter than one is lived through whole.
            step_s = max(min(end, self._minute_s * (minute + 1)) - simulation.now_s, self._settings.step_s)
            simulation.advance(step_s)
            blocked = (simulation.totals.sums[:, BLOCKED] - before).max() > BACKPRESSURE_SHARE * step_s
            self.ledger.instance_s += sum(deployment.plan[key] for key in self._tuned) * step_s
            self.now_s = simulation.now_s
            if simulation.now_s >= self._minute_s * (minute + 1) - 1e-6:
                self.ledger.minutes += 1
                waiting = float(simulation.lag.sum()) > _WAITING_S * rate
                self.ledger.backpressured += bool(blocked or waiting)


class EngineClock:
    """The simulator's own time, as the supervisor wants to know it."""

    def __init__(self, engine: TracedSimulator) -> None:
        self._engine = engine

    def now(self) -> datetime:
        return datetime.fromtimestamp(EPOCH.timestamp() + self._engine.now_s, UTC)

    def sleep(self, seconds: float) -> None:
        """Time passes inside ``observe``."""


@dataclass(frozen=True)
class Days:
    """A trace as the job sees it: rates of all sources together by minutes, and by windows of the past."""

    spec: JobSpec
    minutes: Floats  # of all days
    windows: RateSeries  # means
    split: int  # windows that belong to the past
    foreseen: Floats  # windows after the past × horizon × levels, each from what was known when its window began

    @classmethod
    def of(cls, trace: str, first_day: float, days: float, settings: DayStudy) -> Days:
        spec = load(settings.job).spec
        series = load_trace(trace)
        held = np.repeat(series.values, max(1, round(series.step_s / 60)))  # a value holds until the next
        held = held[int(first_day * 1440) : int((first_day + days) * 1440)]
        minutes = scaled(RateSeries(held, 60.0, series.start_s), peak_rate(spec, settings.peak_instances)).values
        width = round(settings.window_s / 60)
        whole = len(minutes) // width * width
        means = minutes[:whole].reshape(-1, width).mean(axis=1)
        split = int(settings.train_share * len(means))
        windows = RateSeries(means, settings.window_s, series.start_s + first_day * 86_400)
        forecaster = QuantileBoosting()
        forecaster.fit(windows.until(split), settings.horizon, LEVELS)
        foreseen = forecaster.predict_many(windows, np.arange(split, len(windows)), settings.horizon)
        return cls(spec, minutes[:whole], windows, split, foreseen)


def peak_rate(spec: JobSpec, instances: int) -> float:
    """The rate of all sources at which the widest operator needs the wanted number of instances."""
    rates = spec.job.source_rates
    low, high = 1e-3, 1e6
    for _ in range(40):
        middle = (low * high) ** 0.5
        found = find_oracle(spec.job, spec.physics or {}, {key: rate * middle for key, rate in rates.items()})
        low, high = (low, middle) if max(found.plan.values()) > instances else (middle, high)
    return low * sum(rates.values())


@dataclass(frozen=True)
class _Tabled:
    """Forecasts that were worked out for all windows in one go: row k from the first k windows alone."""

    step_s: float
    first: int
    rows: Floats  # windows × horizon

    def coming(self, past: RateSeries) -> Floats:
        return np.asarray(self.rows[min(max(len(past) - self.first, 0), len(self.rows) - 1)])


def _perfect(days: Days, horizon: int) -> _Tabled:
    """Knows the mean of each coming window."""
    ahead = np.arange(days.split, len(days.windows))[:, None] + np.arange(horizon)
    rows = days.windows.values[np.minimum(ahead, len(days.windows) - 1)]
    return _Tabled(days.windows.step_s, days.split, rows)


def tuner_for(days: Days, first: int, setting: Setting, settings: DayStudy) -> Tuner:
    """A method for the days that begin at window ``first``; nothing later than that is known to it, but to perfect."""
    job = days.spec.job
    if setting.method == "ds2":
        return DS2(job, DS2Settings(scaling_factor=setting.headroom))
    if setting.method == "streamtune":
        return StreamTune(job)
    past = days.windows.until(first)
    foresight = (
        _perfect(days, settings.horizon)
        if setting.method == "perfect"
        else _Tabled(days.windows.step_s, days.split, days.foreseen[:, :, LEVELS.index(setting.level)])
    )
    ahead = AheadSettings(headroom=setting.headroom)
    return Ahead(StreamTune(job), foresight, past=past, prices=PriceList(change=setting.change), settings=ahead)


def live_through(days: Days, first: int, end: int, setting: Setting, settings: DayStudy, seed: int = 0) -> Ledger:
    """One method over the windows from ``first`` to before ``end``."""
    width = round(settings.window_s / 60)
    minutes = days.minutes[first * width : end * width]
    # A replayable source, as Kafka is: what waits during a downtime has to be caught up with.
    platform = SimulatorSettings(restart_s=settings.downtime_s, backlog_s=float("inf"), step_s=0.5)
    engine = TracedSimulator(days.spec, minutes, platform, seed)
    start = _starting_plan(days, float(minutes[0]))
    deployment = engine.deploy(days.spec.job, start)
    engine.observe(deployment, MeasurementWindow(settle_s=0.0, length_s=60.0))  # start-up counts for nobody
    engine.ledger = Ledger()
    window = MeasurementWindow(settle_s=0.0, length_s=settings.window_s)
    tuner = tuner_for(days, first, setting, settings)
    controller = Controller(engine, tuner, Guards(max_reconfigurations=3), window)
    watch_s = 60.0 * len(minutes) - 2 * settings.window_s
    supervisor = Supervisor(SupervisorSettings(watch_s=watch_s, max_per_hour=12), clock=EngineClock(engine))
    job = supervisor.add(controller, deployment)
    supervisor.run()
    if job.error is not None:
        raise job.error
    return engine.ledger


def _starting_plan(days: Days, rate: float) -> Plan:
    """What the first minute needs; sources, which no tuner rescales, have what the highest minute needs."""
    job, physics = days.spec.job, days.spec.physics or {}
    total = sum(job.source_rates.values())

    def least(wanted: float) -> Plan:
        return find_oracle(
            job, physics, {key: max(r * wanted / total, 1e-6) for key, r in job.source_rates.items()}
        ).plan

    most = least(1.2 * float(days.minutes.max()))
    return least(rate).replace({one.id: most[one.id] for one in job.dataflow.operators if one.is_source})


def row_of(setting: Setting, ledger: Ledger) -> dict[str, Any]:
    return {
        "method": setting.method,
        "headroom": setting.headroom,
        "level": setting.level,
        "change": setting.change,
        "minutes": ledger.backpressured,
        "of_minutes": ledger.minutes,
        "hours": ledger.instance_s / 3600,
        "changes": ledger.changes,
    }


REACTIVE = (Setting("streamtune"), *(Setting("ds2", headroom) for headroom in (0.0, 0.1, 0.2, 0.3)))
PROACTIVE = tuple(
    Setting("ahead", headroom, level, change)
    for level in LEVELS
    for headroom in (0.0, 0.05, 0.1, 0.2)
    for change in (0.003, 0.01, 0.03)
)
PERFECT = tuple(Setting("perfect", headroom, 0.5, 0.01) for headroom in (0.0, 0.1, 0.2))


def compared_days(
    trace: str,
    span: tuple[float, float],
    test_days: float,
    settings: DayStudy,
    progress: Callable[[str], None],
    seed: int = 0,
) -> dict[str, Any]:
    """Every setting on the validation days; on the test days the rivals, and of ours what the validation chose.

    Chosen for a rival: the fewest minutes at no more than 1.05 × its instance-hours on the validation days.
    """
    whole = Days.of(trace, *span, settings)
    windows = round(test_days * 86_400 / settings.window_s)
    last = len(whole.windows)
    # What is chosen on comes right before; two days of it have to do.
    test, before = (last - windows, last), last - windows
    chosen_on = (before - min(windows, round(2 * 86_400 / settings.window_s)), before)
    rows: dict[str, list[dict[str, Any]]] = {"validation": [], "test": []}
    for setting in (*REACTIVE, *PROACTIVE):
        row = row_of(setting, live_through(whole, *chosen_on, setting, settings, seed))
        rows["validation"].append(row)
        progress(f"{trace} validation {_told(row)}")
    chosen = {key: chosen_for(rival, rows["validation"]) for key, rival in _rivals(rows["validation"]).items()}
    wanted = {one for one in chosen.values() if one is not None}
    for setting in (*REACTIVE, *sorted(wanted, key=repr), *PERFECT):
        row = row_of(setting, live_through(whole, *test, setting, settings, seed))
        rows["test"].append(row)
        progress(f"{trace} test {_told(row)}")
    choices = {key: None if one is None else replace(one).__dict__ for key, one in chosen.items()}
    return {
        "trace": trace,
        "span": span,
        "settings": settings.model_dump(),
        "test_days": test_days,
        "rows": rows,
        "chosen": choices,
    }


def _rivals(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {f"{row['method']} +{row['headroom']:g}": row for row in rows if row["method"] in ("streamtune", "ds2")}


def chosen_for(rival: dict[str, Any], rows: list[dict[str, Any]]) -> Setting | None:
    within = [row for row in rows if row["method"] == "ahead" and row["hours"] <= 1.05 * rival["hours"]]
    best = min(within, key=lambda row: (row["minutes"], row["hours"]), default=None)
    return None if best is None else Setting(best["method"], best["headroom"], best["level"], best["change"])


def _told(row: dict[str, Any]) -> str:
    return (
        f"{row['method']:10} +{row['headroom']:g} level {row['level']:g} change {row['change']:g}: "
        f"{row['minutes']} of {row['of_minutes']} min, {row['hours']:.0f} h, {row['changes']} changes"
    )


def day_rows(run: dict[str, Any]) -> list[dict[str, Any]]:
    """For each rival its minutes, and those of what the validation days chose against it."""
    rows = []
    for name, rival in _rivals(run["rows"]["test"]).items():
        wanted = run["chosen"][name]
        ours = next((row for row in run["rows"]["test"] if wanted and all(row[k] == wanted[k] for k in wanted)), None)
        rows.append(
            {
                "rival": name,
                "minutes": rival["minutes"],
                "rival_hours": rival["hours"],
                "ours": "–" if ours is None else ours["minutes"],
                "fewer": "–" if ours is None else f"{rival['minutes'] / max(ours['minutes'], 1):.2f}",
                "hours": "–" if ours is None else f"{ours['hours'] / rival['hours']:.3f}",
                "setting": "none within its hours"
                if ours is None
                else f"level {ours['level']:g}, +{ours['headroom']:g}, change {ours['change']:g}",
            }
        )
    return rows
