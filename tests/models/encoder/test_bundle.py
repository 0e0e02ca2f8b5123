"""The model bundle: whole or refused, and the same numbers in every process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from history.killing import bundle_of
from streamtune.dataflow import Dataflow
from streamtune.errors import StreamTuneError
from streamtune.models.bundle import BundleError, Centre, MemberFiles, ModelBundle, write_bundle
from streamtune.models.encoder import NetworkSettings, TrainingSettings
from streamtune.models.encoder.pretraining import fit_encoder
from streamtune.models.encoder.tables import COLUMNS, graphs_of, sample_runs
from streamtune.models.features import CATEGORIES, NUMBERS, FeatureEncoder

FEATURES = FeatureEncoder.fit({"type": ["source", "map", "sink"]}, {"demand": (0.0, 1000.0)})
SETTINGS = TrainingSettings(network=NetworkSettings(width=8, iterations=1), epochs=3, batch_runs=16)
CENTRE = Dataflow.from_edges(["source", "map", "sink"], [(0, 1), (1, 2)])


def featurised(runs: int, seed: int = 0) -> pa.Table:
    """Chains of three operators; the middle one is a bottleneck below the parallelism its demand asks for."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(runs):
        demand = random.random()
        codes = np.full((3, len(CATEGORIES)), -1)
        codes[:, 0] = [2, 0, 1]
        numbers = np.zeros((3, len(NUMBERS)))
        numbers[:, -1] = demand
        degree = int(random.integers(1, 61))
        rows.append(
            {
                "run_id": f"run-{number:04d}",
                "job": f"job-{number % 7}",
                "codes": codes.ravel().tolist(),
                "numbers": numbers.ravel().tolist(),
                "parallelism": [1, degree, 1],
                "labels": [0, int(degree < 60 * demand), -1],
                "edge_source": [0, 1],
                "edge_target": [1, 2],
            }
        )
    return pa.Table.from_pylist(rows)


def member(name: str) -> MemberFiles:
    return fit_encoder(name, featurised(80), featurised(30, seed=1), FEATURES, SETTINGS, warmup_runs=20)


@pytest.fixture(scope="module")
def files() -> list[MemberFiles]:
    cluster = member("cluster-0")
    return [member("global"), MemberFiles(cluster.member, cluster.weights, cluster.warmup, Centre.of(CENTRE))]


@pytest.fixture
def bundle(tmp_path: Path, files: list[MemberFiles]) -> Path:
    path = tmp_path / "model"
    write_bundle(path, FEATURES, files, engine="simulator", data={"runs": 80}, settings={})
    return path


def test_what_is_written_is_read(bundle: Path) -> None:
    loaded = ModelBundle.load(bundle)
    assert loaded.features == FEATURES
    assert set(loaded.models) == {"global", "cluster-0"}
    (cluster,) = loaded.clusters
    assert cluster.centre is not None
    assert cluster.centre.canonical_form == CENTRE.canonical_form
    assert loaded.fallback.centre is None
    assert cluster.warmup.num_rows == 20
    assert set(cluster.warmup.column_names) == set(COLUMNS)
    assert cluster.member.metrics["auc_pr"] is not None
    assert cluster.network.settings == SETTINGS.network


EMBED = """
import sys
from pathlib import Path
import torch
from streamtune.errors import StreamTuneError
from streamtune.models.bundle import ModelBundle
from streamtune.models.encoder.tables import graphs_of
torch.set_num_threads(1)
bundle = ModelBundle.load(Path(sys.argv[1]))
model = bundle.models["cluster-0"]
batch = graphs_of(model.warmup, bundle.features).batch()
sys.stdout.write(model.embed(batch.features, batch.edge_index).numpy().tobytes().hex())
"""


@pytest.mark.slow
def test_another_process_gives_bit_equal_embeddings(bundle: Path) -> None:
    loaded = ModelBundle.load(bundle)
    model = loaded.models["cluster-0"]
    batch = graphs_of(model.warmup, loaded.features).batch()
    here = model.embed(batch.features, batch.edge_index).numpy().tobytes().hex()
    there = subprocess.run([sys.executable, "-c", EMBED, str(bundle)], capture_output=True, text=True, check=True)
    assert there.stdout == here


