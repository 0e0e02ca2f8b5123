"""Laws of predictions: order does not matter, more hosts do no harm, what cannot run is refused, and it is quick."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from streamtune.dataflow import Dataflow, Job, Plan
from streamtune.dataflow.hosts import Cluster, Host
from streamtune.errors import DataflowError
from streamtune.models.costmodel.advice import advise, candidate_degrees, starting_plan
from streamtune.models.costmodel.columns import PlanColumns
from streamtune.models.costmodel.datasets import plans_of, split
from streamtune.models.costmodel.graphs import PlanGraphs
from streamtune.models.costmodel.model import CostModel
from streamtune.models.costmodel.network import CostNetwork
from streamtune.models.costmodel.settings import AdviceSettings, CostNetworkSettings, FineTuneSettings, Readout
from streamtune.workloads.cloudlab import machine
from streamtune.workloads.settings import STRUCTURES
from streamtune.workloads.zerotune import ZeroTuneQuery, draw_query, random_degrees

NUMBERS = st.integers(10_000, 10_300)


def predicted(model: CostModel, query: ZeroTuneQuery, plan: dict[str, int], job: Job | None = None) -> np.ndarray:
    job = job or query.job
    columns = PlanColumns.of_plans(job, [plan[key] for key in job.dataflow.index], query.cluster)
    found = model.predict(columns)
    return np.array([found.latency_ms[0], found.throughput_per_s[0]])


@given(st.sampled_from(STRUCTURES), NUMBERS, st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_the_order_of_operators_edges_and_hosts_does_not_matter(
    model: CostModel, structure: str, number: int, random: object
) -> None:
    query = draw_query(structure, number)
    plan = random_degrees(query, np.random.default_rng(number))
    flow = query.job.dataflow
    operators, edges, hosts = list(flow.operators), list(flow.edges), list(query.cluster.hosts)
    for items in (operators, edges):
        random.shuffle(items)  # type: ignore[attr-defined]
    shuffled = Job(query.job.name, Dataflow(tuple(operators), tuple(edges)), query.job.max_parallelism)
    before, after = predicted(model, query, plan), predicted(model, query, plan, shuffled)
    assert after == pytest.approx(before, rel=2e-4)
    # Hosts of one kind are interchangeable; of different kinds the order says who gets the first instances.
    if len(set(hosts)) == 1:
        assert predicted(model, ZeroTuneQuery(query.spec, structure, Cluster(tuple(hosts[::-1]))), plan) == (
            pytest.approx(before, rel=2e-4)
        )


def test_a_plan_does_not_feel_the_others_of_its_batch(model: CostModel, plans: pa.Table) -> None:
    columns = plans_of(plans.slice(0, 40)).columns
    together = model.predict(columns)
    for row in range(0, 40, 7):
        alone = model.predict(plans_of(plans.slice(row, 1)).columns)
        assert alone.latency_ms[0] == pytest.approx(together.latency_ms[row], rel=2e-4)
        assert alone.throughput_per_s[0] == pytest.approx(together.throughput_per_s[row], rel=2e-4)


def test_throughput_never_exceeds_what_is_offered(model: CostModel, plans: pa.Table) -> None:
    columns = plans_of(plans).columns
    offered = np.add.reduceat(columns.numbers["event_rate"], np.concatenate(([0], np.cumsum(columns.sizes)[:-1])))
    assert (model.predict(columns).throughput_per_s <= offered * 1.001).all()


def test_more_hosts_of_the_same_kind_do_not_lower_throughput(model: CostModel) -> None:
    """Violations are counted and bounded, since a network has no such law built in: beyond noise in at most 5 %."""
    drops = []
    for number in range(60):
        query = draw_query("2-way-join", 20_000 + number)
        base = [machine("m510")] * 2
        plan = random_degrees(
            ZeroTuneQuery(query.spec, query.structure, Cluster(tuple(base))), np.random.default_rng(number)
        )
        few, many = (
            predicted(model, ZeroTuneQuery(query.spec, query.structure, Cluster(tuple(base * times))), plan)[1]
            for times in (1, 3)
        )
        drops.append(few / many)
    violations = float(np.mean(np.array(drops) > 1.1))
    assert violations <= 0.05, f"{violations:.0%} of the plans lose more than 10 % of their throughput to more hosts"


def test_a_plan_above_the_cores_is_refused(model: CostModel) -> None:
    query = draw_query("linear", 1)
    cluster = Cluster((Host(cores=4), Host(cores=2)))
    with pytest.raises(DataflowError, match="the 2 hosts have 6: lower the parallelism or add hosts"):
        PlanColumns.of_plans(query.job, [1, 7, 1, 1], cluster)
    with pytest.raises(DataflowError, match="parallelism 7, the 2 hosts have 6 cores"):
        cluster.check_plan(Plan({"source_1": 1, "filter_1": 7}))
    assert candidate_degrees(model, query.job, cluster, AdviceSettings(candidates=200)).max() <= 6


@pytest.mark.parametrize("readout", ["paths", "sink"])
def test_messages_along_the_dataflow_reach_the_output(plans: pa.Table, model: CostModel, readout: Readout) -> None:
    """The slip of the released code: there, features of operators before the sink never arrive at the prediction."""
    torch.manual_seed(0)
    graphs: PlanGraphs = model.encoder.transform(plans_of(plans.slice(0, 1)).columns)
    network = CostNetwork(model.encoder.width, model.encoder.host_width, CostNetworkSettings(readout=readout))
    batch = graphs.batch()
    batch.operators.requires_grad_(True)
    batch.hosts.requires_grad_(True)
    latency, throughput = network(batch)
    (latency.sum() + throughput.sum()).backward()
    assert batch.operators.grad is not None
    assert (batch.operators.grad.abs().sum(dim=1) > 0).all(), "every operator matters"
    assert batch.hosts.grad is not None
    assert (batch.hosts.grad.abs().sum(dim=1) > 0).any()


def test_one_plan_takes_less_than_ten_milliseconds(model: CostModel, plans: pa.Table) -> None:
    columns = plans_of(plans.slice(0, 1)).columns
    took = []
    for _ in range(30):
        started = time.process_time()  # processor time: other work on the machine does not count
        model.predict(columns)
        took.append(time.process_time() - started)
    assert min(took) < 0.010


def test_thousands_of_plans_per_second(model: CostModel) -> None:
    """5,000 plans/s on two cores are 2,500 per second of processor time on one; features included."""
    query = draw_query("3-way-join", 5)
    degrees = np.random.default_rng(0).integers(1, 17, size=(3000, len(query.job.dataflow.operators)))
    speeds = []
    for _ in range(3):
        started = time.process_time()
        model.predict(PlanColumns.of_plans(query.job, degrees, query.cluster))
        speeds.append(len(degrees) / (time.process_time() - started))
    assert max(speeds) > 2500


def test_the_small_model_has_learnt_something(model: CostModel, plans: pa.Table) -> None:
    scores = model.score(plans_of(split(plans)["test"]))
    assert scores["latency"]["median"] < 1.6
    assert scores["throughput"]["median"] < 1.3


def test_advice_does_not_over_provision_when_resources_count(model: CostModel) -> None:
    query = draw_query("linear", 3)
    totals = [
        advise(model, query.job, query.cluster, AdviceSettings(resource_weight=weight)).plan.total
        for weight in (0.0, 0.3, 3.0)
    ]
    assert totals == sorted(totals, reverse=True)


def test_starting_plans_fit_the_job_and_keep_sources(model: CostModel) -> None:
    query = draw_query("3-way-join", 4)
    source = query.job.dataflow.sources[0].id
    plan = starting_plan(model, query.job)
    query.job.check_plan(plan)
    assert plan[source] == query.job.initial_plan[source]
    usual = model.encoder.usual_cluster
    assert (len(usual.hosts), usual.hosts[0].cores) == (6, 8), "six machines at most, most of them with 8 cores"


def test_few_shots_teach_a_new_structure(model: CostModel, optisample: object) -> None:
    from models.costmodel.conftest import labelled
    from streamtune.labs.settings import PlanDataSettings

    new = labelled(PlanDataSettings(plans=220, structures=("6-way-join",), first=500_000), optisample)  # type: ignore[arg-type]
    shots, held_out = plans_of(new.slice(0, 150)), plans_of(new.slice(150))
    before, after = model.score(held_out), model.fine_tune(shots, FineTuneSettings(epochs=8)).score(held_out)
    assert after["latency"]["median"] < before["latency"]["median"]
    assert after["throughput"]["median"] <= before["throughput"]["median"] * 1.02
