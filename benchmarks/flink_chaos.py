"""``make bench-flink-chaos``: a real Flink under chaos while ``streamtune tune --watch`` is at work on it.

    python benchmarks/flink_chaos.py                                  # whatever is not measured yet
    python benchmarks/flink_chaos.py --scenarios tm-measuring slots   # these two, anew
    python benchmarks/flink_chaos.py --show                           # the table of what was measured

Each scenario has a cluster of its own, and a job whose records are numbered and written to files exactly once
(``chaos_site.py``). One thing goes wrong (``chaos_scenarios.py``); then the job is left to finish, and the records in
its files are counted: none may be missing, none may be there twice. The scenarios with hosts and with a folder that
cannot be written need root. Each is kept in ``benchmarks/results/flink_chaos.json`` as soon as it is over.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from chaos_scenarios import SCENARIOS, Scenario
from chaos_site import ChaosError, Stage, a_stage, make_jar

from streamtune.errors import StreamTuneError
from streamtune.labs.flink import FlinkDistribution

HERE = Path(__file__).parent
ENDED_WHEN_TOLD = (0, 130)
# What tune writes down on every window; the rest is its answer to the fault.
ROUTINE = {"attached", "observed", "recommended", "deploying", "deployed", "stopped", "rates_changed"}


def played(scenario: Scenario, jar: Path, work: Path) -> dict[str, Any]:
    """Play a scenario on a cluster of its own; what was counted, done and said."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    began = time.monotonic()
    with scenario.cluster(work) as cluster, a_stage(cluster, jar, work, records=scenario.records) as stage:
        try:
            scenario.play(stage)
            stage.finish()
        except (ChaosError, StreamTuneError) as error:
            stage.wrong.append(str(error))
        found = judged(stage)
    return {"scenario": scenario.title, **found, "seconds": round(time.monotonic() - began)}


def judged(stage: Stage) -> dict[str, Any]:
    tune = stage.tune
    alive = tune is not None and tune.process.poll() is None
    stage.expect(alive, "tune ended by itself")
    code = None if tune is None else tune.end()
    stage.expect(code in ENDED_WHEN_TOLD, f"told to end, tune ended with {code}")
    events = [] if tune is None else [event for event in tune.events() if not _is_of_the_end(event)]
    said = [] if tune is None else tune.said()
    stage.expect(not any("Traceback" in line for line in said), "tune said a traceback")
    seen = stage.job.committed()
    lost = stage.job.records - sum(1 for number in range(stage.job.records) if seen[number])
    doubled = sum(times - 1 for times in seen.values())
    stage.expect(not lost and not doubled, f"{lost} records lost, {doubled} doubled")
    stage.expect(set(seen) <= set(range(stage.job.records)), "records that nobody sent")
    return {
        "records": stage.job.records,
        "committed": sum(seen.values()),
        "lost": lost,
        "doubled": doubled,
        "changes": sum(event["event"] == "deployed" for event in events),
        "faults": stage.faults,
        "noted": dict(Counter(event["event"] for event in events if event["event"] not in ROUTINE)),
        "told": [event["error"] for event in events if "error" in event],
        "exit_code": code,
        "wrong": stage.wrong,
        "said": said[-40:],
    }


def _is_of_the_end(event: dict[str, Any]) -> bool:
    """Whether it says no more than that the job has done its work."""
    return "is FINISHED" in str(event.get("error", event.get("reason", "")))


class Measured:
    """The scenarios so far; each is written as soon as it is there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def keep(self, name: str, value: Any) -> None:
        self.found[name] = value
        self._path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self._path.with_suffix(".new")
        scratch.write_text(json.dumps(self.found, indent=1) + "\n")
        scratch.replace(self._path)


def show(found: dict[str, Any]) -> None:
    """The table of the docs."""
    print("| scenario | records | committed | lost | doubled | changes | tune noted | exit code | seconds |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |")
    for name in SCENARIOS:
        if name not in found:
            print(f"| {SCENARIOS[name].title} | not measured yet | | | | | | | |")
            continue
        one = found[name]
        noted = ", ".join(f"{what.replace('_', ' ')} {times} ×" for what, times in one["noted"].items()) or "nothing"
        print(
            f"| {one['scenario']} | {one['records']:,} | {one['committed']:,} | {one['lost']} | {one['doubled']} "
            f"| {one['changes']} | {noted} | {one['exit_code']} | {one['seconds']} |"
        )


def parsed() -> argparse.Namespace:
    listed = "\n".join(f"  {name:15} {scenario.title}" for name, scenario in SCENARIOS.items())
    arguments = argparse.ArgumentParser(
        description=f"{__doc__}\nScenarios:\n{listed}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--scenarios", nargs="+", choices=list(SCENARIOS), help="these, measured anew")
    arguments.add_argument("--show", action="store_true", help="measure nothing, print the table")
    arguments.add_argument("--results", type=Path, default=HERE / "results/flink_chaos.json")
    arguments.add_argument("--work", type=Path, default=Path("build/flink-chaos"), help="for logs, trails and files")
    return arguments.parse_args()


def main() -> None:
    chosen = parsed()
    # Started in the background by a shell, SIGINT is ignored, and 'tune', which is ended by it, would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    measured = Measured(chosen.results)
    names = chosen.scenarios or [name for name in SCENARIOS if name not in measured.found]
    bad = []
    if not chosen.show:
        work = chosen.work.absolute()
        jar = make_jar(FlinkDistribution.find(), work)
        for name in names:
            print(f"{name}: {SCENARIOS[name].title}", flush=True)
            found = played(SCENARIOS[name], jar, work / name)
            print(f"  {'; '.join(found['wrong']) or 'ok'} ({found['seconds']} s)", flush=True)
            measured.keep(name, found)
            bad += [name] if found["wrong"] else []
    show(measured.found)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
