"""Sessions in a store: nothing is lost or run twice, whatever is killed when."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

import streamtune
from autoconfig.problems import measured
from streamtune.autoconfig import supervisor
from streamtune.autoconfig.budget import Budget
from streamtune.autoconfig.journal import Journal, StoreError
from streamtune.autoconfig.objective import CommandObjective, read_output
from streamtune.autoconfig.problem import ObjectiveSpec, Problem, load_problem, parse_problem
from streamtune.autoconfig.session import Outcome, Plan, replay, run_session
from streamtune.autoconfig.strategies import make_strategy
from streamtune.errors import StreamTuneError

PROGRAM = """
import json, os, sys, time
x, n = float(sys.argv[1]), int(sys.argv[2])
with open(sys.argv[3], "a") as log:
    log.write(f"{x} {n}\\n")
time.sleep(float(sys.argv[4]))
if n > 10:
    print("too many", file=sys.stderr)
    sys.exit(3)
print("some text")
print(json.dumps({"value": 10 - (x - 0.3) ** 2 - (n - 5) ** 2 / 100, "latency": n}))
"""

MAIN = """
import sys, typer
from streamtune.cli import autoconfig
app = typer.Typer()
app.add_typer(autoconfig.app)
app()
"""


def space_file(folder: Path, *, sleep: float = 0.0, **objective: Any) -> Path:
    program, log = folder / "program.py", folder / "log"
    program.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-S", str(program), "{x}", "{n}", str(log), str(sleep)]
    data = {
        "objective": {"command": command, "direction": "maximize", "timeout": 20, **objective},
        "knobs": {"x": {"type": "float", "low": 0, "high": 1}, "n": {"type": "int", "low": 1, "high": 20}},
        "constraints": ["n + 10 * x <= 25"],
    }
    path = folder / "space.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return path


def run(problem: Problem, store: Path, steps: int, *, strategy: str = "random", seed: int = 1) -> Outcome:
    objective = CommandObjective(problem.objective, problem.space, store / "runs")
    return run_session(problem, Plan(strategy, seed, Budget(steps=steps)), objective, store)


def plain(outcome: Outcome) -> list[tuple[int, dict[str, Any], float | None, bool]]:
    return [(one.number, dict(one.knobs), one.value, one.failed) for one in outcome.trials]


def test_a_session_runs_and_a_failing_trial_is_a_result(tmp_path: Path) -> None:
    outcome = run(load_problem(space_file(tmp_path)), tmp_path / "store", 10)
    assert len(outcome.trials) == 10
    failed = [one for one in outcome.trials if one.failed]
    assert failed  # with this seed some n is above 10
    assert all(one.value is None and one.reason == "exit code 3: too many" for one in failed)
    assert outcome.best is not None
    assert outcome.best.value == max(one.value for one in outcome.trials if one.value is not None)
    assert outcome.trials[0].measurements[0].figures == {"latency": outcome.trials[0].knobs["n"]} or failed


@pytest.mark.parametrize("strategy", ["random", "cma-es", "ours"])
def test_an_extended_session_equals_one_that_ran_through(tmp_path: Path, strategy: str) -> None:
    problem = load_problem(space_file(tmp_path))
    for steps in (2, 5, 8):
        parts = run(problem, tmp_path / "parts", steps, strategy=strategy)
    whole = run(problem, tmp_path / "whole", 8, strategy=strategy)
    assert plain(parts) == plain(whole)
    assert len((tmp_path / "log").read_text().splitlines()) == 16


def test_a_torn_line_is_cut_off_and_done_again(tmp_path: Path) -> None:
    problem = load_problem(space_file(tmp_path))
    whole = run(problem, tmp_path / "whole", 6)
    run(problem, tmp_path / "torn", 4)
    journal = tmp_path / "torn" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-2]) + lines[-2][: len(lines[-2]) // 2])  # the last measurement is half there
    again = run(problem, tmp_path / "torn", 6)
    assert plain(again) == plain(whole)
    assert len((tmp_path / "log").read_text().splitlines()) == 12  # the finished run was picked up, not repeated


@pytest.mark.slow
@pytest.mark.parametrize("delay", [1.6, 2.4])
def test_kill_9_loses_nothing_and_repeats_nothing(tmp_path: Path, delay: float) -> None:
    path = space_file(tmp_path, sleep=0.3)
    command = [
        sys.executable,
        "-c",
        MAIN,
        "autoconfig",
        "run",
        str(path),
        "--steps",
        "6",
        "--strategy",
        "random",
        "--seed",
        "1",
    ]
    command += ["--store", str(tmp_path / "killed"), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(Path(streamtune.__file__).parents[1])}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    answer = json.loads(finished.stdout)
    log = (tmp_path / "log").read_text().splitlines()
    assert len(log) == len(set(log)) == 6  # every configuration ran exactly once
    (tmp_path / "log").unlink()
    whole = run(load_problem(path), tmp_path / "whole", 6)
    seen = [(one["number"], one["knobs"], one["value"], one["failed"]) for one in answer["trials"]]
    assert seen == plain(whole)


KILLER = """
import os, signal, sys
x, marker = float(sys.argv[1]), sys.argv[2]
if os.environ["STREAMTUNE_TRIAL"] == "12" and not os.path.exists(marker):
    open(marker, "w").close()
    supervisor = os.getppid()
    main = int(open(f"/proc/{supervisor}/stat").read().rpartition(")")[2].split()[1])
    os.kill(main, signal.SIGKILL)
    if sys.argv[3] == "all":
        os.kill(supervisor, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
print(10 - (x - 0.3) ** 2)
"""

SESSION = """
import sys
from pathlib import Path
from streamtune.autoconfig.objective import CommandObjective
from streamtune.autoconfig.problem import load_problem
from streamtune.autoconfig.budget import Budget
from streamtune.autoconfig.session import Plan, run_session
problem, store = load_problem(Path(sys.argv[1])), Path(sys.argv[2])
plan = Plan(sys.argv[3], 1, Budget(steps=14))
run_session(problem, plan, CommandObjective(problem.objective, problem.space, store / "runs"), store)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "what"), [("tpe", "streamtune"), ("cma-es", "all"), ("ours", "all"), ("bo", "streamtune")]
)
def test_kill_9_in_the_middle_of_a_search(tmp_path: Path, strategy: str, what: str) -> None:
    """The 13th trial kills StreamTune, or everything, itself included: by then every strategy computes what it asks."""
    (tmp_path / "killer.py").write_text(KILLER, encoding="utf-8")
    marker = tmp_path / "marker"
    command = [sys.executable, "-S", str(tmp_path / "killer.py"), "{x}", str(marker), what]
    knobs = {"x": {"type": "float", "low": 0, "high": 1}, "n": {"type": "int", "low": 1, "high": 20}}
    path = tmp_path / "space.yaml"
    path.write_text(
        yaml.safe_dump({"objective": {"command": command}, "knobs": knobs, "constraints": ["n + 10 * x <= 25"]})
    )
    killed = subprocess.run(
        [sys.executable, "-c", SESSION, str(path), str(tmp_path / "killed"), strategy],
        env={**os.environ, "PYTHONPATH": str(Path(streamtune.__file__).parents[1])}, timeout=60, check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    assert len(Journal(tmp_path / "killed").trials) == 12
    problem = load_problem(path)
    resumed = run(problem, tmp_path / "killed", 14, strategy=strategy)
    uninterrupted = make_strategy(strategy, problem, seed=1)
    whole = replay(problem, uninterrupted, measured(lambda knobs: 10 - (float(knobs["x"]) - 0.3) ** 2), 14)
    assert plain(resumed) == [(one.number, one.knobs, one.value, False) for one in whole]


def test_repeats_and_their_spread(tmp_path: Path) -> None:
    problem = load_problem(space_file(tmp_path, repeats=3))
    outcome = run(problem, tmp_path / "store", 2)
    assert [len(one.values) for one in outcome.trials if not one.failed] == [3] * sum(
        not t.failed for t in outcome.trials
    )
    assert outcome.trials[0].spread in (0.0, None)


def test_a_hopeless_trial_gets_no_more_repeats(tmp_path: Path) -> None:
    problem = load_problem(space_file(tmp_path, repeats=3, hopeless=0.999))
    outcome = run(problem, tmp_path / "store", 6)
    assert {len(one.measurements) for one in outcome.trials} > {3} or {1, 3} == {
        len(one.measurements) for one in outcome.trials
    }


@pytest.mark.parametrize(
    ("command", "timeout", "reason"),
    [
        (["sleep", "30"], 0.3, "no result within 0.3 s"),
        (["/nonexistent/program"], 5, "cannot be started"),
        (["sh", "-c", "echo done"], 5, "the last line must be a number"),
        (["sh", "-c", "echo nan"], 5, "the last line must be a number"),
        (["sh", "-c", "echo '{\"value\": null}'"], 5, "must be a finite number"),
        (["true"], 5, "the last line must be a number"),
        (["sh", "-c", "kill -9 $$"], 5, "exit code -9"),
        (["sh", "-c", "echo 5; exit 1"], 5, "exit code 1"),
    ],
)
def test_what_counts_as_failed(tmp_path: Path, command: list[str], timeout: float, reason: str) -> None:
    spec = ObjectiveSpec(command=tuple(command), timeout=timeout)
    problem = load_problem(space_file(tmp_path))
    one = CommandObjective(spec, problem.space, tmp_path / "runs").measure(0, 0, {"x": 0.5, "n": 3})
    assert one.failed
    assert reason in one.reason


def test_a_command_leaves_no_process_behind(tmp_path: Path) -> None:
    spec = ObjectiveSpec(command=("sh", "-c", f"sleep 60 & echo $! > {tmp_path}/pid; echo 1"), timeout=5)
    problem = load_problem(space_file(tmp_path))
    assert CommandObjective(spec, problem.space, tmp_path / "runs").measure(0, 0, {"x": 0.5, "n": 3}).value == 1.0
    time.sleep(0.1)
    stat = Path(f"/proc/{int((tmp_path / 'pid').read_text())}/stat")
    assert not stat.exists() or ") Z " in stat.read_text()


def test_a_run_gets_its_own_session(tmp_path: Path) -> None:
    spec = ObjectiveSpec(command=(sys.executable, "-c", "import os; print(os.getsid(0) == os.getpid() and 1 or 0)"))
    problem = load_problem(space_file(tmp_path))
    assert CommandObjective(spec, problem.space, tmp_path / "runs").measure(0, 0, {"x": 0.5, "n": 3}).value == 1.0


def test_requirements_over_figures() -> None:
    spec = ObjectiveSpec(require="throughput >= 100")
    assert not read_output('{"value": 3, "throughput": 120}', spec).failed
    short = read_output('{"value": 3, "throughput": 80}', spec)
    assert short.failed
    assert short.reason == "'throughput >= 100' is not met: throughput = 80.0"


def test_readings_of_operators_are_kept_and_bad_ones_ignored() -> None:
    good = read_output(
        '{"value": 1, "operators": {"join": {"rate": 10, "busy": 0.5, "parallelism": 2}}}', ObjectiveSpec()
    )
    assert good.operators["join"].busy == 0.5
    bad = read_output('{"value": 1, "operators": {"join": {"rate": -1}}}', ObjectiveSpec())
    assert bad.value == 1.0
    assert bad.operators == {}


def test_restore_puts_the_job_back_after_a_failure(tmp_path: Path) -> None:
    restored = tmp_path / "restored"
    problem = load_problem(space_file(tmp_path, restore=["sh", "-c", f"echo {{n}} >> {restored}"]))
    outcome = run(problem, tmp_path / "store", 10)
    failures = [one.number for one in outcome.trials if one.failed]
    assert len(restored.read_text().split()) == len(failures)


def test_a_crash_before_the_restore_is_made_good(tmp_path: Path) -> None:
    restored = tmp_path / "restored"
    problem = load_problem(space_file(tmp_path, restore=["sh", "-c", f"echo {{n}} >> {restored}"]))
    steps = 1 + next(one.number for one in run(problem, tmp_path / "store", 10).trials if one.failed)
    restored.unlink()
    run(problem, tmp_path / "killed", steps)
    journal = tmp_path / "killed" / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    assert '"restored"' in lines[-1]
    journal.write_text("".join(lines[:-1]))  # as if killed between the end of the failed trial and the restore
    run(problem, tmp_path / "killed", steps)
    run(problem, tmp_path / "killed", steps)
    assert len(restored.read_text().split()) == 2  # once before the crash, once after it, not at every resume


BEGIN = "import subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True).wait()"


@pytest.mark.parametrize(("whole_tree", "attempts", "ends"), [(True, 4, True), (False, 2, False)])
def test_only_a_run_that_vanishes_alone_is_given_up(
    tmp_path: Path, whole_tree: bool, attempts: int, ends: bool
) -> None:
    """A kill of everything, however often, says nothing about the configuration."""
    marker = tmp_path / "marker"
    command = ["sh", "-c", f"test -e {marker} && echo 7 || sleep 60"]
    supervise = [sys.executable, "-I", "-S", supervisor.__file__, str(tmp_path), "30", *command]
    for _ in range(attempts):  # killed are the one that began it, or this test lives on, the supervisor, the command
        begun = [sys.executable, "-I", "-S", "-c", BEGIN, *supervise] if whole_tree else supervise
        process = subprocess.Popen(begun)
        command_id = wait_for_command(tmp_path)
        supervisor_id = int(Path(f"/proc/{command_id}/stat").read_text().rpartition(")")[2].split()[1])
        for pid in {process.pid, supervisor_id, command_id}:
            os.kill(pid, signal.SIGKILL)
        process.wait()
        (tmp_path / "command.json").unlink()
    marker.touch()
    subprocess.run(supervise, check=True, timeout=30)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["code"] == (0 if ends else None)
    assert ends or result["problem"] == "the run vanished without a result 2 times"


def wait_for_command(folder: Path) -> int:
    deadline = time.monotonic() + 20
    while (started := supervisor.read_json(folder / "command.json")) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return int(started["pid"])


def test_a_run_that_timed_out_is_read_again_without_a_timeout(tmp_path: Path) -> None:
    problem = load_problem(space_file(tmp_path))
    spec = ObjectiveSpec(command=("sleep", "30"), timeout=0.2)
    first = CommandObjective(spec, problem.space, tmp_path / "runs").measure(0, 0, {"x": 0.5, "n": 3})
    patient = spec.model_copy(update={"timeout": None})
    again = CommandObjective(patient, problem.space, tmp_path / "runs").measure(0, 0, {"x": 0.5, "n": 3})
    assert first.reason == again.reason == "no result within 0.2 s"


def test_a_placeholder_without_quotes_is_read_as_one() -> None:
    data = yaml.safe_load("{objective: {command: [run, {n}, 3]}, knobs: {n: {type: int, low: 1, high: 2}}}")
    problem = parse_problem(data, "space.yaml")
    assert problem.objective.command == ("run", "{n}", "3")
    assert problem.unused_knobs() == []
    data["objective"]["command"] = ["run", {"n": 1}]
    with pytest.raises(StreamTuneError, match=r"must be a text or a number, but got .'n': 1.: put it in quotes"):
        parse_problem(data, "space.yaml")


def test_budgets() -> None:
    from autoconfig.problems import measured, mixed, mixed_value
    from streamtune.autoconfig.session import replay
    from streamtune.autoconfig.strategies import make_strategy

    problem = mixed()
    trials = replay(problem, make_strategy("random", problem, seed=0), measured(mixed_value), 3)
    slow = [
        one.model_copy(update={"measurements": (one.measurements[0].model_copy(update={"seconds": 10.0}),)})
        for one in trials
    ]
    assert Budget(steps=3).spent(slow) == "3 steps"
    assert Budget(steps=9, seconds=41).spent(slow) is None  # 30 s used, 10 s expected: 40 ≤ 41
    assert Budget(steps=9, seconds=39).spent(slow) == "time: 30 of 39 s, the next trial would take about 10 s"
    # 30 s at 360 an hour are 3.00; a fourth trial would make it 4.00.
    assert (
        Budget(steps=9, money=3.5, price_per_hour=360).spent(slow)
        == "money: 3 of 3.5, the next trial would take about 1"
    )


def test_a_budget_is_kept_and_another_one_replaces_it(tmp_path: Path) -> None:
    from streamtune.autoconfig.report import read_session

    problem, store = load_problem(space_file(tmp_path)), tmp_path / "store"
    objective = CommandObjective(problem.objective, problem.space, store / "runs")
    for budget in (
        Budget(steps=1, seconds=50),
        Budget(steps=1, seconds=50),
        Budget(steps=2, money=3, price_per_hour=1),
    ):
        run_session(problem, Plan("random", 1, budget), objective, store)
        assert read_session(store).budget == budget
    journal = store / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [line["kind"] for line in lines].count("budget") == 1  # the same one again is no news
    assert lines[0].pop("budget")["seconds"] == 50
    old = [line for line in lines if line["kind"] != "budget"]  # as sessions were before there was such a line
    journal.write_text("".join(json.dumps(line) + "\n" for line in old))
    assert read_session(store).budget == Budget(steps=1)


@pytest.mark.parametrize("strategy", ["random", "ours"])
def test_reordered_knobs_go_on_with_the_same_session(tmp_path: Path, strategy: str) -> None:
    problem = load_problem(space_file(tmp_path))
    turned = problem.in_order(reversed(list(problem.space.knobs)))
    assert turned.fingerprint == problem.fingerprint
    assert list(turned.space.knobs) == ["n", "x"]
    run(problem, tmp_path / "turned", 3, strategy=strategy)
    again = run(turned, tmp_path / "turned", 7, strategy=strategy)
    assert plain(again) == plain(run(problem, tmp_path / "whole", 7, strategy=strategy))


def test_a_store_belongs_to_one_session(tmp_path: Path) -> None:
    problem = load_problem(space_file(tmp_path))
    run(problem, tmp_path / "store", 1)
    with pytest.raises(StoreError, match="holds a session with seed 1, not 2"):
        run(problem, tmp_path / "store", 1, seed=2)
    with pytest.raises(StoreError, match="strategy random, not tpe"):
        run(problem, tmp_path / "store", 1, strategy="tpe")
    other = problem.model_copy(update={"objective": ObjectiveSpec(command=("true",))})
    with pytest.raises(StoreError, match="another space or objective"):
        run(other, tmp_path / "store", 1)
    with Journal(tmp_path / "store").locked(), pytest.raises(StoreError, match="in use by another session"):
        run(problem, tmp_path / "store", 2)


def test_a_damaged_journal_is_named(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text("nonsense\n", encoding="utf-8")
    with pytest.raises(StoreError, match="line 1 is damaged"):
        Journal(tmp_path)
