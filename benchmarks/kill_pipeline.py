"""``make bench-kill``: kill −9 of every step of the pipeline at random moments, then again; nothing may show it.

Each step (ingest in batch and as a stream, label, featurise, cluster, pretrain) runs as a real ``streamtune`` process
in a session of its own. At a moment drawn by the seed after its first progress the whole session is killed, JVM
included. What is there then must be what was there before, or parts of the result that are whole; after the step has
run again, its tables are those of an undisturbed run, row for row, and nothing is left over; two undisturbed runs must
compare equal, or the benchmark stops. Prints a matrix and writes
``benchmarks/results/kill_pipeline.json``. KILLS (10): how often each step is killed; STEPS: which of them; SEED.
Every trial is noted in WORK (build/kill): started again, the benchmark goes on; remove the folder to begin anew. Calls
with different STEPS may run beside each other once the folders that they start from are made.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[1] / "tests")  # in the place of this folder, which has a history.py

from history.killing import Ended, bundle_of, leftovers, manifest_of, run_step, table_rows  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "kill_pipeline.json"
# Compiled quickly rather than well: each step is short, and most of it is Java starting.
QUICK_JAVA = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SPARK = ("--spark-master", "local[2]", "--spark-conf", "spark.driver.memory=1g", "--spark-conf", QUICK_JAVA)
RUNS = 300
FILES = 6
# How often another moment is drawn where the step was done before it came.
DRAWS = 6

State = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """A step, what it needs, and how its first progress shows."""

    name: str
    arguments: Callable[[Path], list[str]]
    announced: Callable[[Path, str], bool]
    base: str  # the folder that a trial starts from
    outputs: Callable[[Path], State]


@dataclass(frozen=True)
class Trial:
    """One kill: when, what was there then, and what the same step made of it."""

    step: str
    seed: int
    after_s: float
    after_the_kill: str
    same_in_the_end: bool
    left_over: list[str]


def tables(*names: str) -> Callable[[Path], State]:
    return lambda place: {name: table_rows(place / "history" / name) for name in names}


def featurised(place: Path) -> State:
    """Features, and the encoder that is kept with them."""
    return {
        **tables("features")(place),
        "encoder": manifest_of(place / "history/features")["properties"].get("encoder"),
    }


def clustered(place: Path) -> State:
    import pyarrow.parquet as pq

    folder = place / "clusters"
    if not folder.exists():
        return {"clusters": None}
    summary = json.loads((folder / "clusters.json").read_text())
    return {"clusters": ({**summary, "history": ""}, pq.read_table(folder / "assignment.parquet").to_pylist())}


def pretrained(place: Path) -> State:
    """The bundle as a reader takes it, and the table that it was trained on."""
    return {"model": bundle_of(place / "model"), **tables("training")(place)}


def has_shuffled(place: Path) -> bool:
    """Has Spark written the first rows of a stage? Such steps print nothing between their start and their end."""
    return any((place.parent / "scratch").glob("blockmgr-*/*/*"))


def history(place: Path) -> str:
    return str(place / "history")


STEPS = (
    Step(
        "ingest",
        lambda place: ["history", "ingest", history(place), str(place / "in"), *SPARK],
        lambda place, _log: any((place / "history").glob("_staging/*")),
        "input",
        tables("runs", "rejected"),
    ),
    Step(
        "stream",
        lambda place: [
            "history",
            "ingest",
            history(place),
            str(place / "in"),
            "--follow",
            "--once",
            "--max-files",
            "1",
            *SPARK,
        ],
        lambda _place, log: " valid, +" in log,
        "input",
        tables("runs", "rejected"),
    ),
    Step(
        "label",
        lambda place: ["history", "label", history(place), *SPARK],
        lambda place, _log: (place / "history/labels/part=label-000002").exists(),
        "ready",
        tables("labels"),
    ),
    Step(
        "featurise",
        lambda place: ["history", "featurise", history(place), *SPARK],
        lambda place, _log: has_shuffled(place),
        "ready",
        featurised,
    ),
    Step(
        "cluster",
        lambda place: ["cluster", history(place), "--out", str(place / "clusters"), "--k", "3", *SPARK],
        lambda place, _log: has_shuffled(place),
        "ready",
        clustered,
    ),
    Step(
        "pretrain",
        lambda place: ["pretrain", history(place), "--out", str(place / "model"), "--epochs", "3", *SPARK],
        lambda _place, log: "global: training" in log,
        "ready",
        pretrained,
    ),
)


def done(arguments: list[str], work: Path) -> Ended:
    ended = run_step(arguments, work, lambda _log: True)
    if ended.code != 0:
        raise SystemExit(f"streamtune {' '.join(arguments)} failed:\n{ended.log}")
    return ended


def write_input(work: Path) -> None:
    """Runs of the simulator as files to ingest, with some broken lines and some runs twice."""
    import pyarrow.parquet as pq

    done(["history", "generate", str(work / "generated"), "--runs", str(RUNS), *SPARK], work)
    rows = [
        {**row, "source_rates": dict(row["source_rates"]), "observed_at": row["observed_at"].isoformat()}
        for file in sorted((work / "generated/runs").rglob("*.parquet"))
        for row in pq.ParquetFile(file).read().to_pylist()
    ]
    lines = sorted(json.dumps({key: row[key] for key in row if key != "content_hash"}, default=dict) for row in rows)
    folder = work / "input" / "in"
    folder.mkdir(parents=True)
    for number in range(FILES):
        mine = [*lines[number::FILES], lines[0], "broken", json.dumps({"run_id": "half"})]
        (folder / f"{number}.jsonl").write_text("".join(f"{line}\n" for line in mine))


def write_ready(work: Path) -> None:
    """A history with labels, features, clusters and a model that another rule or seed has made: to be replaced."""
    place = work / "ready"
    shutil.copytree(work / "input", place)
    done(["history", "ingest", history(place), str(place / "in"), *SPARK], work)
    done(["history", "label", history(place), "--threshold", "0.5", *SPARK], work)
    done(["history", "featurise", history(place), "--test-share", "0.5", *SPARK], work)
    done(["cluster", history(place), "--out", str(place / "clusters"), "--k", "2", *SPARK], work)
    done(["pretrain", history(place), "--out", str(place / "model"), "--epochs", "1", "--seed", "7", *SPARK], work)


def place_for(step: Step, work: Path) -> Path:
    """A fresh copy, always at the same address and with its dates: files are known by both."""
    place = work / f"trial-{step.name}" / "place"
    shutil.rmtree(place.parent, ignore_errors=True)
    shutil.copytree(work / step.base, place)
    return place


def what_is_there(now: State, before: State, after: State) -> str:
    """ "before", "after", "parts" of the result that are whole, or "MIXED", which nobody should see."""
    if now == before:
        return "before"
    if now == after:
        return "after"
    if all(now[name] in (before[name], after[name]) for name in now):  # one output is new, another not yet
        return "parts"
    counted = [name for name, rows in now.items() if isinstance(rows, Counter)]
    if len(counted) == len(now) > 1 and all(now[name] <= before[name] + after[name] for name in counted):
        return "parts"
    return "MIXED"


def try_one(step: Step, work: Path, seed: int, before: State, after: State, duration_s: float) -> Trial:
    draw = random.Random(f"{step.name}-{seed}")
    for _ in range(DRAWS):
        place = place_for(step, work)
        moment = draw.uniform(0, duration_s)
        ended = run_step(step.arguments(place), place.parent, partial(step.announced, place), kill_after_s=moment)
        if ended.killed:
            break
    else:
        raise SystemExit(f"{step.name}: {DRAWS} times done before it could be killed:\n{ended.log}")
    there = what_is_there(step.outputs(place), before, after)
    again = run_step(step.arguments(place), place.parent, lambda _log: True)
    same = again.code == 0 and step.outputs(place) == after
    if again.code != 0:
        print(again.log[-2000:])
    return Trial(step.name, seed, round(moment, 2), there, same, [*leftovers(place), *leftovers(place / "history")])


def prepared(work: Path) -> None:
    """The folders that trials start from; made once, so that the benchmark can go on where it was stopped."""
    for name, write in (("input", write_input), ("ready", write_ready)):
        done_with = work / f"{name}.done"
        if not done_with.exists():
            shutil.rmtree(work / name, ignore_errors=True)
            write(work)
            done_with.touch()


def trials_of(step: Step, work: Path, seeds: range) -> None:
    """Kill one step once for each seed that no earlier call has done; each trial is noted as soon as it is over."""
    notes = work / f"{step.name}.jsonl"
    noted = {trial.seed for trial in noted_trials(notes)}
    waiting = [seed for seed in seeds if seed not in noted]
    if not waiting:
        return
    place = place_for(step, work)
    before = step.outputs(place)
    whole = undisturbed(step, place)
    after = step.outputs(place)
    place = place_for(step, work)
    undisturbed(step, place)
    # A comparison that counts what differs in any two runs would say nothing, and so would one that sees no difference.
    if step.outputs(place) != after or before == after:
        raise SystemExit(f"{step.name}: two undisturbed runs must compare equal, and not with what was there before")
    for seed in waiting:
        trial = try_one(step, work, seed, before, after, whole.after_first_s)
        show(trial)
        with notes.open("a") as file:
            file.write(json.dumps(asdict(trial)) + "\n")
    shutil.rmtree(place.parent, ignore_errors=True)


def undisturbed(step: Step, place: Path) -> Ended:
    ended = run_step(step.arguments(place), place.parent, partial(step.announced, place))
    if ended.code != 0:
        raise SystemExit(f"{step.name} failed undisturbed:\n{ended.log}")
    return ended


def noted_trials(notes: Path) -> list[Trial]:
    return [Trial(**json.loads(line)) for line in notes.read_text().splitlines()] if notes.exists() else []


def main() -> None:
    kills, first_seed = int(os.environ.get("KILLS", "10")), int(os.environ.get("SEED", "0"))
    wanted = os.environ.get("STEPS", ",".join(step.name for step in STEPS)).split(",")
    work = Path(os.environ.get("WORK", "build/kill")).absolute()
    work.mkdir(parents=True, exist_ok=True)
    prepared(work)
    for step in (step for step in STEPS if step.name in wanted):
        trials_of(step, work, range(first_seed, first_seed + kills))
    sys.exit(0 if summarised(work) else 1)


def summarised(work: Path) -> bool:
    """Print and write down what all calls so far have found; is it as it should be?"""
    trials = [trial for step in STEPS for trial in noted_trials(work / f"{step.name}.jsonl")]
    bad = [trial for trial in trials if not is_good(trial)]
    matrix = {step.name: Counter(trial.after_the_kill for trial in trials if trial.step == step.name) for step in STEPS}
    for name, found in matrix.items():
        seen = ", ".join(f"{count} × {what}" for what, count in found.items())
        print(f"{name:10} {sum(found.values()):3} kills, found: {seen or 'nothing yet'}")
    print(f"{len(trials)} kills, {len(trials) - len(bad)} without a trace")
    RESULTS.write_text(
        json.dumps(
            {
                "kills": len(trials), "runs": RUNS, "without_a_trace": len(trials) - len(bad),
                "found_after_the_kill": matrix, "trials": [asdict(trial) for trial in trials],
            },
            indent=1,
        ) + "\n"
    )  # fmt: skip
    return not bad


def is_good(trial: Trial) -> bool:
    return trial.same_in_the_end and trial.after_the_kill != "MIXED" and not trial.left_over


def show(trial: Trial) -> None:
    verdict = "ok" if is_good(trial) else "BAD"
    end = "same" if trial.same_in_the_end else "OTHER"
    print(
        f"{trial.step:10} seed {trial.seed:3}  killed {trial.after_s:6.2f} s after its first progress, found: "
        f"{trial.after_the_kill:6}  in the end: {end}  left over: {trial.left_over or 'nothing'}  {verdict}",
        flush=True,
    )


if __name__ == "__main__":
    main()
