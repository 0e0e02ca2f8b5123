"""Histories of real engines: experiments drawn as ``history generate`` draws them, run side by side, kept in one file.

What is in the file already is not repeated, so that a collection may be stopped and started again.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from streamtune.dataflow import Plan, Run
from streamtune.labs.histories import Experiment, draw_of, own_sources
from streamtune.readings import label_observation
from streamtune.workloads import Workload

NEAR_SHARE = 0.5
_SHARES = ("records_in_per_s", "records_out_per_s", "busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s")


def draw_on_engine(number: int, workload: Workload, largest: int, rng: np.random.Generator) -> Experiment:
    """As for the simulator, but sources keep the parallelism of their spec in every plan."""
    drawn = draw_of(workload, number, NEAR_SHARE, largest, rng)
    return replace(drawn, plan=Plan({**drawn.plan, **own_sources(workload)}))


def draw_name(catalogue: list[str], random_jobs: int, random_share: float, rng: np.random.Generator) -> str:
    """A workload of the catalogue or a random job."""
    if rng.random() < random_share:
        return f"random-{rng.integers(random_jobs)}"
    return catalogue[rng.integers(len(catalogue))]


@dataclass
class RunFile:
    """Runs of one engine as compressed JSON lines; several threads may add to it."""

    path: Path
    engine: str
    seed: int
    added: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run_id(self, number: int) -> str:
        return f"{self.engine}-{self.seed}-{number:06d}"

    def read(self) -> Iterator[Run]:
        if self.path.exists():
            with gzip.open(self.path, "rt", encoding="utf-8") as lines:
                yield from (Run.model_validate_json(line) for line in lines)

    def known(self) -> set[str]:
        return {run.run_id for run in self.read()}

    def add(self, run: Run) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock, gzip.open(self.path, "at", encoding="utf-8") as file:
            file.write(json.dumps(run.to_record(), separators=(",", ":")) + "\n")
            self.added += 1
        print(f"{run.run_id} {run.job}", flush=True)

    def judge(self, truth: Callable[[int], Mapping[str, bool]]) -> None:
        """Print how the labels compare with the truth, which only the experiment knows."""
        counts: Counter[tuple[int, bool]] = Counter()
        runs = list(self.read())
        for run in runs:
            labels = label_observation(run.dataflow, run.observation)
            short = truth(int(run.run_id.rsplit("-", 1)[1]))
            counts.update((labels[key], is_short) for key, is_short in short.items())
        truly = sum(count for (_, is_short), count in counts.items() if is_short)
        print(f"{len(runs)} runs of {len({run.job for run in runs})} jobs, {sum(counts.values())} operators")
        print(f"labelled 1: {counts[1, True] + counts[1, False]}, of them truly short {counts[1, True]}")
        print(f"labelled 0: {counts[0, True] + counts[0, False]}, of them truly short {counts[0, True]}")
        print(f"no label: {counts[-1, True] + counts[-1, False]}; truly short in all: {truly}")


def collect_from_command_line(
    description: str,
    engine: str,
    defaults: tuple[int, int, Path],
    collect: Callable[[RunFile, int, int, float], None],
    truth: Callable[[int, int], Mapping[str, bool]],
) -> None:
    """The command of a collection: ``defaults`` are runs, lanes and file; ``collect`` gets file, runs, lanes, deadline.

    ``truth`` gets the seed and the number of a run.
    """
    runs, lanes, out = defaults
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("--runs", type=int, default=runs)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--lanes", type=int, default=lanes, help="jobs side by side")
    arguments.add_argument("--seconds", type=float, default=math.inf, help="start no run after so long")
    arguments.add_argument("--out", type=Path, default=out)
    chosen = arguments.parse_args()
    start = time.monotonic()
    file = RunFile(chosen.out, engine, chosen.seed)
    collect(file, chosen.runs, chosen.lanes, start + chosen.seconds)
    took = time.monotonic() - start
    print(f"seed {chosen.seed}: {file.added} runs added in {took:.0f} s, {took / max(1, file.added):.1f} s per run")
    file.judge(lambda number: truth(chosen.seed, number))
