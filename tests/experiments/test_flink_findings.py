"""Findings of what was measured on a real Flink: worked out by hand, and those of the committed pieces."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from streamtune.control.story import TuningStory
from streamtune.experiments.flink_findings import flink_findings, repeats_finding
from streamtune.experiments.paper.contest import WORKLOADS

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def change(total: int, oracle: int, *, backpressure: bool = False) -> dict[str, Any]:
    return {
        "rates": {"source": 100.0},
        "reconfigurations": 2,
        "backpressure": backpressure,
        "backpressure_seen": 1,
        "stop_reason": "no_backpressure",
        "plan": {"source": 1, "work": total - 1},
        "total_parallelism": total,
        "oracle_total": oracle,
        "oracle_plan": {"source": 1, "work": oracle - 1},
    }


def story(tuner: str, *changes: dict[str, Any]) -> dict[str, Any]:
    return {
        "job": "nexmark-q1",
        "tuner": tuner,
        "engine": "flink",
        "seed": 0,
        "operators": [["source", "source"], ["work", "map"]],
        "edges": [["source", "work"]],
        "changes": changes,
        "steps": [],
    }


def test_what_was_not_measured_is_not_there() -> None:
    assert flink_findings({}) == []
    rescales = [{"mode": "live", "down_s": 0.2, "until_running_s": 2.0}]
    assert flink_findings({"downtime/live": rescales}) == []  # nothing to compare it with


def test_downtime_is_compared_by_its_median() -> None:
    def times(*down_s: float) -> list[dict[str, Any]]:
        return [{"mode": "", "down_s": down, "until_running_s": 2.0} for down in down_s]

    (found,) = flink_findings({"downtime/live": times(0.1, 9.0, 0.3), "downtime/restart": times(0.2, 0.2, 0.2)})
    assert [(check.measured, check.met) for check in found.checks] == [("0.30 s against 0.20 s", False)]


def test_tuners_are_summed_over_changes_and_scored_by_the_oracle() -> None:
    # 6 + 9 instances of the oracle's 5 + 7: 15 / 12 = 1.25.
    (found,) = flink_findings(
        {
            "tuning/streamtune/nexmark-q1": story("streamtune", change(6, 5), change(9, 7, backpressure=True)),
            "tuning/ds2/nexmark-q1": story("ds2", change(5, 5), change(7, 7)),
        }
    )
    overall, top = found.tables
    assert overall.rows == (
        ("streamtune", "2.00", "1 of 2", "1.00", "1.250"),
        ("ds2", "2.00", "0 of 2", "1.00", "1.000"),
    )
    assert top.rows[0] == ("streamtune", "6 (5)")
    assert [check.met for check in found.checks] == [False]


@pytest.mark.parametrize("part", ["downtime", "polling", "fidelity", "tuning"])
def test_the_committed_findings_are_those_of_the_committed_pieces(part: str) -> None:
    measured = json.loads(gzip.decompress((BENCHMARKS / "data/flink/experiment.json.gz").read_bytes()))
    committed = {record["name"]: record for record in json.loads((BENCHMARKS / "results/flink.json").read_text())}
    pieces = {key: value for key, value in measured.items() if key.startswith(f"{part}/")}
    (found,) = flink_findings(pieces)
    assert json.loads(json.dumps(found.to_record())) == committed[part]


def test_repetitions_are_pooled_and_held_against_the_three_targets() -> None:
    """Two of eight jobs' repetitions: (6 + 5 + 5) / 15 = 1.067; 2 reconfigurations per change each."""
    first = [story("streamtune", change(6, 5), change(5, 5)), story("ds2", change(5, 5))]
    second = [story("streamtune", change(5, 5)), story("ds2", change(4, 5, backpressure=True))]
    elsewhere = {**story("streamtune", change(50, 5)), "job": "a job that nobody here wrote"}
    found = repeats_finding(
        [[TuningStory.model_validate(one) for one in some] for some in (first, [*second, elsewhere])]
    )
    assert found.tables[0].rows[-2:] == (
        ("all", "streamtune", "2.00", "0 of 3", "1.00", "1.067"),
        ("all", "ds2", "2.00", "1 of 2", "1.00", "0.900"),
    )
    assert [(check.measured, check.met) for check in found.checks] == [
        ("3 of 160", False),
        ("0 of 3", True),
        ("1.067", False),
        ("2.00 against 2.00 per change", True),
    ]


def test_the_repetitions_are_of_the_jobs_of_the_target() -> None:
    lines = (BENCHMARKS.parent / "Makefile").read_text().splitlines()
    (jobs,) = [line.split(":=")[1].split() for line in lines if line.startswith("PAPER_JOBS")]
    assert tuple(jobs) == WORKLOADS
