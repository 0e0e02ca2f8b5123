"""The step ``generate``: histories from the simulator, as a Spark job.

StreamTune Section V-A: queries of Nexmark, PQP and random DAGs, source rates uniform in (1, 10)·W_u without the
multiples that tuning is tested on, parallelism uniform in [1, 60] for each operator. Random plans are seldom near the
optimum, where a tuner has to decide; the other half therefore takes what each operator needs and misses it by a little
in both directions, as ZeroTune's OptiSample does. There, sources keep the parallelism their job asks for, as the
partitions of a topic would dictate: a starved source starves all behind it, and nothing is learnt of the optimum.

Every run is drawn from (seed, its number): how many partitions or machines do the work does not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema

from streamtune.dataflow import Observation, Plan, Run
from streamtune.dataflow.physics import smallest_parallelism, true_ratios
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.simulator import SimulatorSettings, simulate_once
from streamtune.errors import DataflowError
from streamtune.history.ingest import stored_runs
from streamtune.history.schema import RUN
from streamtune.history.store import History
from streamtune.labs.settings import GenerateSettings
from streamtune.readings.demand import input_rates
from streamtune.spark.schemas import nullable
from streamtune.workloads import Workload, cycle, load, names
from streamtune.workloads.catalogue import UnknownWorkloadError
from streamtune.workloads.relatives import KINDS

ENGINE = "simulator"
_FIRST_RUN = datetime(2026, 1, 1, tzinfo=UTC)
_BETWEEN_RUNS = timedelta(seconds=10)
# A multiple this close to one that tuning is tested on counts as that one.
_KEEP_AWAY = 0.02


@dataclass(frozen=True)
class Experiment:
    """One run before it is run: a job, its source rates and a plan."""

    number: int
    workload: Workload
    rates: dict[str, float]
    plan: Plan
    is_near: bool

    def needs(self) -> dict[str, int]:
        """The least sufficient parallelism of each operator by its true capacity; the limit where none suffices."""
        return true_needs(self.workload, self.rates)

    def truly_short(self) -> dict[str, bool]:
        """Whether an operator's capacity is below what the sources demand of it."""
        physics, demand = self.workload.physics, true_demand(self.workload, self.rates)
        return {key: physics[key].capacity_per_s(degree) < demand[key] for key, degree in self.plan.items()}


def draw(number: int, settings: GenerateSettings) -> Experiment:
    """The experiment of this number."""
    rng = np.random.default_rng([settings.seed, number])
    if rng.random() < settings.random_share:
        name = f"random-{rng.integers(settings.random_jobs)}"
    else:
        catalogue = _catalogue(settings.exclude)
        name = catalogue[rng.integers(len(catalogue))]
    if settings.relatives_share and rng.random() < settings.relatives_share:
        name = _relative(name, settings, rng)
    return draw_of(_load(name), number, settings.near_share, settings.max_parallelism, rng)


def _relative(name: str, settings: GenerateSettings, rng: np.random.Generator) -> str:
    """A relative of a job; the job itself where it has no operator that could be changed so."""
    wanted = f"{name}~{KINDS[rng.integers(len(KINDS))]}-{rng.integers(settings.relatives)}"
    try:
        _load(wanted)
    except DataflowError:
        return name
    return wanted


def draw_of(workload: Workload, number: int, near_share: float, largest: int, rng: np.random.Generator) -> Experiment:
    """Rates between those that tuning is tested on, and a plan near the need or a random one."""
    rates = {source: unit * draw_multiple(rng) for source, unit in workload.units.items()}
    is_near = bool(rng.random() < near_share)
    plan = near_plan(workload, rates, rng) if is_near else random_plan(workload, largest, rng)
    return Experiment(number, workload, rates, plan, is_near)


@lru_cache(maxsize=64)
def _catalogue(exclude: tuple[str, ...]) -> list[str]:
    unknown = sorted(set(exclude) - set(names()))
    if unknown:
        raise UnknownWorkloadError(unknown[0])
    return [name for name in names() if name not in exclude]


@lru_cache(maxsize=4096)
def _load(name: str) -> Workload:
    return load(name)


