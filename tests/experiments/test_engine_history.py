"""Histories of real engines: the same draws every time, and a file that may be continued."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamtune.dataflow import Run
from streamtune.engines.simulator import simulate_once
from streamtune.experiments.engine_history import RunFile, draw_name, draw_on_engine
from streamtune.labs.histories import Experiment
from streamtune.readings import label_observation
from streamtune.workloads import cycle, load

LARGEST = 14


def drawn(number: int) -> Experiment:
    rng = np.random.default_rng([0, number])
    workload = load(draw_name(["nexmark-q1", "nexmark-q3"], 5, 0.5, rng))
    return draw_on_engine(number, workload, LARGEST, rng)


def test_draws_repeat_and_keep_away_from_what_tuning_is_tested_on() -> None:
    for number in range(40):
        experiment = drawn(number)
        assert experiment == drawn(number)
        initial = experiment.workload.spec.job.initial_plan
        for source, rate in experiment.rates.items():
            multiple = rate / experiment.workload.units[source]
            assert min(abs(multiple - tested) for tested in cycle()) > 0.01
            assert experiment.plan[source] == initial[source]
    assert len({experiment.workload.name for experiment in map(drawn, range(40))}) > 2


def test_short_is_what_has_less_than_it_needs() -> None:
    seen = set()
    for experiment in map(drawn, range(40)):
        needs, limit = experiment.needs(), experiment.workload.spec.job.max_parallelism
        for key, is_short in experiment.truly_short().items():
            if needs[key] < limit:
                assert is_short == (experiment.plan[key] < needs[key])
                seen.add(is_short)
    assert seen == {True, False}


def test_a_file_is_continued_and_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = RunFile(tmp_path / "deep" / "runs.jsonl.gz", "simulator", 0)
    assert file.known() == set()
    runs = []
    for number in range(3):
        one = drawn(number)
        job = one.workload.spec.job
        seen = simulate_once(job, one.workload.physics, one.plan, one.rates)
        runs.append(Run.of(file.run_id(number), job, "simulator", seen))
        file.add(runs[-1])
        assert label_observation(job.dataflow, runs[-1].observation) == label_observation(job.dataflow, seen)
    again = RunFile(file.path, "simulator", 0)
    assert again.known() == {run.run_id for run in runs}
    again.judge(lambda number: drawn(number).truly_short())
    told = capsys.readouterr().out
    operators = sum(len(run.operators) for run in runs)
    assert f"3 runs of {len({run.job for run in runs})} jobs, {operators} operators" in told
