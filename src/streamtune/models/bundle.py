"""The model bundle: a folder of JSON, safetensors and Parquet with a manifest and checksums. Never pickle.

model/
  manifest.json               schema version, data, settings, metrics, checksums of everything below
  features.json               the feature encoder
  capacity.json               what the history says of capacity curves, by operator type
  transfer.json               what operators have in common, by features, cluster and kinship (not in older bundles)
  past.parquet                the past operators that lend to new ones: sums of their readings
  global/encoder.safetensors  the fallback encoder; warmup.parquet its warm-up data
  cluster-0/…                 the same, and centre.json, the DAG new jobs are compared with
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from pydantic import Field, ValidationError
from safetensors.torch import load as load_tensors

from streamtune.dataflow import Dataflow
from streamtune.errors import StreamTuneError
from streamtune.frozen import Frozen
from streamtune.models.capacity import CapacityPrior
from streamtune.models.encoder.network import BottleneckNetwork
from streamtune.models.encoder.settings import NetworkSettings
from streamtune.models.features import FeatureEncoder
from streamtune.models.names import MODEL_FORMAT
from streamtune.models.transfer.model import Hyperparameters, TransferModel
from streamtune.models.transfer.past import PastOperators
from streamtune.readings import LabelSettings
from streamtune.sealed import (
    LONGEST_NAME,
    MANIFEST,
    checksum,
    checksums_below,
    has_whole_manifest,
    whole_folder,
    write_manifest,
)
from streamtune.signatures import check_signature, sign_written

FORMAT = MODEL_FORMAT
VERSION = 2
GLOBAL = "global"
_TRANSFER, _PAST = "transfer.json", "past.parquet"


class BundleError(StreamTuneError):
    """A bundle that cannot be read or written."""


class Centre(Frozen):
    """The DAG in the middle of a cluster."""

    types: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, dataflow: Dataflow) -> Centre:
        return cls(types=dataflow.types, edges=dataflow.edge_indices)

    @property
    def dataflow(self) -> Dataflow:
        return Dataflow.from_edges(self.types, self.edges)


class Member(Frozen):
    """What the manifest says of one encoder: the global one, or a cluster's."""

    name: str
    runs: int
    jobs: int
    logit_shift: float
    network: NetworkSettings
    metrics: Mapping[str, float | None] = Field(default_factory=dict)
    seconds: float = 0.0
    trained_at: tuple[float, float] = Field(default=(0.0, 0.0), description="start and end, seconds since 1970")
    trained_by: str = Field(default="", description="host and process of the task")


class Manifest(Frozen):
    """The first thing read, and the last thing written."""

    format: str = FORMAT
    version: int = VERSION
    engine: str
    data: Mapping[str, Any]
    settings: Mapping[str, Any]
    labelling: LabelSettings = Field(
        default_factory=LabelSettings, description="the rule behind the labels learnt from"
    )
    members: tuple[Member, ...]
    failed: Mapping[str, str] = Field(default_factory=dict)
    checksums: Mapping[str, str]


@dataclass(frozen=True)
class MemberFiles:
    """One trained encoder on its way into a bundle."""

    member: Member
    weights: bytes
    warmup: bytes
    centre: Centre | None = None


def write_bundle(
    path: Path,
    features: FeatureEncoder,
    members: Iterable[MemberFiles],
    *,
    engine: str,
    data: Mapping[str, Any],
    settings: Mapping[str, Any],
    failed: Mapping[str, str] | None = None,
    capacity: CapacityPrior | None = None,
    labelling: LabelSettings | None = None,
    transfer: TransferModel | None = None,
) -> None:
    """Write a bundle whole or not at all. An older bundle in its place is replaced; anything else is refused."""
    members = list(members)
    with whole_folder(Path(path), "model bundle") as staging:
        (staging / "features.json").write_text(features.to_json(), encoding="utf-8")
        (staging / "capacity.json").write_text((capacity or CapacityPrior()).to_json(), encoding="utf-8")
        if transfer is not None:
            (staging / _TRANSFER).write_text(transfer.hyper.model_dump_json(), encoding="utf-8")
            (staging / _PAST).write_bytes(transfer.past.to_parquet())
        for files in members:
            _write_member(staging / files.member.name, files)
        manifest = Manifest(
            engine=engine,
            data=dict(data),
            settings=dict(settings),
            labelling=labelling or LabelSettings(),
            members=tuple(files.member for files in members),
            failed=dict(failed or {}),
            checksums=checksums_below(staging),
        )
        write_manifest(staging, manifest.model_dump_json(indent=1))
        sign_written(staging, MANIFEST)


def _write_member(folder: Path, files: MemberFiles) -> None:
    folder.mkdir()
    (folder / "encoder.safetensors").write_bytes(files.weights)
    (folder / "warmup.parquet").write_bytes(files.warmup)
    if files.centre is not None:
        (folder / "centre.json").write_text(files.centre.model_dump_json(), encoding="utf-8")


@dataclass(frozen=True)
class BundleFiles:
    """The files that a manifest names. Each is checked whenever it is read: it may have changed since the last time."""

    path: Path
    checksums: Mapping[str, str]

    def read(self, name: str) -> bytes:
        file = self.path / name
        try:
            content = file.read_bytes()
        except (OSError, ValueError) as error:  # also a name that no file can have
            what = f"{name[:LONGEST_NAME]} is missing, or cannot be read"
            raise BundleError(f"{self.path} is damaged: {what}. Restore it, or train the model again") from error
        if checksum(content) != self.checksums[name]:
            raise BundleError(
                f"{self.path} is damaged: {name} is not what was written. Restore it, or train the model again"
            )
        return content