def draw_multiple(rng: np.random.Generator) -> float:
    """Uniform in (1, 10) without what tuning is tested on."""
    while True:
        multiple = float(rng.uniform(1, 10))
        if min(abs(multiple - tested) for tested in cycle()) > _KEEP_AWAY:
            return multiple


def random_plan(workload: Workload, largest: int, rng: np.random.Generator) -> Plan:
    job = workload.spec.job
    return Plan({key: min(int(rng.integers(1, largest + 1)), job.limit_of(key)) for key in job.dataflow.index})


def near_plan(workload: Workload, rates: dict[str, float], rng: np.random.Generator) -> Plan:
    """A fifth above or below the need (one standard deviation), give or take one instance."""
    job = workload.spec.job
    near = {
        key: int(np.clip(round(need * rng.lognormal(0.0, 0.2)) + rng.integers(-1, 2), 1, job.limit_of(key)))
        for key, need in true_needs(workload, rates).items()
    }
    return Plan({**near, **own_sources(workload)})


def own_sources(workload: Workload) -> dict[str, int]:
    plan = workload.spec.job.initial_plan
    return {source.id: plan[source.id] for source in workload.spec.job.dataflow.sources}


def true_demand(workload: Workload, rates: dict[str, float]) -> dict[str, float]:
    selectivities = {key: physics.selectivity for key, physics in workload.physics.items()}
    flow = workload.spec.job.dataflow
    return input_rates(flow, selectivities, rates, true_ratios(flow, workload.physics))


def true_needs(workload: Workload, rates: dict[str, float]) -> dict[str, int]:
    demand, job = true_demand(workload, rates), workload.spec.job
    return {
        key: smallest_parallelism(workload.physics[key], demand[key], job.limit_of(key)) or job.limit_of(key)
        for key in demand
    }


def observe(
    experiment: Experiment, settings: GenerateSettings, simulator: SimulatorSettings | None = None
) -> Observation:
    """Run it once on the simulator."""
    return simulate_once(
        experiment.workload.spec.job,
        experiment.workload.physics,
        experiment.plan,
        experiment.rates,
        window=MeasurementWindow(settings.settle_s, settings.window_s),
        settings=simulator or SimulatorSettings(error=settings.error),
        seed=int(np.random.SeedSequence([settings.seed, experiment.number]).generate_state(1)[0]),
    )


def run_of(number: int, settings: GenerateSettings) -> Run:
    """The history record of this number; runs lie ten seconds apart, so that a day has 8,640."""
    experiment = draw(number, settings)
    seen = observe(experiment, settings).model_copy(update={"observed_at": _FIRST_RUN + number * _BETWEEN_RUNS})
    return Run.of(_run_id(number, settings), experiment.workload.spec.job, ENGINE, seen)


def _run_id(number: int, settings: GenerateSettings) -> str:
    return f"generated-{settings.seed}-{number:09d}"


def generate(history: History, settings: GenerateSettings | None = None, partitions: int | None = None) -> int:
    """Add generated runs to the history; idempotent. Returns how many were added."""
    settings = settings or GenerateSettings()
    before = history.runs.rows() if history.runs.exists else 0
    part = "generated-" + hashlib.sha256(settings.model_dump_json().encode()).hexdigest()[:16]
    history.runs.append(stored_runs(generated(history, settings, partitions)), part)
    return history.runs.rows() - before


def generated(history: History, settings: GenerateSettings, partitions: int | None = None) -> DataFrame:
    """The runs that are not stored yet."""
    parallel = partitions or history.spark.sparkContext.defaultParallelism * 4
    numbers = history.spark.range(0, settings.runs, 1, parallel)
    if history.runs.exists:
        run_id = sql.format_string(f"generated-{settings.seed}-%09d", "id")
        numbers = numbers.withColumn("run_id", run_id).join(history.runs.read().select("run_id"), "run_id", "left_anti")
    return numbers.select("id").mapInArrow(partial(_run_batches, settings=settings), nullable(RUN))


def _run_batches(batches: Iterator[pa.RecordBatch], settings: GenerateSettings) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(nullable(RUN), timezone="UTC")
    for batch in batches:
        rows = []
        for number in batch.column("id").to_pylist():
            row = run_of(number, settings).model_dump()
            row["source_rates"] = list(row["source_rates"].items())
            rows.append(row)
        yield pa.RecordBatch.from_pylist(rows, schema=schema)
