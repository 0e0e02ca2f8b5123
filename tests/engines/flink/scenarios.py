"""What must hold on a real cluster: each function is one scenario, and ``test_integration.py`` has a test for it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engines.flink.real_cluster import WINDOW, Scenario, Site, chain, observe, plan_of, sink_sums, wait_for
from streamtune.cli import app
from streamtune.cli.flink_tuning import FlinkTuning, tune_flink
from streamtune.control.audit import AuditTrail, read_audit
from streamtune.control.guards import Guards
from streamtune.control.supervisor import SupervisorSettings
from streamtune.dataflow import Plan, Run
from streamtune.dataflow.run_files import RunFiles
from streamtune.dataflow.spec import parse_spec
from streamtune.engines.base import Deployment, MeasurementWindow, NotReady
from streamtune.engines.flink import FlinkClient, FlinkEngine, FlinkSettings
from streamtune.engines.flink.collecting import Collector, CollectSettings, collect
from streamtune.engines.flink.plan import import_job
from streamtune.errors import EngineError, StreamTuneError
from streamtune.labs.flink import Submitter
from streamtune.labs.flink.scaling import scale_spec
from streamtune.testing import ENGINE_LAWS, EngineCase
from streamtune.tuners import make_tuner
from streamtune.workloads import load

SQL = """
CREATE TABLE bids (item INT, price DOUBLE, ts AS PROCTIME()) WITH (
  'connector' = 'datagen', 'rows-per-second' = '50', 'fields.item.min' = '1', 'fields.item.max' = '9');
CREATE TABLE hot (item INT, bids BIGINT, w TIMESTAMP(3)) WITH ('connector' = 'blackhole');
INSERT INTO hot
SELECT item, COUNT(*), window_end FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
WHERE item > 2 GROUP BY item, window_start, window_end;
"""

FAILING_SQL = """
CREATE TABLE numbers (n INT) WITH (
  'connector' = 'datagen', 'rows-per-second' = '20', 'fields.n.kind' = 'sequence', 'fields.n.start' = '-60',
  'fields.n.end' = '1000');
