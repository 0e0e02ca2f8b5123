"""The few coordinates that ``ours`` searches instead of one per operator.

A prototype (PLATFORM.md) found that the space matters more than the optimiser: one multiplier on good relative shares
reaches nine tenths whichever optimiser drives it. All parallelism knobs together are therefore *one* coordinate, the
total number of instances on a logarithmic scale, spread over the operators by their shares; every other knob keeps its
own coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from streamtune.autoconfig.space import Configuration, Space, Vector
from streamtune.autoconfig.strategies.ascent import clamped

_ROUNDED_DOWN = 0.001
_BISECTIONS = 12
_NEARBY = np.linspace(0.97, 1.03, 13)
_NEARBY_ON_HOSTS = np.linspace(0.88, 1.12, 49)


@dataclass(frozen=True)
class Reduced:
    """A space seen through shares: ``hints`` share one coordinate, ``others`` have their own."""

    space: Space
    hints: tuple[str, ...]
    others: tuple[str, ...]
    hosts: int | None = None

    @classmethod
    def of(cls, space: Space, hosts: int | None = None) -> Reduced:
        hints = tuple(n for n, k in space.knobs.items() if k.operator is not None and k.type != "category")
        return cls(space, hints, tuple(name for name in space.knobs if name not in hints), hosts)

    @cached_property
    def dimensions(self) -> int:
        return bool(self.hints) + sum(self.space.knobs[name].dimensions for name in self.others)

    @cached_property
    def _bounds(self) -> Vector:
        """A row of lowest and highest per hint."""
        return np.array([self.space.knobs[name].bounds for name in self.hints], dtype=float)

    @cached_property
    def totals(self) -> tuple[float, float]:
        """The smallest sum of all hints, and the largest that the constraints leave where all are spread evenly."""
        low, high = (float(total) for total in self._bounds.sum(axis=0))
        even = dict.fromkeys(self.hints, 1.0 / len(self.hints))

        def is_allowed(total: float) -> bool:
            return self.space.is_allowed({**self.space.filled(self.space.anchor), **self.hints_for(total, even)})

        if is_allowed(high) or not is_allowed(low):
            return low, high
        allowed, forbidden = low, high
        for _ in range(_BISECTIONS):
            middle = math.sqrt(allowed * forbidden)
            allowed, forbidden = (middle, forbidden) if is_allowed(middle) else (allowed, middle)
        return low, allowed

    def hints_for(self, total: float, shares: Mapping[str, float]) -> Configuration:
        """About ``total`` instances by shares, none below its lowest.

        Hints are whole: some operator is always rounded worst and limits all others. Of the totals within a few per
        cent the one is taken that loses least, the scarcest operator's instances per share against all instances. Where
        instances are dealt to hosts, a total that fills them evenly loses less than one that leaves one task over.
        """
        share = np.array([shares[name] for name in self.hints])
        share = share / share.sum()
        bounds = self._bounds
        near = total * (_NEARBY if self.hosts is None else _NEARBY_ON_HOSTS)
        hints = np.clip(np.ceil(near[:, None] * share - _ROUNDED_DOWN), bounds[:, 0], bounds[:, 1])
        kept = (hints / share).min(axis=1) / hints.sum(axis=1)
        if self.hosts is not None:
            tasks = hints.sum(axis=1) / self.hosts
            kept = kept * tasks / np.ceil(tasks)
        best = hints[int(np.argmax(kept))]
        return {name: clamped(self.space.knobs[name], float(hint)) for name, hint in zip(self.hints, best, strict=True)}

    def decode(self, point: Vector, shares: Mapping[str, float]) -> Configuration:
        """A configuration from the coordinates: first the total, then the other knobs' own."""
        full: Configuration = dict(self.space.defaults)
        start = 0
        if self.hints:
            low, high = (math.log(total) for total in self.totals)
            full.update(self.hints_for(math.exp(low + float(np.clip(point[0], 0, 1)) * (high - low)), shares))
            start = 1
        for name in self.others:
            knob = self.space.knobs[name]
            full[name] = knob.from_unit(point[start : start + knob.dimensions])
            start += knob.dimensions
        return self.space.repair(full)

    def encode(self, knobs: Mapping[str, int | float | str | bool]) -> Vector:
        full = self.space.filled(knobs)
        parts: list[float] = []
        if self.hints:
            low, high = (math.log(total) for total in self.totals)
            total = sum(float(full[name]) for name in self.hints)
            parts.append(0.0 if high == low else (math.log(max(total, 1e-9)) - low) / (high - low))
        for name in self.others:
            parts.extend(self.space.knobs[name].to_unit(full[name]))
        return np.array(parts, dtype=float)
