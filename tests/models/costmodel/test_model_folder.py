"""A saved model is what it was, a damaged one is refused, and nothing in it is pickle."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from streamtune.errors import StreamTuneError
from streamtune.models.costmodel.datasets import plans_of
from streamtune.models.costmodel.model import CostModel


@pytest.fixture
def folder(model: CostModel, tmp_path: Path) -> Path:
    model.save(tmp_path / "model")
    return tmp_path / "model"


def test_a_loaded_model_predicts_the_same_bits(model: CostModel, plans: pa.Table, folder: Path) -> None:
    columns = plans_of(plans.slice(0, 50)).columns
    before, after = model.predict(columns), CostModel.load(folder).predict(columns)
    assert np.array_equal(before.latency_ms, after.latency_ms)
    assert np.array_equal(before.throughput_spread, after.throughput_spread)
    assert CostModel.load(folder).optisample == model.optisample


def test_it_holds_json_and_safetensors_only(folder: Path) -> None:
    """And the seal of its manifest, which is one line of text."""
    assert {file.suffix for file in folder.iterdir()} == {".json", ".safetensors", ".sha256"}
    digest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
    assert [(file.name, file.read_text()) for file in folder.glob("*.sha256")] == [("manifest.sha256", f"{digest}\n")]


@pytest.mark.parametrize("name", ["features.json", "network-1.safetensors"])
def test_a_changed_file_is_refused(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(StreamTuneError, match="is not what was written"):
        CostModel.load(folder)


def test_a_missing_file_is_refused(folder: Path) -> None:
    (folder / "network-0.safetensors").unlink()
    with pytest.raises(StreamTuneError, match=r"network-0\.safetensors is missing"):
        CostModel.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"format": "other"}, "is not a streamtune-cost-model"), ({"version": 99}, "has version 99")],
)
def test_a_foreign_or_newer_folder_is_refused(folder: Path, change: dict[str, object], message: str) -> None:
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **change}))
    with pytest.raises(StreamTuneError, match=message):
        CostModel.load(folder)


def test_a_folder_of_something_else_is_never_overwritten(model: CostModel, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(StreamTuneError, match="is not a cost model"):
        model.save(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"
    model.save(tmp_path / "model")
    model.save(tmp_path / "model")  # one of ours is replaced
