"""Other scaling laws than the simulator's own: what if the curves of the history do not fit the job?"""

from __future__ import annotations

import math
from dataclasses import replace

from streamtune.dataflow.physics import OperatorPhysics
from streamtune.dataflow.spec import JobSpec


class PowerLaw(OperatorPhysics):
    """p^0.93 times the capacity of one instance."""

    def speedup(self, parallelism: int) -> float:
        return math.pow(parallelism, 0.93)


class Amdahl(OperatorPhysics):
    """A serial share of 0.8 %: half the speed-up is gone at 126 instances."""

    def speedup(self, parallelism: int) -> float:
        return 1 / (0.008 + 0.992 / parallelism)


class TwoSockets(OperatorPhysics):
    """Linear, but every instance beyond the sixteenth brings a fifth less: a kink that no smooth curve has."""

    def speedup(self, parallelism: int) -> float:
        return min(parallelism, 16) + 0.8 * max(0, parallelism - 16)


FAMILIES: dict[str, type[OperatorPhysics]] = {
    "universal scalability law (as in the history)": OperatorPhysics,
    "power law": PowerLaw,
    "Amdahl's law": Amdahl,
    "kink at 16": TwoSockets,
}


def with_family(spec: JobSpec, family: type[OperatorPhysics]) -> JobSpec:
    """The same job under another law; sources keep theirs, since they are not tuned."""
    sources = {source.id for source in spec.job.dataflow.sources}
    physics = {
        key: truth if key in sources else family.model_validate(truth.model_dump())
        for key, truth in (spec.physics or {}).items()
    }
    return replace(spec, physics=physics)
