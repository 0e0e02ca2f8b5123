"""Every tuner passes the contract, and no physics reaches one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from streamtune.dataflow import Job, Observation
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.engines.simulator import simulate_once
from streamtune.engines.simulator.model import Simulation
from streamtune.labs.simulator import tune_on_simulator
from streamtune.testing import TUNER_LAWS
from streamtune.testing.tuner_contract import TunerLaw
from streamtune.tuners import DS2, TUNERS, Recommendation, Tuner
from streamtune.workloads import catalogue
from streamtune.workloads.workload import Workload

WORKLOADS = [catalogue.load(name) for name in ("nexmark-q1", "nexmark-q5", "pqp-3way-0")]


def observed(workload: Workload, degree: int) -> Observation:
    plan = workload.spec.job.initial_plan
    plan = plan.replace({key: degree for key in plan if not workload.spec.job.dataflow.operator(key).is_source})
    return simulate_once(workload.spec.job, workload.physics, plan, workload.rates_at(10))


@pytest.mark.parametrize("degree", [1, 60], ids=["short", "ample"])
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
@pytest.mark.parametrize("tuner", TUNERS.values(), ids=lambda tuner: tuner.name)
@pytest.mark.parametrize("law", TUNER_LAWS, ids=lambda law: law.__name__)
def test_contract(law: TunerLaw, tuner: type[Tuner], workload: Workload, degree: int) -> None:
    law(tuner, workload.spec.job, observed(workload, degree))


def reachable(start: object) -> Iterator[object]:
    """Everything that can be got at from an object through attributes and containers."""
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type):
            continue
        seen.add(id(thing))
        yield thing
        if isinstance(thing, Mapping):
            waiting += [*thing.keys(), *thing.values()]
        elif isinstance(thing, tuple | list | set | frozenset):
            waiting += list(thing)
        waiting += list(getattr(thing, "__dict__", {}).values())
        for kind in type(thing).__mro__:
            waiting += [getattr(thing, name) for name in getattr(kind, "__slots__", ()) if hasattr(thing, name)]
        if callable(thing) and getattr(thing, "__closure__", None):
            waiting += [cell.cell_contents for cell in thing.__closure__]


class Spy(DS2):
    """Looks at everything it is given."""

    name = "spy"
    stolen: tuple[object, ...] = ()

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._search(job)

    def _search(self, given: object) -> None:
        Spy.stolen += tuple(thing for thing in reachable(given) if isinstance(thing, OperatorPhysics | Simulation))

    def recommend(self, observation: Observation) -> Recommendation:
        self._search(observation)
        self._search(self)
        return super().recommend(observation)


def test_physics_cannot_reach_a_tuner() -> None:
    workload = catalogue.load("nexmark-q5")
    assert any(isinstance(thing, OperatorPhysics) for thing in reachable(workload)), "the search itself must work"
    tune_on_simulator(workload.spec, Spy, [workload.rates_at(3), workload.rates_at(10)])
    assert Spy.stolen == ()
