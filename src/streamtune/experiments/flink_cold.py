"""First plans of held-out jobs on a real engine: every way to choose one, and each plan looked at once.

The ways know a history without the jobs and, where they may try, one look at a tenth of the rate with one instance of
every operator. A job stays deployed while its plans are judged; what a plan that was too small left behind is worked
off before the next one is judged, and one instance each comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamtune.dataflow import Job, Observation, Plan, Run
from streamtune.engines.base import Deployment, Engine, MeasurementWindow
from streamtune.experiments.bottleneck_models import encoder_outputs
from streamtune.experiments.coldstart.light import LightModel
from streamtune.experiments.flink_encoders import Described, Side, gone_on, labelled
from streamtune.experiments.flink_jobs import LIMIT, bounded
from streamtune.experiments.flink_transfer import model_of, plan_by
from streamtune.frozen import Frozen
from streamtune.labs.histories import true_needs
from streamtune.models.costmodel.assembly import assembled, members_of, trained_member
from streamtune.models.costmodel.model import CostModel
from streamtune.models.costmodel.optisample import OptiSample
from streamtune.models.costmodel.settings import AdviceSettings, CostModelSettings
from streamtune.models.encoder import GraphSet, Trained, TrainingSettings, train
from streamtune.models.features import FeatureEncoder
from streamtune.models.transfer.model import TransferModel
from streamtune.readings.metrics import LastKnownPlan
from streamtune.training.costmodel import UNKNOWN_HOSTS, describe_run
from streamtune.tuners import DS2, StreamTune, StreamTuneSettings
from streamtune.tuners.zerotune import ZeroTune
from streamtune.workloads import Workload

PILOT_SHARE = 0.1
ONE = "one instance each"
_MOST_LOOKS = 8
Observe = Callable[[Engine, Deployment, MeasurementWindow], Observation]


@dataclass(frozen=True)
class Asked:
    """What a way is told: the job, the rates to come, and what was seen at a tenth of them."""

    job: Job
    rates: Mapping[str, float]
    tried: Observation

    @property
    def untried(self) -> Observation:
        """The rates alone, with nothing measured."""
        nothing = self.tried.model_copy(update={"source_rates": dict(self.rates), "operators": {}, "edges": ()})
        return LastKnownPlan(self.job).complete(nothing)


Way = Callable[[Asked], Plan]


def pilot(asked: Asked) -> Plan:
    """Sized by DS2, as if what was seen had been offered the whole rate."""
    return DS2(asked.job).recommend(asked.tried.model_copy(update={"source_rates": dict(asked.rates)})).plan


def pilot_and_past(model: TransferModel) -> Way:
    def first(asked: Asked) -> Plan:
        settings = StreamTuneSettings(use_encoder=False)
        tuner = StreamTune(asked.job, settings, model=LightModel(model, asked.job))
        tuner.learn(asked.tried)
        found = tuner.first_plan(asked.rates)
        assert found is not None  # a model always has a prior
        return Plan({**asked.job.initial_plan, **found.degrees})

    return first


def past_alone(model: TransferModel) -> Way:
    return lambda asked: plan_by(model, asked.job, asked.rates)


def by_optisample(rule: OptiSample) -> Way:
    return lambda asked: Plan(
        {**asked.job.initial_plan, **_tuned(asked.job, rule.degrees(asked.job, LIMIT, rates=asked.rates))}
    )


def by_zerotune(model: CostModel, settings: AdviceSettings | None = None) -> Way:
    return lambda asked: ZeroTune(asked.job, model, settings=settings).recommend(asked.untried).plan


def by_encoder(trained: Trained, features: FeatureEncoder) -> Way:
    """The least parallelism that an encoder judges safe."""

    def first(asked: Asked) -> Plan:
        flow = asked.job.dataflow
        edges = np.array(flow.edge_indices, dtype=np.int64).reshape(-1, 2)
        size = len(flow.operators)
        graphs = GraphSet.of(
            features.encode(flow, asked.rates),
            np.ones(size, dtype=np.int64),
            np.full(size, -1),
            [size],
            edges[:, 0],
            edges[:, 1],
            [len(edges)],
            [asked.job.name],
        )
        _, safe = encoder_outputs(trained, graphs, LIMIT)
        return Plan({**asked.job.initial_plan, **_tuned(asked.job, dict(zip(flow.index, safe.tolist(), strict=True)))})

    return first


def _tuned(job: Job, degrees: Mapping[str, int]) -> dict[str, int]:
    """Without sources: they keep the parallelism of their spec, whichever way is asked."""
    sources = {source.id for source in job.dataflow.sources}
    return {key: degree for key, degree in degrees.items() if key not in sources}


def job_of(run: Run) -> Job:
    return Job(run.job, run.dataflow, LIMIT)


def cost_model_of(history: Sequence[Run], rule: OptiSample, settings: CostModelSettings | None = None) -> CostModel:
    """ZeroTune's model of runs that have latency and throughput, in this process."""
    known = [run for run in history if (run.latency_ms or 0) > 0 and (run.throughput_per_s or 0) > 0]
    table = pa.Table.from_pylist([describe_run(run, UNKNOWN_HOSTS) for run in known])
    text = (settings or CostModelSettings()).model_dump_json()
    return assembled(text, [trained_member(table, member)[0] for member in members_of(text)], rule)


