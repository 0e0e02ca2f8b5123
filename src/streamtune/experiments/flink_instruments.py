"""What can be measured about Flink itself: downtime of a rescale, cost of polling, and how well the simulator fits."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from streamtune.clock import SystemClock
from streamtune.dataflow import Observation, Plan
from streamtune.dataflow.spec import JobSpec, parse_spec
from streamtune.engines.base import Deployment, Engine, MeasurementWindow, NotReady
from streamtune.engines.flink import FlinkEngine
from streamtune.engines.flink.metrics import Snapshot
from streamtune.engines.flink.plan import ImportedJob
from streamtune.engines.flink.polling import Poller
from streamtune.engines.simulator import SimulatorSettings, find_oracle, simulate_once
from streamtune.errors import EngineError
from streamtune.experiments.flink_jobs import engine_on, small_workload
from streamtune.frozen import Frozen

# Two cores need minutes to start thousands of subtasks.
_STARTING_S = 600.0


class Downtime(Frozen):
    """One rescale: seconds in which the job's sources did not produce, and seconds until all instances ran."""

    mode: str
    down_s: float
    until_running_s: float


class PollingCost(Frozen):
    vertices: int
    subtasks: int
    calls: int
    wall_s: float
    cpu_s: float


class Fidelity(Frozen):
    """One operator under one plan, simulated and measured."""

    job: str
    operator: str
    multiple: float
    parallelism: int
    oracle_parallelism: int
    busy_simulated: float
    busy_measured: float
    backpressured_simulated: float
    backpressured_measured: float


def observed(engine: Engine, deployment: Deployment, window: MeasurementWindow) -> Observation:
    """The next usable observation."""
    reason = ""
    for _ in range(10):
        seen = engine.observe(deployment, window)
        if isinstance(seen, Observation):
            return seen
        reason = seen.reason
        time.sleep(seen.retry_after_s)
    raise EngineError(f"'{deployment.job.name}' gave no usable metrics: {reason}")


def measure_downtime(url: str, folder: Path, mode: str, times: int) -> list[Downtime]:
    """Rescale a small job up and down; a generator of a fixed rate that is down makes no records.

    Down time is what is missing at the sink, divided by the rate; the moments of reading are known to about 0.2 s.
    State that was rolled back to a checkpoint counts as down time, for its records have to be made again.
    """
    rate = 200.0
    spec = _chain(rate)
    found = []
    with engine_on(url, folder, spec, mode=mode) as engine:
        plans = [Plan({"source": 1, "work": work, "sink": 1}) for work in (4, 6)]
        deployment = engine.deploy(spec.job, plans[0])
        try:
            for turn in range(times):
                time.sleep(8.0)
                first, first_s = records_at_sink(engine, deployment), time.monotonic()
                deployment = engine.rescale(deployment, plans[(turn + 1) % 2])
                until_running_s = time.monotonic() - first_s
                time.sleep(12.0)
                last, last_s = records_at_sink(engine, deployment), time.monotonic()
                down_s = (last_s - first_s) - (last - first) / rate
                found.append(Downtime(mode=mode, down_s=max(0.0, down_s), until_running_s=until_running_s))
        finally:
            engine.stop(deployment)
    return found


def _chain(rate: float) -> JobSpec:
    return parse_spec(
        {
            "name": "downtime",
            "operators": [
                {"id": "source", "type": "source", "rate": rate},
                {"id": "work", "type": "map", "inputs": ["source"]},
                {"id": "sink", "type": "sink", "inputs": ["work"]},
            ],
            "physics": {"source": {"service_us": 50}, "work": {"service_us": 10000}, "sink": {"service_us": 50}},
        }
    )


def records_at_sink(engine: FlinkEngine, deployment: Deployment) -> float:
    """Records the sink has seen over all its incarnations, at the moment of the JobManager's newest fetch."""
    job_id = engine.job_id(deployment)
    sink = next(vertex for vertex in engine.client.job(job_id).vertices if vertex.name == "Sink: sink")
    name = "Sink__sink.seenRecords"
    engine.client.vertex_metrics(job_id, sink.id, [name], "sum")
    before = None
    for _ in range(60):
        time.sleep(0.1)
        found = engine.client.vertex_metrics(job_id, sink.id, [name], "sum").get(name)
        if found is not None and before is not None and found.total != before:
            return found.total
        before = found.total if found is not None else before
    raise EngineError("the sink's counter does not change")


