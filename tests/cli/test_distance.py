"""``streamtune distance`` on two specs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from streamtune.cli.distance import distance
from streamtune.errors import SpecError
from streamtune.workloads import random_job

A = """
name: a
operators:
  - {id: in, type: source, rate: 10}
  - {id: keep, type: filter, inputs: [in]}
  - {id: out, type: sink, inputs: [keep]}
"""
B = """
name: b
operators:
  - {id: s, type: source, rate: 99}
  - {id: change, type: map, inputs: [s]}
  - {id: t, type: sink, inputs: [change]}
"""


@pytest.fixture
def specs(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "a.yaml").write_text(A)
    (tmp_path / "b.yaml").write_text(B)
    return tmp_path / "a.yaml", tmp_path / "b.yaml"


def test_text(specs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    distance(*specs)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("distance 1: ")
    assert lines[1:] == ["  change type of 'keep' from filter to map"]


def test_json(specs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    distance(*specs, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["exact"]
    assert found["distance"] == found["lower"] == found["upper"] == 1
    assert found["script"] == [
        {"operation": "change type", "operator": "keep", "old_type": "filter", "new_type": "map"}
    ]


def test_an_unsettled_distance_is_printed_as_bounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (1, 2):
        job = random_job(seed, 20, min_operators=20)
        (tmp_path / f"{seed}.yaml").write_text(job.spec.to_yaml(), encoding="utf-8")
    distance(tmp_path / "1.yaml", tmp_path / "2.yaml", budget=1)
    lines = capsys.readouterr().out.splitlines()
    bounds = re.match(r"distance between (\d+) and (\d+): ", lines[0])
    assert bounds is not None
    assert int(bounds[1]) < int(bounds[2]) == len(lines) - 1  # the script is one of the upper bound's length


def test_a_spec_that_is_not_there(specs: tuple[Path, Path]) -> None:
    with pytest.raises(SpecError, match="cannot be read"):
        distance(specs[0], specs[1].with_name("c.yaml"))