CREATE TABLE nowhere (n INT) WITH ('connector' = 'blackhole');
INSERT INTO nowhere SELECT 100 / n FROM numbers;
"""


def contract(site: Site, law: Callable[[EngineCase], None]) -> None:
    spec = chain(f"contract-{law.__name__}")
    law(EngineCase(site.engine(spec), spec.job, plan_of(2), plan_of(9), WINDOW))


def import_of_a_datastream_job(site: Site) -> None:
    """Nexmark Q5 with its windows: known to itself, and read from its names alone."""
    q5 = load("nexmark-q5")
    spec = scale_spec(q5.spec, q5.rates_at(10), max_rate_per_s=500.0)
    engine = site.engine(spec)
    deployment = engine.deploy(spec.job, spec.job.initial_plan)
    try:
        attached = FlinkEngine(FlinkClient(site.cluster.url)).attach(deployment.id)
        flow, truth = attached.job.dataflow, spec.job.dataflow
        assert {(edge.source, edge.target, edge.partitioning) for edge in flow.edges} == {
            (edge.source, edge.target, edge.partitioning) for edge in truth.edges
        }
        for operator in truth.operators:
            theirs = {"parallelism": None, "max_parallelism": None}  # as Flink was told, and its own limit
            assert flow.operator(operator.id).model_copy(update=theirs) == operator.model_copy(update=theirs)
        assert attached.plan == spec.job.initial_plan
        assert attached.job.source_rates == spec.job.source_rates
        # A stranger who publishes nothing: sources and sinks by their names, the rest unknown, the shape the same.
        bare = import_job(engine.client.job(deployment.id)).job.dataflow
        assert {operator.id: operator.type for operator in bare.operators} == {
            "bids": "source", "bids_per_auction": "unknown", "most_bids": "unknown", "hot_items": "unknown",
            "sink": "sink",
        }  # fmt: skip
        assert set(bare.edges) == set(flow.edges)
    finally:
        engine.stop(deployment)


def import_of_a_sql_job(site: Site) -> None:
    client = FlinkClient(site.cluster.url, timeout_s=30.0)
    program = Submitter(client, folder=site.folder, distribution=site.distribution).sql_program(SQL)
    job_id = client.run_jar(program.jar_id, entry_class=program.entry_class, arguments=program.arguments)
    try:
        wait_for(lambda: client.job(job_id).is_running, "the SQL job's start")
        engine = FlinkEngine(client)
        deployment = engine.attach(job_id)
        operators = {operator.type: operator for operator in deployment.job.dataflow.operators}
        assert "source" in operators
        windowed = operators["window_aggregate"]
        assert windowed.window is not None
        assert (windowed.window.type, windowed.window.length, windowed.window.slide) == ("sliding", 10.0, 2.0)
        assert windowed.aggregate is not None
        assert (windowed.aggregate.function, windowed.aggregate.value_class) == ("count", "long")
        assert "hash" in {edge.partitioning for edge in deployment.job.dataflow.edges}
        assert engine.excluded(deployment) == frozenset()
        seen = observe(engine, deployment)
        source = deployment.job.dataflow.sources[0].id
        assert seen.source_rates[source] == pytest.approx(50, rel=0.4)
    finally:
        client.cancel(job_id)


def _flows(engine: FlinkEngine, deployment: Deployment) -> bool:
    """Whether at least 200 records have reached the sink as it runs now."""
    details = engine.client.job(engine.job_id(deployment))
    return details.is_running and details.vertices[-1].metrics.records_in >= 200


def no_record_lost_or_doubled(site: Site, mode: str) -> None:
    """A source of exactly N records through rescales up and down: the sink has seen each of them once."""
    records = 8000
    spec = chain(f"exactly-once-{mode}", rate=250.0, work_us=4_000.0)
    engine = site.engine(spec, mode=mode, limit=records)
    deployment = engine.deploy(spec.job, plan_of(1))
    try:
        for plan in (plan_of(4, source=2, sink=2), plan_of(2, source=1, sink=3)):
            wait_for(partial(_flows, engine, deployment), "flow")
            deployment = engine.rescale(deployment, plan)
            assert deployment.plan == plan
            assert FlinkEngine(engine.client).attach(engine.job_id(deployment)).plan == plan
        wait_for(lambda: sink_sums(engine, deployment)[0] >= records, "the last record")
        time.sleep(4.0)  # a doubled record would still be on its way
        squares = sum(number * number % 1_000_003 for number in range(records))
        assert sink_sums(engine, deployment) == (records, records * (records - 1) / 2, squares)
    finally:
        engine.stop(deployment)


def tuning_q2_until_backpressure_is_gone(site: Site) -> None:
    """Nexmark Q2 from parallelism 1, by DS2, with the sink excluded."""
    q2 = load("nexmark-q2")
    spec = scale_spec(q2.spec, q2.rates_at(10), max_rate_per_s=700.0, max_parallelism=8)
    spec = spec.with_rates({source: 8 * rate for source, rate in spec.job.source_rates.items()})
    sources = {source.id for source in spec.job.dataflow.sources}
    start = {key: spec.job.initial_plan[key] if key in sources else 1 for key in spec.job.dataflow.index}
    engine = site.engine(spec)
    deployment = engine.deploy(spec.job, Plan(start))
    audit = site.folder / "q2.audit.jsonl"
    try:
        with AuditTrail(audit) as trail:
            outcomes = tune_flink(
                FlinkTuning(site.cluster.url, job=deployment.id, settings=FlinkSettings(fetch_patience_s=50.0)),
                lambda job: make_tuner("ds2", job),
                Guards(exclude=frozenset({"sink"}), max_reconfigurations=6),
                MeasurementWindow(settle_s=6.0, length_s=8.0),
                trail,
            )
        final = outcomes[-1]
        assert final.stop_reason in ("no_backpressure", "unchanged")
        assert not final.backpressure
        assert final.deployment.plan["chosen_auctions"] > 1
        assert final.deployment.plan["sink"] == 1
        assert final.backpressure_seen >= 1
        events = read_audit(audit)
        assert [event["event"] for event in events[:3]] == ["attached", "observed", "recommended"]
        assert events[-1]["event"] == "stopped"
        assert all(event["to"]["sink"] == 1 for event in events if event["event"] == "deploying")
    finally:
        engine.stop(deployment)


def count_windows_fire_from_the_start(site: Site) -> None:
    """A key takes 100 records in half a minute, yet results come at the selectivity's rate within the first seconds."""
    spec = parse_spec(
        {
            "name": "count-windows",
            "operators": [
                {"id": "source", "type": "source", "rate": 400.0},
                {
                    "id": "work",
                    "type": "window_aggregate",
                    "inputs": ["source"],
                    "window": {"type": "tumbling", "policy": "count", "length": 100},
                    "aggregate": {"function": "avg", "value_class": "double", "key_class": "int"},
                },
                {"id": "sink", "type": "sink", "inputs": ["work"]},
            ],
            "physics": {
                "source": {"service_us": 50},
                "work": {"service_us": 50, "selectivity": 0.5},
                "sink": {"service_us": 50},
            },
        }
    )
    engine = site.engine(spec, key_groups=128)
    deployment = engine.deploy(spec.job, plan_of(2))
    try:
        # 4 windows/s of 100 records, half of which come out: 32 windows in 8 s, give or take 6.
        seen = observe(engine, deployment, MeasurementWindow(settle_s=4.0, length_s=8.0))
        assert seen.operators["work"].records_out_per_s == pytest.approx(200, rel=0.5)
    finally:
        engine.stop(deployment)


