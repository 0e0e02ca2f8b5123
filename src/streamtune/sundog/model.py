"""The ranking model: gradient boosted trees, in a folder of JSON with checksums. Never pickle.

model/
  manifest.json   format, version, features, window, the day of its data, parameters, NDCG of cross-validation
  trees.json      XGBoost's own JSON
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from streamtune.frozen import Frozen
from streamtune.sealed import read_sealed, write_sealed
from streamtune.sundog.errors import SundogError
from streamtune.sundog.features import FEATURES

FORMAT = "streamtune-sundog-model"
VERSION = 1
_TREES = "trees.json"


class ModelCard(Frozen):
    """What a model says about itself. A model serves features of its own window only (thesis, Section 4.1)."""

    features: tuple[str, ...] = FEATURES
    window: int = Field(ge=1)
    day: date
    pairs: int
    queries: int
    parameters: dict[str, Any]
    ndcg: float
    swept: list[dict[str, Any]] = Field(default_factory=list)


@dataclass(frozen=True)
class TreeModel:
    """Scores pairs by trees. Workers get the trees as bytes and parse them once."""

    card: ModelCard
    trees: bytes
    _parsed: list[Any] = field(default_factory=list, compare=False, repr=False)

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        if not len(features):
            return np.empty(0, np.float32)
        return np.asarray(self._booster().inplace_predict(np.ascontiguousarray(features)), np.float32)

    def importance(self) -> dict[str, float]:
        """Share of the total gain that each feature brought."""
        gains = self._booster().get_score(importance_type="total_gain")
        total = sum(gains.values()) or 1.0
        named = {self.card.features[int(name[1:])]: gain / total for name, gain in gains.items()}
        return dict(sorted(named.items(), key=lambda item: -item[1]))

    def _booster(self) -> Any:
        if not self._parsed:
            import xgboost  # not to be loaded by who only asks what a model is

            booster = xgboost.Booster({"nthread": 1})
            booster.load_model(bytearray(self.trees))
            self._parsed.append(booster)
        return self._parsed[0]

    def __getstate__(self) -> dict[str, Any]:
        return {"card": self.card, "trees": self.trees, "_parsed": []}

    def save(self, folder: Path) -> None:
        manifest = {"format": FORMAT, "version": VERSION, "card": self.card.model_dump(mode="json")}
        write_sealed(folder, {_TREES: self.trees}, manifest, "ranking model")

    @classmethod
    def load(cls, folder: Path) -> TreeModel:
        manifest, files = read_sealed(folder, FORMAT, VERSION)
        card = ModelCard.model_validate(manifest["card"])
        if card.features != FEATURES:
            raise SundogError(f"{folder} was trained on other features than this release computes: train it again")
        return cls(card, files[_TREES])
