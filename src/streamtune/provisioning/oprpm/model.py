"""The model of one operator (OPRPM): which of the models fits its samples best, stored as what it was learned from."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamtune.provisioning.oprpm.regressors import NAMES, Provisions, Regressor, grid_of, regressor
from streamtune.provisioning.problem import ProvisioningError
from streamtune.provisioning.sampling.samples import Provision, Sample
from streamtune.sealed import read_sealed, write_sealed

Floats = npt.NDArray[np.float64]
FORMAT = "streamtune-oprpm"
VERSION = 1
_LEAST = 4


@dataclass
class OperatorModel:
    """Predicts the performance of an operator's instances; ``error`` is relative, left out sample by sample."""

    operator: str
    samples: list[Sample]
    name: str
    settings: dict[str, Any]
    seed: int
    error: float
    errors: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.fitted: Regressor = regressor(self.name, self.seed, **self.settings).fit(self.samples)

    def performance(self, provisions: Provisions) -> Floats:
        """Records/s of one instance of each provision."""
        return self.fitted.predict(provisions)

    @property
    def sampled(self) -> tuple[Provision, Provision]:
        """The least and the most that was sampled, of cores and of memory."""
        cpu, memory = [one.cpu for one in self.samples], [one.memory_mb for one in self.samples]
        return Provision(cpu=min(cpu), memory_mb=min(memory)), Provision(cpu=max(cpu), memory_mb=max(memory))

    def knows(self, one: Provision) -> bool:
        """It lies within what was sampled; what does not is a guess."""
        low, high = self.sampled
        return low.cpu <= one.cpu <= high.cpu and low.memory_mb <= one.memory_mb <= high.memory_mb

    def save(self, path: Path) -> None:
        """A sealed folder: the samples and the model's name and settings, and its predictions to check a re-fit by.

        A model of a few dozen samples is fitted in less time than it takes to read one back, so nothing else is kept.
        """
        document = {"operator": self.operator, "model": self.name, "settings": self.settings, "seed": self.seed}
        stored = {**document, "error": self.error, "errors": self.errors}
        table = io.BytesIO()
        np.savez(table, predicted=self.performance(self.samples))
        files = {
            "model.json": (json.dumps(stored, indent=1) + "\n").encode(),
            "samples.json": json.dumps([one.model_dump(exclude_none=True) for one in self.samples]).encode(),
            "predicted.npz": table.getvalue(),
        }
        write_sealed(path, files, {"format": FORMAT, "version": VERSION}, "model of an operator")

    @classmethod
    def load(cls, path: Path) -> OperatorModel:
        """Read, fit again, and refuse where this machine's libraries make another model of the same samples."""
        _, files = read_sealed(path, FORMAT, VERSION)
        stored = json.loads(files["model.json"])
        samples = [Sample.model_validate(one) for one in json.loads(files["samples.json"])]
        model = cls(
            stored["operator"],
            samples,
            stored["model"],
            stored["settings"],
            stored["seed"],
            stored["error"],
            stored["errors"],
        )
        expected = np.load(io.BytesIO(files["predicted.npz"]), allow_pickle=False)["predicted"]
        if not np.allclose(model.performance(samples), expected, rtol=0.02):
            raise ProvisioningError(f"{path}: other library versions make another model of it: train it again")
        return model


def train(operator: str, samples: Sequence[Sample], name: str = "ours", seed: int = 0) -> OperatorModel:
    """A model by its name with the best settings of its grid, or the best of all by leaving samples out (``ours``)."""
    different = len({(one.cpu, one.memory_mb) for one in samples})
    if different < _LEAST:
        taken = "1 sample" if len(samples) == 1 else f"{len(samples)} samples"
        of = "1 provision" if different == 1 else f"{different} provisions"
        raise ProvisioningError(
            f"{taken} of '{operator}' at {of} cannot teach how it depends on them: sample at least {_LEAST} provisions"
        )
    if all(one.performance_per_s == 0 for one in samples):
        raise ProvisioningError(f"no sample of '{operator}' served anything: give it more cores or memory")
    if name != "ours" and name not in NAMES:
        raise ProvisioningError(f"unknown model '{name}': choose ours, {', '.join(NAMES)}")
    wanted = NAMES if name == "ours" else (name,)
    tried = {}
    for one in wanted:
        settings, error = best_settings(one, samples, seed, use_grid=name != "ours")
        tried[one] = (error, settings)
    best = min(tried, key=lambda one: tried[one][0])
    errors = {one: error for one, (error, _) in tried.items()}
    return OperatorModel(operator, list(samples), best, tried[best][1], seed, tried[best][0], errors)


def best_settings(
    name: str, samples: Sequence[Sample], seed: int, *, use_grid: bool = True, folds: int = 10
) -> tuple[dict[str, Any], float]:
    """The settings with the lowest error over at most ten folds, and that error (root mean square, relative)."""
    choices = grid_of(name) if use_grid else [{}]
    scored = [(cross_validated(name, samples, seed, settings, folds), k) for k, settings in enumerate(choices)]
    error, k = min(scored)
    return choices[k], error


def cross_validated(name: str, samples: Sequence[Sample], seed: int, settings: dict[str, Any], folds: int) -> float:
    """Root mean square of log(predicted / seen) over folds that hold whole provisions."""
    keys = sorted({(one.cpu, one.memory_mb) for one in samples})
    order = np.random.default_rng(seed).permutation(len(keys))
    fold_of = {keys[k]: place % min(folds, len(keys)) for place, k in enumerate(order)}
    missed: list[float] = []
    for fold in range(min(folds, len(keys))):
        kept = [one for one in samples if fold_of[one.cpu, one.memory_mb] != fold]
        left = [one for one in samples if fold_of[one.cpu, one.memory_mb] == fold]
        if len(kept) < 3:
            continue
        try:
            predicted = regressor(name, seed, **settings).fit(kept).predict(left)
        except ProvisioningError:
            return float("inf")
        seen = np.array([one.performance_per_s for one in left])
        missed += np.log(np.maximum(predicted, 1e-3) / np.maximum(seen, 1e-3)).tolist()
    return float(np.sqrt(np.mean(np.square(missed)))) if missed else float("inf")
