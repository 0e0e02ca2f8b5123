"""Samples of performance over provision, and when one has been measured long enough."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from pydantic import Field, ValidationError

from streamtune.dataflow.documents import DocumentError, parse_json, read_text
from streamtune.frozen import Frozen
from streamtune.outputs import check_output, write_whole
from streamtune.provisioning.problem import ProvisioningError, cores


class Provision(Frozen):
    """CPU and memory of one instance."""

    cpu: float = Field(gt=0, allow_inf_nan=False, description="Cores.")
    memory_mb: float = Field(gt=0, allow_inf_nan=False, description="MiB of memory.")


class Sample(Frozen):
    """One correlation sample cs = (cpu, mem, p) of the paper, with what is known about its quality."""

    cpu: float = Field(gt=0, allow_inf_nan=False, description="Cores.")
    memory_mb: float = Field(gt=0, allow_inf_nan=False, description="MiB of memory.")
    performance_per_s: float = Field(ge=0, allow_inf_nan=False, description="Records/s.")
    spread: float = Field(default=0.0, ge=0, description="Standard error of the mean over the mean.")
    seconds: float = Field(default=0.0, ge=0, description="Time it took to measure.")
    cpu_used: float | None = Field(default=None, ge=0, description="Cores really used: a quota is an upper bound.")
    throttled: int | None = Field(default=None, ge=0, description="Periods in which the quota held it back.")


def told(one: Provision | Sample) -> str:
    """
    >>> told(Provision(cpu=1, memory_mb=96))
    '1 core, 96 MiB'
    """
    return f"{cores(one.cpu)}, {one.memory_mb:g} MiB"


class Convergence(Frozen):
    """A sample is done when its own spread says so, not after a fixed time."""

    spread: float = Field(default=0.02, gt=0, lt=1, description="Standard error over mean to reach.")
    chunk_s: float = Field(default=0.2, gt=0, description="Length of one reading.")
    warmup_chunks: int = Field(default=2, ge=0, description="Readings to throw away.")
    least_chunks: int = Field(default=6, ge=2, description="Readings at least.")
    most_s: float = Field(default=6.0, gt=0, description="Seconds at most.")


def standard_error(rates: Sequence[float]) -> float:
    """Standard error of the mean over the mean, by means of pairs: neighbouring readings are not independent.

    >>> standard_error([10.0, 10.0, 10.0, 10.0])
    0.0
    """
    values = np.asarray(rates, dtype=np.float64)
    pairs = values[: len(values) // 2 * 2].reshape(-1, 2).mean(axis=1)
    mean = float(values.mean())
    if len(pairs) < 2 or mean <= 0:
        return math.inf
    return float(pairs.std(ddof=1) / math.sqrt(len(pairs)) / mean)


def has_converged(rates: Sequence[float], settings: Convergence) -> bool:
    """Enough readings, and their mean is known well enough."""
    return len(rates) >= settings.least_chunks and standard_error(rates) <= settings.spread


class Sampler(Protocol):
    """Measures one provision: a real instance under limits, or the simulator."""

    def sample(self, provision: Provision) -> Sample: ...


def write_samples(file: Path, operator: str, samples: Sequence[Sample], notes: dict[str, Any]) -> None:
    """One JSON document per operator."""
    document = {"operator": operator, **notes, "samples": [one.model_dump(exclude_none=True) for one in samples]}
    check_output(file, "--out")
    write_whole(file, json.dumps(document, indent=1) + "\n")


def read_samples(file: Path) -> tuple[str, list[Sample]]:
    """The operator's name and its samples."""
    try:
        document = parse_json(read_text(file))
        return str(document["operator"]), [Sample.model_validate(one) for one in document["samples"]]
    except DocumentError as error:
        raise ProvisioningError(f"{file} {error.problem}") from error
    except (KeyError, TypeError) as error:
        raise ProvisioningError(f"{file} holds no samples: 'streamtune provision sample' writes such files") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ProvisioningError(f"{file}: a sample's {place}: {first['msg']}, but got {first['input']!r}") from error
