"""Which operator of a job that was changed a little is which of the job as it was.

Operators keep their names over a resubmission; where a name has changed as well, the cheapest edit that makes the old
dataflow the new one says which operator is which.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamtune.dataflow import Dataflow

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
    from streamtune.similarity.distance import best_mapping  # its kernels need not load where names say it all

    _, images = best_mapping(before, now, _STATES)
    found = {}
    for operator, image in zip(before.operators, images, strict=True):
        if image is not None and operator.id not in known:
            other = now.operators[image]
            if other.type == operator.type and other.id not in known.values():
                found[operator.id] = other.id
    return found
