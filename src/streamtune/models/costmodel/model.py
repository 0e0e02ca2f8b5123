"""``CostModel``: an ensemble of cost networks with its encoder: train, predict with spread, fine-tune, save, load."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from streamtune.errors import StreamTuneError
from streamtune.models.costmodel.columns import PlanColumns
from streamtune.models.costmodel.features import PlanEncoder
from streamtune.models.costmodel.graphs import PlanGraphs
from streamtune.models.costmodel.network import CostNetwork
from streamtune.models.costmodel.optisample import OptiSample
from streamtune.models.costmodel.settings import (
    CostModelSettings,
    CostNetworkSettings,
    CostTrainingSettings,
    FineTuneSettings,
)
from streamtune.models.costmodel.training import Labels, summary, train_network
from streamtune.models.names import COST_MODEL_FORMAT
from streamtune.sealed import read_sealed, write_sealed
from streamtune.settings import later_seed

FORMAT = COST_MODEL_FORMAT
VERSION = 1
Floats = npt.NDArray[np.float64]
Progress = Callable[[str], None]

# Plans per forward pass: larger batches are no faster and only take memory.
_CHUNK = 256


@dataclass(frozen=True)
class Predictions:
    """What R plans will do. A spread of 1.3: the ensemble agrees within a factor of 1.3 (one standard deviation)."""

    latency_ms: Floats
    throughput_per_s: Floats
    latency_spread: Floats
    throughput_spread: Floats


@dataclass(frozen=True)
class LabelledPlans:
    """Plans, what was measured of them, and the query each belongs to."""

    columns: PlanColumns
    labels: Labels
    queries: Sequence[str]


@dataclass(frozen=True)
class CostModel:
    """Predicts latency and throughput of plans that never ran."""

    encoder: PlanEncoder
    networks: tuple[CostNetwork, ...]
    settings: CostModelSettings
    optisample: OptiSample
    notes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def train(
        cls,
        training: LabelledPlans,
        validation: LabelledPlans,
        settings: CostModelSettings | None = None,
        *,
        optisample: OptiSample | None = None,
        progress: Progress = lambda _message: None,
    ) -> CostModel:
        """Fit encoder and networks on ``training``; ``validation`` only says when to stop."""
        settings = settings or CostModelSettings()
        _check_parts(training, validation)
        encoder = PlanEncoder.fit(training.columns, settings.feature_set)
        watched = encoder.transform(validation.columns), validation.labels
        networks, seconds = [], 0.0
        for member in range(settings.members):
            one = settings.training.model_copy(update={"seed": later_seed(settings.training.seed, member)})
            graphs = encoder.transform(_hide_selectivities(training.columns, one))
            trained = train_network(graphs, training.labels, watched, one)
            networks.append(trained.network)
            seconds += trained.seconds
            progress(
                f"network {member + 1} of {settings.members}: validation loss {trained.validation_loss:.4f}, "
                f"best epoch {trained.epochs}, {trained.seconds:.0f} s"
            )
        notes = {"plans": training.columns.plans, "queries": len(set(training.queries)), "seconds": round(seconds, 1)}
        usual = OptiSample({}, encoder.selectivities)
        model = cls(encoder, tuple(networks), settings, optisample or usual, notes)
        return replace(model, notes={**notes, "validation": model.score(validation)})

    def fine_tune(
        self,
        shots: LabelledPlans,
        settings: FineTuneSettings | None = None,
        *,
        progress: Progress = lambda _message: None,
    ) -> CostModel:
        """Few-shot learning: go on training on a few runs of what is new. The encoder and its scaler stay."""
        settings = settings or FineTuneSettings()
        graphs = self.encoder.transform(shots.columns)
        watch_every = max(2, round(1 / settings.validation_share))
        is_watched = np.arange(graphs.plans) % watch_every == 0
        learning, watched = np.flatnonzero(~is_watched), np.flatnonzero(is_watched)
        if not len(learning):
            raise StreamTuneError(f"fine-tuning needs at least two runs, but got {graphs.plans}")
        networks = []
        for member, network in enumerate(self.networks):
            one = self.settings.training.model_copy(
                update={
                    "epochs": settings.epochs,
                    "patience": settings.epochs,
                    "learning_rate": settings.learning_rate,
                    "batch_plans": min(32, len(learning)),
                    "seed": later_seed(self.settings.training.seed, member),
                }
            )
            trained = train_network(
                graphs.select(learning),
                shots.labels.select(learning),
                (graphs.select(watched), shots.labels.select(watched)),
                one,
                start=network.state_dict(),
            )
            networks.append(trained.network)
            progress(f"network {member + 1} of {len(self.networks)}: validation loss {trained.validation_loss:.4f}")
        return replace(self, networks=tuple(networks), notes={**self.notes, "fine_tuned_on": graphs.plans})

    @cached_property
    def _stacked(self) -> CostNetwork:
        return CostNetwork.stacked(self.networks)

    def predict(self, columns: PlanColumns) -> Predictions:
        """All plans of ``columns``; geometric mean and spread over the ensemble."""
        return self.predict_graphs(self.encoder.transform(columns))

    @torch.no_grad()
    def predict_graphs(self, graphs: PlanGraphs) -> Predictions:
        parts = []
        for first in range(0, graphs.plans, _CHUNK):
            whole = graphs.plans <= _CHUNK
            batch = graphs.batch() if whole else graphs.batch(np.arange(first, min(first + _CHUNK, graphs.plans)))
            parts.append(torch.stack(self._stacked(batch)).double().numpy())
        logs = np.concatenate(parts, axis=2) if parts else np.zeros((2, len(self.networks), 0))
        mean, spread = np.exp(logs.mean(axis=1)), np.exp(logs.std(axis=1))
        return Predictions(1000 * mean[0], mean[1], spread[0], spread[1])

    def score(self, plans: LabelledPlans) -> dict[str, dict[str, float]]:
        """Median and 95th percentile of the q-errors of both targets."""
        predicted = self.predict(plans.columns)
        return {
            "latency": summary(plans.labels.latency_ms, predicted.latency_ms),
            "throughput": summary(plans.labels.throughput_per_s, predicted.throughput_per_s),
        }

    def save(self, path: Path) -> None:
        """A folder of JSON and safetensors with a manifest and checksums."""
        files = {"features.json": self.encoder.model_dump_json(indent=1).encode()}
        for member, network in enumerate(self.networks):
            files[f"network-{member}.safetensors"] = save_tensors(network.state_dict())
        write_sealed(
            path,
            files,
            {
                "format": FORMAT,
                "version": VERSION,
                "settings": self.settings.model_dump(mode="json"),
                "scaling": dict(self.optisample.scaling),
                "selectivity": dict(self.optisample.selectivity),
                "notes": dict(self.notes),
            },
            "cost model",
        )

    @classmethod
    def load(cls, path: Path) -> CostModel:
        """Read and check a folder that ``save`` wrote."""
        manifest, files = read_sealed(path, FORMAT, VERSION)
        try:
            settings = CostModelSettings.model_validate(manifest["settings"])
            encoder = PlanEncoder.from_json(files["features.json"].decode())
            networks = tuple(
                load_network(encoder, settings.training.network, files[f"network-{member}.safetensors"])
                for member in range(settings.members)
            )
            optisample = OptiSample(manifest["scaling"], manifest["selectivity"])
        except (KeyError, ValidationError, RuntimeError, SafetensorError) as error:
            raise StreamTuneError(f"{path} is damaged: {error}. Restore it, or train the model again") from error
        return cls(encoder, networks, settings, optisample, manifest.get("notes", {}))


def load_network(encoder: PlanEncoder, settings: CostNetworkSettings, weights: bytes) -> CostNetwork:
    """A network from its safetensors."""
    network = CostNetwork(encoder.width, encoder.host_width, settings)
    network.load_state_dict(load_tensors(weights))
    return network.eval()


def _hide_selectivities(columns: PlanColumns, settings: CostTrainingSettings) -> PlanColumns:
    """Hide the selectivities of some plans: before a first run they are not known."""
    random = np.random.default_rng([settings.seed, 1])
    hidden = np.repeat(random.random(columns.plans) < settings.hidden_selectivity, columns.sizes)
    selectivity = np.where(hidden, np.nan, columns.numbers["selectivity"])
    return replace(columns, numbers={**columns.numbers, "selectivity": selectivity})


def _check_parts(training: LabelledPlans, validation: LabelledPlans) -> None:
    for name, part in (("training", training), ("validation", validation)):
        if not part.columns.plans:
            raise StreamTuneError(f"the {name} part has no plans: add plans of more queries")
    shared = set(training.queries) & set(validation.queries)
    if shared:
        raise StreamTuneError(
            f"query '{min(shared)}' is in the training and in the validation part: split by query, not by run"
        )
