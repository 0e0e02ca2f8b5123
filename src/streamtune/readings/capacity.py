"""What metrics say about an operator's capacity, vectorised: one kernel for histories and for the online tuner.

An operator that is busy for a share u of its time while it takes λ records/s would take λ / u if it were busy all the
time. The busiest subtask is what limits an operator, so u is its share where the engine reports it. Busy time is
measured with an error; a saturated operator needs no busy time: what it takes *is* its capacity. Saturated is what the
labelling rule calls a bottleneck and what is indeed busy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamtune.dataflow.observation import BUSY_RESOLUTION

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# Below this share a reading says nothing at all.
LEAST_BUSY_SHARE = 0.002
# So many resolutions above what was read, busy time surely ends.
_SURELY = 2.0
# With a larger error of its logarithm a busy share says how much there is at least, and nothing else.
_BLURRED_SD = 0.5
# A bottleneck that is busy for less than this was blamed for another operator's fault.
SATURATED_SHARE = 0.85
# Reported time is cut where it meets the whole second; above this share it says little.
CUT_SHARE = 0.98


@dataclass(frozen=True, slots=True)
class Readings:
    """Per operator the logarithm of its capacity in records/s (NaN: nothing to learn), and how it was read."""

    log_capacity: Floats
    is_saturated: Bools
    is_cut: Bools
    resolution_sd: Floats  # error of the logarithm that comes from the resolution of busy time
    log_least: (
        Floats  # of operators whose busy time is lost in its resolution: what they could surely take; NaN: others
    )

    @property
    def is_known(self) -> Bools:
        return np.isfinite(self.log_capacity)


def read_capacity(
    records_in_per_s: npt.ArrayLike,
    busy_share: npt.ArrayLike,
    busiest_share: npt.ArrayLike,
    backpressured_share: npt.ArrayLike,
    is_bottleneck: npt.ArrayLike,
    resolution: npt.ArrayLike = BUSY_RESOLUTION,
) -> Readings:
    """Capacity from the metrics of N operators; ``busiest_share`` may be NaN, then the mean share counts.

    ``resolution`` is how far off a busy share may be, one figure for all or one for each.

    >>> found = read_capacity([100.0, 100.0], [0.4, 0.9], [0.5, 1.0], [0.0, 0.0], [False, True])
    >>> np.exp(found.log_capacity).round(6).tolist(), found.is_saturated.tolist()
    ([200.0, 100.0], [False, True])

    What is busy for less than busy time is good for could take far more, and how much is not known:

    >>> np.exp(read_capacity([100.0], [0.01], [0.01], [0.0], [False], 0.02).log_least).round().tolist()
    [2000.0]
    """
    taken = np.asarray(records_in_per_s, dtype=np.float64)
    mean, busiest = np.asarray(busy_share, dtype=np.float64), np.asarray(busiest_share, dtype=np.float64)
    blocked = np.nan_to_num(np.asarray(backpressured_share, dtype=np.float64))
    busy = np.where(np.isfinite(busiest), busiest, mean)
    able = np.maximum(1.0 - blocked, LEAST_BUSY_SHARE)  # what backpressure left of the time
    with np.errstate(invalid="ignore", divide="ignore"):
        saturated = np.asarray(is_bottleneck, dtype=np.bool_) & (busy / able >= SATURATED_SHARE)
        cut = ~saturated & (busy / able > CUT_SHARE)
        log_capacity = np.log(taken) - np.log(np.where(saturated, able, np.minimum(busy, able)))
        known = (taken > 0) & (busy >= LEAST_BUSY_SHARE) & np.isfinite(log_capacity)
        blur = np.asarray(resolution, dtype=np.float64)
        resolution_sd = np.where(saturated, 0.0, blur / busy)
        # Where busy time is read to the least share that counts, there is nothing below it.
        is_blurred = ~saturated & (taken > 0) & (blur > LEAST_BUSY_SHARE) & (busy < blur / _BLURRED_SD)
        log_least = np.where(is_blurred, np.log(taken) - np.log(busy + _SURELY * blur), np.nan)
    return Readings(np.where(known, log_capacity, np.nan), saturated & known, cut & known, resolution_sd, log_least)
