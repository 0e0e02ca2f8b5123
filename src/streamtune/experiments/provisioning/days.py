"""Days of a real trace on the simulator, under the supervisor: proactive against reactive, downtimes included.

The first half of a trace trains the forecaster. Each method then lives through the same days: the supervisor watches
the job in windows of five minutes and changes it when backpressure is there, the rate has moved, or (proactive) the
forecast says so. What counts is the simulator's truth minute by minute, not what any tuner saw.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from streamtune.control.controller import Controller
from streamtune.control.guards import Guards
from streamtune.control.settings import SupervisorSettings
from streamtune.control.supervisor import Supervisor
from streamtune.dataflow import Plan
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.simulator import SimulatorSettings
from streamtune.engines.simulator.oracle import find_oracle
from streamtune.experiments.provisioning.traced_simulator import EngineClock, Ledger, TracedSimulator
from streamtune.experiments.provisioning.traces import load_trace, scaled
from streamtune.forecasts.boosting import QuantileBoosting
from streamtune.forecasts.series import RateSeries
from streamtune.frozen import Frozen
from streamtune.provisioning.prices import PriceList
from streamtune.provisioning.settings import AheadSettings
from streamtune.tuners.ahead import Ahead, outlook_of
from streamtune.tuners.base import Tuner
from streamtune.tuners.ds2 import DS2
from streamtune.tuners.settings import DS2Settings
from streamtune.tuners.streamtune import StreamTune
from streamtune.workloads import load

Floats = npt.NDArray[np.float64]
LEVELS = (0.5, 0.7, 0.9)
_OFTEN = 0.9  # the share of minutes by which the spread inside windows is judged: empty minutes say nothing about it
_START_UP_S = 60.0  # counts for nobody
# Of a rival's hours on the validation days, what bisection aims at, and how near is near enough. Each step is a run for
# every rival that needs one.
_AIM, _NEAR, _BISECTIONS = 1.04, 0.01, 4
_SHARES = {"at_1.00": 1.0, "at_1.05": 1.05}
_BEHIND_EPOCHS = 12.0  # the horizon
PLANNER = "bisected prices, downtimes are worked off, falling behind has a price"


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
    short: float | None = None  # price of an hour of being short, where that is weighed


@dataclass(frozen=True)
class Days:
    """A trace as the job sees it: rates of all sources together by minutes, and by windows of the past."""

    spec: JobSpec
    minutes: Floats  # of all days
    windows: RateSeries  # means
    split: int  # windows that belong to the past
    # Minutes after the past × horizon × levels: what is coming from each on, by the whole windows that end there.
    foreseen: Floats

    @property
    def within_step_sd(self) -> float:
        """How far minutes rise above the mean of their window, in the past that may be learnt from."""
        width = len(self.minutes) // len(self.windows)
        past = np.maximum(self.minutes[: self.split * width].reshape(-1, width), 1e-9)
        risen = np.log(np.quantile(past / past.mean(axis=1, keepdims=True), _OFTEN))
        return max(0.0, float(risen / NormalDist().inv_cdf(_OFTEN)))

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
        foreseen = _by_minutes(forecaster, minutes[:whole], windows, split, settings.horizon)
        return cls(spec, minutes[:whole], windows, split, foreseen)


def _by_minutes(forecaster: QuantileBoosting, minutes: Floats, windows: RateSeries, split: int, horizon: int) -> Floats:
    """Downtimes move the looks off the windows; who looks at a minute knows all up to it, and nothing later."""
    width = len(minutes) // len(windows)
    rows = np.empty((width * (len(windows) - split), horizon, len(LEVELS)))
    for late in range(width):
        means = minutes[late : len(minutes) - (width - late) % width].reshape(-1, width).mean(axis=1)
        moved = RateSeries(means, windows.step_s, windows.start_s + 60.0 * late)
        known = np.minimum(np.arange(split, len(windows)), len(means))
        rows[late::width] = forecaster.predict_many(moved, known, horizon)
    return rows


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
    """Forecasts that were worked out for all minutes in one go, each from what was there before it."""

    step_s: float
    rows: Floats  # minutes × horizon × levels
    levels: tuple[float, ...]
    now_s: Callable[[], float]  # since the first minute of the rows

    def _row(self) -> Floats:
        return np.asarray(self.rows[min(int((self.now_s() + 1e-6) // 60), len(self.rows) - 1)])

    def coming(self, _past: RateSeries) -> Floats:
        return self.outlook(_past)[0]

    def outlook(self, _past: RateSeries) -> tuple[Floats, Floats]:
        return outlook_of(self._row(), self.levels)


def _perfect(days: Days, first: int, settings: DayStudy) -> Floats:
    """The mean of each coming window, from every minute on."""
    width = len(days.minutes) // len(days.windows)
    sums = np.concatenate([[0.0], np.cumsum(days.minutes)])
    begins = np.arange(first * width, len(days.minutes))[:, None] + width * np.arange(settings.horizon)
    begins = np.minimum(begins, len(days.minutes) - width)
    means: Floats = (sums[begins + width] - sums[begins]) / width
    return means[:, :, None]


def tuner_for(days: Days, first: int, setting: Setting, settings: DayStudy, now_s: Callable[[], float]) -> Tuner:
    """A method for the days that begin at window ``first``; nothing later than that is known to it, but to perfect."""
    job = days.spec.job
    if setting.method == "ds2":
        return DS2(job, DS2Settings(scaling_factor=setting.headroom))
    if setting.method == "streamtune":
        return StreamTune(job)
    width = len(days.minutes) // len(days.windows)
    rows = days.foreseen[(first - days.split) * width :]
    if setting.method == "perfect":
        rows = _perfect(days, first, settings)
    foresight = _Tabled(days.windows.step_s, rows, LEVELS[: rows.shape[2]], now_s)
    ahead = AheadSettings(
        within_step_sd=days.within_step_sd, downtime_s=settings.downtime_s, behind_epochs=_BEHIND_EPOCHS
    )
    prices = PriceList(change=setting.change, short_hour=setting.short)
    return Ahead(StreamTune(job), foresight, past=days.windows.until(first), prices=prices, settings=ahead)


def live_through(days: Days, first: int, end: int, setting: Setting, settings: DayStudy, seed: int = 0) -> Ledger:
    """One method over the windows from ``first`` to before ``end``."""
    width = round(settings.window_s / 60)
    minutes = days.minutes[first * width : end * width]
    # A replayable source, as Kafka is: what waits during a downtime has to be caught up with.
    platform = SimulatorSettings(restart_s=settings.downtime_s, backlog_s=float("inf"), step_s=0.5)
    engine = TracedSimulator(days.spec, minutes, platform, seed)
    start = _starting_plan(days, float(minutes[0]))
    deployment = engine.deploy(days.spec.job, start)
    engine.observe(deployment, MeasurementWindow(settle_s=0.0, length_s=_START_UP_S))
    engine.ledger = Ledger()
    window = MeasurementWindow(settle_s=0.0, length_s=settings.window_s)
    tuner = tuner_for(days, first, setting, settings, lambda: engine.now_s)
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
        "short": setting.short,
        "minutes": ledger.backpressured,
        "of_minutes": ledger.minutes,
        "hours": ledger.instance_s / 3600,
        "changes": ledger.changes,
    }


def setting_of(row: Mapping[str, Any]) -> Setting:
    return Setting(row["method"], row["headroom"], row["level"], row["change"], row["short"])


def weighed(short: float) -> Setting:
    """A change costs as much as three minutes of being short."""
    return Setting("ahead", change=3 * short / 60, short=short)


REACTIVE = (Setting("streamtune"), *(Setting("ds2", headroom) for headroom in (0.0, 0.1, 0.2, 0.3)))
PROACTIVE = tuple(
    weighed(short) for short in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8, 1.2, 1.8, 3.0)
)


def compared_days(
    trace: str,
    span: tuple[float, float],
    test_days: float,
    settings: DayStudy,
    progress: Callable[[str], None],
    seed: int = 0,
) -> dict[str, Any]:
    """Every setting on the validation days; on the test days the rivals, and of ours what the validation chose.

    Chosen for a rival: the fewest minutes at no more than 1.05 × its instance-hours on the validation days, where the
    price of being short is sought by bisection up to 1.04 × those hours.
    """
    whole = Days.of(trace, *span, settings)
    windows = round(test_days * 86_400 / settings.window_s)
    last = len(whole.windows)
    # What is chosen on comes right before; two days of it have to do.
    test, before = (last - windows, last), last - windows
    chosen_on = (before - min(windows, round(2 * 86_400 / settings.window_s)), before)
    validation = _all_lived(whole, chosen_on, (*REACTIVE, *PROACTIVE), settings, seed)
    for _ in range(_BISECTIONS):
        between = {next_price(rival, validation) for rival in _rivals(validation).values()}
        prices = sorted(price for price in between if price is not None)
        validation += _all_lived(whole, chosen_on, [weighed(price) for price in prices], settings, seed)
    chosen = {key: chosen_for(rival, validation) for key, rival in _rivals(validation).items()}
    wanted = sorted({one for one in chosen.values() if one is not None}, key=repr)
    perfect = [replace(one, method="perfect") for one in wanted]
    tested = _all_lived(whole, test, (*REACTIVE, *wanted, *perfect), settings, seed)
    for part, rows in (("validation", validation), ("test", tested)):
        for row in rows:
            progress(f"{trace} {part} {_told(row)}")
    return {
        "trace": trace,
        "span": span,
        "settings": settings.model_dump(),
        "test_days": test_days,
        "planner": PLANNER,
        "rows": {"validation": validation, "test": tested},
        "chosen": {key: None if one is None else asdict(one) for key, one in chosen.items()},
    }


def _all_lived(
    days: Days, span: tuple[int, int], wanted: Sequence[Setting], settings: DayStudy, seed: int
) -> list[dict[str, Any]]:
    """Each in a process of its own, as many at once as there are cores."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        lived = [pool.submit(live_through, days, *span, one, settings, seed) for one in wanted]
        return [row_of(one, ledger.result()) for one, ledger in zip(wanted, lived, strict=True)]


