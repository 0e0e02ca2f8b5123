"""A plan with a placement on simulated hosts: bytes between hosts, links, chains; the arithmetic in the comments."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamtune.dataflow import Dataflow, Edge, Job, Observation, Operator, Plan
from streamtune.dataflow.hosts import Cluster, Host
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.dataflow.plan import Instance
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.simulator import Simulator, SimulatorSettings
from streamtune.errors import DataflowError, EngineError
from streamtune.placement import Hosts, Ours, PlacementError, Problem
from streamtune.placement.observed import observed_graph, placed_plan
from streamtune.placement.wire import HopCost

PLAIN = HopCost(overhead_bytes=20, byte_factor=1, message_bytes=0, ack_bytes=0)
SETTINGS = SimulatorSettings.exact()
SETTINGS = SETTINGS.replace(hosts=SETTINGS.hosts.replace(wire=PLAIN))
WINDOW = MeasurementWindow(60.0, 30.0)


def job_of(partitioning: str, rate: float = 1000.0, operators: int = 2) -> tuple[Job, dict[str, OperatorPhysics]]:
    """A line of operators whose records are 10 longs: 80 bytes, 100 on the wire."""
    names = ["source", *(f"op{number}" for number in range(1, operators))]
    made = [
        Operator(id=n, type="source" if n == "source" else "map", rate=rate if n == "source" else None,
                 tuple_width_out=10, tuple_type="long")
        for n in names
    ]  # fmt: skip
    edges = tuple(Edge(a, b, partitioning) for a, b in pairwise(names))  # type: ignore[arg-type]
    return Job("line", Dataflow(tuple(made), edges)), {n: OperatorPhysics(service_us=10, skew=0) for n in names}


def run(
    job: Job, physics: dict[str, OperatorPhysics], hosts: dict[str, list[int]], link_gbps: float = 10.0, count: int = 2
) -> tuple[Observation, float]:
    """What is seen under an assignment, and the bytes/s between all hosts."""
    cluster = Cluster(tuple(Host(cores=8, network_gbps=link_gbps) for _ in range(count)))
    placement = {Instance(key, n): f"h{host}" for key, places in hosts.items() for n, host in enumerate(places)}
    engine = Simulator({job.name: physics}, SETTINGS, cluster=cluster)
    deployment = engine.deploy(job, Plan({key: len(places) for key, places in hosts.items()}, placement=placement))
    seen = engine.observe(deployment, WINDOW)
    assert isinstance(seen, Observation)
    return seen, float(engine.traffic(deployment).sum())


def test_forwarded_records_cross_only_where_their_instances_are_apart() -> None:
    job, physics = job_of("forward")
    assert run(job, physics, {"source": [0, 1], "op1": [0, 1]})[1] == 0
    # 1,000 records/s of 100 bytes on the wire; all of them, then the half of instance 1.
    assert run(job, physics, {"source": [0, 1], "op1": [1, 0]})[1] == pytest.approx(100_000, rel=1e-3)
    assert run(job, physics, {"source": [0, 1], "op1": [0, 0]})[1] == pytest.approx(50_000, rel=1e-3)


def test_keyed_records_go_to_all_instances() -> None:
    job, physics = job_of("hash")
    assert run(job, physics, {"source": [0, 1], "op1": [0, 1]})[1] == pytest.approx(50_000, rel=1e-3)
    assert run(job, physics, {"source": [0, 0], "op1": [0, 0]})[1] == 0
    hot = {**physics, "op1": OperatorPhysics(service_us=10, skew=0.5)}
    # Instance 0 gets 1.25 times its half (skew 0.5 at two instances): 625 of 1,000 records.
    assert run(job, hot, {"source": [0], "op1": [1, 0]})[1] == pytest.approx(62_500, rel=1e-3)


def test_a_link_limits_what_crosses_it() -> None:
    job, physics = job_of("forward", rate=10_000.0)
    # 10,000 records/s are 1 MB/s = 0.008 Gbit/s: a link of half that lets half of them through.
    apart = {"source": [0], "op1": [1]}
    assert run(job, physics, apart, link_gbps=0.016)[0].throughput_per_s == pytest.approx(10_000, rel=0.01)
    assert run(job, physics, apart, link_gbps=0.004)[0].throughput_per_s == pytest.approx(5_000, rel=0.03)
    together = {"source": [0], "op1": [0]}
    assert run(job, physics, together, link_gbps=0.004)[0].throughput_per_s == pytest.approx(10_000, rel=0.01)


def test_instances_on_one_host_share_its_cores() -> None:
    job, physics = job_of("hash", rate=20_000.0)
    slow = {**physics, "op1": OperatorPhysics(service_us=1000, skew=0, contention=0, coherency=0)}
    spread, _ = run(job, slow, {"source": [0], "op1": [0] * 8 + [1] * 8})
    crowded, _ = run(job, slow, {"source": [0], "op1": [1] * 16})
    assert spread.throughput_per_s == pytest.approx(16_000, rel=0.06)  # 16 instances of 1,000/s on 16 cores
    assert crowded.throughput_per_s == pytest.approx(8_000, rel=0.06)  # on 8


@given(places=st.lists(st.integers(0, 2), min_size=9, max_size=9))
@settings(max_examples=20, deadline=None)
def test_what_is_observed_adds_up(places: list[int]) -> None:
    job, physics = job_of("hash", operators=3)
    hosts = {"source": places[:3], "op1": places[3:6], "op2": places[6:]}
    seen, between = run(job, physics, hosts, count=3)
    assert seen.hosts["op1/2"] == f"h{places[5]}"
    where = {key: int(host[1:]) for key, host in seen.hosts.items()}
    crossing = sum(
        pair.bytes_per_s or 0.0
        for pair in seen.instance_pairs
        if where[f"{pair.source}/{pair.source_instance}"] != where[f"{pair.target}/{pair.target_instance}"]
    )
    assert between == pytest.approx(crossing, rel=1e-6)
    records = sum(pair.records_per_s or 0.0 for pair in seen.instance_pairs if pair.source == "source")
    assert records == pytest.approx(1000, rel=1e-2)


def test_placements_that_cannot_be_are_refused() -> None:
    job, physics = job_of("hash")
    cluster = Cluster((Host(cores=2),))
    alone, on_hosts = Simulator({job.name: physics}), Simulator({job.name: physics}, cluster=cluster)
    whole = {Instance("source", 0): "h0", Instance("op1", 0): "h0"}
    degrees = {"source": 1, "op1": 1}
    with pytest.raises(EngineError, match="cannot apply the placement of a plan"):
        alone.deploy(job, Plan(degrees, placement=whole))
    with pytest.raises(DataflowError, match="leaves out instance 0: place every instance, or none"):
        on_hosts.deploy(job, Plan(degrees, placement={Instance("op1", 0): "h0"}))
    with pytest.raises(DataflowError, match="on 'h7', but the hosts are h0 to h0"):
        on_hosts.deploy(job, Plan(degrees, placement={**whole, Instance("op1", 0): "h7"}))
    deployment = on_hosts.deploy(job, Plan(degrees, placement=whole))
    assert on_hosts.rescale(deployment, Plan(degrees)).plan.placement is None


def test_a_placement_from_what_was_observed_saves_what_it_says() -> None:
    job, physics = job_of("forward", operators=3)
    shifted = {"source": [0, 1, 2], "op1": [1, 2, 0], "op2": [2, 0, 1]}  # every hop is remote
    before, between = run(job, physics, shifted, count=3)
    assert between == pytest.approx(2 * 100_000, rel=1e-3)
    problem = Problem(observed_graph(before), Hosts.equal(3), current=before.hosts)
    assert problem.place(problem.home, "today", 0.0).remote_bytes_per_s == pytest.approx(between, rel=1e-6)
    plan = placed_plan(before.plan, Ours().place(problem))
    assert plan.placement is not None
    hosts = {key: [int(plan.placement[Instance(key, n)][1:]) for n in range(3)] for key in shifted}
    assert run(job, physics, hosts, count=3)[1] == 0
    with pytest.raises(PlacementError, match="does not report what goes from instance to instance"):
        observed_graph(before.model_copy(update={"instance_pairs": ()}))
