"""What is believed about an operator's capacity, in the form that planners take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CapacityCurve:
    """Logarithm of the job's records/s (of all sources together) that 1, 2, … instances serve, and its deviation."""

    log_rate: Floats
    sd: Floats