def limits_are_kept(site: Site) -> None:
    """Key groups bound the imported job, free slots bound a rescale, and a refused rescale changes nothing."""
    spec = chain("limits", rate=100.0, max_parallelism=500)
    engine = site.engine(spec, key_groups=4)
    deployment = engine.deploy(spec.job, plan_of(2))
    try:
        assert FlinkEngine(engine.client).attach(deployment.id).job.max_parallelism == 4
        with pytest.raises(EngineError, match=r"needs 400 slots, \d+ are available"):
            engine.rescale(deployment, plan_of(400))
        assert FlinkEngine(engine.client).attach(deployment.id).plan == plan_of(2)
    finally:
        engine.stop(deployment)


def a_job_that_fails_by_itself(site: Site) -> None:
    client = FlinkClient(site.cluster.url, timeout_s=30.0)
    program = Submitter(client, folder=site.folder, distribution=site.distribution).sql_program(FAILING_SQL)
    job_id = client.run_jar(
        program.jar_id,
        entry_class=program.entry_class,
        arguments=program.arguments,
        configuration={"restart-strategy.type": "none", "restart-strategy": "none"},
    )
    audit = site.folder / "failing.audit.jsonl"
    wait_for(lambda: client.job(job_id).is_running, "the job's start")
    with AuditTrail(audit) as trail, pytest.raises(StreamTuneError, match=rf"job {job_id} is FAILED: .*by zero"):
        tune_flink(
            FlinkTuning(
                site.cluster.url,
                job=job_id,
                supervision=SupervisorSettings(watch_s=45.0),  # it fails after three seconds, and never comes back
                settings=FlinkSettings(fetch_patience_s=10),
            ),
            lambda job: make_tuner("ds2", job),
            Guards(dry_run=True),
            MeasurementWindow(settle_s=0.0, length_s=2.0),
            trail,
        )
    last = read_audit(audit)[-1]
    assert (last["event"], last["job_state"]) == ("ended", "FAILED"), last


