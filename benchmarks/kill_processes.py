"""``make bench-kill``, second part: kill −9 of tune, collect, learn and serve at every step, and at random moments.

A step is what somebody else could see the difference of: a file opened to be written, renamed or removed, a transaction
begun, all but committed and committed, a line of an audit trail, a request that changes a job (tests/faults/server.py
counts them). After each kill the same command runs again, and what both left is checked (tests/faults/processes.py).
``learn`` runs here without Spark: its steps on Spark are those that kill_pipeline.py kills; LEARN_ON_SPARK=1 kills the
real one too, at each step that it announces. TUNE_ON_ENGINES=1 kills ``tune`` on a real Timely and a real Flink as well
(kill_engines.py), at ENGINE_STEPS (12) steps and ENGINE_KILLS (3) random moments of each.

KILLS (10): kills at random moments of each process; MOST_STEPS (100): of processes with more steps than that, so many
are taken, evenly. PROCESSES: which of them. Every trial is noted in WORK (build/kill): started again, the benchmark
goes on. Prints the matrix; writes benchmarks/results/kill_processes.json, where rows of processes that were not killed
this time stay as they are.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

# The tests in the place of this folder, whose history.py would hide the tests' folder of that name.
sys.path[0] = str(Path(__file__).parents[1] / "tests")

from faults.processes import PROCESSES, Server, Trial, a_server  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "kill_processes.json"
DRAWS = 6


def noted(notes: Path) -> dict[str, dict[str, Any]]:
    lines = notes.read_text().splitlines() if notes.exists() else []
    return {entry["kill"]: entry for entry in map(json.loads, lines)}


def kills_of(kind: Any, server: Server, work: Path, random_kills: int, most_steps: int) -> None:
    notes = work / f"process-{kind.name}.jsonl"
    process: Any = None

    def made() -> Any:
        nonlocal process
        process = process or kind(server, work / f"process-{kind.name}")
        return process

    def note(kill: str, trial: Trial | None) -> None:
        if trial is not None:
            entry = {"kill": kill, **asdict(trial), "steps": made().steps}
            print(f"{kind.name:8} {kill:14} {trial.last_step:45} {'; '.join(trial.wrong) or 'ok'}", flush=True)
            with notes.open("a") as file:
                file.write(json.dumps(entry) + "\n")

    try:
        _kills_of(kind, noted(notes), made, note, random_kills, most_steps)
    finally:
        if process is not None:
            process.close()


def _kills_of(
    kind: Any,
    known: dict[str, dict[str, Any]],
    made: Callable[[], Any],
    note: Callable[[str, Trial | None], None],
    random_kills: int,
    most_steps: int,
) -> None:
    steps = next((entry["steps"] for entry in known.values()), None) or made().steps
    chosen = sorted({1 + round(number * (steps - 1) / (most_steps - 1)) for number in range(most_steps)})
    for step in range(1, steps + 1) if steps <= most_steps else chosen:
        if f"step {step}" not in known:
            note(f"step {step}", made().kill(kill_at=step))
    for number in range(random_kills):
        draw = random.Random(f"{kind.name}-{number}")
        for _ in range(DRAWS):
            if f"random {number}" in known:
                break
            trial = made().kill(kill_after_s=draw.uniform(0, made().seconds))
            if trial is not None:
                note(f"random {number}", trial)
                break


def learn_on_spark(work: Path) -> None:
    """The real ``learn``: killed at each step that it announces, then run again to its end."""
    from history.killing import run_step
    from service.test_learn import write_days
    from streamtune.service.learn.rounds import STEPS
    from streamtune.service.store import Store

    notes = work / "process-learn-on-spark.jsonl"
    base = work / "learn-base"
    if not (base / "whole").exists():
        shutil.rmtree(base, ignore_errors=True)
        write_days(base / "data", 0, 3)
        (base / "whole").touch()
    for step in STEPS:
        if step in noted(notes):
            continue
        place = work / "learn-place"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(base / "data", place / "data")
        store = f"sqlite:///{place}/service.db"
        words = ["learn", "--data", str(place / "data"), "--store", store, "--min-runs", "30", "--epochs", "2",
                 "--spark-master", "local[2]", "--spark-conf", "spark.driver.memory=1g"]  # fmt: skip
        killed = run_step(words, place, lambda log, step=step: f"{step}: " in log, kill_after_s=0.5)
        trial = Trial("learn", f"announced {step}")
        again = run_step(words, place, lambda _log: True)
        over = not killed.killed or "are fewer than" in again.log
        trial.expect(again.code == 0 or over, f"run again it ended with {again.code}: {again.log[-300:]}")
        repeated = [one for one in STEPS[: STEPS.index(step)] if re.search(rf"^{one}: \d of", again.log, re.M)]
        trial.expect(not repeated, f"done again: {repeated}")
        opened = Store(store)
        models = [model.status for model in opened.models.all()]
        said = [entry.what for entry in opened.audit.newest(100) if "model" in entry.what]
        opened.close()
        trial.expect(models == ["running"], f"models: {models}")
        trial.expect(said == ["model_promoted"], f"said: {said}")
        entry = {"kill": step, **asdict(trial), "steps": len(STEPS)}
        print(f"learn on Spark, killed at {step}: {'; '.join(trial.wrong) or 'ok'}", flush=True)
        with notes.open("a") as file:
            file.write(json.dumps(entry) + "\n")


def on_engines(server: Server, work: Path, wanted: list[str]) -> None:
    sys.path.append(str(Path(__file__).parent))
    from kill_engines import ENGINES

    sys.path.pop()
    kills, steps = int(os.environ.get("ENGINE_KILLS", "3")), int(os.environ.get("ENGINE_STEPS", "12"))
    for kind in (kind for kind in ENGINES if kind.name in wanted):
        kills_of(kind, server, work, kills, steps)


ON_ENGINES = ("tune-on-timely", "tune-on-flink")


def summarised(work: Path) -> bool:
    names = [*(kind.name for kind in PROCESSES), *ON_ENGINES, "learn-on-spark"]
    entries = {name: list(noted(work / f"process-{name}.jsonl").values()) for name in names}
    matrix: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text())["matrix"] if RESULTS.exists() else {}
    for name, found in entries.items():
        if not found:
            print(f"{name:24} {'as it was' if name in matrix else 'not killed yet'}")
            continue
        bad = [entry for entry in found if entry["wrong"]]
        at_steps = sum(not entry["kill"].startswith("random") for entry in found)
        matrix[name] = {
            "steps_of_a_whole_run": found[0]["steps"],
            "kills_at_steps": at_steps,
            "kills_at_random_moments": len(found) - at_steps,
            "without_a_trace": len(found) - len(bad),
            "killed_at": Counter(entry["last_step"] for entry in found),
            "wrong": [{"kill": entry["kill"], "wrong": entry["wrong"]} for entry in bad],
        }
        print(
            f"{name:24} {found[0]['steps']:4} steps, killed at {at_steps} of them and {len(found) - at_steps} times "
            f"at random: {len(found) - len(bad)} of {len(found)} without a trace"
        )
    RESULTS.write_text(json.dumps({"matrix": matrix}, indent=1) + "\n")
    return not any(row["wrong"] for row in matrix.values())


def main() -> None:
    kills, most_steps = int(os.environ.get("KILLS", "10")), int(os.environ.get("MOST_STEPS", "100"))
    wanted = os.environ.get("PROCESSES", ",".join(kind.name for kind in PROCESSES)).split(",")
    work = Path(os.environ.get("WORK", "build/kill")).absolute()
    work.mkdir(parents=True, exist_ok=True)
    with a_server() as server:
        for kind in (kind for kind in PROCESSES if kind.name in wanted):
            kills_of(kind, server, work, kills, most_steps)
        if os.environ.get("TUNE_ON_ENGINES"):
            on_engines(server, work, os.environ.get("PROCESSES", ",".join(ON_ENGINES)).split(","))
    if os.environ.get("LEARN_ON_SPARK"):
        learn_on_spark(work)
    sys.exit(0 if summarised(work) else 1)


if __name__ == "__main__":
    main()
