r"""Which counts an optimal plan can hold at all: a bound that makes the dynamic programme small.

Let :math:`W_t` be the workload, :math:`u, d` the start and stop cost, and :math:`G` the longest idle stretch any
instance survives: :math:`\lfloor (u + d) / \min_r p_r \rfloor`. **Some optimal plan satisfies in every epoch**

.. math:: \sum_r n_r^t \mathit{perf}_r - \max_{r: n_r^t > 0} \mathit{perf}_r < \min(
          \max_{t-G \le s \le t} W_s, \max_{t \le s \le t+G} W_s)

*Proof.* Call an instance needed in epoch s if the rest cannot serve :math:`W_s`. An instance that is not needed before
(after) its first (last) needed epoch can live shorter at no higher cost, and one that idles longer than G can be
stopped and started again. Repeat until neither applies. Look at an epoch t. If some instance is needed in t, the claim
holds in t itself. If none is, each of them was needed before (at :math:`s_i`) and will be again (at :math:`s_i'`). Take
the instance i with the latest :math:`s_i`: at that epoch all instances of t are alive, and without i they do not serve
:math:`W_{s_i}`. The same holds for the earliest :math:`s_i'`. ∎

Near the ends of the horizon an instance may have needs on one side only (it started free of charge, or runs on because
stopping costs more): there only the other side's maximum binds. Instances of ``initial`` that are never needed but
cheaper to keep than to stop are added on top.

The paper's candidates end at :math:`W_{max}`: one instance too early, and so its plans can miss the optimum.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamtune.provisioning.levels import bridged_epochs

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_ABOVE_NOTHING = 1e-12  # the empty plan is a candidate wherever nothing has to be served


def capacity_limits(
    workload: Floats,
    performance: Floats,
    price: Floats,
    start_cost: float,
    stop_cost: float,
    initial: Counts | None,
) -> Floats:
    """For each epoch the strict upper limit of capacity without the strongest running instance."""
    epochs, cheapest = len(workload), float(price.min())
    both = bridged_epochs(start_cost + stop_cost, cheapest, epochs)
    lead = both if initial is not None and initial.any() else bridged_epochs(start_cost, cheapest, epochs)
    trail = bridged_epochs(stop_cost, cheapest, epochs)
    before, after = _maximum_before(workload, both), _maximum_before(workload[::-1], both)[::-1]
    limits = np.minimum(before, after)
    position = np.arange(epochs)
    near_start, near_end = position <= lead, epochs - 1 - position <= trail
    limits = np.where(near_start, after, limits)
    limits = np.where(near_end, before, limits)
    limits = np.where(near_start & near_end, np.maximum(before, after), limits)
    kept = 0.0
    if initial is not None:
        kept = float((initial * performance)[price * epochs <= stop_cost].sum())
    return np.asarray(limits + kept + _ABOVE_NOTHING)


def _maximum_before(values: Floats, reach: int) -> Floats:
    """The maximum of each value and the ``reach`` before it."""
    result, width = values.copy(), 1
    while width < min(reach, len(values)) + 1:
        step = min(width, reach + 1 - width)
        result[step:] = np.maximum(result[step:], result[:-step])
        width += step
    return result


def undominated(performance: Floats, price: Floats, initial: Counts | None) -> list[int]:
    """The sizes worth looking at: another one that does no less for no more can stand in, one for one.

    >>> undominated(np.array([1.0, 2.0, 2.0]), np.array([1.0, 1.0, 3.0]), None)
    [1]
    """
    keep = []
    for one in range(len(price)):
        is_running = initial is not None and initial[one] > 0
        beaten = any(
            performance[other] >= performance[one]
            and price[other] <= price[one]
            and (performance[other] > performance[one] or price[other] < price[one] or other < one)
            for other in range(len(price))
            if other != one
        )
        if is_running or not beaten:
            keep.append(one)
    return keep
