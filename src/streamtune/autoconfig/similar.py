"""Warm starts: what sessions of similar jobs had learned, carried over to this one. The one adapter to other rooms.

Jobs are compared by graph edit distance (the room ``similarity``). Operators that the cheapest edit script maps onto
each other hand over their share of the work; the best configurations are carried over knob by knob. Of two equally near
sessions the one with the better-measured best comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamtune.autoconfig.choice import candidates
from streamtune.autoconfig.problem import Problem
from streamtune.autoconfig.report import Session
from streamtune.autoconfig.strategies.beliefs import Beliefs, believe
from streamtune.autoconfig.strategies.reduced import Reduced
from streamtune.dataflow import Dataflow, Edge, Operator

_CARRIED = 3
_SEARCH_BUDGET = 20_000


def warm_starts(problem: Problem, sessions: Sequence[Session]) -> list[dict[str, Any]]:
    """For each past session, nearest first: what it tells about this job.

    ``distance``; ``work`` by knob: the operator's share of the work over its base weight, 1 for a typical one; the best
    ``configurations`` and the ``totals`` of their parallelism, which stand for the size of the cluster.
    """
    found = []
    for session in sessions:
        distance, partner = _match(problem, session.problem)
        found.append((distance, _carried_over(problem, session, distance, partner)))
    return [record for _, record in sorted(found, key=lambda item: item[0])]


def dataflow_of(problem: Problem) -> Dataflow | None:
    """The job's dataflow as the space file gives it (``inputs``), or None."""
    if problem.inputs is None:
        return None
    names = list(dict.fromkeys([*problem.inputs, *(one for some in problem.inputs.values() for one in some)]))
    read = {one for some in problem.inputs.values() for one in some}

    def kind(name: str) -> str:
        if name in problem.types:
            return problem.types[name]
        return "source" if not problem.inputs or not problem.inputs.get(name) else "map" if name in read else "sink"

    operators = tuple(Operator(id=name, type=kind(name)) for name in names)
    edges = tuple(Edge(source, target) for target, some in problem.inputs.items() for source in some)
    return Dataflow(operators, edges)


def _match(new: Problem, old: Problem) -> tuple[float, dict[str, str]]:
    """Edit distance relative to the graphs' size, and new operator → old operator."""
    a, b = dataflow_of(new), dataflow_of(old)
    if a is None or b is None:
        shared = {knob.operator for knob in old.space.knobs.values()}
        same = {k.operator: k.operator for k in new.space.knobs.values() if k.operator and k.operator in shared}
        return 0.0 if set(new.space.knobs) == set(old.space.knobs) else 1.0, same
    from streamtune.similarity import best_mapping

    distance, images = best_mapping(a, b, budget=_SEARCH_BUDGET)
    size = len(a.operators) + len(a.edges) + len(b.operators) + len(b.edges)
    pairs = {a.operators[place].id: b.operators[image].id for place, image in enumerate(images) if image is not None}
    return (distance.upper or 0) / max(1, size), pairs


def _carried_over(new: Problem, session: Session, distance: float, partner: dict[str, str]) -> dict[str, Any]:
    old = session.problem
    hints = Reduced.of(old.space).hints
    weights = {name: old.space.knobs[name].weight or 1.0 for name in hints}
    beliefs = believe(old.space, hints, session.trials, weights) if hints else None
    knob_of = {old.space.knobs[name].operator: name for name in hints}
    place = {
        name: knob_of[partner[knob.operator]]
        for name, knob in new.space.knobs.items()
        if knob.operator in partner and partner[knob.operator] in knob_of
    }
    place.update({name: name for name in new.space.knobs if name not in place and name in old.space.knobs})
    sign = 1.0 if old.objective.maximise else -1.0
    best = sorted(candidates(session.trials), key=lambda one: -sign * one.mean)[:_CARRIED]
    configurations, totals = [], []
    for one in best:
        full = old.space.filled(one.knobs)
        carried = {name: full[source] for name, source in place.items() if new.space.knobs[name].allows(full[source])}
        configurations.append(carried)
        totals.append(sum(float(full[name]) for name in hints))
    work = _work(new, old, place, beliefs) if beliefs else {}
    return {"distance": distance, "work": work, "configurations": configurations, "totals": totals}


def _work(new: Problem, old: Problem, place: dict[str, str], beliefs: Beliefs) -> dict[str, float]:
    """Knob → share of the work over what is expected of it, relative to the typical operator.

    What is expected is the base weight, where both jobs have them: it follows from the graph and is not carried over.
    """
    found = {}
    for name, source in place.items():
        if source in beliefs.shares and source not in beliefs.contentious:
            weighed = new.space.knobs[name].weight is not None
            found[name] = beliefs.shares[source] / ((old.space.knobs[source].weight or 1.0) if weighed else 1.0)
    typical = float(np.median(list(found.values()))) if found else 1.0
    return {name: value / typical for name, value in found.items()}
