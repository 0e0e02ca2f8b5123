"""The methods: one file each, behind one small interface."""

from streamtune.dataflow import Job
from streamtune.errors import TuningError
from streamtune.tuners.base import Recommendation, Tuner
from streamtune.tuners.ds2 import DS2, DS2Settings

TUNERS: dict[str, type[Tuner]] = {tuner.name: tuner for tuner in (DS2,)}


def make_tuner(name: str, job: Job) -> Tuner:
    """The tuner of that name with its published settings."""
    if name not in TUNERS:
        raise TuningError(f"unknown tuner '{name}': choose one of {', '.join(sorted(TUNERS))}")
    return TUNERS[name](job)


__all__ = ["DS2", "TUNERS", "DS2Settings", "Recommendation", "Tuner", "make_tuner"]
