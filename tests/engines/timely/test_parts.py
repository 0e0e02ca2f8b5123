"""The parts of the Timely engine that need no Timely: routing, keys, placement, progress, latency."""

from __future__ import annotations

import itertools
import random
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.timely import reference
from engines.timely.jobs import chain, windows_and_joins
from streamtune.dataflow import Dataflow, Plan
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.engines.timely import Placement, TimelyEngine, TimelySettings
from streamtune.engines.timely.instance import Addressed, hash_bounds
from streamtune.engines.timely.latency import epoch_latencies
from streamtune.engines.timely.order import Order
from streamtune.engines.timely.placement import fair_shares, siphash13, worker_keys
from streamtune.engines.timely.records import Copies, source_record
from streamtune.engines.timely.runtime import Runtime
from streamtune.errors import EngineError
from streamtune.extras import MissingExtraError


def test_every_worker_has_a_key_that_leads_to_it() -> None:
    for workers in (1, 3, 10, 48):
        keys = worker_keys(workers)
        assert [siphash13(key.encode() + b"\xff") % workers for key in keys] == list(range(workers))


@given(st.lists(st.integers(1, 6), min_size=3, max_size=8), st.integers(6, 30))
def test_placement_shares_workers_only_when_it_must(degrees: list[int], max_workers: int) -> None:
    types = ["source", *["map"] * (len(degrees) - 2), "sink"]
    flow = Dataflow.from_edges(types, [(i, i + 1) for i in range(len(degrees) - 1)])
    plan = Plan({f"op{i}": degree for i, degree in enumerate(degrees)})
    placement = Placement.of(flow, plan, max_workers)
    for key, places in placement.instances.items():
        assert len(places) == len(set(places)) == plan[key]
        assert all(0 <= worker < placement.workers for worker in places)
    assert bool(placement.shared) == (plan.total > max_workers)
    crowd = [len(keys) for keys in placement.residents.values()]
    if not placement.shared:
        assert crowd == [1] * plan.total


def test_more_instances_than_workers_are_refused() -> None:
    flow = chain().job.dataflow
    with pytest.raises(EngineError, match="'work' needs parallelism 9, but Timely may have 5 workers"):
        Placement.of(flow, Plan({"numbers": 1, "work": 9, "sink": 1}), 5)


@given(st.lists(st.floats(0, 2), min_size=1, max_size=6))
def test_fair_shares_waste_and_invent_nothing(wanted: list[float]) -> None:
    granted = fair_shares(wanted)
    assert all(0 <= got <= want + 1e-9 for got, want in zip(granted, wanted, strict=True))
    assert sum(granted) == pytest.approx(min(1.0, sum(wanted)))


@given(st.integers(1, 12), st.floats(0, 1))
def test_key_ranges_follow_the_skew(parallelism: int, skew: float) -> None:
    physics = OperatorPhysics(service_us=1, skew=skew)
    bounds = [0.0, *hash_bounds(physics, parallelism), 1.0]
    widths = [high - low for low, high in itertools.pairwise(bounds)]
    assert widths[0] * parallelism == pytest.approx(physics.hot_factor(parallelism))
    assert max(widths[1:], default=0) == pytest.approx(min(widths[1:], default=0))


def test_copies_meet_their_factor_on_average() -> None:
    for factor in (0.2, 0.5, 1.0, 2.3):
        copies = Copies(11, factor)
        sent = sum(copies.of(source_record(5, number, 0)) for number in range(20_000))
        assert sent / 20_000 == pytest.approx(factor, rel=0.05)


