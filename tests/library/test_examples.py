"""The programs in ``examples/`` run and do what they say."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from engines.flink.fake_flink import FakeFlink
from streamtune.testing import ENGINE_LAWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def loaded(name: str) -> ModuleType:
    """An example as a module; its ``main`` is not run."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_readme_names_every_example() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"]({path.name})" in text for path in EXAMPLES.glob("*.py"))


def test_tune_on_simulator(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "tune_on_simulator.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all("it keeps up" in line for line in lines)


def test_attach_to_flink() -> None:
    """400/s at 100/s per subtask: DS2 asks for 4 at once. Time is the fake's own."""
    example = loaded("attach_to_flink")
    with FakeFlink() as flink:
        outcome = example.tune(example.Options(flink.url, dry_run=True), flink.clock)
        assert outcome.stop_reason == "dry_run"
        assert flink.degrees == {"bids": 1, "work": 1, "sink": 1}
        outcome = example.tune(example.Options(flink.url), flink.clock)
        assert outcome.stop_reason == "no_backpressure"
        assert flink.degrees == {"bids": 1, "work": 4, "sink": 1}


def test_own_tuner(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "own_tuner.py"), run_name="__main__")
    assert "(no_backpressure)" in capsys.readouterr().out


@pytest.mark.parametrize("law", ENGINE_LAWS, ids=lambda law: law.__name__)
def test_own_engine_passes_the_contract(law) -> None:  # type: ignore[no-untyped-def]
    law(loaded("own_engine").own_engine_case())


def test_own_engine(capsys: pytest.CaptureFixture[str]) -> None:
    """20,000 lines/s at 10,000/s per instance: two instances each."""
    runpy.run_path(str(EXAMPLES / "own_engine.py"), run_name="__main__")
    assert "'words': 2" in capsys.readouterr().out


@pytest.mark.spark
def test_train_on_your_history(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded("train_on_your_history").main(tmp_path / "work", spark)
    valid, known, tuned = capsys.readouterr().out.splitlines()
    assert "runs are valid" in valid
    assert "types of operators" in known
    assert "'lines': 1" in tuned
