"""StreamTune's online tuner (Section IV-B, Algorithm 2, and what we build on top of it)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from streamtune.dataflow import Job, Observation, Plan
from streamtune.models.transfer.model import Levels, OperatorPrior
from streamtune.readings import LabelSettings
from streamtune.readings.capacity import SATURATED_SHARE
from streamtune.readings.curves import CapacityCurve
from streamtune.readings.labels import BOTTLENECK
from streamtune.readings.metrics import LastKnownPlan, hottest_busy_share, suspects
from streamtune.readings.shortfall import SHORTFALL, saturated_and_short
from streamtune.similarity.continuity import still_there
from streamtune.tuners.base import Recommendation, Tuner
from streamtune.tuners.streamtune.algorithm2 import ClassifierEstimator
from streamtune.tuners.streamtune.estimator import NeedEstimator, Situation, Verdict
from streamtune.tuners.streamtune.experience import Bounds, Experience
from streamtune.tuners.streamtune.foresight import Foreseen, foresee
from streamtune.tuners.streamtune.inheritance import inherited
from streamtune.tuners.streamtune.memory import Memory
from streamtune.tuners.streamtune.posterior import PosteriorEstimator
from streamtune.tuners.streamtune.pretrained import Pretrained
from streamtune.tuners.streamtune.settings import PaperStreamTuneSettings, StreamTuneSettings

# The safe rule where no operator can be blamed for backpressure: suspects grow by a tenth, at least by one.
_BLIND_GROWTH = 1.1
# A plan that takes instances away on readings rougher than this (busy for a few per cent) is looked at again.
_ROUGH = 0.12
# So is one that leaves less than this share: threads that wait for a core look busy, and many wait for each other.
_FAR_DOWN = 0.6
# A source that is busy all the time is tried with so many times what it reads.
_PROBE = 1.5


class StreamTune(Tuner):
    """The least parallelism that keeps up with a wanted certainty, within what was observed of the running job.

    For every operator: the rate that must reach it (source rates carried through the observed selectivities), an
    estimator's probability of keeping up over p, the least p that is sure enough, and the bounds of own observations.

    The safe rule: an operator about which nothing is known keeps its parallelism; backpressure that no operator can be
    blamed for makes the suspects behind it grow by a tenth.

    >>> from streamtune.control.controller import Controller
    >>> from streamtune.engines.simulator import Simulator
    >>> from streamtune.workloads import load
    >>> spec = load("nexmark-q1").spec
    >>> engine = Simulator.of(spec)
    >>> outcome = Controller(engine, StreamTune(spec.job)).tune(engine.deploy(spec.job, spec.job.initial_plan))
    >>> outcome.stop_reason, outcome.backpressure
    ('no_backpressure', False)
    """

    name = "streamtune"

    def __init__(
        self,
        job: Job,
        settings: StreamTuneSettings | None = None,
        *,
        model: Pretrained | None = None,
        memory: Memory | None = None,
    ) -> None:
        super().__init__(job)
        self.settings = settings or StreamTuneSettings()
        self._model = model
        self._memory = memory
        self._known = LastKnownPlan(job)
        self._experience = Experience(job, None if model is None else model.labelling)
        self._prior = self._lent()
        self._usual = self._usual_selectivities()
        self._estimator = self._make_estimator()
        self._known_roughly: frozenset[str] = frozenset()
        for observation in [] if memory is None else memory.load():
            self._take_in(observation)

    @property
    def labelling(self) -> LabelSettings:
        """The rule by which observations are labelled: the model's own."""
        return self._experience.labelling

    @property
    def prior(self) -> Mapping[str, OperatorPrior]:
        """What past operators lend to each of the job's; empty without a model that keeps them."""
        return self._prior

    def _lent(self) -> dict[str, OperatorPrior]:
        """What past operators lend to this job's."""
        chosen = self.settings
        if self._model is None or not chosen.use_history or chosen.estimator != "posterior":
            return {}
        used = (chosen.use_features, chosen.use_cluster, chosen.use_relatives, chosen.use_own_past)
        return (self._model.prior(Levels(*used, chosen.kin)) or {}) if any(used) else {}

    def _usual_selectivities(self) -> dict[str, float]:
        """What stands in for the selectivity of an operator that was not observed."""
        by_type = {} if self._model is None else self._model.selectivities
        usual = {operator.id: by_type.get(operator.type, 1.0) for operator in self.job.dataflow.operators}
        return usual | {key: math.exp(one.log_selectivity) for key, one in self._prior.items()}

    def _make_estimator(self) -> NeedEstimator:
        if self.settings.estimator == "posterior":
            return PosteriorEstimator(self.job, self.settings, self._model, self._prior)
        return ClassifierEstimator(self.job, self.settings, self._model)

    def learn(self, observation: Observation) -> None:
        observation = self._known.complete(observation)
        self._take_in(observation)
        if self._memory is not None:
            self._memory.add(observation)

    def inherit(self, other: Tuner) -> None:
        if not isinstance(other, StreamTune) or self._memory is not None:  # a memory has loaded it already
            return
        names = still_there(other.job.dataflow, self.job.dataflow)
        for lesson in other._experience.lessons:
            found = inherited(lesson.observation, names)
            if found is not None:
                self._take_in(found)

    def _take_in(self, observation: Observation) -> None:
        lesson = self._experience.add(observation)
        self._estimator.learn(lesson, self._situation(observation))
        for key in self._estimator.taken_changes():
            self._experience.forget(key)

    def _situation(self, observation: Observation) -> Situation:
        rates = observation.source_rates
        demand = self._experience.demand(rates, self._usual)
        return Situation(
            rates,
            demand,
            self._experience.selectivities(),
            observation.reports_backpressure,
            self._experience.edge_ratios(),
            max(observation.rate_sds.values(), default=0.0),
        )

    def verdicts(self, observation: Observation) -> dict[str, Verdict]:
        """What the estimator thinks of every operator at the rates of this observation."""
        situation = self._situation(observation)
        return self._first_verdicts(situation) or self._estimator.judge(situation)

    def capacity_curves(self, observation: Observation) -> dict[str, CapacityCurve]:
        """The belief about every operator that has shown something, in records/s of the whole job."""
        estimator = self._estimator
        if not isinstance(estimator, PosteriorEstimator):
            return {}
        situation = self._situation(self._known.complete(observation))
        means, sds = estimator.curves(situation)
        total = sum(situation.source_rates.values())
        found = {}
        for place, key in enumerate(estimator.keys):
            demand = situation.demand[key]
            if estimator.is_known(key) and total > 0 and demand > 0 and math.isfinite(demand):
                limit = self.job.limit_of(key)
                found[key] = CapacityCurve(means[place, :limit] + math.log(total / demand), sds[place, :limit])
        return found

    def first_plan(
        self,
        source_rates: Mapping[str, float],
        certainty: float | None = None,
        rate_sds: Mapping[str, float] | None = None,
    ) -> Foreseen | None:
        """The plan for rates at which the job was not seen, all operators together; None without any past.

        ``rate_sds`` say how well rates are known that are no more than guesses.
        """
        if not isinstance(self._estimator, PosteriorEstimator):
            return None
        demand = self._experience.demand(source_rates, self._usual)
        seen = self._experience.selectivities(), self._experience.edge_ratios()
        situation = Situation(source_rates, demand, seen[0], edge_ratios=seen[1])
        lessons = self._experience.lessons
        waiting = self._waiting(lessons[-1].observation) if lessons else 0.0
        situation = self._with_headroom(situation, waiting)
        certainty = certainty or self.settings.first_certainty
        return foresee(self.job, self._estimator, situation, self._prior, certainty, rate_sds)

    def _first_verdicts(self, situation: Situation) -> dict[str, Verdict]:
        """Before anything of the job was seen the operators are judged together."""
        if self._experience.lessons or not self._prior or not isinstance(self._estimator, PosteriorEstimator):
            return {}
        certainty = self.settings.first_certainty
        return foresee(self.job, self._estimator, situation, self._prior, certainty).verdicts

    def recommend(self, observation: Observation) -> Recommendation:
        observation = self._known.complete(observation)
        situation = self._with_headroom(self._situation(observation), self._waiting(observation))
        probed = self._probed_sources(observation)
        if probed:
            raised = {key: rate * (_PROBE if key in probed else 1.0) for key, rate in situation.demand.items()}
            situation = replace(situation, demand=raised)
        verdicts = self._first_verdicts(situation) or self._estimator.judge(situation)
        bounds = self._experience.bounds(situation.demand, self._usual) if self.settings.binding else {}
        current, short = observation.plan, self._short(observation, situation)
        degrees, why, figures = {}, {}, {}
        for key in self.job.dataflow.order:
            verdict = verdicts.get(key)
            if verdict is None:
                degrees[key], why[key] = current[key], self._kept_source
                continue
            demand = situation.demand[key]
            limit = self.job.limit_of(key)
            bound = bounds.get(key, Bounds())
            degrees[key], why[key] = self._choose(verdict, bound, demand, current[key], limit)
            if bound.low > verdict.degree and self._is_short_now(observation, key):
                # Its readings mislead: what it takes is certain, and one more at a time would be one restart each.
                degrees[key] = min(max(degrees[key], self._grown(observation, key, demand)), limit)
                why[key] = f"{verdict.told}; but {current[key]} is a bottleneck now: sized by what it really takes"
            if key in short and degrees[key] <= current[key]:
                # What was believed or seen before is not so any more, whether or not anybody is held up already.
                grown = max(verdict.degree, current[key] + 1, self._grown(observation, key, demand))
                degrees[key] = min(grown, limit)
                why[key] = f"{verdict.told}; but it is busy all the time now, and takes less than it is offered"
                if current[key] >= limit:
                    why[key] += f"; its limit is {limit}"
            figures[key] = {
                "rate_per_s": demand,
                "safe_probability": float(verdict.safe[degrees[key] - 1]),
                "estimated": float(verdict.degree),
            }
        self._relieve(observation, situation.demand, degrees, why)
        plan = Plan({key: degrees[key] for key in self.job.dataflow.index})
        if not (observation.has_backpressure or short) and self._is_within_band(observation):
            why = {key: f"{text}; within the band of the target utilisation" for key, text in why.items()}
            plan = current
        if not observation.has_backpressure and self._is_not_worth_it(current, plan):
            why = {key: f"{text}; the change is not worth a restart" for key, text in why.items()}
            plan = current
        self._known.asked_for(plan)
        for key in probed:
            why[key] += "; it never waits for input, so more than it reads may be offered"
        rough = [key for key in figures if plan[key] < current[key] - 1 and verdicts[key].sd > _ROUGH]
        for key in rough:
            why[key] += "; hardly busy, it is known roughly: to be looked at again with fewer instances"
        far = [key for key in figures if plan[key] < current[key] * _FAR_DOWN and key not in rough]
        for key in far:
            why[key] += "; a long way down: to be looked at again there"
        provisional = plan != current and bool(probed or rough or far)
        self._known_roughly = frozenset(rough)
        return Recommendation(plan, self._with_origin(why), figures, provisional=provisional)

    def _waiting(self, observation: Observation) -> float:
        """Records that wait before the sources."""
        lags = (observation.operators[source.id].lag_records or 0.0 for source in self.job.dataflow.sources)
        return sum(lag for lag in lags if math.isfinite(lag))

    def _with_headroom(self, situation: Situation, waiting: float) -> Situation:
        """Demand with what works off the backlog in time, at the utilisation that plans aim at."""
        chosen, factor = self.settings, 1.0
        offered = sum(situation.source_rates.values())
        if chosen.catch_up_s is not None and offered > 0:
            factor += (waiting / offered + chosen.restart_s) / chosen.catch_up_s
        factor /= chosen.target_utilisation
        demand = {key: rate * factor for key, rate in situation.demand.items()}
        return replace(situation, demand=demand, headroom=factor)

    def _is_within_band(self, observation: Observation) -> bool:
        band, target = self.settings.utilisation_band, self.settings.target_utilisation
        tuned = [operator.id for operator in self.job.dataflow.operators if not operator.is_source]
        busy = [hottest_busy_share(observation.operators[key]) for key in tuned]
        return band > 0 and bool(busy) and all(abs(share - target) <= band for share in busy)

    @property
    def _kept_source(self) -> str:
        if all(operator.is_source for operator in self.job.dataflow.operators):
            return "all of the job is chained to its source, and a source keeps its parallelism: see --tune-sources"
        return "a source keeps its parallelism"

    def _probed_sources(self, observation: Observation) -> tuple[str, ...]:
        """Sources to be tuned that read all the time: what they are offered is at least what they take."""
        if not self.settings.tune_sources:
            return ()
        seen = {source.id: observation.operators[source.id] for source in self.job.dataflow.sources}
        return tuple(
            key
            for key, metrics in seen.items()
            if hottest_busy_share(metrics) >= SATURATED_SHARE
            and observation.rate_origins.get(key) != "lag"
            and metrics.parallelism < self.job.limit_of(key)
        )

    def _short(self, observation: Observation, situation: Situation) -> frozenset[str]:
        """Operators that are saturated and take too little: by this window, and by all that were seen."""
        if not (self.settings.binding and self.settings.use_busy):
            return frozenset()
        taken = {key: metrics.records_in_per_s for key, metrics in observation.operators.items()}
        usual = {key: rate / situation.headroom for key, rate in situation.demand.items()}
        found = saturated_and_short(self.job.dataflow, observation)
        return frozenset(key for key in found if taken[key] < usual[key] * (1 - SHORTFALL))

    def _is_short_now(self, observation: Observation, key: str) -> bool:
        lessons = self._experience.lessons
        return bool(lessons) and observation.has_backpressure and lessons[-1].labels.get(key) == BOTTLENECK

    def _choose(self, verdict: Verdict, bounds: Bounds, demand: float, current: int, limit: int) -> tuple[int, str]:
        if not math.isfinite(demand) or not verdict.told:
            return current, "nothing is known of it yet: kept as it is"
        if demand <= 0 and self.settings.binding:
            return 1, "nothing reaches it"
        degree = min(max(1, bounds.apply(verdict.degree)), limit)
        text = verdict.told
        if degree > verdict.degree:
            text += f"; {bounds.low - 1} was seen as a bottleneck at such a rate"
        elif degree < verdict.degree:
            text += f"; {degree} was seen to be enough at such a rate"
        elif not verdict.is_reached:
            text += f"; even the limit of {limit} is not expected to keep up"
        return degree, text

    def _relieve(
        self, observation: Observation, demand: Mapping[str, float], degrees: dict[str, int], why: dict[str, str]
    ) -> None:
        """Backpressure, and nothing was raised: no cause is known, so the suspect grows, or all that report no load."""
        if not (observation.has_backpressure and self.settings.binding):
            return
        current = observation.plan
        if any(degrees[key] > current[key] for key in degrees):
            return
        found = suspects(self.job.dataflow, observation)
        unread = [key for key in found if not math.isfinite(hottest_busy_share(observation.operators[key]))]
        for key in unread or found[:1]:
            degree = self._grown(observation, key, demand[key]) if unread else math.ceil(current[key] * _BLIND_GROWTH)
            grown = min(max(degree, current[key] + 1), self.job.limit_of(key))
            if grown > current[key]:
                degrees[key] = grown
                why[key] = "backpressure begins before it and no other reason was found: "
                why[key] += "enough if it is the one, since it reports no busy time" if unread else "a tenth more"

    @staticmethod
    def _grown(observation: Observation, key: str, demand: float) -> int:
        """Enough instances if what an operator takes now is all that it can take."""
        metrics = observation.operators[key]
        ratio = demand / metrics.records_in_per_s if metrics.records_in_per_s > 0 else _BLIND_GROWTH
        return math.ceil(metrics.parallelism * (ratio if math.isfinite(ratio) else _BLIND_GROWTH))

    def _is_not_worth_it(self, current: Plan, wanted: Plan) -> bool:
        # The second look at what rested on rough readings may take one instance more.
        ignored = {key: 0 if key in self._known_roughly else self.settings.ignored_drop for key in wanted}
        return all(current[key] - ignored[key] <= wanted[key] <= current[key] for key in wanted)

    def _is_lent(self, key: str) -> bool:
        return key in self._prior and self._prior[key].is_known

    def _with_origin(self, why: dict[str, str]) -> dict[str, str]:
        """Add a note where the model has never seen anything like this, and no past operator lends anything."""
        if self._model is None:
            return why
        far = self._model.distance is not None and self._model.distance > self.settings.far_distance
        told = dict(why)
        for operator in self.job.dataflow.operators:
            if operator.type not in self._model.known_types:
                told[operator.id] += f"; the model has never seen a '{operator.type}': only its own readings count"
            elif far and not (operator.is_source or self._is_lent(operator.id)):
                told[operator.id] += "; no past job resembles this one: the global encoder is used"
        return told


class PaperStreamTune(StreamTune):
    """Algorithm 2 as printed, with the classifier of the paper's experiments. Needs a model."""

    name = "streamtune-paper"

    def __init__(
        self,
        job: Job,
        settings: StreamTuneSettings | None = None,
        *,
        model: Pretrained | None = None,
    ) -> None:
        super().__init__(job, settings or PaperStreamTuneSettings(), model=model)
