"""The limit: a predictor that knows the simulator's law and how its residuals are distributed, but not the residuals.

Nobody who has not seen a job run can do better on average. It draws the physics of every operator from the law by which
they were made, and chooses the least plan that serves the wanted share of the draws, as our first plan does with what
it believes. Selectivities that the text of a Nexmark query fixes are told to it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamtune.dataflow import Plan
from streamtune.dataflow.operator import Operator
from streamtune.experiments.coldstart.jobs import Start
from streamtune.readings.demand import carried_rates
from streamtune.tuners.streamtune.first_plan import DRAWS, Need, least_plan
from streamtune.workloads import Workload
from streamtune.workloads.physics_model import draw_physics

Floats = npt.NDArray[np.float64]


def limit_plan(start: Start, certainty: float) -> Plan:
    """The plan of one who knows the law."""
    chosen = least_plan(need_of(start, _draws(start.workload)), certainty)
    plan = dict(start.workload.spec.job.initial_plan)
    return Plan(plan | dict(zip(tuned(start), chosen.tolist(), strict=True)))


def tuned(start: Start) -> list[str]:
    """The operators that a first plan chooses for."""
    return [operator.id for operator in start.workload.spec.job.dataflow.operators if not operator.is_source]


def need_of(start: Start, draws: tuple[Floats, Floats]) -> Need:
    """What the tuned operators need in each draw of the law."""
    flow = start.workload.spec.job.dataflow
    capacity, selectivity = draws
    offered = np.array([[start.rates.get(key, 0.0) for key in flow.index]])
    demand = carried_rates(flow, offered, selectivity)
    inner = [place for place, operator in enumerate(flow.operators) if not operator.is_source]
    enough = capacity[:, inner, :] >= demand[:, inner, None]
    limit = capacity.shape[2]
    return Need(np.where(enough.any(axis=2), enough.argmax(axis=2) + 1, limit + 1), limit)


# As many jobs as a platform has of a kind: each is asked for every certainty.
_MOST_KEPT = 24
_kept: dict[str, tuple[Floats, Floats]] = {}


def _draws(workload: Workload) -> tuple[Floats, Floats]:
    """As ``drawn``, once for each job; the last are kept."""
    if workload.name not in _kept:
        if len(_kept) == _MOST_KEPT:
            del _kept[next(iter(_kept))]
        rng = np.random.default_rng([4, len(workload.spec.job.dataflow.operators)])
        _kept[workload.name] = drawn(workload, rng, DRAWS)
    return _kept[workload.name]


def drawn(workload: Workload, rng: np.random.Generator, draws: int) -> tuple[Floats, Floats]:
    """Capacity (draws × operators × parallelism) and selectivity (draws × operators) by the law."""
    flow, limit = workload.spec.job.dataflow, workload.spec.job.max_parallelism
    capacity = np.empty((draws, len(flow.operators), limit))
    selectivity = np.empty((draws, len(flow.operators)))
    for place, operator in enumerate(flow.operators):
        capacity[:, place], selectivity[:, place] = _of_operator(operator, rng, limit, draws)
        if workload.template == "nexmark":
            selectivity[:, place] = workload.physics[operator.id].selectivity
    return capacity, selectivity


def _of_operator(operator: Operator, rng: np.random.Generator, limit: int, draws: int) -> tuple[Floats, Floats]:
    some = [draw_physics(operator, rng) for _ in range(draws)]

    def column(name: str) -> Floats:
        return np.array([getattr(one, name) for one in some])[:, None]

    p = np.arange(1, limit + 1)[None, :]
    speedup = p / (1 + column("contention") * (p - 1) + column("coherency") * p * (p - 1))
    hot = 1 + column("skew") * (1 - 1 / p)
    return 1e6 / column("service_us") * speedup / hot, column("selectivity")[:, 0]
