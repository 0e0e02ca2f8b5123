"""``ColdArena``: cold starts of all platforms, each judged once and found again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from streamtune.dataflow import Plan
from streamtune.experiments.coldstart.by_law import ScoredPair, score_pairs
from streamtune.experiments.coldstart.jobs import Start, platform, starts, unseen_starts
from streamtune.experiments.coldstart.limit import limit_plan
from streamtune.experiments.coldstart.play import ColdStart, Summary, judge_plan, oracle_total, play
from streamtune.experiments.coldstart.ways import Knowledge, Way
from streamtune.experiments.paper.contest import Arena
from streamtune.frozen import Frozen
from streamtune.tuners import StreamTune

CERTAINTIES = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
LIMIT = "the limit: knows the law"
_SEEDS_OF_VALIDATION = 10


@dataclass
class ColdArena:
    """Cold starts of all platforms, each judged once and kept in ``work``."""

    arena: Arena
    validation: bool = False
    _starts: dict[int, list[Start]] = field(default_factory=dict)
    _known: dict[int, Knowledge] = field(default_factory=dict)
    _oracles: dict[tuple[str, float], int] = field(default_factory=dict)
    _tuners: dict[tuple[int, str], StreamTune] = field(default_factory=dict)

    @property
    def seeds(self) -> list[int]:
        """Validation has platforms of its own."""
        offset = _SEEDS_OF_VALIDATION if self.validation else 0
        return [seed + offset for seed in self.arena.scale.seeds]

    def known(self, seed: int) -> Knowledge:
        if seed not in self._known:
            scale = self.arena.scale
            made = platform(seed, scale.cold_runs, scale.random_jobs)
            self._known[seed] = Knowledge(made, self.arena.work, self.arena.tell, is_light=not scale.cold_trained)
        return self._known[seed]

    def starts(self, seed: int) -> list[Start]:
        if seed not in self._starts:
            scale = self.arena.scale
            self._starts[seed] = starts(seed, scale.cold_jobs, scale.random_jobs, validation=self.validation)
        return self._starts[seed]

    def scored(self, seed: int) -> list[ScoredPair]:
        """Many jobs never seen, ours and the limit's plans for them, by fresh draws of the law."""
        scale = self.arena.scale
        path = self._path(f"by-law-{seed}-{scale.cold_unseen}-{scale.cold_runs}")
        if not path.exists():
            self.arena.tell(f"cold starts: {scale.cold_unseen} jobs never seen, scored by the law (platform {seed})")
            some = unseen_starts(seed, scale.cold_unseen, validation=self.validation)
            found = score_pairs(some, CERTAINTIES, lambda start, certainty: self._ours(seed, start, certainty))
            _write(path, found)
        return [ScoredPair.model_validate(one) for one in json.loads(path.read_text(encoding="utf-8"))]

    def oracle(self, start: Start) -> int:
        place = (start.workload.name, start.multiple)
        if place not in self._oracles:
            self._oracles[place] = oracle_total(start)
        return self._oracles[place]

    def played(self, way: Way, seed: int) -> list[ColdStart]:
        """Every start of a platform by one way."""
        return self._kept(f"{way.label}-{seed}", lambda: [self._play(way, start, seed) for start in self.starts(seed)])

    def _play(self, way: Way, start: Start, seed: int) -> ColdStart:
        return play(way, start, self.known(seed), self.oracle(start))

    def first_plans(self, way: Way, seed: int) -> list[ColdStart]:
        """Every start of a platform by one way, without what comes after the first plan."""

        def judged(start: Start) -> ColdStart:
            known = self.known(seed)
            return judge_plan(way.label, start, way.first(start, known), known, self.oracle(start))

        return self._kept(f"{way.label}-first-{seed}", lambda: [judged(start) for start in self.starts(seed)])

    def planned(self, label: str, seed: int, kind: str, plan_of: Callable[[Start], Plan]) -> list[ColdStart]:
        """First plans alone."""
        return self._kept(
            f"{label}-{kind}-{seed}",
            lambda: [
                judge_plan(label, start, plan_of(start), self.known(seed), self.oracle(start))
                for start in self.starts(seed)
                if start.kind == kind
            ],
        )

    def _kept(self, name: str, make: Callable[[], list[ColdStart]]) -> list[ColdStart]:
        scale = self.arena.scale
        path = self._path(f"{name}-{scale.cold_jobs}-{scale.cold_runs}")
        if not path.exists():
            self.arena.tell(f"cold starts: {name}")
            _write(path, make())
        return [ColdStart.model_validate(one) for one in json.loads(path.read_text(encoding="utf-8"))]

    def _path(self, name: str) -> Path:
        trained = "trained" if self.arena.scale.cold_trained else "light"
        text = f"{'validation' if self.validation else 'test'}-{trained}-{name}"
        file_name = "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in text)
        return self.arena.work / "coldstart" / f"{file_name}.json"

    def curve(self, who: str, kind: str) -> list[Summary]:
        """First plans of one predictor over the certainty that is asked for."""
        found = []
        for certainty in CERTAINTIES:
            some: list[ColdStart] = []
            for seed in self.seeds:
                some += self.planned(f"{who} {certainty:g}", seed, kind, self._planner(who, certainty, seed))
            found.append(Summary.of(some))
        return found

    def _planner(self, who: str, certainty: float, seed: int) -> Callable[[Start], Plan]:
        if who == LIMIT:
            return lambda start: limit_plan(start, certainty)
        return lambda start: self._ours(seed, start, certainty)

    def _ours(self, seed: int, start: Start, certainty: float) -> Plan:
        job = start.workload.spec.job
        if (seed, job.name) not in self._tuners:  # made once for all rates and certainties
            self._tuners[seed, job.name] = self.known(seed).streamtune(job)
        foreseen = self._tuners[seed, job.name].first_plan(start.rates, certainty)
        assert foreseen is not None
        return Plan({**job.initial_plan, **foreseen.degrees})


def _write(path: Path, some: Sequence[Frozen]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([one.model_dump() for one in some]), encoding="utf-8")