def history_of_all_jobs(site: Site) -> None:
    """Whatever runs meanwhile is collected; every record reads back as a run."""
    spec = chain("collected", rate=100.0)
    engine = site.engine(spec)
    deployment = engine.deploy(spec.job, plan_of(3))
    folder = site.folder / "collected"
    try:
        settings = CollectSettings(window_s=6.0, settle_s=3.0, poll_s=1.0)
        collector = Collector(engine.client, settings)
        files = RunFiles(folder)
        wait_for(lambda: collect(collector, files, settings, limit=1) >= 1 and _has(folder, "collected"), "a record")
    finally:
        engine.stop(deployment)
    run = next(run for run in _runs(folder) if run.job == "collected")
    assert run.engine == "flink"
    assert {operator.id: operator.parallelism for operator in run.operators} == dict(plan_of(3))
    assert run.source_rates == {"source": 100.0}
    assert run.throughput_per_s == pytest.approx(100, rel=0.3)
    # The local cluster sends latency markers: a job that keeps up is through within a moment.
    assert run.latency_ms is not None
    assert 0 <= run.latency_ms < 5000


def _runs(folder: Path) -> list[Run]:
    return [Run.model_validate(json.loads(line)) for file in folder.glob("*.jsonl") for line in file.open()]


def _has(folder: Path, job: str) -> bool:
    return any(run.job == job for run in _runs(folder))


ON_AN_ADAPTIVE_CLUSTER: dict[str, Scenario] = {
    "tuning_q2": tuning_q2_until_backpressure_is_gone,
    **{f"contract_{law.__name__}": partial(contract, law=law) for law in ENGINE_LAWS},
    "exactly_once_live": partial(no_record_lost_or_doubled, mode="live"),
    "exactly_once_restart": partial(no_record_lost_or_doubled, mode="restart"),
    "import_datastream": import_of_a_datastream_job,
    "import_sql": import_of_a_sql_job,
    "count_windows": count_windows_fire_from_the_start,
    "limits": limits_are_kept,
    "failing_job": a_job_that_fails_by_itself,
    "collect": history_of_all_jobs,
}


# On the same cluster when the others are over, because it is broken on purpose.


def a_task_manager_dies_in_a_live_rescale(site: Site) -> None:
    """The only TaskManager is killed when a change has just been sent: the change comes, and no record is lost."""
    records = 4000
    spec = chain("chaos", rate=300.0)
    engine = site.engine(spec, limit=records)
    deployment = engine.deploy(spec.job, plan_of(1))
    audit = site.folder / "chaos.audit.jsonl"
    try:
        with AuditTrail(audit) as trail, ThreadPoolExecutor(1) as pool:
            tuning = pool.submit(
                tune_flink,
                FlinkTuning(site.cluster.url, job=deployment.id, settings=FlinkSettings(fetch_patience_s=50.0)),
                lambda job: make_tuner("ds2", job),
                Guards(),
                MeasurementWindow(settle_s=3.0, length_s=3.0),
                trail,
            )

            def sent() -> bool:
                bounds = engine.client.resource_requirements(deployment.id).values()
                return tuning.done() or any(one.upper > 1 for one in bounds)

            wait_for(sent, "a change", every_s=0.02)
            site.cluster.kill("taskmanager-1")
            site.cluster.start_task_manager(2)
            [outcome] = tuning.result()
        events = [event["event"] for event in read_audit(audit)]
        assert events[:4] == ["attached", "observed", "recommended", "deploying"]
        assert "deployed" in events
        assert outcome.deployment.plan["work"] >= 3
        wait_for(lambda: sink_sums(engine, deployment)[0] >= records, "the last record")
        time.sleep(2.0)  # a doubled record would still be on its way
        squares = sum(number * number % 1_000_003 for number in range(records))
        assert sink_sums(engine, deployment) == (records, records * (records - 1) / 2, squares)
    finally:
        engine.stop(deployment)


# On a cluster of its own, because it is broken on purpose; one after the other.


def rescale_without_the_adaptive_scheduler(site: Site) -> None:
    spec = chain("default-scheduler", rate=100.0)
    engine = site.engine(spec)
    assert not engine.capabilities.live_rescale
    deployment = engine.deploy(spec.job, plan_of(1))
    try:
        first_id = engine.job_id(deployment)
        deployment = engine.rescale(deployment, plan_of(3))
        assert engine.job_id(deployment) != first_id
        assert observe(engine, deployment).plan == plan_of(3)
        # A job that we do not know how to start again is left alone.
        stranger = FlinkEngine(engine.client)
        attached = stranger.attach(engine.job_id(deployment))
        with pytest.raises(EngineError, match="adaptive"):
            stranger.rescale(attached, plan_of(2))
        assert engine.client.job(engine.job_id(deployment)).is_running
    finally:
        engine.stop(deployment)


