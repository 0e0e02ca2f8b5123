"""Tuners on workloads over changing rates, all judged alike: what every experiment is based on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import mean

from pydantic import Field

from streamtune.control.guards import Guards
from streamtune.control.story import TuningStory
from streamtune.dataflow import Job
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.simulator import SimulatorSettings, find_oracle
from streamtune.experiments.platform import Platform, Tell
from streamtune.frozen import Frozen
from streamtune.labs.simulator import tune_on_simulator
from streamtune.models.assigned import AssignedModel
from streamtune.models.costmodel.model import CostModel
from streamtune.settings import Settings
from streamtune.tuners import Tuner
from streamtune.workloads import catalogue, rates

WORKLOADS = (
    "nexmark-q1",
    "nexmark-q2",
    "nexmark-q3",
    "nexmark-q5",
    "nexmark-q8",
    "pqp-linear-0",
    "pqp-2way-0",
    "pqp-3way-0",
)
WIDE_BOUND = 1000


class Scale(Settings):
    """How much is run."""

    seeds: tuple[int, ...] = Field(default=(0, 1, 2), min_length=1, description="each is a platform of its own")
    changes: int = Field(default=120, ge=1, description="changes of rates per workload")
    sweep_changes: int = Field(default=20, ge=1, description="changes of rates per workload and point of a sweep")
    runs: int = Field(default=4_000, ge=1, description="runs in the history")
    sweep_runs: int = Field(default=2_000, ge=1, description="runs in the history of a point of a sweep")
    random_jobs: int = Field(default=200, ge=1, description="different random jobs in the history")
    cold_runs: int = Field(default=6_000, ge=1, description="coldstart: runs in the history")
    cold_jobs: int = Field(default=20, ge=4, description="coldstart: jobs of each kind, each at three rates")
    cold_unseen: int = Field(
        default=80, ge=4, description="coldstart: jobs never seen, for the curve against the limit"
    )
    cold_trained: bool = Field(default=True, description="coldstart: train encoders and ZeroTune's cost models as well")

    @classmethod
    def quick(cls) -> Scale:
        return cls(
            seeds=(0,),
            changes=10,
            sweep_changes=10,
            runs=1_500,
            sweep_runs=600,
            random_jobs=60,
            cold_runs=1_500,
            cold_jobs=4,
            cold_unseen=8,
            cold_trained=False,
        )

    def multiples(self, seed: int) -> tuple[int, ...]:
        return rates.pattern(seed)[: self.changes]

    def platform(self, seed: int, *, never_seen: bool = False) -> Platform:
        return Platform(
            seed=seed, runs=self.runs, random_jobs=self.random_jobs, exclude=WORKLOADS if never_seen else ()
        )

    def told(self) -> str:
        seeds = ", ".join(map(str, self.seeds))
        return f"seeds {seeds}, {self.changes} changes of rates per workload, histories of {self.runs:,} runs"

    def told_short(self) -> str:
        seeds = ", ".join(map(str, self.seeds))
        return f"seeds {seeds}, the first {self.sweep_changes} changes per workload, histories of {self.runs:,} runs"


class Judged(Frozen):
    """One change of rates: how it ended, what it cost, and what would have been enough."""

    workload: str
    seed: int
    multiple: float
    reconfigurations: int
    backpressure: bool
    backpressure_on_the_way: int
    total: int
    oracle: int
    sources: int


@dataclass(frozen=True)
class Score:
    """Means over judged changes. The parallelism of sources is fixed and left out of ``without_sources``."""

    reconfigurations: float
    backpressure: float
    on_the_way: float
    over_oracle: float
    without_sources: float
    changes: int

    @classmethod
    def of(cls, judged: Sequence[Judged]) -> Score:
        total, best = sum(one.total for one in judged), sum(one.oracle for one in judged)
        sources = sum(one.sources for one in judged)
        return cls(
            reconfigurations=mean(one.reconfigurations for one in judged),
            backpressure=mean(one.backpressure for one in judged),
            on_the_way=mean(one.backpressure_on_the_way for one in judged),
            over_oracle=total / best,
            without_sources=(total - sources) / max(1, best - sources),
            changes=len(judged),
        )


@dataclass(frozen=True)
class Knowledge:
    """What a platform's history taught about a job; each model is made when it is first needed."""

    load_model: Callable[[], AssignedModel]
    load_costs: Callable[[], CostModel]

    @cached_property
    def model(self) -> AssignedModel:
        return self.load_model()

    @cached_property
    def costs(self) -> CostModel:
        return self.load_costs()


MakeTuner = Callable[[Job, Knowledge], Tuner]


@dataclass(frozen=True)
class Contestant:
    """A tuner with its settings under the name it goes by; ``never_seen`` takes the queries out of pre-training."""

    label: str
    make: MakeTuner
    never_seen: bool = False
    bound: int = Guards().max_reconfigurations