def encoder_of(simulated: Sequence[Run], real: Sequence[Run]) -> tuple[Trained, FeatureEncoder]:
    """Pre-trained on simulated runs, and on with the real ones."""
    settings = TrainingSettings()
    side = Side.of([Described.of(run) for run in simulated])
    trained = train(side.runs.graphs, settings)
    kept = labelled([Described.of(run) for run in real], side.encoder)
    return gone_on(trained, kept, settings), side.encoder


def ways_of(simulated: Sequence[Run], real: Sequence[Run]) -> dict[str, Way]:
    """All ways, in the order in which their plans are judged; neither history may hold the jobs that are asked for."""
    both = [*simulated, *real]
    models = {"real runs": model_of(real), "simulated runs": model_of(simulated), "both": model_of(both)}
    rule = OptiSample.calibrated((job_of(run), run.observation) for run in both)
    costs = cost_model_of(real, rule)
    pasts: dict[str, Way] = {f"the past of {label}": past_alone(model) for label, model in models.items()}
    return {
        "pilot and the past of both": pilot_and_past(models["both"]),
        "pilot and the past of real runs": pilot_and_past(models["real runs"]),
        **pasts,
        "OptiSample's rule": by_optisample(rule),
        "ZeroTune's advice": by_zerotune(costs),
        "ZeroTune, instances have a price": by_zerotune(costs, AdviceSettings()),
        "the encoder's thresholds": by_encoder(*encoder_of(simulated, real)),
        "pilot at a tenth of the rate": pilot,
        ONE: lambda asked: asked.job.initial_plan,
    }


class Judgement(Frozen):
    """A first plan on the engine: clean if its observation shows no backpressure; totals are without sources."""

    method: str
    multiple: float
    clean: bool
    total: int
    needed: int
    plan: dict[str, int]


@dataclass
class Trial:
    """One job on an engine, moved from plan to plan."""

    engine: Engine
    workload: Workload
    window: MeasurementWindow
    look: Observe
    drain: MeasurementWindow

    def judge(self, ways: Mapping[str, Way], multiple: float) -> Iterator[Judgement]:
        """Each way's first plan at this multiple of W_u; a plan that two ways choose is run once."""
        job, rates = self.workload.spec.job, self.workload.rates_at(multiple)
        tenth = {key: rate * PILOT_SHARE for key, rate in rates.items()}
        needs = true_needs(self.workload, rates)
        inner = [operator.id for operator in job.dataflow.operators if not operator.is_source]
        deployment = self.engine.deploy(job, job.initial_plan)
        seen: dict[Plan, bool] = {}
        try:
            self.engine.set_source_rates(deployment, tenth)
            asked = Asked(job, rates, self.look(self.engine, deployment, self.window))
            is_loaded = asked.tried.has_backpressure
            for label, way in ways.items():
                plan = bounded(way(asked))
                if plan not in seen:
                    deployment = self._moved(deployment, plan)
                    if is_loaded:
                        self._drained(deployment, tenth)
                    self.engine.set_source_rates(deployment, rates)
                    seen[plan] = not self.look(self.engine, deployment, self.window).has_backpressure
                    is_loaded = not seen[plan]
                yield Judgement(
                    method=label,
                    multiple=multiple,
                    clean=seen[plan],
                    total=sum(plan[key] for key in inner),
                    needed=sum(min(needs[key], LIMIT) for key in inner),
                    plan=dict(plan),
                )
        finally:
            self.engine.stop(deployment)

    def _moved(self, deployment: Deployment, plan: Plan) -> Deployment:
        return deployment if deployment.plan == plan else self.engine.rescale(deployment, plan)

    def _drained(self, deployment: Deployment, tenth: Mapping[str, float]) -> None:
        """A tenth of the rate until nothing is held back any more: a backlog would speak against the next plan."""
        self.engine.set_source_rates(deployment, tenth)
        for _ in range(_MOST_LOOKS):
            if not self.look(self.engine, deployment, self.drain).has_backpressure:
                return


def table(rows: Sequence[Judgement]) -> list[str]:
    """A row for each way, with what the target asks for at every multiple."""
    multiples = sorted({row.multiple for row in rows})
    lines = ["| first plan by | " + " | ".join(f"{multiple:g}·W_u" for multiple in multiples) + " |"]
    lines.append("| --- |" + " ---: |" * len(multiples))
    for label in dict.fromkeys(row.method for row in rows):
        cells = []
        for multiple in multiples:
            some = [row for row in rows if (row.method, row.multiple) == (label, multiple)]
            over = sum(row.total for row in some) / max(1, sum(row.needed for row in some))
            cells.append(f"{sum(row.clean for row in some)} of {len(some)} clean at {over:.2f} ×")
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return lines
