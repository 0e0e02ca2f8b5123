"""StreamTune's online tuner (Section IV-B, Algorithm 2, and what we build on top of it)."""

from __future__ import annotations

import math

from streamtune.dataflow import Job, Observation, Plan
from streamtune.readings import LabelSettings
from streamtune.readings.metrics import LastKnownPlan, suspects
from streamtune.tuners.base import Recommendation, Tuner
from streamtune.tuners.streamtune.algorithm2 import ClassifierEstimator
from streamtune.tuners.streamtune.estimator import NeedEstimator, Situation, Verdict
from streamtune.tuners.streamtune.experience import Bounds, Experience
from streamtune.tuners.streamtune.memory import Memory
from streamtune.tuners.streamtune.posterior import PosteriorEstimator
from streamtune.tuners.streamtune.pretrained import Pretrained
from streamtune.tuners.streamtune.settings import PaperStreamTuneSettings, StreamTuneSettings

# The safe rule where no operator can be blamed for backpressure: suspects grow by a tenth, at least by one.
_BLIND_GROWTH = 1.1


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
        self._usual = {} if model is None else model.selectivities
        self._estimator = self._make_estimator()
        for observation in [] if memory is None else memory.load():
            self._take_in(observation)

    @property
    def labelling(self) -> LabelSettings:
        """The rule by which observations are labelled: the model's own."""
        return self._experience.labelling

    def _make_estimator(self) -> NeedEstimator:
        make = PosteriorEstimator if self.settings.estimator == "posterior" else ClassifierEstimator
        return make(self.job, self.settings, self._model)

    def learn(self, observation: Observation) -> None:
        observation = self._known.complete(observation)
        self._take_in(observation)
        if self._memory is not None:
            self._memory.add(observation)

    def _take_in(self, observation: Observation) -> None:
        lesson = self._experience.add(observation)
        self._estimator.learn(lesson, self._situation(observation))

    def _situation(self, observation: Observation) -> Situation:
        rates = observation.source_rates
        demand = self._experience.demand(rates, self._usual)
        return Situation(rates, demand, self._experience.selectivities(), observation.reports_backpressure)

    def verdicts(self, observation: Observation) -> dict[str, Verdict]:
        """What the estimator thinks of every operator at the rates of this observation."""
        return self._estimator.judge(self._situation(observation))

    def recommend(self, observation: Observation) -> Recommendation:
        observation = self._known.complete(observation)
        situation = self._situation(observation)
        verdicts = self._estimator.judge(situation)
        bounds = self._experience.bounds(situation.demand, self._usual) if self.settings.binding else {}
        current = observation.plan
        degrees, why, figures = {}, {}, {}
        for key in self.job.dataflow.order:
            verdict = verdicts.get(key)
            if verdict is None:
                degrees[key], why[key] = current[key], "a source keeps its parallelism"
                continue
            demand = situation.demand[key]
            degrees[key], why[key] = self._choose(verdict, bounds.get(key, Bounds()), demand, current[key])
            figures[key] = {
                "rate_per_s": demand,
                "safe_probability": float(verdict.safe[degrees[key] - 1]),
                "estimated": float(verdict.degree),
            }
        self._relieve(observation, degrees, why)
        plan = Plan({key: degrees[key] for key in self.job.dataflow.index})
        if not observation.has_backpressure and self._is_not_worth_it(current, plan):
            why = {key: f"{text}; the change is not worth a restart" for key, text in why.items()}
            plan = current
        self._known.asked_for(plan)
        return Recommendation(plan, self._with_origin(why), figures)

    def _choose(self, verdict: Verdict, bounds: Bounds, demand: float, current: int) -> tuple[int, str]:
        if not math.isfinite(demand) or not verdict.told:
            return current, "nothing is known of it yet: kept as it is"
        if demand <= 0 and self.settings.binding:
            return 1, "nothing reaches it"
        limit = self.job.max_parallelism
        degree = min(max(1, bounds.apply(verdict.degree)), limit)
        text = verdict.told
        if degree > verdict.degree:
            text += f"; {degree - 1} was seen as a bottleneck at such a rate"
        elif degree < verdict.degree:
            text += f"; {degree} was seen to be enough at such a rate"
        elif not verdict.is_reached:
            text += f"; even the limit of {limit} is not expected to keep up"
        return degree, text

    def _relieve(self, observation: Observation, degrees: dict[str, int], why: dict[str, str]) -> None:
        """Backpressure, and nothing was raised: no cause is known, so all suspects grow."""
        if not (observation.has_backpressure and self.settings.binding):
            return
        current = observation.plan
        if any(degrees[key] > current[key] for key in degrees):
            return
        for key in suspects(self.job.dataflow, observation)[:1]:
            grown = min(math.ceil(current[key] * _BLIND_GROWTH), self.job.max_parallelism)
            if grown > current[key]:
                degrees[key] = max(grown, current[key] + 1)
                why[key] = "backpressure begins before it and no other reason was found: a tenth more"

    def _is_not_worth_it(self, current: Plan, wanted: Plan) -> bool:
        return all(current[key] - self.settings.ignored_drop <= wanted[key] <= current[key] for key in wanted)

    def _with_origin(self, why: dict[str, str]) -> dict[str, str]:
        """Add a note where the model has never seen anything like this."""
        if self._model is None:
            return why
        far = self._model.distance is not None and self._model.distance > self.settings.far_distance
        told = dict(why)
        for operator in self.job.dataflow.operators:
            if operator.type not in self._model.known_types:
                told[operator.id] += f"; the model has never seen a '{operator.type}': only its own readings count"
            elif far:
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
