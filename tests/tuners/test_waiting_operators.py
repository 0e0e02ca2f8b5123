"""An asynchronous operator idles while its requests are under way: how many it needs shows only with fewer of it."""

from __future__ import annotations

import pytest

from streamtune.control.controller import Controller, Outcome
from streamtune.dataflow import Observation, Plan
from streamtune.dataflow.spec import parse_spec
from streamtune.engines.base import Deployment, MeasurementWindow
from streamtune.engines.simulator import Simulator
from streamtune.tuners.streamtune import StreamTune


class IdleWhileItWaits(Simulator):
    """Flink: next to nothing is read of ``lookup``, unless its queue of requests is full."""

    busy_ms = 0.0

    def observe(self, deployment: Deployment, window: MeasurementWindow) -> Observation:
        seen = super().observe(deployment, window)
        metrics = seen.operators["lookup"]
        if metrics.busy_share < 0.95:
            busy = self.busy_ms * 30 / metrics.parallelism
            idle = {"busy_ms_per_s": busy, "busy_max_ms_per_s": None, "idle_ms_per_s": 1000 - busy}
            metrics = metrics.model_copy(update=idle)
        return seen.model_copy(update={"operators": {**seen.operators, "lookup": metrics}, "busy_resolution": 0.02})


def tuned(need: float, busy_ms: float) -> Outcome:
    """Tune a job whose look-ups need so many instances at the rate it is offered, from thirty."""
    spec = parse_spec(
        {
            "name": "asking",
            "max_parallelism": 60,
            "operators": [
                {"id": "source", "type": "source", "rate": 1000},
                {"id": "lookup", "type": "async", "inputs": ["source"]},
                {"id": "sink", "type": "sink", "inputs": ["lookup"]},
            ],
            "physics": {
                "source": {"service_us": 50},
                "lookup": {"service_us": need * 1000},
                "sink": {"service_us": 50},
            },
        }
    )
    engine = IdleWhileItWaits.of(spec)
    assert isinstance(engine, IdleWhileItWaits)
    engine.busy_ms = busy_ms
    deployment = engine.deploy(spec.job, Plan({"source": 1, "lookup": 30, "sink": 1}))
    return Controller(engine, StreamTune(spec.job)).tune(deployment)


@pytest.mark.parametrize("busy_ms", [0.0, 1.0, 2.1, 3.0, 4.0])
@pytest.mark.parametrize("need", [0.5, 2.5, 8.5, 20.0, 28.0])
def test_from_ten_times_too_many(need: float, busy_ms: float) -> None:
    """With 2 to 4 ms per s the reading hid that thirty had kept up: nothing was known, and thirty stayed."""
    found = tuned(need, busy_ms)
    assert found.reconfigurations <= 4
    assert not found.backpressure
    assert need <= found.deployment.plan["lookup"] <= 1.3 * need + 1
