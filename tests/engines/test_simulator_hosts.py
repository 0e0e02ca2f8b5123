"""Laws of hosts and chaining in the simulator, with the arithmetic in the comments."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamtune.dataflow import Dataflow, Edge, Job, Observation, Operator, Plan
from streamtune.dataflow.hosts import Cluster, Host
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.engines.simulator import Simulator, SimulatorSettings, simulate_once
from streamtune.errors import DataflowError
from streamtune.workloads.cloudlab import machine
from streamtune.workloads.settings import STRUCTURES
from streamtune.workloads.zerotune import draw_query

EXACT = SimulatorSettings.exact()


def pipeline(rate: float, *service_us: float, keyed: bool = True) -> tuple[Job, dict[str, OperatorPhysics]]:
    """source → op1 → …; keyed edges, so that nothing is chained, unless asked otherwise."""
    operators = [Operator(id="source", type="source", rate=rate)]
    operators += [Operator(id=f"op{number}", type="map") for number in range(1, len(service_us))]
    edges = tuple(Edge(a.id, b.id, "hash" if keyed else "rebalance") for a, b in pairwise(operators))
    physics = {o.id: OperatorPhysics(service_us=us) for o, us in zip(operators, service_us, strict=True)}
    return Job("pipeline", Dataflow(tuple(operators), edges)), physics


def seen(job: Job, physics: dict[str, OperatorPhysics], plan: dict[str, int], *hosts: Host) -> Observation:
    cluster = Cluster(hosts) if hosts else None
    return simulate_once(job, physics, Plan(plan), job.source_rates, settings=EXACT, cluster=cluster)


def test_a_faster_clock_serves_more() -> None:
    """1 ms per record on the reference clock of 2 GHz: 1000/s on 2 GHz, 1500/s on 3 GHz."""
    job, physics = pipeline(2000.0, 10.0, 1000.0)
    rates = [seen(job, physics, {"source": 1, "op1": 1}, Host(cores=4, ghz=ghz)).throughput_per_s for ghz in (2.0, 3.0)]
    assert rates == pytest.approx([1000, 1500], rel=0.02)


def test_the_slowest_host_limits() -> None:
    """Two instances, one on 2 GHz (1000/s) and one on 1 GHz (500/s): records are dealt out evenly, so 2 · 500/s."""
    job, physics = pipeline(3000.0, 10.0, 1000.0)
    found = seen(job, physics, {"source": 1, "op1": 2}, Host(cores=4, ghz=2.0), Host(cores=4, ghz=1.0))
    assert found.throughput_per_s == pytest.approx(1000, rel=0.03)


def test_threads_share_the_cores() -> None:
    """Two operators of 1 ms want a core each at 1000/s. On a single core they share it: 500/s pass."""
    job, physics = pipeline(1000.0, 1.0, 1000.0, 1000.0)
    plan = {"source": 1, "op1": 1, "op2": 1}
    alone = seen(job, physics, plan, Host(cores=4)).throughput_per_s
    shared = seen(job, physics, plan, Host(cores=1)).throughput_per_s
    assert alone == pytest.approx(990, rel=0.03)
    assert shared == pytest.approx(500, rel=0.03)


def test_a_chain_shares_a_thread_and_saves_the_exchange() -> None:
    """Chained, a record takes 1 + 0.75 · 1 ms of one thread (a quarter is saved): 571/s; apart, 1000/s each."""
    chained, physics = pipeline(2000.0, 1.0, 1000.0, 1000.0, keyed=False)
    plan = {"source": 2, "op1": 1, "op2": 1}
    together = seen(chained, physics, plan, Host(cores=8)).throughput_per_s
    apart_job, _ = pipeline(2000.0, 1.0, 1000.0, 1000.0)
    apart = seen(apart_job, physics, plan, Host(cores=8)).throughput_per_s
    assert together == pytest.approx(1000 / 1.75, rel=0.03)
    assert apart == pytest.approx(1000, rel=0.03)


def test_chaining_saves_latency_when_there_is_room() -> None:
    """At 10/s a network buffer never fills: an exchange costs half of the 100 ms after which it is sent anyway."""
    chained, physics = pipeline(10.0, 1.0, 100.0, keyed=False)
    apart, _ = pipeline(10.0, 1.0, 100.0)
    plan = {"source": 1, "op1": 1}
    short, long = (seen(job, physics, plan, Host(cores=8)).latency_ms or 0.0 for job in (chained, apart))
    assert long - short == pytest.approx(50, abs=2)


def test_a_slow_link_limits() -> None:
    """Records of 16 + 100·16 = 1616 bytes; half of 200,000/s crosses to the other host: 161.6 MB/s over 125 MB/s."""
    operators = (
        Operator(id="source", type="source", rate=200_000.0, tuple_width_out=100),
        Operator(id="op1", type="map"),
    )
    job = Job("wide", Dataflow(operators, (Edge("source", "op1", "hash"),)))
    physics = {key: OperatorPhysics(service_us=1.0) for key in ("source", "op1")}
    plan = {"source": 1, "op1": 2}
    fast, slow = (
        seen(job, physics, plan, *(Host(cores=4, network_gbps=gbps),) * 2).throughput_per_s for gbps in (10.0, 1.0)
    )
    assert fast == pytest.approx(200_000, rel=0.02)
    assert slow == pytest.approx(200_000 * 125 / 161.6, rel=0.05)


def test_a_plan_above_the_cores_is_refused() -> None:
    job, physics = pipeline(10.0, 1.0, 1.0)
    engine = Simulator({job.name: physics}, cluster=Cluster((Host(cores=2), Host(cores=1))))
    with pytest.raises(DataflowError, match="asks for parallelism 4, the 2 hosts have 3 cores: lower it or add hosts"):
        engine.deploy(job, Plan({"source": 1, "op1": 4}))
    running = engine.deploy(job, Plan({"source": 1, "op1": 3}))
    with pytest.raises(DataflowError, match="the 2 hosts have 3 cores"):
        engine.rescale(running, Plan({"source": 1, "op1": 5}))


@given(st.sampled_from(STRUCTURES), st.integers(0, 400), st.integers(0, 10**6))
@settings(max_examples=25)
def test_more_hosts_never_lower_throughput(structure: str, number: int, seed: int) -> None:
    """The truth that predictions are held to: the same plan on three times the hosts."""
    query = draw_query(structure, number)
    few, many = (Cluster((machine("m510"),) * count) for count in (2, 6))
    rng = np.random.default_rng(seed)
    plan = Plan({key: int(rng.integers(1, 17)) for key in query.job.dataflow.index})
    rates = [
        simulate_once(
            query.job, query.physics, plan, query.job.source_rates, settings=EXACT, cluster=cluster
        ).throughput_per_s
        or 0.0
        for cluster in (few, many)
    ]
    assert rates[1] >= rates[0] * 0.97
