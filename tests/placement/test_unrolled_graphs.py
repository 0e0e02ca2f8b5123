"""From a job to its communication graph, by rates or as a running Flink reports it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamtune.dataflow import Dataflow, Edge, Operator
from streamtune.engines.flink.communication import running_job
from streamtune.placement import Hosts, PlacementError, Problem
from streamtune.placement.flink import FlinkDefault, advice
from streamtune.placement.graph_file import parse_graph, to_mapping
from streamtune.placement.unroll import rates_of, unrolled


def flow(partitioning: Any) -> Dataflow:
    operators = (Operator(id="s", type="source", rate=100, tuple_width_out=5), Operator(id="t", type="sink"))
    return Dataflow(operators, (Edge("s", "t", partitioning),))


def matrix(partitioning: Any, senders: int, receivers: int, **options: Any) -> Any:
    dataflow = flow(partitioning)
    graph = unrolled(dataflow, {"s": senders, "t": receivers}, rates_of(dataflow, {"s": 100.0}, {}), **options)
    found = np.zeros((senders, receivers))
    np.add.at(found, (graph.sources, graph.targets - senders), graph.bytes_per_s)
    return found


def test_bytes_follow_the_partitioning() -> None:
    # 100 records/s of 5 fields of 8 bytes: 4,000 bytes/s in all.
    assert matrix("rebalance", 2, 4).tolist() == [[500.0] * 4] * 2
    assert matrix("hash", 2, 2, shares={"t": [3, 1]}).tolist() == [[1500.0, 500.0]] * 2
    assert matrix("forward", 2, 2).tolist() == [[2000.0, 0.0], [0.0, 2000.0]]
    assert matrix("forward", 4, 2).tolist() == [[1000.0, 0.0], [1000.0, 0.0], [0.0, 1000.0], [0.0, 1000.0]]
    assert matrix("forward", 2, 4).tolist() == [[1000.0, 1000.0, 0.0, 0.0], [0.0, 0.0, 1000.0, 1000.0]]
    assert matrix("broadcast", 2, 3).tolist() == [[2000.0] * 3] * 2
    assert matrix("rebalance", 1, 1, bytes_per_record={"s": 3000}).tolist() == [[300_000.0]]


def test_loads_are_tuples_in_and_out_unless_given() -> None:
    dataflow = flow("hash")
    rates = rates_of(dataflow, {"s": 100.0}, {"s": 0.5})
    graph = unrolled(dataflow, {"s": 2, "t": 1}, rates)
    # The source reads 100 and sends 50, half of it each; the sink gets 50 and (selectivity 1) counts 50 out.
    assert graph.loads.tolist() == [75.0, 75.0, 100.0]
    given = unrolled(dataflow, {"s": 2, "t": 1}, rates, loads={"s": 1.0, "t": 0.2}, state_mb={"t": 7})
    assert given.loads.tolist() == [0.5, 0.5, 0.2]
    assert given.state_mb.tolist() == [0, 0, 7]


def test_wrong_shares_and_plans_are_refused() -> None:
    with pytest.raises(PlacementError, match="has 2 instances and needs as many shares"):
        matrix("hash", 1, 2, shares={"t": [1, 2, 3]})
    with pytest.raises(PlacementError, match="does not name operator 't'"):
        unrolled(flow("hash"), {"s": 1}, {"s": (1, 1), "t": (1, 1)})


def test_a_graph_reads_back_as_written() -> None:
    dataflow = flow("hash")
    graph = unrolled(dataflow, {"s": 2, "t": 3}, rates_of(dataflow, {"s": 10.0}, {}), state_mb={"t": 2})
    again = parse_graph(to_mapping(graph)).graph
    assert again.tasks == graph.tasks
    assert again.operators == graph.operators
    for name in ("loads", "state_mb", "sources", "targets", "bytes_per_s"):
        assert np.array_equal(getattr(again, name), getattr(graph, name))


def test_flinks_own_placement_puts_subtask_i_together() -> None:
    dataflow = flow("forward")
    graph = unrolled(dataflow, {"s": 4, "t": 4}, rates_of(dataflow, {"s": 100.0}, {}))
    placed = FlinkDefault().place(Problem(graph, Hosts.equal(2)))
    assert placed.remote_bytes_per_s == 0
    assert placed.assignment["s-1"] == placed.assignment["t-1"] == "h1"
    hashed = unrolled(flow("hash"), {"s": 4, "t": 4}, rates_of(flow("hash"), {"s": 100.0}, {}))
    spread = FlinkDefault().place(Problem(hashed, Hosts.equal(4)))
    assert spread.remote_share == pytest.approx(0.75)  # 1 − 1/4
    fewer = advice(spread)[1]
    # On 2 hosts 1/2 stays: 4,000 · (0.75 − 0.5) are saved.
    assert fewer.saves_bytes_per_s == pytest.approx(1000)


class FakeFlink:
    """A job of two vertices, 2 and 2 subtasks; an answer is what was true when somebody asked before."""

    def __init__(self, refresh_s: float = 1.0, bytes_per_s: float = 100.0) -> None:
        self.refresh_s, self.bytes_per_s = refresh_s, bytes_per_s
        self.now_s = 1000.0
        self.known_s = dict.fromkeys(("v1", "v2"), 900.0)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def __call__(self, path: str) -> Any:
        if path == "/jobs/overview":
            return {"jobs": [{"jid": "j", "state": "RUNNING"}, {"jid": "old", "state": "FINISHED"}]}
        if path == "/jobs/j":
            vertices = [{"id": "v1", "name": "Source: bids -> Map"}, {"id": "v2", "name": "Sink"}]
            nodes = [{"id": "v1"}, {"id": "v2", "inputs": [{"id": "v1", "ship_strategy": "HASH"}]}]
            return {"name": "demo", "vertices": vertices, "plan": {"nodes": nodes}}
        vertex = path[-2:]
        answer = {"subtasks": [self._subtask(number, vertex == "v1") for number in range(2)]}
        if self.now_s - self.known_s[vertex] >= self.refresh_s:
            self.known_s[vertex] = self.now_s
        return answer

    def _subtask(self, number: int, sender: bool) -> dict[str, Any]:
        amount = self.bytes_per_s * (number + 1) * self.known_s["v1" if sender else "v2"]
        sent, got = (amount, 0.0) if sender else (0.0, amount)
        metrics = {"write-bytes": sent, "read-bytes": got, "write-records": sent / 10, "read-records": got / 10}
        return {"endpoint": f"tm{number}", "metrics": metrics}


@pytest.mark.parametrize(("refresh_s", "seconds"), [(1.0, 10.0), (1.0, 0.1), (10.0, 10.0), (10.0, 30.0)])
def test_a_running_flink_job_is_read_by_its_counters(refresh_s: float, seconds: float) -> None:
    """Two looks ten seconds apart once saw the same old counters: 0 bytes/s of a job that sent 55,000."""
    flink = FakeFlink(refresh_s)
    seen = running_job(flink, seconds=seconds, sleep=flink.sleep, now=lambda: flink.now_s)
    assert seen.graph.tasks == ("Map-0", "Map-1", "Sink-0", "Sink-1")
    assert seen.current == {"Map-0": "tm0", "Map-1": "tm1", "Sink-0": "tm0", "Sink-1": "tm1"}
    # Map-0 sends 100 B/s, Map-1 200; the sinks read 1/3 and 2/3 of all.
    assert seen.graph.bytes_per_s.tolist() == pytest.approx([100 / 3, 200 / 3, 200 / 3, 400 / 3])
    assert seen.graph.loads.tolist() == pytest.approx([10, 20, 10, 20])
    assert flink.now_s - 1000 <= seconds + 25


def test_a_job_through_which_nothing_flows_has_no_traffic() -> None:
    flink = FakeFlink(bytes_per_s=0.0)
    assert not running_job(flink, seconds=1.0, sleep=flink.sleep, now=lambda: flink.now_s).graph.bytes_per_s.any()


def test_which_flink_job_must_be_clear() -> None:
    with pytest.raises(PlacementError, match=r"0 jobs are running \(none\): name one with --job-id"):
        running_job(lambda _: {"jobs": []}, seconds=0, sleep=lambda _: None)
