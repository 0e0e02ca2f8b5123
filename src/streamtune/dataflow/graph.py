"""``Dataflow``: a validated, immutable DAG of operators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from streamtune.dataflow.canonical import canonical_form
from streamtune.dataflow.operator import Operator, Partitioning
from streamtune.errors import DataflowError


@dataclass(frozen=True, slots=True)
class Edge:
    """Records flow from ``source`` to ``target`` (operator ids)."""

    source: str
    target: str
    partitioning: Partitioning = "rebalance"


@dataclass(frozen=True)
class Dataflow:
    """Operators and the edges between them, checked to be a DAG.

    Any typed DAG is accepted, even an empty or disconnected one or one without sources: ``Job`` checks what a
    runnable job needs beyond that.

    >>> flow = Dataflow.from_edges(["source", "filter", "sink"], [(0, 1), (1, 2)])
    >>> flow.order
    ('op0', 'op1', 'op2')
    >>> flow.successors("op0")
    ('op1',)
    """

    operators: tuple[Operator, ...]
    edges: tuple[Edge, ...]

    def __post_init__(self) -> None:
        self._check_ids()
        self._check_edges()
        self.order  # noqa: B018  computed here so that a cycle is refused immediately

    @classmethod
    def from_edges(cls, types: Sequence[str], edges: Iterable[tuple[int, int]]) -> Dataflow:
        """A bare typed DAG: operators ``op0, op1, …`` of the given types, edges as index pairs."""
        operators = tuple(Operator(id=f"op{index}", type=kind) for index, kind in enumerate(types))
        pairs = list(edges)
        for pair in pairs:
            if not all(0 <= end < len(operators) for end in pair):
                raise DataflowError(f"edge {pair} points outside 0..{len(operators) - 1}")
        return cls(
            operators,
            tuple(Edge(operators[a].id, operators[b].id, operators[b].default_partitioning) for a, b in pairs),
        )

    def _check_ids(self) -> None:
        seen: set[str] = set()
        for operator in self.operators:
            if operator.id in seen:
                raise DataflowError(
                    "the id is used twice: give every operator its own", operator=operator.id, field="id"
                )
            seen.add(operator.id)

    def _check_edges(self) -> None:
        ids = self.index
        seen: set[tuple[str, str]] = set()
        for edge in self.edges:
            for end in (edge.source, edge.target):
                if end not in ids:
                    known = ", ".join(ids) or "none"
                    raise DataflowError(
                        f"unknown input '{end}': the operators are {known}", operator=edge.target, field="inputs"
                    )
            if edge.source == edge.target:
                raise DataflowError("an operator cannot be its own input", operator=edge.target, field="inputs")
            if (edge.source, edge.target) in seen:
                raise DataflowError(f"input '{edge.source}' is listed twice", operator=edge.target, field="inputs")
            seen.add((edge.source, edge.target))

    @cached_property
    def index(self) -> dict[str, int]:
        """Operator id → position in ``operators``."""
        return {operator.id: position for position, operator in enumerate(self.operators)}

    @cached_property
    def types(self) -> tuple[str, ...]:
        return tuple(operator.type for operator in self.operators)

    @cached_property
    def edge_indices(self) -> tuple[tuple[int, int], ...]:
        return tuple((self.index[edge.source], self.index[edge.target]) for edge in self.edges)

    @cached_property
    def _neighbours(self) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
        before: dict[str, list[str]] = {operator.id: [] for operator in self.operators}
        after: dict[str, list[str]] = {operator.id: [] for operator in self.operators}
        for edge in self.edges:
            before[edge.target].append(edge.source)
            after[edge.source].append(edge.target)
        return ({k: tuple(v) for k, v in before.items()}, {k: tuple(v) for k, v in after.items()})

    def predecessors(self, operator_id: str) -> tuple[str, ...]:
        return self._neighbours[0][operator_id]

    def successors(self, operator_id: str) -> tuple[str, ...]:
        return self._neighbours[1][operator_id]

    def operator(self, operator_id: str) -> Operator:
        try:
            return self.operators[self.index[operator_id]]
        except KeyError:
            raise DataflowError(f"no operator '{operator_id}': the operators are {', '.join(self.index)}") from None

    @cached_property
    def sources(self) -> tuple[Operator, ...]:
        return tuple(operator for operator in self.operators if operator.is_source)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Operator ids in topological order; ties keep the order of ``operators``."""
        waiting = {operator.id: len(self.predecessors(operator.id)) for operator in self.operators}
        ready = [operator_id for operator_id, count in waiting.items() if count == 0]
        order: list[str] = []
        while ready:
            ready.sort(key=self.index.__getitem__, reverse=True)
            current = ready.pop()
            order.append(current)
            for successor in self.successors(current):
                waiting[successor] -= 1
                if waiting[successor] == 0:
                    ready.append(successor)
        if len(order) < len(self.operators):
            cycle = [operator.id for operator in self.operators if operator.id not in set(order)]
            raise DataflowError(
                f"the inputs form a cycle through {', '.join(cycle)}: a dataflow must be acyclic",
                operator=cycle[0],
                field="inputs",
            )
        return tuple(order)

    @cached_property
    def canonical_form(self) -> str:
        """A text that two dataflows share exactly if they are isomorphic as typed DAGs."""
        return canonical_form(self.types, self.edge_indices)
