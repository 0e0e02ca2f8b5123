"""The thesis' topologies, the fluid model on hosts, and the study at its smallest."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from streamtune.cli import app
from streamtune.errors import StreamTuneError
from streamtune.experiments.placement import bench
from streamtune.experiments.placement.arena import QUICK
from streamtune.experiments.placement.bench import run_study
from streamtune.experiments.placement.flows import job_topology, task_flows
from streamtune.experiments.placement.study import EXPERIMENTS
from streamtune.labs.hosts import HostsUnavailableError
from streamtune.placement import Hosts, Problem, scheduler
from streamtune.placement.fluid import FluidHosts, HostLimits
from streamtune.placement.unroll import rates_of, unrolled
from streamtune.placement.wire import HopCost
from streamtune.workloads import catalogue
from streamtune.workloads.placement_topologies import (
    TOPOLOGIES,
    OpenGovData,
    opengov,
    parallel,
    payload,
    reference,
    topology,
)

OPENGOV = task_flows(opengov(4))
BYTES_ONLY = HopCost(
    overhead_bytes=0, byte_factor=1, message_bytes=0, ack_bytes=0, local_us=0, remote_us=0, remote_ns_per_byte=0,
    service_us=100,
)  # fmt: skip


def test_sizes_are_those_of_the_thesis() -> None:
    # 10 hosts: 8 × 10 tasks of Parallel and Payload and a metrics task; OpenGov 6 per worker and one output.
    assert len(parallel(10).tasks) == len(payload(10).tasks) == len(reference(10).tasks) == 81
    assert len(opengov(10).tasks) == 51
    assert [link.tuple_bytes for link in payload(4).links] == [3072.0] * 7


def test_opengov_data_is_seeded_and_filters_most() -> None:
    assert OpenGovData(seed=3).doubling_share == OpenGovData(seed=3).doubling_share
    assert 0 < OpenGovData().doubling_share < 0.1
    assert opengov(6).links[4].shares.sum() == pytest.approx(3)  # each of the 3 contract spouts sends all its tuples


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_no_tuple_gets_lost(name: str) -> None:
    flows = task_flows(topology(name, 6))
    out = np.zeros((flows.wanted.size, len(flows.tasks)))
    np.add.at(out, (slice(None), flows.edge_target), flows.per_source)
    bolts = np.setdiff1d(np.arange(len(flows.tasks)), flows.source_tasks)
    assert out[:, bolts] == pytest.approx(flows.handled[:, bolts])


@pytest.mark.parametrize(("name", "even"), [("parallel", 1 / 7), ("payload", 1 / 7), ("reference", 0.9)])
def test_storms_even_schedule_as_platform_md_measured_it(name: str, even: float) -> None:
    # Straight lines: only spout → bolt is remote (a metrics task shifts the deal), one hop of seven.
    graph = task_flows(topology(name, 10)).graph(BYTES_ONLY)
    assert scheduler("even").place(Problem(graph, Hosts.equal(10))).remote_share == pytest.approx(even)


def test_acking_doubles_the_messages_and_cannot_be_placed_away() -> None:
    plain, acked = payload(10, tuple_bytes=112), payload(10, tuple_bytes=112).acknowledged(10)
    # 8 tasks handle a tuple; with acking 8 messages go to ackers and one comes back: 8 + 8 + 1.
    assert task_flows(plain).handled.sum() == pytest.approx(80)
    assert task_flows(acked).handled.sum() == pytest.approx(170)
    problem = Problem(task_flows(acked).graph(BYTES_ONLY), Hosts.equal(10))
    placed = scheduler("ours").place(problem)
    # 9 messages of 24 bytes for each of 40,000 tuples/s, 9 of 10 ackers elsewhere.
    assert placed.remote_bytes_per_s == pytest.approx(9 * 24 * 40_000 * 0.9, rel=0.01)


def test_the_fluid_meets_the_first_full_resource() -> None:
    flows = task_flows(payload(2, depth=1, tuple_bytes=1000))  # spout-0 spout-1 metrics-0 bolt1-0 bolt1-1
    apart = np.array([0, 1, 0, 1, 0])
    # 8 Mbit/s are 10⁶ bytes/s, 1,000 tuples/s of 1,000 bytes each way.
    limited = FluidHosts(flows, 2, HostLimits(mbit_per_s=8), BYTES_ONLY).run(apart, unlimited=True)
    assert limited.rates.tolist() == pytest.approx([1000, 1000])
    assert limited.bottlenecks[0].startswith("sending of host")
    assert limited.sent.tolist() == limited.received.tolist() == pytest.approx([1e6, 1e6])
    # Together nothing is sent and a task's thread is full at 100 µs a tuple.
    together = FluidHosts(flows, 2, HostLimits(mbit_per_s=8), BYTES_ONLY).run(np.array([0, 1, 0, 0, 1]), unlimited=True)
    assert together.rates.tolist() == pytest.approx([10_000, 10_000])
    assert together.remote_bytes_per_s == 0
    # At the wanted 4,000 tuples/s the links would be too slow by four.
    assert FluidHosts(flows, 2, HostLimits(mbit_per_s=32), BYTES_ONLY).run(apart).throughput == pytest.approx(8000)
    # One line behind a slow link does not hold the other back.
    half = FluidHosts(flows, 2, HostLimits(mbit_per_s=8), BYTES_ONLY).run(np.array([0, 1, 0, 0, 0]), unlimited=True)
    assert half.rates.tolist() == pytest.approx([10_000, 1000])


def test_an_assignment_must_fit() -> None:
    flows = task_flows(payload(2, depth=1))
    with pytest.raises(StreamTuneError, match="all 5 tasks on hosts 0 to 1"):
        FluidHosts(flows, 2).run(np.array([0, 1, 0, 1, 2]))


@given(seed=st.integers(0, 1000), low=st.floats(1, 100), factor=st.floats(1, 50))
@settings(max_examples=30, deadline=None)
def test_more_bandwidth_never_slows_a_job_down(seed: int, low: float, factor: float) -> None:
    flows = OPENGOV
    part = np.random.default_rng(seed).integers(0, 4, len(flows.tasks))
    slow = FluidHosts(flows, 4, HostLimits(mbit_per_s=low)).run(part, unlimited=True)
    fast = FluidHosts(flows, 4, HostLimits(mbit_per_s=low * factor)).run(part, unlimited=True)
    # Max–min fairness: the worst-off source, by its share of what it wants, never loses. Others may.
    wanted = OPENGOV.wanted
    assert (fast.rates / wanted).min() >= (slow.rates / wanted).min() * (1 - 1e-9)
    assert slow.sent.max() <= low * 1e6 / 8 * (1 + 1e-6)


def test_bytes_of_the_fluid_are_those_of_the_graph() -> None:
    flows = task_flows(opengov(5))
    graph = flows.graph()
    placed = scheduler("greedy").place(Problem(graph, Hosts.equal(5)))
    free = HostLimits(mbit_per_s=1e9, cores=1e6)
    # A graph knows no hosts: each channel is acknowledged by itself there, and together with others on real links.
    assert FluidHosts(flows, 5, free).run(placed.part).remote_bytes_per_s <= placed.remote_bytes_per_s
    alone = HopCost(ack_bytes=0)
    by_hand = Problem(flows.graph(alone), Hosts.equal(5)).place(placed.part, "greedy", 0.0)
    ran = FluidHosts(flows, 5, free, alone).run(placed.part)
    assert ran.remote_bytes_per_s == pytest.approx(by_hand.remote_bytes_per_s)


def test_an_ordinary_job_is_the_same_as_a_topology_and_as_a_graph() -> None:
    workload = catalogue.load("nexmark-q5")
    flow = workload.spec.job.dataflow
    plan = dict.fromkeys(flow.index, 2)
    selectivities = {key: physics.selectivity for key, physics in workload.physics.items()}
    flows = task_flows(job_topology("q5", flow, plan, workload.rates_at(1), selectivities))
    graph = unrolled(flow, plan, rates_of(flow, workload.rates_at(1), selectivities))
    assert flows.graph(BYTES_ONLY).total_bytes_per_s == pytest.approx(graph.total_bytes_per_s)


@pytest.mark.slow
def test_the_study_runs_and_reports(tmp_path: Path) -> None:
    report, results, work = tmp_path / "report.html", tmp_path / "results.json", tmp_path / "work"
    chosen = [f"placement-{name}" for name in ("fig6", "fig8", "fig12", "table2", "ordinary")]
    command = ["bench", *chosen, "--quick", "--work", str(work), "--report", str(report), "--results", str(results)]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0, done.output
    records = json.loads(results.read_text())
    assert [f"placement-{record['key']}" for record in records] == chosen
    text = report.read_text()
    assert text.count("<section") == len(chosen)
    assert "http" not in text.replace("data:image", "")  # needs nothing from elsewhere
    fig6 = {(row[0], row[1], row[2]): row for row in records[0]["rows"]}
    for hosts in QUICK.ends:
        assert fig6[hosts, "payload", "ours"][3] == 0  # no byte leaves a host
        assert fig6[hosts, "reference", "ours-equal"][3] <= fig6[hosts, "reference", "metis"][3]
    # A second run takes what is there: equal tables, and nothing is worked out again.
    again = run_study(chosen, quick=True, work=work, tell=lambda name: pytest.fail(f"{name} was run again"))
    assert [table.to_record() for table in again] == records


def test_every_other_experiment_runs() -> None:
    tiny = QUICK.model_copy(update={"hosts": (3,), "ends": (3,), "repetitions": 1, "bandwidths": (100.0,)})
    for name in ("fig7", "fig9", "fig10", "fig11", "table1", "curve"):
        table = EXPERIMENTS[name](tiny)
        assert table.rows
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert table.to_markdown().count("\n|") == len(table.rows) + 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["placement-fig99"], "unknown experiment 'placement-fig99'"),
        (["placement-fig6", "fig6"], "different papers"),
        (["placement-fig6", "--plans", "100"], "--plans has no effect on the experiments of placement"),
        (["fig6", "--minutes", "3"], "--minutes has no effect on the experiments of streamtune"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(StreamTuneError, match=message):
        CliRunner().invoke(app, ["bench", *arguments], catch_exceptions=False)


def test_without_namespaces_the_whole_study_leaves_real_hosts_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise HostsUnavailableError("no namespaces here")

    monkeypatch.setattr(bench, "check_allowed", refuse)
    monkeypatch.setattr(bench, "PLACEMENT", ["placement-table2"])
    said: list[str] = []
    tables = run_study(["placement"], quick=True, tell=said.append)
    assert [table.key for table in tables] == ["table2"]
    assert [text for text in said if "left out: no namespaces here" in text]
    with pytest.raises(HostsUnavailableError):
        run_study(["placement-real-flink"], quick=True)