def measure_polling(url: str, folder: Path, vertices: int, parallelism: int) -> PollingCost:
    """REST calls, wall and CPU time of our process for one snapshot of a long job of many subtasks."""
    spec = _long_chain(vertices, parallelism)
    with engine_on(url, folder, spec, patience_s=_STARTING_S, checkpoint_s=60.0) as engine:
        deployment = engine.deploy(spec.job, Plan(dict.fromkeys(spec.job.dataflow.index, parallelism)))
        try:
            poller = Poller(engine.client, SystemClock())
            imported, job_id = engine.imported(deployment), engine.job_id(deployment)
            _wait_for_all_metrics(poller, job_id, imported)  # and asks once which sources have a lag
            calls, wall_s, cpu_s = engine.client.calls, time.monotonic(), time.process_time()
            poller.snapshot(job_id, imported)
            return PollingCost(
                vertices=vertices,
                subtasks=parallelism,
                calls=engine.client.calls - calls,
                wall_s=time.monotonic() - wall_s,
                cpu_s=time.process_time() - cpu_s,
            )
        finally:
            engine.stop(deployment)


def _wait_for_all_metrics(poller: Poller, job_id: str, imported: ImportedJob) -> None:
    """Until a snapshot is whole: the first answers of a JobManager lack what it has not fetched yet."""
    deadline_s = time.monotonic() + _STARTING_S
    seen: Snapshot | NotReady = poller.snapshot(job_id, imported)
    while isinstance(seen, NotReady):
        if time.monotonic() > deadline_s:
            raise EngineError(f"no whole snapshot within {_STARTING_S:.0f} s: {seen.reason}")
        time.sleep(2.0)
        seen = poller.snapshot(job_id, imported)


def _long_chain(vertices: int, parallelism: int) -> JobSpec:
    operators: list[dict[str, object]] = [{"id": "source", "type": "source", "rate": 100.0}]
    for number in range(1, vertices - 1):
        before = str(operators[-1]["id"])
        way = {"from": before, "partitioning": "forward"}
        operators.append({"id": f"map_{number}", "type": "map", "inputs": [way]})
    last = {"from": str(operators[-1]["id"]), "partitioning": "forward"}
    operators.append({"id": "sink", "type": "sink", "inputs": [last]})
    return parse_spec(
        {
            "name": "long",
            "operators": operators,
            "max_parallelism": parallelism,
            "physics": {str(operator["id"]): {"service_us": 50} for operator in operators},
        }
    )


def measure_fidelity(
    url: str, folder: Path, name: str, multiples: tuple[float, ...], window: MeasurementWindow
) -> list[Fidelity]:
    """The oracle's plan, and the same with one instance less for the busiest operator, simulated and measured."""
    workload = small_workload(name)
    spec, physics = workload.spec, workload.physics
    fixed = {source.id: 1 for source in spec.job.dataflow.sources}
    rows = []
    with engine_on(url, folder, spec) as engine:
        deployment = engine.deploy(spec.job, spec.job.initial_plan)
        try:
            for multiple in multiples:
                rates = workload.rates_at(multiple)
                oracle = find_oracle(spec.job, physics, rates, fixed=fixed, settings=SimulatorSettings.exact()).plan
                for plan in (oracle, _one_less(oracle, fixed)):
                    if plan != deployment.plan:
                        deployment = engine.rescale(deployment, plan)
                    engine.set_source_rates(deployment, rates)
                    rows += _compare(name, multiple, oracle, spec, rates, plan, observed(engine, deployment, window))
        finally:
            engine.stop(deployment)
    return rows


def _one_less(plan: Plan, fixed: Mapping[str, int]) -> Plan:
    widest = max((key for key in plan if key not in fixed), key=plan.__getitem__)
    return plan.replace({widest: max(1, plan[widest] - 1)})


def _compare(
    name: str,
    multiple: float,
    oracle: Plan,
    spec: JobSpec,
    rates: Mapping[str, float],
    plan: Plan,
    measured: Observation,
) -> list[Fidelity]:
    simulated = simulate_once(spec.job, spec.physics or {}, plan, rates, seed=1)
    return [
        Fidelity(
            job=name,
            operator=key,
            multiple=multiple,
            parallelism=plan[key],
            oracle_parallelism=oracle[key],
            busy_simulated=simulated.operators[key].busy_share,
            busy_measured=measured.operators[key].busy_share,
            backpressured_simulated=simulated.operators[key].backpressured_share,
            backpressured_measured=measured.operators[key].backpressured_share,
        )
        for key in plan
    ]