def _rivals(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {f"{row['method']} +{row['headroom']:g}": row for row in rows if row["method"] in ("streamtune", "ds2")}


def next_price(rival: dict[str, Any], rows: list[dict[str, Any]]) -> float | None:
    """The price of being short to try next so as to spend up to ``_AIM`` of a rival's hours; None: near enough.

    >>> rows = [{"method": "ahead", "short": short, "hours": hours} for short, hours in ((0.1, 90.0), (0.4, 120.0))]
    >>> next_price({"hours": 100.0}, rows), next_price({"hours": 200.0}, rows), next_price({"hours": 80.0}, rows)
    (0.2, 0.8, 0.05)
    >>> next_price({"hours": 87.0}, rows) is None
    True
    """
    ours = sorted((row["short"], row["hours"]) for row in rows if row["method"] == "ahead")
    spent = [(short, hours / rival["hours"]) for short, hours in ours]
    within = [(short, share) for short, share in spent if share <= _AIM]
    if any(share >= _AIM - _NEAR for _, share in within):
        return None
    if not within:
        return float(f"{spent[0][0] / 2:.3g}")
    low = within[-1][0]
    above = [short for short, share in spent if short > low and share > _AIM]
    return float(f"{(low * above[0]) ** 0.5 if above else 2 * low:.3g}")


def chosen_for(rival: dict[str, Any], rows: list[dict[str, Any]], most_hours: float = 1.05) -> Setting | None:
    within = [row for row in rows if row["method"] == "ahead" and row["hours"] <= most_hours * rival["hours"]]
    best = min(within, key=lambda row: (row["minutes"], row["hours"]), default=None)
    return None if best is None else setting_of(best)


def _told(row: dict[str, Any]) -> str:
    return (
        f"{row['method']:10} +{row['headroom']:g} short {row['short']} change {row['change']:g}: "
        f"{row['minutes']} of {row['of_minutes']} min, {row['hours']:.0f} h, {row['changes']} changes"
    )


def minutes_at(rows: list[dict[str, Any]], hours: float) -> str:
    """Our minutes at so many hours, between the two tested settings that enclose them (logarithms of minutes).

    >>> rows = [{"method": "ahead", "hours": spent, "minutes": short} for spent, short in ((100.0, 400), (110.0, 100))]
    >>> minutes_at(rows, 105.0), minutes_at(rows, 111.0)
    ('200', '–')
    """
    ours = sorted((row["hours"], row["minutes"]) for row in rows if row["method"] == "ahead")
    if len(ours) < 2 or not ours[0][0] <= hours <= ours[-1][0]:
        return "–"
    logs = np.log([max(minutes, 0.5) for _, minutes in ours])
    return f"{np.exp(np.interp(hours, [spent for spent, _ in ours], logs)):.0f}"


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
                **{name: minutes_at(run["rows"]["test"], share * rival["hours"]) for name, share in _SHARES.items()},
                "setting": "none within its hours"
                if ours is None
                else f"short hour {ours.get('short') or 0:g}, change {ours['change']:g}",
            }
        )
    return rows
