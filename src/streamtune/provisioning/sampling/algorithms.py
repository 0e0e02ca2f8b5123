"""Which provisions to sample: DSA (Algorithm 1), fixed steps (FSSA), and ours.

All walk a ladder of provisions, smallest first: CPU and memory grow together, as the sizes of containers do. That makes
the paper's one-dimensional algorithm well-defined for two resources. Positions are counted in minimum steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from streamtune.provisioning.problem import ProvisioningError
from streamtune.provisioning.sampling.belief import CurveBelief
from streamtune.provisioning.sampling.samples import Provision, Sample, Sampler, told
from streamtune.provisioning.settings import DsaSettings, SamplingSettings

Measure = Callable[[int], Sample]


def ladder(first: Provision, last: Provision, steps: int) -> list[Provision]:
    """``steps`` provisions from first to last, in equal steps of CPU and of memory."""
    if steps < 2:
        raise ProvisioningError(f"a ladder needs at least 2 steps, but got {steps}")
    rises = last.cpu >= first.cpu and last.memory_mb >= first.memory_mb
    if not rises or (last.cpu, last.memory_mb) == (first.cpu, first.memory_mb):
        raise ProvisioningError(
            f"a ladder rises, but got {told(first)} as the smallest and {told(last)} as the largest provision: "
            "the largest must have more cores or more memory, and less of neither"
        )
    cpu = np.linspace(first.cpu, last.cpu, steps)
    memory = np.linspace(first.memory_mb, last.memory_mb, steps)
    return [Provision(cpu=float(c), memory_mb=float(m)) for c, m in zip(cpu, memory, strict=True)]


@dataclass
class Walk:
    """What has been sampled, by position; sampling a position again refines it by the mean."""

    provisions: Sequence[Provision]
    sampler: Sampler
    samples: list[Sample] = field(default_factory=list)
    at: dict[int, list[Sample]] = field(default_factory=dict)

    def measure(self, position: int) -> float:
        sample = self.sampler.sample(self.provisions[position])
        self.samples.append(sample)
        self.at.setdefault(position, []).append(sample)
        return self.performance(position)

    def performance(self, position: int) -> float:
        return float(np.mean([one.performance_per_s for one in self.at[position]]))


def dsa(provisions: Sequence[Provision], sampler: Sampler, settings: DsaSettings | None = None) -> list[Sample]:
    """The Dynamic-Sampling-Algorithm, line by line where it is defined.

    ``rate`` (line 8) is the relative gain per minimum step. Re-sampling (line 15) measures the middle between the last
    position and this one; where nothing lies between, this one again. The next step is then the smallest. A ladder that
    ends, ends the walk.
    """
    settings = settings or DsaSettings()
    walk = Walk(provisions, sampler)
    stops, step, last = 0, 1, 0
    last_load = walk.measure(0)
    while stops < settings.stop_count and last < len(provisions) - 1:
        current = min(last + step, len(provisions) - 1)
        load = walk.measure(current)
        rate = (load - last_load) / (current - last) / max(last_load, 1e-12)
        stops = stops + 1 if abs(rate) < settings.stop else 0
        if rate < 0 or rate > settings.up:
            load = _resample(walk, last, current, load)
            step = 1
        else:
            wanted = settings.largest_step if rate == 0 else settings.up / rate
            step = max(1, min(int(wanted), settings.largest_step))
        last, last_load = current, load
    return walk.samples


def _resample(walk: Walk, last: int, current: int, load: float) -> float:
    middle = (last + current) // 2
    if middle not in (last, current):
        walk.measure(middle)
        return load
    return walk.measure(current)


def fssa(provisions: Sequence[Provision], sampler: Sampler, step: int) -> list[Sample]:
    """The Fixed-Step-Sampling-Algorithm: every ``step``-th provision, and the last."""
    if step < 1:
        raise ProvisioningError(f"fssa needs a step of at least 1, but got {step}")
    if step >= len(provisions):
        raise ProvisioningError(
            f"fssa needs a step of at most {len(provisions) - 1} on a ladder of {len(provisions)}, but got {step}"
        )
    walk = Walk(provisions, sampler)
    for position in dict.fromkeys([*range(0, len(provisions), step), len(provisions) - 1]):
        walk.measure(position)
    return walk.samples


def ours(
    provisions: Sequence[Provision],
    sampler: Sampler,
    settings: SamplingSettings | None = None,
    price: Callable[[Provision], float] | None = None,
) -> list[Sample]:
    """Sample where the belief is least sure; stop when the choice of a provision can no longer change.

    The belief is a Gaussian process over log performance; where two neighbours differ by more than the usual growth, a
    cliff lies between them, and their middle is worth as much as a wide spread. ``price`` weighs provisions against
    each other (by default the cores); the regret is what the best choice by the mean loses on curves of the belief.
    """
    settings = settings or SamplingSettings()
    price = price or (lambda provision: provision.cpu)
    walk = Walk(provisions, sampler)
    most = max(settings.least, int(settings.share * len(provisions) + 1e-9))  # a share that may not be exceeded
    prices = np.array([price(one) for one in provisions])
    for position in (0, len(provisions) - 1, len(provisions) // 2):
        walk.measure(position)
    while len(walk.samples) < most:
        belief = CurveBelief.of(walk.samples)
        mean, spread = belief.log_performance(provisions)
        if len(walk.samples) >= settings.least and spread.max() <= settings.spread:
            curves = belief.draw(provisions, 16, settings.seed)
            if _regret(mean, curves, prices) <= settings.regret:
                break
        worth = spread + 0.3 * _hidden_growth(walk)
        fresh = np.where([position in walk.at for position in range(len(provisions))], -1.0, worth)
        walk.measure(int(np.argmax(fresh)) if fresh.max() > 0 else int(np.argmax(spread)))
    return walk.samples


def _hidden_growth(walk: Walk) -> np.ndarray:
    """For each position, the unusual growth in log performance between its sampled neighbours, most in the middle."""
    known = sorted(walk.at)
    level = np.log(np.maximum([walk.performance(position) for position in known], 1e-3))
    place = np.log([walk.provisions[position].cpu + 1e-4 * walk.provisions[position].memory_mb for position in known])
    slope = np.median(np.diff(level) / np.maximum(np.diff(place), 1e-9))
    unusual = np.abs(np.diff(level) - slope * np.diff(place))
    worth = np.zeros(len(walk.provisions))
    for left, right, growth in zip(known, known[1:], unusual, strict=False):
        inside = np.arange(left + 1, right)
        worth[inside] = growth * np.minimum(inside - left, right - inside) / ((right - left) / 2)
    return worth


def _regret(mean: np.ndarray, curves: np.ndarray, prices: np.ndarray) -> float:
    """Price per record of the provision that looks best, over the best on each curve, less one; the mean of all."""
    choice = int(np.argmin(np.log(prices) - mean))
    costs = np.log(prices)[None, :] - curves
    return float(np.mean(np.exp(costs[:, choice] - costs.min(axis=1)) - 1))
