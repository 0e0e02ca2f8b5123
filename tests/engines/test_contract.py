"""Every engine there is passes the contract."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable

import pytest

import streamtune.engines
from streamtune.dataflow import Dataflow, Edge, Job, Operator, Plan
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.dataflow.spec import JobSpec
from streamtune.engines import Engine
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.flink import FlinkEngine
from streamtune.engines.simulator import Simulator
from streamtune.engines.timely import TimelyEngine
from streamtune.testing import ENGINE_LAWS, EngineCase


def _contract_spec() -> JobSpec:
    operators = (
        Operator(id="source", type="source", rate=1000),
        Operator(id="work", type="map"),
        Operator(id="sink", type="sink"),
    )
    job = Job("contract", Dataflow(operators, (Edge("source", "work"), Edge("work", "sink"))), max_parallelism=20)
    physics = {
        "source": OperatorPhysics(service_us=50),
        "work": OperatorPhysics(service_us=4000),
        "sink": OperatorPhysics(service_us=50),
    }
    return JobSpec(job, physics)


def _case(engine: Engine, window: MeasurementWindow | None = None) -> EngineCase:
    return EngineCase(
        engine,
        _contract_spec().job,
        short_plan=Plan({"source": 1, "work": 2, "sink": 1}),
        ample_plan=Plan({"source": 1, "work": 10, "sink": 1}),
        window=window or MeasurementWindow(),
    )


def _simulator_case() -> EngineCase:
    return _case(Simulator.of(_contract_spec()))


def _timely_case() -> EngineCase:
    return _case(TimelyEngine.of(_contract_spec()), MeasurementWindow(settle_s=0.3, length_s=1.0))


CASES: dict[type[Engine], Callable[[], EngineCase]] = {Simulator: _simulator_case, TimelyEngine: _timely_case}
REAL = {TimelyEngine}  # they run in real time, and so with nothing beside them


def every_engine() -> set[type[Engine]]:
    found = set()
    for module in pkgutil.walk_packages(streamtune.engines.__path__, "streamtune.engines."):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(kind, Engine) and not inspect.isabstract(kind):
                found.add(kind)
    return found


def test_no_engine_escapes_the_contract() -> None:
    # Flink passes it on a real cluster, which is started once for all of tests/engines/flink.
    assert every_engine() == {*CASES, FlinkEngine}


@pytest.mark.parametrize(
    "engine",
    [pytest.param(kind, marks=pytest.mark.realtime if kind in REAL else ()) for kind in CASES],
    ids=lambda engine: engine.__name__,
)
@pytest.mark.parametrize("law", ENGINE_LAWS, ids=lambda law: law.__name__)
def test_contract(engine: type[Engine], law: Callable[[EngineCase], None]) -> None:
    law(CASES[engine]())
