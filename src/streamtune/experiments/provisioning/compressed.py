"""A day of a real trace in minutes: what the sources offer, who tunes, and what is foreseen in the trace's own time.

Only the rate runs faster. A rescale, a look and a metric take as long as ever, so that in a day of twelve minutes each
of them lasts 120 times as much of the day as in a real one. Prices are per hour of the trace.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from streamtune.experiments.flink_jobs import small_workload
from streamtune.experiments.provisioning.days import (
    LEVELS,
    PROACTIVE,
    Setting,
    peak_rate,
    row_of,
    setting_of,
)
from streamtune.experiments.provisioning.traced_simulator import EngineClock, Ledger, TracedSimulator
from streamtune.experiments.provisioning.traces import load_trace
from streamtune.forecasts.selection import FORECASTERS, choose
from streamtune.forecasts.series import DAY_S, RateSeries
from streamtune.forecasts.settings import ForecastSettings
from streamtune.frozen import Frozen
from streamtune.provisioning.prices import PriceList
from streamtune.provisioning.settings import AheadSettings
from streamtune.tuners.ahead import Ahead, Foreseen, Foresight, Outlook
from streamtune.tuners.base import Tuner
from streamtune.tuners.ds2 import DS2
from streamtune.tuners.settings import DS2Settings
from streamtune.tuners.streamtune import StreamTune

Floats = npt.NDArray[np.float64]
_CHANGES_PER_HOUR = 12  # of the trace
_MOST_HOURS = 1.1  # over reactive StreamTune's
_QUICK = (
    "naive",
    "seasonal-naive",
    "anchored-seasonal",
    "boosting",
)  # no time for MSTL
_HOLDS_PER_EPOCH = 5  # moments of an epoch that the simulator's books tell apart


class CompressedStudy(Frozen):
    """One job, a day in minutes, and how it is watched: the same for every contender."""

    job: str = Field(default="nexmark-q1", description="The job, at this machine's scale.")
    minutes: float = Field(default=12.0, gt=0, description="Of real time that a day of the trace lasts.")
    epoch_s: float = Field(default=900.0, description="Of the trace; the rate is its mean and holds for all of it.")
    horizon: int = Field(default=12, description="Epochs to look ahead.")
    peak_instances: int = Field(default=10, description="That the widest operator needs at the peak of the day before.")
    settle_s: float = Field(default=2.0, description="Real seconds after a change that are not measured.")
    window_s: float = Field(default=4.0, description="Real seconds of a look.")
    simulated_fetch_s: float = Field(default=2.0, description="What Flink's metrics take to arrive, on the simulator.")
    simulated_downtime_s: float = Field(default=1.0, description="Of a live rescale, on the simulator.")

    @property
    def compression(self) -> float:
        """
        >>> CompressedStudy(minutes=12).compression, CompressedStudy(minutes=12).step_s
        (120.0, 7.5)
        """
        return DAY_S / (60 * self.minutes)

    @property
    def step_s(self) -> float:
        """Real seconds of an epoch."""
        return self.epoch_s / self.compression

    @property
    def day_s(self) -> float:
        return 60 * self.minutes

    @property
    def supervision(self) -> SupervisorSettings:
        """As often as the product allows by default in an hour, which is an hour of the trace here."""
        most = round(_CHANGES_PER_HOUR * self.compression)
        return SupervisorSettings(watch_s=self.day_s, max_per_hour=most, wait_s=1.0)


@dataclass(frozen=True)
class CompressedForesight:
    """A foresight that thinks in the trace's time, for a tuner that lives in the compressed one."""

    inner: Foresight
    compression: float

    @property
    def step_s(self) -> float:
        return self.inner.step_s / self.compression

    def coming(self, past: RateSeries) -> Floats:
        return self.inner.coming(self._slowly(past))

    def outlook(self, past: RateSeries) -> tuple[Floats, Floats]:
        if isinstance(self.inner, Outlook):
            return self.inner.outlook(self._slowly(past))
        rates = self.coming(past)
        return rates, np.zeros_like(rates)

    def _slowly(self, past: RateSeries) -> RateSeries:
        return RateSeries(past.values, self.inner.step_s, past.start_s)


