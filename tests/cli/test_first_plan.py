"""``streamtune plan`` for a rate: before a job ran, after a try, and for one that runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamtune.cli import main
from streamtune.dataflow import Plan
from streamtune.engines.simulator import find_oracle, simulate_once
from streamtune.workloads import load

JOB = "nexmark-q5"
# The history of the small model has the catalogue and random-0 to random-19, and no relatives of them.
NEVER_RAN, LIKE_NOTHING = "nexmark-q5~tenant-1", "random-5000"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in this process: exit code, output, errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["streamtune", "plan", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        said = capsys.readouterr()
        return caught.value.code if isinstance(caught.value.code, int) else 0, said.out, said.err

    return run


def asked(plan: Run, *arguments: str) -> dict[str, Any]:
    code, said, problem = plan(*arguments, "--json")
    assert code == 0, problem
    found: dict[str, Any] = json.loads(said)
    return found


def test_a_job_that_never_ran_gets_a_plan_and_is_told_from_whom(plan: Run, small_model: Path) -> None:
    found = asked(plan, NEVER_RAN, "--model", str(small_model), "--rate", "10x")
    chosen, operators = found["plan"], found["operators"]
    assert set(chosen) == set(operators) == set(load(NEVER_RAN).spec.job.dataflow.index)
    assert all(isinstance(degree, int) and degree >= 1 for degree in chosen.values())
    assert found["total_parallelism"] == sum(chosen.values())
    lenders = [origin for one in operators.values() for origin in one["learnt_from"]]
    assert lenders
    assert set(lenders[0]) >= {"job", "operator", "distance", "readings", "own_past"}
    assert not any(origin["own_past"] or origin["job"] == NEVER_RAN for origin in lenders)
    assert {origin["job"] for origin in lenders} >= {JOB}


def test_a_job_like_none_before_gets_a_plan_from_features_alone(plan: Run, small_model: Path) -> None:
    found = asked(plan, LIKE_NOTHING, "--model", str(small_model), "--rate", "10x")
    assert set(found["plan"]) == set(load(LIKE_NOTHING).spec.job.dataflow.index)
    assert not any(origin["own_past"] for one in found["operators"].values() for origin in one["learnt_from"])


def test_a_job_of_the_history_learns_from_its_own_past_first(plan: Run, small_model: Path) -> None:
    operators = asked(plan, JOB, "--model", str(small_model), "--rate", "10x")["operators"]
    first = {key: one["learnt_from"][0] for key, one in operators.items() if one["learnt_from"]}
    assert first
    assert all(
        origin["own_past"] and (origin["job"], origin["operator"]) == (JOB, key) for key, origin in first.items()
    )


def test_more_certainty_never_takes_fewer_instances(plan: Run, small_model: Path) -> None:
    totals = [
        asked(plan, JOB, "--model", str(small_model), "--rate", "10x", "--certainty", certainty)["total_parallelism"]
        for certainty in ("0.5", "0.8", "0.95")
    ]
    assert totals == sorted(totals)


def test_a_short_try_tells_what_the_past_cannot(plan: Run) -> None:
    found = asked(plan, JOB, "--observe", "1x", "--rate", "10x")
    assert found["extrapolation"]["times_highest_seen"] == pytest.approx(10, rel=0.2)
    assert "highest rate seen" in found["extrapolation"]["verdict"]
    workload = load(JOB)
    spec, rates = workload.spec, workload.rates_at(10)
    fixed = {source.id: spec.job.initial_plan[source.id] for source in spec.job.dataflow.sources}
    oracle = find_oracle(spec.job, workload.physics, rates, fixed=fixed)
    assert not simulate_once(spec.job, workload.physics, Plan(found["plan"]), rates).has_backpressure
    assert oracle.total <= found["total_parallelism"] <= 1.3 * oracle.total


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([JOB, "--rate", "10x"], "nothing is known of 'nexmark-q5'"),
        (["--rate", "10x"], "which job?"),
        ([JOB, "--rate", "10x", "--level", "0.5"], "--level has an effect with --forecast only"),
        ([JOB, "--forecast", "rates.csv", "--rate", "10x"], "--rate has no effect with --forecast"),
        ([JOB, "--observe", "1x", "--certainty", "1.5"], "--certainty must be between 0 and 1, but got 1.5"),
        ([JOB, "--url", "http://localhost:1"], "add --engine flink"),
        (["--engine", "timely", "--rate", "10x"], "--engine must be flink, but got 'timely'"),
        ([JOB, "--engine", "flink", "--url", "http://localhost:1"], "leave it out with --engine flink"),
        ([JOB, "--seed", "3", "--model", "m"], "--seed is the simulator's"),
    ],
)
def test_what_does_not_go_together_is_refused(plan: Run, arguments: list[str], message: str) -> None:
    code, _, problem = plan(*arguments)
    assert code == 2
    assert message in " ".join(problem.split())
    assert "Traceback" not in problem
