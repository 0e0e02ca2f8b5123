"""An operator that takes less than it is offered while it is busy all the time is never called enough."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtune.dataflow import Dataflow, Edge, Job, Observation, Operator, OperatorMetrics
from streamtune.dataflow.observation import EdgeMetrics
from streamtune.readings import FINE
from streamtune.readings.shortfall import saturated_and_short
from streamtune.tuners.streamtune import StreamTune
from streamtune.tuners.streamtune.experience import Experience
from streamtune.tuners.streamtune.settings import StreamTuneSettings

FLOW = Dataflow(
    (Operator(id="in", type="source", rate=601.0), Operator(id="work", type="map"), Operator(id="out", type="sink")),
    (Edge("in", "work"), Edge("work", "out")),
)
JOB = Job("job", FLOW, 20)
AT_MOST_20 = st.integers(1, 20) | st.just(20)  # the limit counts most


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


@pytest.mark.parametrize("parallelism", [20, 24])  # 24: the limit was lowered while it ran
def test_an_operator_at_its_limit_keeps_what_it_may_have(parallelism: int) -> None:
    """Two served 100/s once; now all are busy all the time and take 60 of 100/s: two are not enough any more."""
    tuner = StreamTune(JOB)
    for observation in (seen(100.0, 100.0, 0.8, parallelism=2), seen(100.0, 60.0, 1.0, parallelism=parallelism)):
        tuner.learn(observation)
        found = tuner.recommend(observation)
    assert found.plan["work"] == 20
    assert "enough" not in found.why["work"]
    assert "its limit is 20" in found.why["work"]


def test_what_was_refuted_does_not_hold_growth_to_one_instance() -> None:
    """Two served 100/s once; four, blocked half of the time, take 60: ceil(4 * 100 / 60) = 7, and 5 never ran."""
    tuner = StreamTune(JOB)
    for observation in (seen(100.0, 100.0, 0.8, parallelism=2), seen(100.0, 60.0, 1.0, 0.5, parallelism=4)):
        tuner.learn(observation)
        found = tuner.recommend(observation)
    assert found.plan["work"] >= 7
    assert "enough" not in found.why["work"]


@given(
    st.lists(
        st.tuples(st.floats(50, 5000), st.floats(0.3, 0.94), st.floats(0.86, 1.0), AT_MOST_20, st.booleans()),
        min_size=1,
        max_size=5,
    )
)
def test_saturated_and_short_is_never_enough(history: list[tuple[float, float, float, int, bool]]) -> None:
    """Nor is anything taken away from it, at its limit and after better days too."""
    tuner = StreamTune(JOB)
    for offered, share, busy, parallelism, keeps_up in history:
        observation = seen(offered, offered * share, busy, parallelism=parallelism)
        if keeps_up:
            observation = seen(offered, offered, busy - 0.5, parallelism=parallelism)
        assert saturated_and_short(FLOW, observation) == (frozenset() if keeps_up else {"work"})
        tuner.learn(observation)
        found = tuner.recommend(observation)
        if not keeps_up:
            assert found.plan["work"] > parallelism or parallelism == JOB.limit_of("work") == found.plan["work"]
            assert "was seen to be enough" not in found.why["work"] or found.plan["work"] > parallelism


@given(st.lists(st.tuples(st.floats(50, 5000), st.floats(0.3, 1.0), st.integers(1, 20)), min_size=1, max_size=8))
def test_only_what_ran_is_said_to_have_been_seen(history: list[tuple[float, float, int]]) -> None:
    tuner, ran = StreamTune(JOB), set()
    for offered, share, parallelism in history:
        is_short = share < 0.9
        observation = seen(
            offered,
            offered * (share if is_short else 1.0),
            1.0 if is_short else 0.6,
            1 - share if is_short else 0.0,
            parallelism,
        )
        ran.add(parallelism)
        tuner.learn(observation)
        for said in re.findall(r"(\d+) was seen", tuner.recommend(observation).why["work"]):
            assert int(said) in ran


@pytest.mark.parametrize(("offered", "taken", "busy"), [(601.0, 600.0, 1.0), (601.0, 470.0, 0.5)])
def test_all_other_operators_are_labelled_as_before(offered: float, taken: float, busy: float) -> None:
    observation = seen(offered, taken, busy)
    assert Experience(JOB).add(observation).labels["work"] == FINE
    assert saturated_and_short(FLOW, observation) == frozenset()


class World:
    """A random job with forks and joins, whose operators serve at fixed rates per instance until one of them changes.

    What cannot be taken holds up all alike; the sources show it, hide it, or leave what they are offered to a guess.
    """

    LIMIT = 12

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        inner = [f"o{number}" for number in range(int(rng.integers(2, 7)))]
        sources = [f"s{number}" for number in range(int(rng.integers(1, 3)))]
        edges = {(source, inner[min(place, len(inner) - 1)]) for place, source in enumerate(sources)}
        edges |= {(a, b) for a, b in pairwise(inner) if rng.random() < 0.8 or not any(edge[1] == b for edge in edges)}
        edges |= {(a, b) for i, a in enumerate(inner) for b in inner[i + 1 :] if rng.random() < 0.2}
        operators = [Operator(id=key, type="source", rate=1000.0) for key in sources]
        operators += [Operator(id=key, type="map") for key in inner]
        self.job = Job("dag", Dataflow(tuple(operators), tuple(Edge(a, b) for a, b in sorted(edges))), self.LIMIT)
        self.sends = {edge: float(rng.uniform(0.05, 1.0)) for edge in edges}  # records over it per record in
        self.serves = {key: float(rng.uniform(100, 2000)) for key in inner}  # records/s of one instance
        self.plan = dict.fromkeys((*sources, *inner), 1)
        self.offered = {key: float(rng.uniform(300, 3000)) for key in sources}
        demand = self.demand()
        times = float(rng.uniform(1.5, 6)) / max(demand[key] / self.serves[key] for key in inner)
        self.offered = {key: rate * times for key, rate in self.offered.items()}

    def demand(self) -> dict[str, float]:
        flow, found = self.job.dataflow, dict(self.offered)
        for key in flow.order:
            found.setdefault(key, 0.0)
            found[key] += sum(found[one] * self.sends[one, key] for one in flow.predecessors(key))
        return found

    def change(self) -> None:
        """Another rate, and now and then an operator that serves less than it did."""
        self.offered = {key: rate * float(self.rng.uniform(0.6, 1.6)) for key, rate in self.offered.items()}
        if self.rng.random() < 0.4:
            self.serves[str(self.rng.choice(list(self.serves)))] *= float(self.rng.uniform(0.5, 1.0))

    def look(self) -> tuple[Observation, set[str]]:
        """What is seen, and who is saturated and takes clearly less than it is offered."""
        demand = self.demand()
        load = {key: demand[key] / (self.serves[key] * self.plan[key]) for key in self.serves}
        through = min(1.0, 1 / max(load.values()))
        way = self.rng.choice(["shown", "hidden", "guessed"]) if through < 1 else "shown"
        rate = {
            key: self.offered[key] * (1.0 if way != "guessed" else max(through, 0.25) ** 0.5) for key in self.offered
        }
        operators = {}
        for key, wanted in demand.items():
            taken = wanted * through
            busy = min(1.0, load[key] * through) if key in load else 0.1
            held = 1 - through if key in self.offered and way != "hidden" else 0.0
            sent = sum(taken * share for (a, _), share in self.sends.items() if a == key)
            operators[key] = OperatorMetrics(
                parallelism=self.plan[key],
                records_in_per_s=taken,
                records_out_per_s=sent,
                busy_ms_per_s=1000 * busy * (1 - held),
                idle_ms_per_s=1000 * max(0.0, 1 - busy) * (1 - held),
                backpressured_ms_per_s=1000 * held,
            )
        edges = tuple(
            EdgeMetrics(source=a, target=b, records_per_s=demand[a] * through * share)
            for (a, b), share in self.sends.items()
        )
        guess = dict.fromkeys(self.offered, "estimated") if way == "guessed" else {}
        seen = Observation(
            observed_at=datetime(2026, 1, 1, tzinfo=UTC),
            window_s=30,
            source_rates=rate,
            operators=operators,
            edges=edges,
            rate_origins=guess,
            rate_sds=dict.fromkeys(guess, 0.3),
        )
        asked = through * max(self.offered[key] / rate[key] for key in rate)  # taken, of what is said to be offered
        short = {key for key in load if asked < 0.9 and load[key] * through > 0.99}
        return seen, short


@pytest.mark.parametrize(
    "settings", [StreamTuneSettings(), StreamTuneSettings(target_utilisation=0.9, utilisation_band=0.2)]
)
@pytest.mark.parametrize("seed", range(40))
def test_on_any_dag_whoever_is_short_gets_more(seed: int, settings: StreamTuneSettings) -> None:
    """Saturated, and less than nine tenths of what it is offered are taken: more instances, or all that it may have."""
    world = World(seed)
    tuner = StreamTune(world.job, settings)
    looks = 0
    for _ in range(12):
        seen, short = world.look()
        tuner.learn(seen)
        found = tuner.recommend(seen)
        for key in short:
            looks += 1
            assert found.plan[key] > world.plan[key] or world.plan[key] == world.LIMIT, f"{key}: {found.why[key]}"
        world.plan = dict(found.plan)
        world.change()
    assert looks > 0
