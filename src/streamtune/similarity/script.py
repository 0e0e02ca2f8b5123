"""Edit scripts: which operators and edges change between two dataflows, one operation each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from streamtune.dataflow import Dataflow, Edge, Operator
from streamtune.errors import StreamTuneError
from streamtune.similarity.distance import DEFAULT_BUDGET, UndecidedDistanceError, best_mapping


@dataclass(frozen=True, slots=True)
class InsertOperator:
    """A new operator, still without edges; ``operator`` is its id."""

    operator: str
    type: str
    name: ClassVar[str] = "insert operator"

    def __str__(self) -> str:
        return f"insert operator '{self.operator}' ({self.type})"


@dataclass(frozen=True, slots=True)
class DeleteOperator:
    """An operator is deleted; its edges were deleted before."""

    operator: str
    type: str
    name: ClassVar[str] = "delete operator"

    def __str__(self) -> str:
        return f"delete operator '{self.operator}' ({self.type})"


@dataclass(frozen=True, slots=True)
class ChangeType:
    """An operator changes its type and keeps its edges."""

    operator: str
    old_type: str
    new_type: str
    name: ClassVar[str] = "change type"

    def __str__(self) -> str:
        return f"change type of '{self.operator}' from {self.old_type} to {self.new_type}"


@dataclass(frozen=True, slots=True)
class InsertEdge:
    source: str
    target: str
    name: ClassVar[str] = "insert edge"

    def __str__(self) -> str:
        return f"insert edge '{self.source}' → '{self.target}'"


@dataclass(frozen=True, slots=True)
class DeleteEdge:
    source: str
    target: str
    name: ClassVar[str] = "delete edge"

    def __str__(self) -> str:
        return f"delete edge '{self.source}' → '{self.target}'"


@dataclass(frozen=True, slots=True)
class ReverseEdge:
    """The edge source → target becomes target → source."""

    source: str
    target: str
    name: ClassVar[str] = "reverse edge"

    def __str__(self) -> str:
        return f"reverse edge '{self.source}' → '{self.target}'"


EditOperation = InsertOperator | DeleteOperator | ChangeType | InsertEdge | DeleteEdge | ReverseEdge


def edit_script(a: Dataflow, b: Dataflow, budget: int = DEFAULT_BUDGET) -> tuple[EditOperation, ...]:
    """A shortest way from ``a`` to a dataflow isomorphic to ``b``, as many operations as their distance.

    >>> a = Dataflow.from_edges(["source", "filter"], [(0, 1)])
    >>> b = Dataflow.from_edges(["source", "map"], [])
    >>> print(*edit_script(a, b), sep="; ")
    delete edge 'op0' → 'op1'; change type of 'op1' from filter to map

    :raises UndecidedDistanceError: when ``budget`` states do not prove one to be shortest.
    """
    found, mapping = best_mapping(a, b, budget)
    if not found.exact or found.upper is None:
        raise UndecidedDistanceError(found.lower, found.upper or 0, budget)
    return script_of_mapping(a, b, mapping)


def script_of_mapping(a: Dataflow, b: Dataflow, mapping: Sequence[int | None]) -> tuple[EditOperation, ...]:
    """The operations that a mapping of ``a``'s operators to positions in ``b`` stands for (None: deleted).

    Their order keeps every step possible: no operator goes before its edges, none gets edges before it is there.
    """
    names = dict(zip(mapping, a.index, strict=True))
    taken = set(a.index)
    inserted = []
    for position, operator in enumerate(b.operators):
        if position not in names:
            names[position] = _unused(operator.id, taken)
            taken.add(names[position])
            inserted.append(InsertOperator(names[position], operator.type))
    deleted, changed = [], []
    for operator, image in zip(a.operators, mapping, strict=True):
        if image is None:
            deleted.append(DeleteOperator(operator.id, operator.type))
        elif operator.type != b.types[image]:
            changed.append(ChangeType(operator.id, operator.type, b.types[image]))
    old = {(edge.source, edge.target): None for edge in a.edges}
    new = {(names[tail], names[head]): None for tail, head in b.edge_indices}
    gone = [edge for edge in old if edge not in new]
    come = [edge for edge in new if edge not in old]
    return (
        *(DeleteEdge(*edge) for edge in gone if edge[::-1] not in new),
        *deleted,
        *(ReverseEdge(*edge) for edge in gone if edge[::-1] in new),
        *changed,
        *inserted,
        *(InsertEdge(*edge) for edge in come if edge[::-1] not in old),
    )


def apply_script(dataflow: Dataflow, script: Iterable[EditOperation]) -> Dataflow:
    """The dataflow after all operations, one after the other; refuses one that does not fit where it comes.

    Operators that stay keep their features, edges that stay their partitioning.
    """
    draft = _Draft(dataflow)
    for operation in script:
        draft.apply(operation)
    return Dataflow(tuple(draft.operators.values()), tuple(draft.edges.values()))


class _Draft:
    """A graph under edit; between operations it may have cycles and loose operators."""

    def __init__(self, dataflow: Dataflow) -> None:
        self.operators = {operator.id: operator for operator in dataflow.operators}
        self.edges = {(edge.source, edge.target): edge for edge in dataflow.edges}

    def apply(self, operation: EditOperation) -> None:
        match operation:
            case InsertOperator(operator, kind):
                self._demand(operator not in self.operators, operation, "the id is in use")
                self.operators[operator] = Operator(id=operator, type=kind)
            case DeleteOperator(operator, kind):
                self._demand(self._has(operator, kind), operation, "there is no such operator")
                self._demand(not any(operator in edge for edge in self.edges), operation, "it still has edges")
                del self.operators[operator]
            case ChangeType(operator, old_type, new_type):
                self._demand(self._has(operator, old_type), operation, "there is no such operator")
                self.operators[operator] = self.operators[operator].model_copy(update={"type": new_type})
            case InsertEdge(source, target):
                self._connect(operation, source, target)
            case DeleteEdge(source, target):
                self._disconnect(operation, source, target)
            case ReverseEdge(source, target):
                self._disconnect(operation, source, target)
                self._connect(operation, target, source)

    def _has(self, operator: str, kind: str) -> bool:
        return operator in self.operators and self.operators[operator].type == kind

    def _connect(self, operation: EditOperation, source: str, target: str) -> None:
        known = source in self.operators and target in self.operators
        self._demand(known and source != target, operation, "it needs two operators that are there")
        taken = (source, target) in self.edges or (target, source) in self.edges
        self._demand(not taken, operation, "the two are connected already")
        self.edges[source, target] = Edge(source, target, self.operators[target].default_partitioning)

    def _disconnect(self, operation: EditOperation, source: str, target: str) -> None:
        self._demand((source, target) in self.edges, operation, "there is no such edge")
        del self.edges[source, target]

    @staticmethod
    def _demand(fits: bool, operation: EditOperation, problem: str) -> None:
        if not fits:
            raise StreamTuneError(f"cannot {operation}: {problem}. Apply a script to the dataflow it was made for")


def _unused(name: str, taken: set[str]) -> str:
    """``name``, with as many primes as it takes to be new."""
    while name in taken:
        name += "'"
    return name
