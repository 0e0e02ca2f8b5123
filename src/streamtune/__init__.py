"""StreamTune: tunes the parallelism of streaming jobs, operator by operator, by learning from the past.

The names that most programs need are here; ``import streamtune`` loads none of them before it is used. What a name
needs beyond a plain install is reported when it is used (``pip install 'streamtune[learn]'``).

>>> from streamtune import Controller, Simulator, make_tuner
>>> from streamtune.workloads import load
>>> spec = load("nexmark-q1").spec
>>> engine = Simulator.of(spec)
>>> controller = Controller(engine, make_tuner("ds2", spec.job))
>>> deployment = engine.deploy(spec.job, spec.job.initial_plan)
>>> controller.tune(deployment).backpressure
False

Everything else is in the rooms: ``streamtune.dataflow``, ``streamtune.engines``, ``streamtune.tuners`` …
"""

from typing import TYPE_CHECKING

__version__ = "0.2.0"  # the one place: pyproject.toml takes it from here

if TYPE_CHECKING:
    from streamtune.control.controller import Controller
    from streamtune.control.supervisor import Supervisor
    from streamtune.dataflow.job import Job
    from streamtune.dataflow.observation import Observation
    from streamtune.dataflow.plan import Plan
    from streamtune.dataflow.spec import load_spec
    from streamtune.engines.base import Engine, MeasurementWindow
    from streamtune.engines.flink.engine import FlinkEngine
    from streamtune.engines.simulator.engine import Simulator
    from streamtune.engines.timely.engine import TimelyEngine
    from streamtune.errors import StreamTuneError
    from streamtune.history.store import History
    from streamtune.models.bundle import ModelBundle
    from streamtune.spark.session import build_session
    from streamtune.tuners import make_tuner
    from streamtune.tuners.base import Recommendation, Tuner
    from streamtune.tuners.streamtune.tuner import StreamTune
else:
    # Heavy things are loaded when they are used; what is not installed is reported in one sentence.
    from streamtune.extras import explain_missing_packages
    from streamtune.lazy import lazily

    explain_missing_packages()
    __getattr__ = lazily(
        __name__,
        {
            "control.controller": ["Controller"],
            "control.supervisor": ["Supervisor"],
            "dataflow.job": ["Job"],
            "dataflow.observation": ["Observation"],
            "dataflow.plan": ["Plan"],
            "dataflow.spec": ["load_spec"],
            "engines.base": ["Engine", "MeasurementWindow"],
            "engines.flink.engine": ["FlinkEngine"],
            "engines.simulator.engine": ["Simulator"],
            "engines.timely.engine": ["TimelyEngine"],
            "errors": ["StreamTuneError"],
            "history.store": ["History"],
            "models.bundle": ["ModelBundle"],
            "spark.session": ["build_session"],
            "tuners": ["make_tuner"],
            "tuners.base": ["Recommendation", "Tuner"],
            "tuners.streamtune.tuner": ["StreamTune"],
        },
    )

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "Controller",
    "Engine",
    "FlinkEngine",
    "History",
    "Job",
    "MeasurementWindow",
    "ModelBundle",
    "Observation",
    "Plan",
    "Recommendation",
    "Simulator",
    "StreamTune",
    "StreamTuneError",
    "Supervisor",
    "TimelyEngine",
    "Tuner",
    "__version__",
    "build_session",
    "load_spec",
    "make_tuner",
]
