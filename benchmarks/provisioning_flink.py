"""The part ``flink`` of benchmarks/provisioning.py: proactive against reactive on a real Flink.

    python benchmarks/provisioning.py flink-choice        how proactive StreamTune is set, on the simulator (minutes)
    python benchmarks/provisioning.py flink               three repetitions of a day in 12 minutes, on a quiet machine
    python benchmarks/provisioning.py flink --minutes 1.5 --repetitions 1 --trace taxi --tiny    to see that it runs

Which days: of every trace that is called seasonal, the first of the test days of the part ``days``. All contenders on
all of them run side by side, repetition after repetition.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from streamtune.experiments.provisioning.compressed import CompressedDay, CompressedStudy, chosen_setting
from streamtune.experiments.provisioning.days import Setting
from streamtune.experiments.provisioning.flink_day import Contender, Lane, run_lanes

AUDITS = Path("build/provisioning-flink")
RIVALS = (
    Contender("reactive StreamTune", Setting("streamtune")),
    Contender("DS2", Setting("ds2", 0.0)),
    Contender("DS2 +20 %", Setting("ds2", 0.2)),
)


class Kept(Protocol):
    """Runs that were made before, and those of now."""

    runs: list[dict[str, Any]]

    def has(self, *key: str) -> bool: ...

    def add(self, run: dict[str, Any]) -> None: ...


def choices(kept: Kept, test_days: Mapping[str, int], study: CompressedStudy, say: Callable[[str], None]) -> None:
    """Of every trace, what the day before its test day chose."""
    for trace, day in test_days.items():
        if not kept.has(trace):
            kept.add(chosen_setting(trace, day, study))
            say(f"{trace}: {kept.runs[-1]['forecaster']}, {kept.runs[-1]['setting']}")


def repetitions(
    kept: Kept,
    chosen: Path,
    test_days: Mapping[str, int],
    times: int,
    study: CompressedStudy,
    say: Callable[[str], None],
    methods: Sequence[str] | None = None,
) -> None:
    """What is missing of each repetition, side by side; a lane that failed is told and missing again."""
    if not chosen.is_file():
        raise SystemExit(f"{chosen} is missing: run the part flink-choice first")
    settings = {one["trace"]: one["setting"] for one in json.loads(chosen.read_text())["runs"]}
    days = {trace: CompressedDay.of(trace, day, day - 1, study) for trace, day in test_days.items()}
    for number in range(1, times + 1):
        lanes = [
            Lane(days[trace], contender)
            for trace in test_days
            for contender in (Contender("proactive StreamTune", Setting("ahead", **settings[trace])), *RIVALS)
            if not kept.has(trace, contender.name, str(number)) and (not methods or contender.name in methods)
        ]
        if not lanes:
            continue
        say(f"repetition {number}: {len(lanes)} lanes")
        audits = AUDITS / str(number)
        audits.mkdir(parents=True, exist_ok=True)
        for row in run_lanes(lanes, study, say, audits):
            told = f"  {row['trace']:6} {row['method']:22} "
            if row["error"] is not None:
                say(f"{told} failed: {row['error']}")
                continue
            day = {"repetition": str(number), "day": test_days[row["trace"]], "study": study.model_dump()}
            kept.add({**row, **day})
            say(
                f"{told} {row['backpressured_s']:6.1f} s of {row['seconds']:.0f} backpressured, {row['down_s']:.1f} s "
                f"down, {row['hours']:.3f} instance-hours, {row['changes']} changes, {100 * row['served']:.1f} % served"
            )