def test_parallelism_is_judged_with_the_shift(bundle: Path) -> None:
    model = ModelBundle.load(bundle).models["global"]
    agnostic = torch.zeros(2, SETTINGS.network.width)
    log_p = torch.tensor([0.0, 1.0])
    with torch.no_grad():
        expected = torch.sigmoid(model.network.judge(agnostic, log_p) + model.member.logit_shift)
    assert torch.equal(model.probability_at(agnostic, log_p), expected)


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))


def edit_manifest(path: Path, **changes: object) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, **changes}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda path: flip_a_byte(path / "global" / "encoder.safetensors"),
            "encoder.safetensors is not what was written",
        ),
        (lambda path: flip_a_byte(path / "cluster-0" / "warmup.parquet"), "warmup.parquet is not what was written"),
        (lambda path: (path / "features.json").unlink(), "features.json is missing"),
        (lambda path: (path / "manifest.json").unlink(), "is not a model bundle: it has no manifest.json"),
        (lambda path: (path / "manifest.json").write_text("{"), "is damaged: it is not valid JSON"),
        (lambda path: edit_manifest(path, format="pickle"), "is not the manifest of a StreamTune model"),
        (lambda path: edit_manifest(path, version=99), "has bundle version 99, this release reads 2"),
        (lambda path: edit_manifest(path, members="none"), "is damaged: members"),
        (lambda path: edit_manifest(path, checksums={}), "the manifest lists no checksum for"),
        (lambda path: edit_manifest(path, engine="flinj"), "manifest.json is damaged: it is not what was written"),
        (lambda path: edit_manifest(path, data={"runs": 3}), "manifest.json is damaged: it is not what was written"),
    ],
)
def test_a_damaged_or_foreign_bundle_is_refused(bundle: Path, damage: Callable[[Path], object], message: str) -> None:
    damage(bundle)
    with pytest.raises(BundleError, match=message):
        ModelBundle.load(bundle)


def test_a_foreign_folder_is_not_overwritten(tmp_path: Path, files: list[MemberFiles]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(StreamTuneError, match="exists and is not a model bundle"):
        write_bundle(tmp_path / "mine", FEATURES, files, engine="simulator", data={}, settings={})
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"


def test_an_older_bundle_is_replaced_whole(bundle: Path, files: list[MemberFiles]) -> None:
    write_bundle(bundle, FEATURES, files[:1], engine="simulator", data={"runs": 1}, settings={})
    assert set(ModelBundle.load(bundle).models) == {"global"}
    assert sorted(entry.name for entry in bundle.parent.iterdir()) == ["model"]


def test_a_failed_write_leaves_the_old_bundle(bundle: Path, files: list[MemberFiles]) -> None:
    broken = MemberFiles(files[0].member, files[0].weights, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        write_bundle(bundle, FEATURES, [broken], engine="simulator", data={}, settings={})
    assert set(ModelBundle.load(bundle).models) == {"global", "cluster-0"}
    assert sorted(entry.name for entry in bundle.parent.iterdir()) == ["model"]


def test_the_order_of_rows_does_not_matter() -> None:
    table = featurised(40)
    shuffled = table.take(pa.array(np.random.default_rng(0).permutation(40)))
    assert graphs_of(shuffled, FEATURES).jobs == graphs_of(table, FEATURES).jobs
    assert np.array_equal(graphs_of(shuffled, FEATURES).features, graphs_of(table, FEATURES).features)
    assert sample_runs(shuffled, 9, seed=3).equals(sample_runs(table, 9, seed=3))


def test_two_trainings_compare_equal_and_another_one_does_not(
    bundle: Path, tmp_path: Path, files: list[MemberFiles]
) -> None:
    """The comparison of ``make bench-kill``: it once counted when and by whom, so that no two runs were ever equal."""
    again = [member("global"), replace(member("cluster-0"), centre=Centre.of(CENTRE))]
    assert again[0].member != files[0].member
    write_bundle(tmp_path / "again", FEATURES, again, engine="simulator", data={"runs": 80}, settings={})
    assert bundle_of(tmp_path / "again") == bundle_of(bundle)
    other = fit_encoder(
        "global", featurised(80), featurised(30, seed=1), FEATURES, SETTINGS.replace(seed=1), warmup_runs=20
    )
    write_bundle(tmp_path / "other", FEATURES, [other, files[1]], engine="simulator", data={"runs": 80}, settings={})
    assert bundle_of(tmp_path / "other") != bundle_of(bundle)
    assert bundle_of(tmp_path / "absent") is None
    (bundle / "capacity.json").write_text("{}")
    with pytest.raises(BundleError, match="damaged"):
        bundle_of(bundle)
