"""The jobs of the cold-start benchmark: never seen, relatives of past ones, and past ones deployed again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamtune.errors import DataflowError
from streamtune.experiments.platform import Platform
from streamtune.similarity.settings import KMeansSettings
from streamtune.workloads import Workload, load, names
from streamtune.workloads.relatives import KINDS

NEVER_SEEN, RELATIVES, REDEPLOYED = "never seen", "relatives", "deployed again"
MULTIPLES = (2.0, 5.0, 10.0)
# A history holds relative number 0 of its jobs; this one it has never seen.
_UNSEEN_RELATIVE = 1
# Random jobs of histories are numbered from 0; tests and validation have numbers of their own.
_FIRST_TEST, _FIRST_VALIDATION = 1_000, 5_000
RELATIVES_SHARE = 0.5
# A history of families has many more shapes than jobs: the distances of all pairs would take longer than all else.
_CLUSTERING = KMeansSettings(exact_shapes=200, sample_shapes=200)


def held_out() -> tuple[str, ...]:
    """Catalogue jobs that no history of this benchmark has: three Nexmark queries and every fourth PQP query."""
    pqp = [name for name in names() if name.startswith("pqp")]
    return ("nexmark-q2", "nexmark-q5", "nexmark-q8", *pqp[::4])


def platform(seed: int, runs: int, random_jobs: int) -> Platform:
    """A platform whose history has families of jobs, and lacks those that are held out."""
    return Platform(
        seed=seed,
        runs=runs,
        random_jobs=random_jobs,
        exclude=held_out(),
        relatives_share=RELATIVES_SHARE,
        clustering=_CLUSTERING,
    )


@dataclass(frozen=True)
class Start:
    """One cold start: a job, the rates it is to be started at, and what the history has of it."""

    kind: str
    workload: Workload
    multiple: float

    @property
    def rates(self) -> dict[str, float]:
        return self.workload.rates_at(self.multiple)


def starts(seed: int, jobs: int, random_jobs: int, *, validation: bool = False) -> list[Start]:
    """``jobs`` jobs of each kind at three rates each, drawn by the platform's seed.

    Validation has never-seen jobs that the test does not have. Its relatives and past jobs are drawn anew from those of
    the history, so that some are in both, on platforms of their own.
    """
    rng = np.random.default_rng([seed, 22, int(validation)])
    unseen = _unseen(rng, jobs, validation)
    past = [name for name in names() if name not in held_out()] + [f"random-{n}" for n in range(random_jobs)]
    drawn = [past[place] for place in rng.permutation(len(past))]
    again = [load(name) for name in drawn[:jobs]]
    related = _relatives(drawn[jobs:], jobs)
    found = {NEVER_SEEN: unseen, RELATIVES: related, REDEPLOYED: again}
    return [Start(kind, job, multiple) for kind, some in found.items() for job in some for multiple in MULTIPLES]


def unseen_starts(seed: int, jobs: int, *, validation: bool = False) -> list[Start]:
    """More jobs never seen, for curves that need many; the first draw of ``starts``, with other sizes."""
    some = _unseen(np.random.default_rng([seed, 22, int(validation)]), jobs, validation)
    return [Start(NEVER_SEEN, job, multiple) for job in some for multiple in MULTIPLES]


def _unseen(rng: np.random.Generator, jobs: int, validation: bool) -> list[Workload]:
    """Half catalogue and half random DAGs; validation and test share no job."""
    catalogue = list(held_out())
    mine = catalogue[1::2] if validation else catalogue[::2]
    chosen = [mine[place] for place in rng.permutation(len(mine))[: jobs // 2]]
    first = _FIRST_VALIDATION if validation else _FIRST_TEST
    numbers = first + rng.permutation(1_000)[: jobs - len(chosen)]
    return [load(name) for name in (*chosen, *(f"random-{number}" for number in numbers))]


def _relatives(drawn: list[str], jobs: int) -> list[Workload]:
    """As many of each kind of relative, of jobs the history has."""
    found: list[Workload] = []
    for name in drawn:
        if len(found) == jobs:
            break
        kind = KINDS[len(found) % len(KINDS)]
        try:
            found.append(load(f"{name}~{kind}-{_UNSEEN_RELATIVE}"))
        except DataflowError:
            continue
    return found