@pytest.mark.parametrize("multiple", [1, 4])
def test_selectivities_hold_at_every_rate(multiple: int) -> None:
    """What six seconds of input give, against the selectivity that the spec asks for."""
    spec = windows_and_joins()
    spec = spec.with_rates({source: multiple * rate for source, rate in spec.job.source_rates.items()})
    flow, physics = spec.job.dataflow, spec.physics or {}
    streams = reference.streams(spec, seconds=6, join_life_s=0.5)
    for key in ("some", "more", "sums", "highest", "both", "matches"):
        taken = sum(len(streams[before]) for before in flow.predecessors(key))
        assert len(streams[key]) / taken == pytest.approx(physics[key].selectivity, rel=0.25), key
    assert flow.index.keys() >= streams.keys()


def test_an_order_survives_the_pipe() -> None:
    spec = windows_and_joins()
    order = Order(spec, spec.job.initial_plan, spec.job.source_rates, TimelySettings(epoch_s=0.25), 10, True)
    assert Order.from_json(order.to_json()) == order


def test_latency_of_epochs_worked_out_by_hand() -> None:
    # Epochs of 1 s end at 1, 2, 3 … s. The first three reach the sinks 0.1, 0.4 and 0.7 s late: 300 ms more per
    # epoch, which is 300 / 1.3 ms per second of waiting. At 6 s the fourth has been late for 2 s.
    done = [(1_000_000, 1_100_000), (2_000_000, 2_400_000), (3_000_000, 3_700_000)]
    seen = epoch_latencies(done, 0, 3_800_000, 1_000_000)
    assert seen.latency_ms == (100.0, 400.0, 700.0)
    assert seen.growth_ms_per_s == pytest.approx(300 / 1.3)
    assert seen.percentile_ms(50) == 400.0
    assert seen.cdf()[-1] == (700.0, 1.0)
    stuck = epoch_latencies(done, 3_800_000, 6_000_000, 1_000_000)
    assert (stuck.latency_ms, stuck.open_epochs) == ((2000.0,), 3)


def test_without_bytewax_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamtune.extras.is_installed", lambda package: package != "bytewax")
    spec = chain()
    with pytest.raises(MissingExtraError, match=r"pip install 'streamtune\[timely\]'"):
        TimelyEngine.of(spec).deploy(spec.job, spec.job.initial_plan)


def play(runtime: Runtime, turns: random.Random) -> list[tuple[int, int, int]]:
    """Run all instances in one thread, giving turns in any order; channels keep their order as Timely's do."""
    channels: dict[tuple[str, int, int], deque[Addressed]] = {}

    def post(sent: list[Addressed]) -> None:
        for addressed in sent:
            target, _, message = addressed
            channels.setdefault((target, message.target, message.channel), deque()).append(addressed)

    now_us = 0
    while not runtime.epochs.is_finished:
        now_us += 20_000
        for feed in runtime.feeds.values():
            post(feed.poll(now_us))
        for place in turns.sample(sorted(channels), k=turns.randint(0, len(channels))):
            target, _, message = channels[place].popleft()
            runtime.instances[target, message.target].accept(message)
            if not channels[place]:
                del channels[place]
        for instance in turns.sample(list(runtime.instances.values()), k=len(runtime.instances) // 2):
            post(instance.work())
    assert runtime.results is not None
    return sorted(runtime.results)


@settings(max_examples=15)
@given(st.lists(st.integers(1, 4), min_size=9, max_size=9), st.integers(0, 2**32))
def test_results_depend_neither_on_the_plan_nor_on_the_order_of_turns(degrees: list[int], seed: int) -> None:
    spec, records, life_s = windows_and_joins(), 120, 0.2
    # No service time, so that no turn sleeps.
    quick = {key: truth.model_copy(update={"service_us": 1e-6}) for key, truth in (spec.physics or {}).items()}
    spec = type(spec)(spec.job, quick)
    plan = Plan(dict(zip(spec.job.dataflow.index, degrees, strict=True)))
    timely = TimelySettings(join_life_s=life_s)
    runtime = Runtime(Order(spec, plan, spec.job.source_rates, timely, records, keep_results=True))
    assert play(runtime, random.Random(seed)) == reference.results(spec, records, life_s)
