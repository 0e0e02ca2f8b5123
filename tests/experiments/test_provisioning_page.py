"""The page of figures: what it says about a real Flink, about targets, and about what was not run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from streamtune.experiments.provisioning.compressed import CompressedStudy
from streamtune.experiments.provisioning.report import write_report
from streamtune.experiments.provisioning.verdicts import on_coverage, on_proactive


def run(method: str, repetition: int, backpressured_s: float, hours: float) -> dict[str, Any]:
    return {
        "trace": "taxi",
        "method": method,
        "setting": {"short": 0.5, "change": 0.01},
        "forecaster": "boosting",
        "day": 113,
        "repetition": str(repetition),
        "seconds": 720.0,
        "backpressured_s": backpressured_s,
        "down_s": 3.0,
        "hours": hours,
        "changes": 7,
        "served": 0.98,
        "study": CompressedStudy().model_dump(),
    }


def test_flink_is_told_by_repetitions_means_and_ratios(tmp_path: Path) -> None:
    runs = [run("DS2", k, 40.0 + k, 1.0) for k in (1, 2, 3)] + [
        run("proactive StreamTune", k, 20.0 + k, 1.1) for k in (1, 2, 3)
    ]
    (tmp_path / "provisioning-flink.json").write_text(json.dumps({"runs": runs}))
    write_report(tmp_path, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    assert "| DS2 | 41, 42, 43 | 42.0 of 720 | 3.0 | 1.000 (1.000 to 1.000) | 7.0 | 98.0 % |" in page
    # 42 against 22 seconds, 1.1 against 1 hour.
    assert "1.9 × fewer backpressured seconds than DS2 at 1.10 × its hours" in page
    assert "Not run yet: `python benchmarks/provisioning.py times`" in page


def test_a_miss_is_named() -> None:
    rows = [{"level": "perfect", "covered": 1.0}, {"level": 0.9, "covered": 0.98}]
    assert "**Missed** in 1 of 1: taxi" in on_coverage([{"trace": "taxi", "rows": rows}])


def test_more_minutes_than_a_rival_are_a_miss_and_so_are_too_many_hours() -> None:
    def row(forecast: str, minutes: float, hours: float) -> dict[str, Any]:
        figures = {"minutes": minutes, "hours": hours}
        return {"forecast": forecast, "change_cost": 0.0, "headroom": 0.0, "chosen_on": figures, "test": figures}

    rows = [row("last mean", 10.0, 100.0), row("boosting mean 0.5", 4.0, 104.0)]
    assert "Missed" not in on_proactive([{"trace": "taxi", "rescale": "live", "rows": rows}])
    rows[1]["test"] = {"minutes": 4.0, "hours": 106.0}
    assert on_proactive([{"trace": "taxi", "rescale": "live", "rows": rows}]).count("**Missed** in 1 of 1") == 2
