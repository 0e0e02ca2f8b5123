"""Does an operator still do what its model says? A two-sided CUSUM over log ratios."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from streamtune.provisioning.oprpm.model import OperatorModel, train
from streamtune.provisioning.sampling.samples import Sample
from streamtune.provisioning.settings import DriftSettings


@dataclass
class DriftDetector:
    """Feed it samples of the running operator; it says when to sample anew."""

    model: OperatorModel
    settings: DriftSettings = field(default_factory=DriftSettings)
    slower: float = 0.0
    faster: float = 0.0
    seen: int = 0

    def see(self, sample: Sample) -> str | None:
        """None while the model fits; else one sentence that says how it does not."""
        expected = float(self.model.performance([sample])[0])
        ratio = math.log(max(sample.performance_per_s, 1e-9) / max(expected, 1e-9))
        sd = max(self.model.error, self.settings.least_sd) if math.isfinite(self.model.error) else 1.0
        z = ratio / sd
        self.seen += 1
        self.slower = max(0.0, self.slower - z - self.settings.slack)
        self.faster = max(0.0, self.faster + z - self.settings.slack)
        if max(self.slower, self.faster) <= self.settings.threshold:
            return None
        direction = "slower" if self.slower > self.faster else "faster"
        return (
            f"'{self.model.operator}' is {direction} than its model: {sample.performance_per_s:,.0f} records/s at "
            f"{sample.cpu:g} cores and {sample.memory_mb:g} MiB, {expected:,.0f} expected. Sample it again"
        )


def drift(model: OperatorModel, samples: Sequence[Sample], settings: DriftSettings | None = None) -> str | None:
    """What the first of ``samples`` that a model no longer explains says; None where it fits all of them."""
    detector = DriftDetector(model, settings or DriftSettings())
    return next((told for told in map(detector.see, samples) if told is not None), None)


def renewed(
    model: OperatorModel, fresh: Sequence[Sample], keep_old: bool = False, name: str = "ours", seed: int | None = None
) -> OperatorModel:
    """A model of fresh samples; old ones at other provisions are scaled by the change seen and kept if asked for."""
    samples = list(fresh)
    if keep_old:
        expected = model.performance(fresh)
        seen = [max(one.performance_per_s, 1e-9) for one in fresh]
        moved = [math.log(now / max(then, 1e-9)) for now, then in zip(seen, expected, strict=True)]
        ratio = math.exp(sum(moved) / len(moved))
        known = {(one.cpu, one.memory_mb) for one in fresh}
        samples += [
            old.model_copy(update={"performance_per_s": old.performance_per_s * ratio})
            for old in model.samples
            if (old.cpu, old.memory_mb) not in known
        ]
    return train(model.operator, samples, name, model.seed if seed is None else seed)