def where_its_bytes_go(site: Site) -> None:
    """``place --engine flink``: what two TaskManagers exchange, against Flink's own counters, and true advice."""
    spec = chain("placed", rate=100.0)
    engine = site.engine(spec)
    deployment = engine.deploy(spec.job, plan_of(6))
    try:
        observe(engine, deployment)
        job = engine.job_id(deployment)
        arguments = ["place", "--engine", "flink", "--url", site.cluster.url, "--job-id", job, "--seconds", "10"]
        answer = CliRunner().invoke(app, [*arguments, "--json"])
        assert answer.exit_code == 0, answer.output
        found = json.loads(answer.stdout)
        assert found["job"] == "placed"
        assert len(found["assignment"]) == 8
        assert len(set(found["assignment"].values())) <= 2  # its two TaskManagers, without --hosts
        # 100 records/s over two hops.
        expected = 200.0 * _bytes_per_record(engine.client, job)
        assert expected / 1.5 < found["total_bytes_per_s"] < 1.5 * expected, expected
        today, ours = (found["comparison"][name] for name in ("today", "ours"))
        assert 0 <= today["remote_bytes_per_s"] <= found["total_bytes_per_s"] + 1e-6
        if today["imbalance"] <= 1.03:  # what runs today may be cheap and uneven: then an even placement costs more
            assert ours["remote_bytes_per_s"] <= today["remote_bytes_per_s"] + 1e-6
        assert found["advice"]
        shown = CliRunner().invoke(app, [*arguments[:-1], "1"])
        assert shown.exit_code == 0, shown.output
        assert "Nothing is deployed" in shown.output
        assert engine.job_id(deployment) == job
    finally:
        engine.stop(deployment)


def _bytes_per_record(client: FlinkClient, job: str) -> float:
    metrics = [vertex["metrics"] for vertex in client.read(f"/jobs/{job}")["vertices"]]
    return float(sum(one["write-bytes"] for one in metrics) / sum(one["write-records"] for one in metrics))


def a_task_manager_dies(site: Site) -> None:
    """The window it dies in is no measurement; when slots are back, the job runs on the plan it had."""
    spec = chain("survivor", rate=100.0)
    engine = site.engine(spec)
    deployment: Deployment = engine.deploy(spec.job, plan_of(6))
    try:
        observe(engine, deployment)
        site.cluster.kill("taskmanager-2")
        wait_for(
            lambda: isinstance(engine.observe(deployment, MeasurementWindow(0, 2)), NotReady), "the loss being noticed"
        )
        site.cluster.start_task_manager(2)
        assert observe(engine, deployment).plan == plan_of(6)
    finally:
        engine.stop(deployment)


def the_job_manager_is_restarted(site: Site) -> None:
    """Without high availability the job is gone: said clearly, after the outage was waited for."""
    spec = chain("orphan", rate=100.0)
    engine = site.engine(spec)
    deployment = engine.deploy(spec.job, plan_of(2))
    site.cluster.kill("jobmanager")
    quick = FlinkEngine(FlinkClient(site.cluster.url, timeout_s=2.0, retries=0))
    quick._attached = engine._attached
    seen = quick.observe(deployment, MeasurementWindow(0, 1))
    assert re.search("cannot be reached|did not answer", getattr(seen, "reason", ""))
    site.cluster.start_job_manager()
    with pytest.raises(EngineError, match="is gone"):
        wait_for(lambda: quick.observe(deployment, MeasurementWindow(0, 1)) is None, "never")


ON_A_BROKEN_CLUSTER: dict[str, Scenario] = {
    "default_scheduler": rescale_without_the_adaptive_scheduler,
    "place": where_its_bytes_go,
    "task_manager_dies": a_task_manager_dies,
    "job_manager_restarted": the_job_manager_is_restarted,
}
