"""An operator that takes less than it is offered while it is busy all the time is never called enough."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtune.dataflow import Dataflow, Edge, Job, Observation, Operator, OperatorMetrics
from streamtune.readings import FINE
from streamtune.readings.shortfall import saturated_and_short
from streamtune.tuners.streamtune import StreamTune
from streamtune.tuners.streamtune.experience import Experience

FLOW = Dataflow(
    (Operator(id="in", type="source", rate=601.0), Operator(id="work", type="map"), Operator(id="out", type="sink")),
    (Edge("in", "work"), Edge("work", "out")),
)
JOB = Job("job", FLOW, 20)


def seen(offered: float, taken: float, busy: float, blocked: float = 0.0, parallelism: int = 1) -> Observation:
    """The source is not (yet) blocked: its buffers are still filling, or it hides that it is."""

    def metrics(rate: float, share: float, p: int = 1, held: float = 0.0) -> OperatorMetrics:
        return OperatorMetrics(
            parallelism=p,
            records_in_per_s=rate,
            records_out_per_s=rate,
            busy_ms_per_s=1000 * share,
            idle_ms_per_s=1000 * max(0.0, 1 - share - held),
            backpressured_ms_per_s=1000 * held,
        )

    operators = {
        "in": metrics(taken, 0.05, held=blocked),
        "work": metrics(taken, busy, parallelism),
        "out": metrics(taken, 0.1),
    }
    return Observation(
        observed_at=datetime(2026, 1, 1, tzinfo=UTC), window_s=30, source_rates={"in": offered}, operators=operators
    )


def test_the_answer_that_contradicted_itself() -> None:
    """Busy 1.0, 470 of 601/s taken: two instances, and nobody says that one was seen to be enough."""
    tuner = StreamTune(JOB)
    observation = seen(601.0, 470.0, 1.0)
    tuner.learn(observation)
    found = tuner.recommend(observation)
    assert found.plan["work"] >= 2
    assert "enough" not in found.why["work"]


@given(
    st.lists(
        st.tuples(st.floats(50, 5000), st.floats(0.3, 0.94), st.floats(0.86, 1.0), st.integers(1, 10)),
        min_size=1,
        max_size=5,
    )
)
def test_saturated_and_short_is_never_enough(history: list[tuple[float, float, float, int]]) -> None:
    tuner = StreamTune(JOB)
    for offered, share, busy, parallelism in history:
        observation = seen(offered, offered * share, busy, parallelism=parallelism)
        assert saturated_and_short(FLOW, observation) == {"work"}
        tuner.learn(observation)
        found = tuner.recommend(observation)
        assert "was seen to be enough" not in found.why["work"] or found.plan["work"] > parallelism


@pytest.mark.parametrize(("offered", "taken", "busy"), [(601.0, 600.0, 1.0), (601.0, 470.0, 0.5)])
def test_all_other_operators_are_labelled_as_before(offered: float, taken: float, busy: float) -> None:
    observation = seen(offered, taken, busy)
    assert Experience(JOB).add(observation).labels["work"] == FINE
    assert saturated_and_short(FLOW, observation) == frozenset()