@dataclass(frozen=True)
class CompressedDay:
    """The rates of one day by epochs, and what was known when it began."""

    trace: str
    spec: JobSpec
    rates: Floats  # of all sources together, one per epoch of the day
    past: RateSeries  # in the trace's time; ends where the day begins
    forecaster: str
    foreseen: Foreseen

    @classmethod
    def of(cls, trace: str, day: int, scaled_by: int, study: CompressedStudy) -> CompressedDay:
        """Day number ``day`` of a trace, scaled so that day ``scaled_by`` has the study's peak."""
        whole = epochs_of(trace, study.epoch_s)
        per_day = round(DAY_S / study.epoch_s)
        spec = small_workload(study.job).spec
        highest = float(whole.values[scaled_by * per_day : (scaled_by + 1) * per_day].max())
        values = whole.values * peak_rate(spec, study.peak_instances) / max(highest, 1e-12)
        first = day * per_day
        past = RateSeries(values[:first], study.epoch_s, whole.start_s)
        candidates = ForecastSettings(horizon=study.horizon, levels=LEVELS, methods=_QUICK)
        name = choose(past, candidates)[0].method
        foreseen = Foreseen(FORECASTERS[name](), past, horizon=study.horizon, levels=LEVELS, level=LEVELS[-1])
        return cls(trace, spec, np.maximum(values[first : first + per_day], 1.0), past, name, foreseen)

    def offered(self, rate: float) -> dict[str, float]:
        """The sources' shares of a rate."""
        nominal = self.spec.job.source_rates
        return {key: one * rate / sum(nominal.values()) for key, one in nominal.items()}

    def starting_plan(self) -> Plan:
        """What the first epoch needs, so that the start is nobody's merit or fault."""
        job = self.spec.job
        fixed = {source.id: 1 for source in job.dataflow.sources}
        return find_oracle(job, self.spec.physics or {}, self.offered(float(self.rates[0])), fixed=fixed).plan

    def tuner(self, setting: Setting, study: CompressedStudy) -> Tuner:
        """A contender; what it knows of the job is its graph, of the day what came before."""
        job = self.spec.job
        if setting.method == "ds2":
            return DS2(job, DS2Settings(scaling_factor=setting.headroom))
        if setting.method == "streamtune":
            return StreamTune(job)
        return Ahead(
            StreamTune(job),
            CompressedForesight(self.foreseen.at(setting.level), study.compression),
            past=RateSeries(self.past.values, study.step_s, self.past.start_s),
            prices=_prices(setting, study.compression),
            # Looks end anywhere in an epoch, so that what is offered now may go on for most of one.
            settings=AheadSettings(headroom=setting.headroom, hold_s=study.step_s),
        )


def epochs_of(trace: str, epoch_s: float) -> RateSeries:
    """Means per epoch; a value of a coarser trace holds until the next, for interpolation would leak the future."""
    series = load_trace(trace)
    minutes = np.repeat(series.values, max(1, round(series.step_s / 60)))
    width = round(epoch_s / 60)
    whole = len(minutes) // width * width
    return RateSeries(minutes[:whole].reshape(-1, width).mean(axis=1), epoch_s, series.start_s)


def _prices(setting: Setting, compression: float) -> PriceList:
    """An instance costs as much per hour of the trace as by default per hour, and being short as the setting says."""
    usual = PriceList()
    return PriceList(
        per_core_hour=usual.per_core_hour * compression,
        per_gib_hour=usual.per_gib_hour * compression,
        short_hour=None if setting.short is None else setting.short * compression,
        change=setting.change,
    )


def chosen_setting(trace: str, test_day: int, study: CompressedStudy) -> dict[str, Any]:
    """How proactive StreamTune is set on the test day, by the day before it, on the simulator, in compressed time.

    The dearest price of being short at no more than 1.1 × the instance-hours of reactive StreamTune: on one simulated
    day hardly a moment is backpressured at any price, so moments do not tell prices apart. Where no setting is within
    those hours, the fewest hours.
    """
    day = CompressedDay.of(trace, test_day - 1, test_day - 1, study)
    reactive = row_of(Setting("streamtune"), simulated_day(day, Setting("streamtune"), study))
    rows = [row_of(setting, simulated_day(day, setting, study)) for setting in PROACTIVE]
    least = min(rows, key=lambda row: (row["hours"], row["minutes"]))
    within = [row for row in rows if row["hours"] <= _MOST_HOURS * reactive["hours"]]
    chosen = setting_of(max(within, key=lambda row: (row["short"], -row["hours"]), default=least))
    return {
        "trace": trace,
        "validation_day": test_day - 1,
        "forecaster": day.forecaster,
        "setting": {"change": chosen.change, "short": chosen.short},
        "reactive": reactive,
        "rows": rows,
    }


def simulated_day(day: CompressedDay, setting: Setting, study: CompressedStudy, seed: int = 0) -> Ledger:
    """One method through a compressed day on the simulator; the ledger's minutes are fifths of an epoch."""
    hold_s = study.step_s / _HOLDS_PER_EPOCH
    platform = SimulatorSettings(restart_s=study.simulated_downtime_s, startup_s=0.0)
    engine = TracedSimulator(day.spec, np.repeat(day.rates, _HOLDS_PER_EPOCH), platform, seed, minute_s=hold_s)
    deployment = engine.deploy(day.spec.job, day.starting_plan())
    window = MeasurementWindow(settle_s=study.settle_s, length_s=study.window_s + study.simulated_fetch_s)
    supervisor = Supervisor(study.supervision, clock=EngineClock(engine))
    job = supervisor.add(
        Controller(engine, day.tuner(setting, study), Guards(max_reconfigurations=3), window), deployment
    )
    supervisor.run()
    if job.error is not None:
        raise job.error
    return engine.ledger