@dataclass
class Arena:
    """Runs contests and remembers them: experiments that look at the same runs share them.

    With a ``work`` folder, models and judged runs are kept there, so that a run that was stopped continues.
    """

    scale: Scale
    work: Path
    tell: Tell = lambda _text: None
    _oracles: dict[tuple[str, float, str], int] = field(default_factory=dict)
    _known: dict[tuple[Platform, str], Knowledge] = field(default_factory=dict)

    def knowledge(self, platform: Platform, job: Job) -> Knowledge:
        if (platform, job.name) not in self._known:
            self._known[platform, job.name] = Knowledge(
                lambda: AssignedModel.of(platform.model(self.work, self.tell), job),
                lambda: platform.cost_model(self.work, self.tell),
            )
        return self._known[platform, job.name]

    def grid(
        self, contestants: Iterable[Contestant], workloads: Sequence[str] = WORKLOADS, *, changes: int | None = None
    ) -> dict[str, list[Judged]]:
        """Every contestant on every workload under every seed, over the whole pattern or its first ``changes``."""
        found: dict[str, list[Judged]] = {}
        for contestant in contestants:
            found[contestant.label] = []
            for seed in self.scale.seeds:
                platform = self.scale.platform(seed, never_seen=contestant.never_seen)
                for workload in workloads:
                    multiples = self.scale.multiples(seed)[:changes]
                    found[contestant.label] += self.play(contestant, platform, workload, multiples)
        return found

    def play(
        self,
        contestant: Contestant,
        platform: Platform,
        workload: str,
        multiples: Sequence[float],
        *,
        simulator: SimulatorSettings | None = None,
        variant: str = "",
        change: Callable[[JobSpec], JobSpec] = lambda spec: spec,
    ) -> list[Judged]:
        """One contestant on one workload. ``change`` alters the job's physics; ``variant`` names what was altered."""
        key = "-".join(
            str(part) for part in (contestant.label, platform.name, workload, len(multiples), sum(multiples), variant)
        )
        kept = self.work / "judged" / f"{_file_name(key)}.json"
        if kept.exists():
            return [Judged.model_validate(one) for one in json.loads(kept.read_text(encoding="utf-8"))]
        self.tell(f"{contestant.label} on {workload}, seed {platform.seed}{f', {variant}' if variant else ''}")
        story = self.story(contestant, platform, workload, multiples, simulator=simulator, change=change)
        judged = self._judge(story, platform.seed, workload, multiples, variant, change)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps([one.model_dump() for one in judged]), encoding="utf-8")
        return judged

    def story(
        self,
        contestant: Contestant,
        platform: Platform,
        workload: str,
        multiples: Sequence[float],
        *,
        simulator: SimulatorSettings | None = None,
        change: Callable[[JobSpec], JobSpec] = lambda spec: spec,
    ) -> TuningStory:
        loaded = catalogue.load(workload)
        return tune_on_simulator(
            change(loaded.spec),
            lambda job: contestant.make(job, self.knowledge(platform, job)),
            [loaded.rates_at(multiple) for multiple in multiples],
            seed=platform.seed,
            settings=simulator or platform.simulator,
            guards=Guards(max_reconfigurations=contestant.bound),
            with_oracle=False,
        )

    def _judge(
        self,
        story: TuningStory,
        seed: int,
        workload: str,
        multiples: Sequence[float],
        variant: str,
        change: Callable[[JobSpec], JobSpec],
    ) -> list[Judged]:
        loaded = catalogue.load(workload)
        plan = loaded.spec.job.initial_plan
        sources = sum(plan[source.id] for source in loaded.spec.job.dataflow.sources)
        on_the_way = [0] * len(story.changes)
        for step in story.steps:
            on_the_way[step.change] += step.reconfigured and step.observation.has_backpressure
        return [
            Judged(
                workload=workload,
                seed=seed,
                multiple=multiple,
                reconfigurations=done.reconfigurations,
                backpressure=done.backpressure,
                backpressure_on_the_way=seen,
                total=done.total_parallelism,
                oracle=self._oracle(workload, multiple, variant, change),
                sources=sources,
            )
            for done, multiple, seen in zip(story.changes, multiples, on_the_way, strict=True)
        ]

    def _oracle(self, workload: str, multiple: float, variant: str, change: Callable[[JobSpec], JobSpec]) -> int:
        place = (workload, multiple, variant)
        if place not in self._oracles:
            loaded = catalogue.load(workload)
            spec = change(loaded.spec)
            fixed = {source.id: spec.job.initial_plan[source.id] for source in spec.job.dataflow.sources}
            best = find_oracle(spec.job, spec.physics or {}, loaded.rates_at(multiple), fixed=fixed)
            self._oracles[place] = best.total
        return self._oracles[place]


@dataclass(frozen=True)
class Grid:
    """The main contest as a table of scores."""

    judged: Mapping[str, list[Judged]]

    @cached_property
    def labels(self) -> list[str]:
        return list(self.judged)

    def of(self, label: str, workload: str | None = None, seed: int | None = None, *, peak: bool = False) -> Score:
        """The score of one tuner; at the ``peak``, at the highest rate alone."""
        highest = max(one.multiple for one in self.judged[label])
        return Score.of(
            [
                one
                for one in self.judged[label]
                if (workload is None or one.workload == workload)
                and (seed is None or one.seed == seed)
                and (not peak or one.multiple == highest)
            ]
        )

    def spread(self, label: str, measure: Callable[[Score], float]) -> tuple[float, float, float]:
        """Mean over all, and the least and largest of the seeds."""
        seeds = sorted({one.seed for one in self.judged[label]})
        by_seed = [measure(self.of(label, seed=seed)) for seed in seeds]
        return measure(self.of(label)), min(by_seed), max(by_seed)


def _file_name(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in text)
