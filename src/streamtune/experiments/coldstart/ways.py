"""The ways to choose a first plan: ours, its ablations, and the rivals, from the same history."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from streamtune.dataflow import Job, Observation, Plan
from streamtune.engines.simulator import simulate_once
from streamtune.experiments.coldstart.jobs import Start
from streamtune.experiments.coldstart.light import LightModel, light_model
from streamtune.experiments.platform import Platform, Tell
from streamtune.labs.histories import draw, observe
from streamtune.models.assigned import AssignedModel
from streamtune.models.bundle import ModelBundle
from streamtune.models.costmodel.model import CostModel
from streamtune.models.costmodel.optisample import OptiSample
from streamtune.models.costmodel.settings import AdviceSettings
from streamtune.models.transfer.model import TransferModel
from streamtune.tuners import DS2, StreamTune, StreamTuneSettings, Tuner
from streamtune.tuners.zerotune import ZeroTune

# The encoder's thresholds and the curves of types, as releases before this one chose a first plan.
AS_BEFORE = StreamTuneSettings(use_features=False, use_cluster=False, use_relatives=False, use_own_past=False)
_CALIBRATION_RUNS = 2_000


@dataclass
class Knowledge:
    """What one platform's history taught; everything is made when it is first needed, and kept in ``work``."""

    platform: Platform
    work: Path
    tell: Tell = lambda _text: None
    is_light: bool = False

    @cached_property
    def light(self) -> TransferModel:
        """Past operators alone."""
        return light_model(self.platform, self.work, self.tell)

    @cached_property
    def trained(self) -> ModelBundle:
        """The whole bundle, with clusters and encoders."""
        return self.platform.model(self.work, self.tell)

    @cached_property
    def costs(self) -> CostModel:
        return self.platform.cost_model(self.work, self.tell)

    @cached_property
    def optisample(self) -> OptiSample:
        """OptiSample's factors from runs of the same history."""
        kept = self.work / f"optisample-{self.platform.name}.json"
        if not kept.exists():
            self.tell("OptiSample's factors from the history")
            chosen = self.platform.generation
            drawn = [draw(number, chosen) for number in range(min(chosen.runs, _CALIBRATION_RUNS))]
            found = OptiSample.calibrated((one.workload.spec.job, observe(one, chosen)) for one in drawn)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps([dict(found.scaling), dict(found.selectivity)]), encoding="utf-8")
        return OptiSample(*json.loads(kept.read_text(encoding="utf-8")))

    def streamtune(self, job: Job, settings: StreamTuneSettings | None = None) -> StreamTune:
        """Our tuner with what the history taught; as light as the platform is, except where the encoder is asked."""
        chosen = settings or StreamTuneSettings()
        if settings != AS_BEFORE and self.is_light:
            return StreamTune(job, chosen.replace(use_encoder=False), model=LightModel(self.light, job))
        return StreamTune(job, chosen, model=AssignedModel.of(self.trained, job))


def nothing_seen(start: Start) -> Observation:
    """Only rates are known."""
    return Observation(
        observed_at=datetime(2026, 1, 1, tzinfo=UTC), window_s=1.0, source_rates=start.rates, operators={}
    )


@dataclass(frozen=True)
class Way:
    """A way to choose the first plan, and the tuner that goes on from there."""

    label: str
    first: Callable[[Start, Knowledge], Plan]
    after: Callable[[Job, Knowledge], Tuner]
    needs_law: bool = False


def by_our_prior(label: str, settings: StreamTuneSettings | None = None) -> Way:
    """Our tuner asked before anything was seen."""

    def first(start: Start, known: Knowledge) -> Plan:
        return known.streamtune(start.workload.spec.job, settings).recommend(nothing_seen(start)).plan

    return Way(label, first, lambda job, known: known.streamtune(job, settings))


def _one_each(start: Start, _known: Knowledge) -> Plan:
    return start.workload.spec.job.initial_plan


def pilot(start: Start, known: Knowledge, share: float = 0.1) -> Observation:
    """A short run at a small part of the rate with one instance each, seen as if the whole rate were offered."""
    spec = start.workload.spec
    small = {key: rate * share for key, rate in start.rates.items()}
    seen = simulate_once(
        spec.job, spec.physics or {}, spec.job.initial_plan, small, settings=known.platform.simulator, seed=17
    )
    return seen.model_copy(update={"source_rates": start.rates})


def _by_pilot(start: Start, known: Knowledge) -> Plan:
    return DS2(start.workload.spec.job).recommend(pilot(start, known)).plan


def _by_pilot_and_past(start: Start, known: Knowledge) -> Plan:
    job = start.workload.spec.job
    tuner = known.streamtune(job)
    seen = pilot(start, known)
    tuner.learn(seen.model_copy(update={"source_rates": {key: rate / 10 for key, rate in start.rates.items()}}))
    found = tuner.first_plan(start.rates)
    assert found is not None
    return Plan({**job.initial_plan, **found.degrees})


def _by_optisample(start: Start, known: Knowledge) -> Plan:
    job = start.workload.spec.job
    degrees = known.optisample.degrees(job, job.max_parallelism, rates=start.rates)
    kept = {source.id: job.initial_plan[source.id] for source in job.dataflow.sources}
    return Plan(degrees | kept)


def _by_zerotune(settings: AdviceSettings | None) -> Callable[[Start, Knowledge], Plan]:
    def first(start: Start, known: Knowledge) -> Plan:
        job = start.workload.spec.job
        seen = simulate_nothing(job, start)
        return ZeroTune(job, known.costs, settings=settings).recommend(seen).plan

    return first


def simulate_nothing(job: Job, start: Start) -> Observation:
    """An observation that names the running plan and the rates, and has measured nothing."""
    from streamtune.readings.metrics import LastKnownPlan

    return LastKnownPlan(job).complete(nothing_seen(start))


def _ours_without_past(job: Job, _known: Knowledge) -> Tuner:
    return StreamTune(job)


ONE_DS2 = Way("parallelism 1, then DS2", _one_each, lambda job, _known: DS2(job))
ONE = Way("parallelism 1", _one_each, _ours_without_past)
PILOT = Way("pilot at a tenth of the rate", _by_pilot, _ours_without_past)
PILOT_AND_PAST = Way("the same pilot, and the past", _by_pilot_and_past, lambda job, known: known.streamtune(job))
OPTISAMPLE = Way("OptiSample's rule", _by_optisample, _ours_without_past)
ZEROTUNE = Way("ZeroTune's advice", _by_zerotune(None), _ours_without_past)
ZEROTUNE_FRUGAL = Way("ZeroTune, instances have a price", _by_zerotune(AdviceSettings()), _ours_without_past)
BEFORE = by_our_prior("the encoder's thresholds, as before", AS_BEFORE)
OURS = by_our_prior("the new prior")
# Each without a level, or with the first ones alone; the whole prior is OURS.
ABLATION = (
    by_our_prior("features alone", StreamTuneSettings(use_cluster=False, use_relatives=False, use_own_past=False)),
    by_our_prior("+ cluster", StreamTuneSettings(use_relatives=False, use_own_past=False)),
    by_our_prior("+ relatives", StreamTuneSettings(use_own_past=False)),
    by_our_prior("without features", StreamTuneSettings(use_features=False)),
    by_our_prior("without relatives", StreamTuneSettings(use_relatives=False)),
)
CHEAP = (ONE_DS2, ONE, PILOT, PILOT_AND_PAST, OPTISAMPLE, OURS)
# Those whose models take minutes to train.
COSTLY = (BEFORE, ZEROTUNE, ZEROTUNE_FRUGAL)
