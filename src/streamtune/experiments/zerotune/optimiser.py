"""Experiment 5 (Fig. 10): the plan that ZeroTune picks without a run, against greedy and Dhalion in closed loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from streamtune.control.controller import Controller
from streamtune.control.guards import Guards
from streamtune.dataflow import Job, Plan
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.simulator import Simulator, simulate_once
from streamtune.experiments.paper.findings import Check, Finding, Shown
from streamtune.experiments.zerotune.arena import TEST_FIRST, ZeroTuneArena
from streamtune.labs.cost_runs import calibrated_optisample
from streamtune.models.costmodel.advice import advise, normalised
from streamtune.models.costmodel.model import CostModel
from streamtune.models.costmodel.optisample import OptiSample
from streamtune.models.costmodel.settings import AdviceSettings
from streamtune.tuners import Dhalion, Greedy, Tuner
from streamtune.workloads.settings import SEEN_STRUCTURES
from streamtune.workloads.zerotune import UNSEEN_STRUCTURES, ZeroTuneQuery, draw_query

OURS = "ZeroTune (Eq. 1)"
THRIFTY = "ZeroTune, resources count"
_WINDOW = MeasurementWindow(60.0, 60.0)


@dataclass(frozen=True)
class Measured:
    """What a plan really did."""

    latency_ms: float
    throughput_per_s: float
    total: int
    reconfigurations: int


def optimiser_experiment(arena: ZeroTuneArena) -> Finding:
    """Mean speed-ups and weighted cost; all methods get the sources' parallelism that OptiSample gives."""
    scale, model = arena.scale, arena.main_model()
    optisample = calibrated_optisample(scale.seed)
    structures = (*SEEN_STRUCTURES, *UNSEEN_STRUCTURES)
    found: list[tuple[str, Mapping[str, Measured]]] = []
    for number in range(scale.queries):
        query = draw_query(structures[number % len(structures)], TEST_FIRST + 1_000_000 + number, scale.seed)
        arena.say(f"optimising query {number + 1} of {scale.queries}")
        found.append((query.structure, compare(query, model, optisample, scale.reconfigurations)))
    rows, figures = [], {}
    for group, names in (("seen", SEEN_STRUCTURES), ("unseen", UNSEEN_STRUCTURES)):
        chosen = [measured for structure, measured in found if structure in names]
        for method in found[0][1]:
            line = _against(chosen, method)
            figures[f"{group}: {method}"] = line
            rows.append((f"{group}: {method}", *(f"{line[key]:.2f}" for key in _COLUMNS)))
    faster = figures["seen: greedy"]["latency speed-up"], figures["unseen: greedy"]["latency speed-up"]
    return Finding(
        "zerotune-optimiser",
        "Experiment 5: the chosen plan against greedy and Dhalion",
        f"{scale.queries} queries on hosts, from parallelism 1, at most {scale.reconfigurations} reconfigurations; "
        f"speed-ups are geometric means of rival over ZeroTune, costs are Eq. 1 over all methods; seed {scale.seed}",
        "Fig. 10: 12 × over greedy for linear queries, 3 × for n-way joins",
        (Shown("", ("queries: method", *_COLUMNS), tuple(rows)),),
        checks=(
            Check("faster than greedy on seen structures", f"{faster[0]:.2f} ×", faster[0] > 1),
            Check("faster than greedy on unseen structures", f"{faster[1]:.2f} ×", faster[1] > 1),
        ),
        figures=figures,
    )


_COLUMNS = ("latency speed-up", "throughput speed-up", "weighted cost", "total parallelism", "reconfigurations")


def compare(query: ZeroTuneQuery, model: CostModel, optisample: OptiSample, bound: int) -> dict[str, Measured]:
    """One query under every method."""
    limit = query.largest_parallelism
    start = optisample.degrees(query.job, limit)
    fixed = {source.id: start[source.id] for source in query.job.dataflow.sources}
    plans: dict[str, tuple[Plan, int]] = {}
    for name, weight in ((OURS, 0.0), (THRIFTY, 0.15)):
        settings = AdviceSettings(resource_weight=weight)
        plans[name] = advise(model, query.job, query.cluster, settings, fixed=fixed).plan, 1
    makers: dict[str, Callable[[Job], Tuner]] = {"greedy": Greedy, "dhalion": Dhalion}
    for name, make in makers.items():
        plans[name] = _tuned(query, make, fixed, bound)
    return {name: _measure(query, plan, count) for name, (plan, count) in plans.items()}


def _tuned(
    query: ZeroTuneQuery, make: Callable[[Job], Tuner], fixed: Mapping[str, int], bound: int
) -> tuple[Plan, int]:
    engine = Simulator.of(query.spec, cluster=query.cluster)
    plan = Plan({key: fixed.get(key, 1) for key in query.job.dataflow.index})
    guards = Guards(max_reconfigurations=bound, max_parallelism=query.largest_parallelism)
    controller = Controller(engine, make(query.job), guards, _WINDOW)
    outcome = controller.tune(engine.deploy(query.job, plan))
    return outcome.deployment.plan, outcome.reconfigurations


def _measure(query: ZeroTuneQuery, plan: Plan, reconfigurations: int) -> Measured:
    seen = simulate_once(
        query.job, query.physics, plan, query.job.source_rates, window=_WINDOW, seed=1, cluster=query.cluster
    )
    return Measured(seen.latency_ms or 0.0, seen.throughput_per_s or 0.0, plan.total, reconfigurations)


def _against(found: list[Mapping[str, Measured]], method: str) -> dict[str, float]:
    """Means of one method over some queries, its speed-ups being those of ZeroTune over it."""
    if not found:
        return dict.fromkeys(_COLUMNS, float("nan"))
    latency = [one[method].latency_ms / one[OURS].latency_ms for one in found]
    throughput = [one[OURS].throughput_per_s / one[method].throughput_per_s for one in found]
    return {
        "latency speed-up": float(np.exp(np.mean(np.log(latency)))),
        "throughput speed-up": float(np.exp(np.mean(np.log(throughput)))),
        "weighted cost": float(np.mean([_cost(one, method) for one in found])),
        "total parallelism": float(np.mean([one[method].total for one in found])),
        "reconfigurations": float(np.mean([one[method].reconfigurations for one in found])),
    }


def _cost(one: Mapping[str, Measured], method: str) -> float:
    """Eq. 1 with weight ½, normalised over the methods."""
    names = list(one)
    latency = normalised(np.array([one[name].latency_ms for name in names]))
    throughput = normalised(np.array([-one[name].throughput_per_s for name in names]))
    return float((0.5 * latency + 0.5 * throughput)[names.index(method)])
