"""Past operators without Spark, torch or a bundle: for benchmarks of first plans that take minutes, not an hour.

The sums are made by the code that Spark's tasks run, over the same generated runs, in one process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamtune.dataflow import Job
from streamtune.experiments.platform import Platform, Tell
from streamtune.labs.histories import run_of
from streamtune.models.capacity import CapacityPrior
from streamtune.models.capacity.prior import fit_type
from streamtune.models.transfer.fitting import fit_transfer
from streamtune.models.transfer.model import Hyperparameters, Levels, OperatorPrior, TransferModel
from streamtune.models.transfer.past import PastOperators
from streamtune.readings import LabelSettings
from streamtune.training.sums import past_of_runs

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def light_model(platform: Platform, work: Path, tell: Tell) -> TransferModel:
    """The past operators of a platform's history; made once and then found again in ``work``."""
    past_file, hyper_file = work / f"past-{platform.name}.parquet", work / f"transfer-{platform.name}.json"
    if not past_file.exists():
        tell(f"past operators of {platform.runs:,} runs (platform seed {platform.seed})")
        past = past_of_runs(run_of(number, platform.generation) for number in range(platform.runs))
        work.mkdir(parents=True, exist_ok=True)
        past_file.write_bytes(past.to_parquet())
    past = PastOperators.from_parquet(past_file.read_bytes())
    if not hyper_file.exists():
        hyper_file.write_text(fit_transfer(past).model_dump_json(), encoding="utf-8")
    return TransferModel(Hyperparameters.from_json(hyper_file.read_text(encoding="utf-8")), past)


@dataclass(frozen=True)
class LightModel:
    """``Pretrained`` with past operators alone: no clusters and no encoder."""

    transfer: TransferModel
    job: Job
    cluster: str = "global"
    distance: int | None = None
    labelling: LabelSettings = field(default_factory=LabelSettings)

    @cached_property
    def capacity(self) -> CapacityPrior:
        return types_of(self.transfer)

    @property
    def selectivities(self) -> Mapping[str, float]:
        return {}

    @property
    def known_types(self) -> frozenset[str]:
        return frozenset(self.transfer.past.types)

    def prior(self, levels: Levels) -> dict[str, OperatorPrior]:
        return self.transfer.prior(self.job, self.cluster, levels)

    def vectors(self, *_: object, **__: object) -> dict[str, Floats]:
        return {}

    def thresholds(self, *_: object, **__: object) -> dict[str, int]:
        return {}

    def warmup(self, _rows: int, _seed: int) -> tuple[Floats, Ints, Ints]:
        return np.zeros((0, 0)), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)


_types: dict[int, CapacityPrior] = {}


def types_of(transfer: TransferModel) -> CapacityPrior:
    """Curves by type, fitted once per model."""
    if id(transfer) not in _types:
        sums, kinds = transfer.past.sums, np.array(transfer.past.types)
        read = sums.count > 0
        _types[id(transfer)] = CapacityPrior(
            types={kind: fit_type(sums.where(read & (kinds == kind))) for kind in sorted(set(kinds[read]))}
        )
    return _types[id(transfer)]