@dataclass(frozen=True)
class ClusterModel:
    """One encoder of a bundle, its weights loaded when first asked for."""

    files: BundleFiles
    member: Member
    width_in: int
    centre: Dataflow | None

    @property
    def name(self) -> str:
        return self.member.name

    @cached_property
    def network(self) -> BottleneckNetwork:
        network = BottleneckNetwork(self.width_in, self.member.network)
        try:
            network.load_state_dict(load_tensors(self.files.read(f"{self.name}/encoder.safetensors")))
        except (RuntimeError, ValueError) as error:
            raise BundleError(
                f"{self.files.path / self.name}: the weights do not fit the features: train the model again ({error})"
            ) from error
        return network.eval()

    @cached_property
    def warmup(self) -> pa.Table:
        """Featurised, labelled runs of the cluster: codes, numbers, parallelism, labels, edges."""
        return pq.read_table(pa.BufferReader(self.files.read(f"{self.name}/warmup.parquet")))

    @torch.no_grad()
    def embed(self, features: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """Parallelism-agnostic vectors, N × d."""
        return self.network.agnostic(features, edge_index)

    @torch.no_grad()
    def probability_at(self, agnostic: torch.Tensor, log_p: torch.Tensor) -> torch.Tensor:
        """The calibrated probability of being a bottleneck at any parallelism, N."""
        return torch.sigmoid(self.network.judge(agnostic, log_p) + self.member.logit_shift)


@dataclass(frozen=True)
class ModelBundle:
    """A bundle as read and checked.

    >>> ModelBundle.load(Path("nowhere"))
    Traceback (most recent call last):
    streamtune.models.bundle.BundleError: nowhere is not a model bundle: it has no manifest.json. Make one with ...
    """

    files: BundleFiles
    manifest: Manifest
    features: FeatureEncoder
    capacity: CapacityPrior
    models: Mapping[str, ClusterModel]

    @property
    def path(self) -> Path:
        return self.files.path

    @classmethod
    def load(cls, path: Path) -> ModelBundle:
        """Read a bundle; one that is damaged, not ours, of another version or not signed as required is refused."""
        path = Path(path)
        manifest = _read_manifest(path)
        files = BundleFiles(path, manifest.checksums)
        _check_files(files, manifest)
        features = FeatureEncoder.from_json(files.read("features.json").decode("utf-8"))
        capacity = CapacityPrior.from_json(files.read("capacity.json").decode("utf-8"))
        models = {member.name: _model(files, member, features.width) for member in manifest.members}
        return cls(files, manifest, features, capacity, models)

    @cached_property
    def transfer(self) -> TransferModel | None:
        """The hierarchical prior for jobs that have not run; None in bundles of older releases."""
        if not {_TRANSFER, _PAST} <= set(self.manifest.checksums):
            return None
        hyper = Hyperparameters.from_json(self.files.read(_TRANSFER).decode("utf-8"))
        return TransferModel(hyper, PastOperators.from_parquet(self.files.read(_PAST)))

    @property
    def clusters(self) -> tuple[ClusterModel, ...]:
        return tuple(model for model in self.models.values() if model.centre is not None)

    @property
    def fallback(self) -> ClusterModel:
        return self.models[GLOBAL]


def _model(files: BundleFiles, member: Member, width: int) -> ClusterModel:
    name = f"{member.name}/centre.json"
    centre = Centre.model_validate_json(files.read(name)).dataflow if name in files.checksums else None
    return ClusterModel(files, member, width, centre)


def _read_manifest(path: Path) -> Manifest:
    file = path / MANIFEST
    if not file.is_file():
        raise BundleError(f"{path} is not a model bundle: it has no {MANIFEST}. Make one with 'streamtune pretrain'")
    content = file.read_bytes()
    check_signature(path, MANIFEST, content)
    try:
        data = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # numbers and brackets without end too
        raise BundleError(f"{file} is damaged: it is not valid JSON. Train the model again, or restore it") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise BundleError(f"{file} is not the manifest of a StreamTune model: its format is not '{FORMAT}'")
    if data.get("version") != VERSION:
        raise BundleError(
            f"{path} has bundle version {data.get('version')}, this release reads {VERSION}: train the model again"
        )
    try:
        return Manifest.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise BundleError(
            f"{file} is damaged: {place}: {first['msg']}. Train the model again, or restore it"
        ) from error


def _check_files(files: BundleFiles, manifest: Manifest) -> None:
    path = files.path
    needed = {"features.json", "capacity.json"} | {
        f"{member.name}/{file}" for member in manifest.members for file in ("encoder.safetensors", "warmup.parquet")
    }
    unlisted = sorted(needed - set(manifest.checksums))
    if unlisted:
        raise BundleError(f"{path} is damaged: the manifest lists no checksum for {unlisted[0]}")
    if GLOBAL not in {member.name for member in manifest.members}:
        raise BundleError(f"{path} is damaged: it has no global encoder to fall back on")
    for name in manifest.checksums:
        files.read(name)
    if not has_whole_manifest(path):
        raise BundleError(f"{path / MANIFEST} is damaged: it is not what was written. Restore it, or train again")
