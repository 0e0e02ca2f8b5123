"""A job that was changed a little keeps what it taught, by the operators that are still there.

Operators keep their names over a resubmission; where a name has changed as well, the cheapest edit that makes the old
dataflow the new one says which operator is which.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamtune.dataflow import Dataflow, Observation

# States that the search for the cheapest edit may take.
_STATES = 3_000


def still_there(before: Dataflow, now: Dataflow) -> dict[str, str]:
    """Operator id then → the same operator's id now; empty where less than half of those behind the sources are left.

    >>> from streamtune.dataflow import Edge, Operator
    >>> def chain(*types):
    ...     operators = (Operator(id="s", type="source", rate=1), *(Operator(id=one, type=one) for one in types))
    ...     ids = ("s", *types)
    ...     return Dataflow(operators, tuple(Edge(a, b) for a, b in zip(ids, ids[1:])))
    >>> still_there(chain("map", "join"), chain("filter", "map", "join"))
    {'s': 's', 'map': 'map', 'join': 'join'}
    >>> still_there(chain("map"), chain("join", "sink"))
    {}
    """
    types = {operator.id: operator.type for operator in now.operators}
    found = {one.id: one.id for one in before.operators if types.get(one.id) == one.type}
    gone = [one for one in before.operators if one.id not in found]
    new = types.keys() - set(found.values())
    if {one.type for one in gone} & {types[key] for key in new}:
        found |= _renamed(before, now, found)
    kept = [key for key in found.values() if types[key] != "source"]
    behind = [operator for operator in now.operators if not operator.is_source]
    return found if 2 * len(kept) >= len(behind) > 0 else {}


def _renamed(before: Dataflow, now: Dataflow, known: Mapping[str, str]) -> dict[str, str]:
    from streamtune.similarity import best_mapping

    _, images = best_mapping(before, now, _STATES)
    found = {}
    for operator, image in zip(before.operators, images, strict=True):
        if image is not None and operator.id not in known:
            other = now.operators[image]
            if other.type == operator.type and other.id not in known.values():
                found[operator.id] = other.id
    return found


def inherited(seen: Observation, names: Mapping[str, str]) -> Observation | None:
    """An observation of the job as it was, in the names of now; None where it says nothing of it.

    What held the job up then may be gone, and without one of its sources the rates of now say nothing about then.
    """
    if seen.has_backpressure or seen.bottlenecks or not seen.source_rates.keys() <= names.keys():
        return None
    renamed: dict[str, Any] = {
        field: {names[key]: value for key, value in getattr(seen, field).items() if key in names}
        for field in ("source_rates", "operators", "rate_origins", "rate_sds")
    }
    edges = tuple(
        edge.model_copy(update={"source": names[edge.source], "target": names[edge.target]})
        for edge in seen.edges
        if edge.source in names and edge.target in names
    )
    return seen.model_copy(update={**renamed, "edges": edges, "instance_pairs": (), "hosts": {}})
