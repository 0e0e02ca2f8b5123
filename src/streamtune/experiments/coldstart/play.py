"""One cold start, judged: the first plan by itself, and the way from it to a plan that is clean and not too large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from streamtune.dataflow import Observation, Plan
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.simulator import Simulator, find_oracle, simulate_once
from streamtune.experiments.coldstart.jobs import Start
from streamtune.experiments.coldstart.ways import Knowledge, Way
from streamtune.frozen import Frozen

# StreamTune Section V-A: ten minutes between reconfigurations.
STEP_MIN = 10.0
SETTLED_WITHIN = 1.10
MOST_RECONFIGURATIONS = 10


class ColdStart(Frozen):
    """One start: its first plan, and what it took to settle."""

    way: str
    kind: str
    job: str
    seed: int
    multiple: float
    clean: bool
    total: int
    oracle: int
    sources: int
    reconfigurations: int = 0
    settled: bool = False
    backpressured_min: float = 0.0
    spare_instance_min: float = 0.0


def oracle_total(start: Start) -> int:
    spec = start.workload.spec
    fixed = {source.id: spec.job.initial_plan[source.id] for source in spec.job.dataflow.sources}
    return find_oracle(spec.job, spec.physics or {}, start.rates, fixed=fixed).total


def judge_plan(way: str, start: Start, plan: Plan, known: Knowledge, oracle: int) -> ColdStart:
    """The first plan alone: deployed once, observed once."""
    spec = start.workload.spec
    seen = simulate_once(
        spec.job, spec.physics or {}, plan, start.rates, settings=known.platform.simulator, seed=known.platform.seed
    )
    return _judged(way, start, known, plan, seen, oracle)


def _judged(way: str, start: Start, known: Knowledge, plan: Plan, seen: Observation, oracle: int) -> ColdStart:
    job = start.workload.spec.job
    return ColdStart(
        way=way,
        kind=start.kind,
        job=job.name,
        seed=known.platform.seed,
        multiple=start.multiple,
        clean=not seen.has_backpressure,
        total=plan.total,
        oracle=oracle,
        sources=sum(job.initial_plan[source.id] for source in job.dataflow.sources),
    )


def play(way: Way, start: Start, known: Knowledge, oracle: int) -> ColdStart:
    """Deploy the first plan, and let the tuner go on until the job is clean within a tenth of the oracle.

    Every step is ten minutes of what runs then. The first deployment is not a reconfiguration.
    """
    job = start.workload.spec.job
    plan = way.first(start, known)
    tuner = way.after(job, known)
    engine = Simulator.of(start.workload.spec, settings=known.platform.simulator, seed=known.platform.seed)
    deployment = engine.deploy(job, plan)
    engine.set_source_rates(deployment, start.rates)
    done, settled, blocked, spare = 0, False, 0.0, 0.0
    first: ColdStart | None = None
    while True:
        seen = engine.observe(deployment, MeasurementWindow())
        assert isinstance(seen, Observation)
        first = first or _judged(way.label, start, known, plan, seen, oracle)
        tuner.learn(seen)
        settled = not seen.has_backpressure and deployment.plan.total <= SETTLED_WITHIN * oracle
        if settled or done == MOST_RECONFIGURATIONS:
            break
        blocked += STEP_MIN * seen.has_backpressure
        spare += STEP_MIN * max(0, deployment.plan.total - oracle)
        wanted = tuner.recommend(seen).plan
        if wanted == deployment.plan:
            break
        deployment = engine.rescale(deployment, wanted)
        done += 1
    return first.model_copy(
        update={
            "reconfigurations": done,
            "settled": settled,
            "backpressured_min": blocked,
            "spare_instance_min": spare,
        }
    )


@dataclass(frozen=True)
class Summary:
    """Means over cold starts; totals are summed before they are compared."""

    clean: float
    over_oracle: float
    without_sources: float
    reconfigurations: float
    settled: float
    backpressured_min: float
    spare_instance_min: float
    starts: int

    @classmethod
    def of(cls, some: Sequence[ColdStart]) -> Summary:
        oracle, sources = sum(one.oracle for one in some), sum(one.sources for one in some)
        total = sum(one.total for one in some)
        return cls(
            clean=mean(one.clean for one in some),
            over_oracle=total / oracle,
            without_sources=(total - sources) / max(1, oracle - sources),
            reconfigurations=mean(one.reconfigurations for one in some),
            settled=mean(one.settled for one in some),
            backpressured_min=mean(one.backpressured_min for one in some),
            spare_instance_min=mean(one.spare_instance_min for one in some),
            starts=len(some),
        )
