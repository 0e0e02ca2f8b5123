"""``Tuner``: the one small interface of our method and its rivals. No tuner has privileges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from streamtune.dataflow import Job, Observation, Plan
from streamtune.readings.curves import CapacityCurve


@dataclass(frozen=True)
class Recommendation:
    """A plan, and for every operator why it got its number: a sentence, and the figures behind it.

    ``provisional`` means: deploy this to learn from it, then ask me again, whatever is seen.

    >>> better = Recommendation(Plan({"bids": 1, "hot": 12}), why={"bids": "a source is kept", "hot": "98 % busy"})
    >>> better.plan["hot"], better.why["hot"], better.provisional
    (12, '98 % busy', False)
    """

    plan: Plan
    why: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    provisional: bool = False


class Tuner(ABC):
    """Decides parallelism for one job from what is observed of it.

    ``learn`` is called with every observation, ``recommend`` when the controller wants a plan for the last one.
    Decisions depend on the job and its observations alone: no clock, no sockets, no physics. One method makes a tuner
    (``examples/own_tuner.py`` is a whole one):

    >>> class Doubling(Tuner):
    ...     name = "doubling"
    ...     def recommend(self, observation: Observation) -> Recommendation:
    ...         factor = 2 if observation.has_backpressure else 1
    ...         return Recommendation(Plan({key: factor * degree for key, degree in observation.plan.items()}))
    >>> Doubling.name
    'doubling'
    """

    name: ClassVar[str]

    def __init__(self, job: Job) -> None:
        self.job = job

    def learn(self, observation: Observation) -> None:  # noqa: B027 - optional: stateless tuners have nothing to learn
        """Take note of an observation."""

    def inherit(self, other: Tuner) -> None:  # noqa: B027 - optional, like learn
        """Take over what is still true of what another tuner of this kind learnt, of the job before it was changed."""

    @abstractmethod
    def recommend(self, observation: Observation) -> Recommendation:
        """A plan for the source rates of this observation; names every operator of the job."""

    def plan_at(self, observation: Observation, rates: Mapping[str, float]) -> Plan:
        """The plan it would choose if the sources were offered these rates instead."""
        return self.recommend(observation.model_copy(update={"source_rates": dict(rates)})).plan

    def capacity_curves(self, observation: Observation) -> Mapping[str, CapacityCurve]:  # noqa: ARG002
        """What is believed about the operators of which anything is known, for tuners that believe in curves."""
        return {}

    def is_due(self, observation: Observation) -> bool:  # noqa: ARG002 - for tuners that look ahead
        """Whether to change now although nothing has happened yet."""
        return False
