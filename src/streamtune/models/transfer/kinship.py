"""Which past operators correspond to the operators of a job: relatives by what they do, mapped by edit distance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamtune.dataflow import Dataflow
from streamtune.dataflow.features import table_one
from streamtune.models.transfer.design import Features
from streamtune.models.transfer.past import PastOperators, signature
from streamtune.models.transfer.settings import KinSettings
from streamtune.similarity import best_mapping, measure_pairs, pack

_NEAR = 2
_SOME_BITS, _MANY_BITS = 6.0, 15.0


@dataclass(frozen=True)
class Kin:
    """A past operator that one of the job's corresponds to.

    ``bits`` is how surprising it would be if the two jobs had so much in common by chance; ``is_same`` means that the
    two operators agree in everything but widths; ``is_own`` that it is the job's own past.
    """

    row: int
    job: str
    operator: str
    distance: int
    bits: float
    is_same: bool
    is_own: bool = False

    @property
    def closeness(self) -> str:
        """The class of kinship, for which a history says what it is worth.

        >>> Kin(0, "j", "f", distance=1, bits=20.0, is_same=True).closeness
        'near, much in common, same operator'
        """
        distance = "same shape" if self.distance == 0 else "near" if self.distance <= _NEAR else "far"
        common = "little" if self.bits < _SOME_BITS else "some" if self.bits < _MANY_BITS else "much"
        return f"{distance}, {common} in common, {'same operator' if self.is_same else 'same type'}"


CLOSENESS = tuple(
    Kin(0, "", "", distance, bits, is_same).closeness
    for distance in (0, 1, 5)
    for bits in (0.0, _SOME_BITS, _MANY_BITS)
    for is_same in (True, False)
)


def features_of(flow: Dataflow) -> list[Features]:
    return [table_one(operator) for operator in flow.operators]


def find_kin(
    past: PastOperators,
    name: str,
    flow: Dataflow,
    settings: KinSettings,
    *,
    use_own: bool = True,
    use_relatives: bool = True,
) -> list[list[Kin]]:
    """For each operator of the job the past operators it is mapped to, the closest first.

    Candidates are the jobs that have most in common with this one (an index finds them, however long the past is);
    the edit distance to each of them is what maps operators.
    """
    found: list[list[Kin]] = [[] for _ in flow.operators]
    signatures = [signature(features) for features in features_of(flow)]
    own = past.by_name.get(name, []) if use_own else []
    others: list[int] = []
    if use_relatives:
        likely = _candidates(past, signatures, settings.candidates, set(past.by_name.get(name, ())))
        others = _within(past, flow, likely, settings)
    for number in (*own, *others):
        is_own = number in own
        job = past.job(number)
        distance, mapping = _mapping(flow, job.dataflow, settings.states)
        if distance > settings.most_distance and not is_own:
            continue
        pairs = [
            (position, job.rows[image])
            for position, image in enumerate(mapping)
            if image is not None and past.types[job.rows[image]] == flow.operators[position].type
        ]
        same = {position: past.signatures[row] == signatures[position] for position, row in pairs}
        bits = sum(past.rarity[past.signatures[row]] for position, row in pairs if same[position])
        for position, row in pairs:
            found[position].append(Kin(row, job.name, past.ids[row], distance, bits, same[position], is_own))
    # The latest first, and so first of its own past: a job that changed often is what it was last.
    latest = [sorted(kin, key=lambda one: (past.days[one.row], -one.row), reverse=True) for kin in found]
    return [sorted(kin, key=_rank) for kin in latest]


def _rank(one: Kin) -> tuple[bool, bool, float, int]:
    """Own past first, by day alone (sorting is stable); of others those with most in common."""
    own = (False, not one.is_same, 0.0, 0)
    return own if one.is_own else (True, not one.is_same, -one.bits, one.distance)


def _within(past: PastOperators, flow: Dataflow, numbers: list[int], settings: KinSettings) -> list[int]:
    """Those whose edit distance may be small enough: to tell that takes far less than to map operators.

    Every operator that one of the two has more is an edit; where that is enough, nothing has to be measured.
    """
    size = len(flow.operators)
    numbers = [number for number in numbers if abs(len(past.job_rows[number]) - size) <= settings.most_distance]
    if not numbers:
        return []
    packed = pack([flow, *(past.job(number).dataflow for number in numbers)])
    pairs = [(0, place) for place in range(1, len(numbers) + 1)]
    found = measure_pairs(packed, pairs, limit=settings.most_distance, verify=True, budget=settings.states)
    return [number for number, lower in zip(numbers, found.lower, strict=True) if lower <= settings.most_distance]


def _mapping(a: Dataflow, b: Dataflow, states: int) -> tuple[int, tuple[int | None, ...]]:
    """Where ids and types agree throughout, that is the mapping; else the cheapest one that was found."""
    if a.index == b.index and a.types == b.types and set(a.edge_indices) == set(b.edge_indices):
        return 0, tuple(range(len(a.types)))
    distance, mapping = best_mapping(a, b, states)
    return int(distance.upper if distance.upper is not None else distance.lower), mapping


def _candidates(past: PastOperators, signatures: Sequence[str], most: int, own: set[int]) -> list[int]:
    """The jobs that share most with these operators, by the bits of the signatures they have in common."""
    if not len(past):
        return []
    shared = np.zeros(len(past.job_rows))
    for text in dict.fromkeys(signatures):
        holders = past.holders.get(text)
        if holders is not None:
            shared[holders] += past.rarity[text]
    if own:
        shared[list(own)] = 0.0
    order = np.argsort(-shared, kind="stable")[:most]
    return [int(number) for number in order if shared[number] > 0]
