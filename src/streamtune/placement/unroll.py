"""The communication graph of a job, worked out from rates, partitioning and selectivities where nothing is measured.

Every operator becomes as many tasks as it has instances. What an operator sends along an edge is spread over the pairs
of instances as its partitioning says: forward to the instance of the same number, hash and rebalance to all, broadcast
a copy to each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from streamtune.dataflow import Dataflow, Edge, Observation, Operator
from streamtune.placement.graph import CommunicationGraph, Floats, PlacementError
from streamtune.readings.demand import input_rates

# Bytes per field of a record where the operator's width is known in fields alone.
FIELD_BYTES = {"int": 4.0, "float": 4.0, "long": 8.0, "double": 8.0, "string": 16.0}
DEFAULT_FIELD_BYTES = 8.0
DEFAULT_RECORD_BYTES = 100.0


def task_id(operator: str, instance: int) -> str:
    """How an instance is called.

    >>> task_id("join", 3)
    'join-3'
    """
    return f"{operator}-{instance}"


def record_bytes(operator: Operator) -> float:
    """Bytes of a record this operator sends: its width in fields times the size of their type, 100 where unknown.

    >>> record_bytes(Operator(id="bids", type="source", rate=1, tuple_width_out=5, tuple_type="long"))
    40.0
    """
    if operator.tuple_width_out is None:
        return DEFAULT_RECORD_BYTES
    return operator.tuple_width_out * FIELD_BYTES.get(operator.tuple_type or "", DEFAULT_FIELD_BYTES)


def rates_of(
    flow: Dataflow, source_rates: Mapping[str, float], selectivities: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    """Records/s that reach and leave every operator when nothing is a bottleneck; a source reads what it sends."""
    known = dict.fromkeys(flow.index, 1.0) | dict(selectivities)
    return {key: (rate, rate * known[key]) for key, rate in input_rates(flow, known, source_rates).items()}


def observed_rates(observation: Observation) -> dict[str, tuple[float, float]]:
    """Records/s in and out of every operator as an engine measured them."""
    return {
        key: (metrics.records_in_per_s, metrics.records_out_per_s) for key, metrics in observation.operators.items()
    }


def unrolled(
    flow: Dataflow,
    plan: Mapping[str, int],
    rates: Mapping[str, tuple[float, float]],
    *,
    bytes_per_record: Mapping[str, float] | None = None,
    shares: Mapping[str, Sequence[float]] | None = None,
    loads: Mapping[str, float] | None = None,
    memory_mb: Mapping[str, float] | None = None,
    state_mb: Mapping[str, float] | None = None,
) -> CommunicationGraph:
    """The graph of all instances. ``rates`` has records/s in and out of every operator.

    ``shares`` says how keys spread over an operator's instances (equal where left out), ``loads`` the load of all
    instances of an operator together; without it a task's load is the thesis' count of tuples in and out.

    >>> flow = Dataflow.from_edges(["source", "filter", "sink"], [(0, 1), (1, 2)])
    >>> rates = rates_of(flow, {"op0": 100.0}, {"op1": 0.5})
    >>> graph = unrolled(flow, {"op0": 1, "op1": 2, "op2": 1}, rates)
    >>> graph.tasks, graph.bytes_per_s.tolist()
    (('op0-0', 'op1-0', 'op1-1', 'op2-0'), [5000.0, 5000.0, 2500.0, 2500.0])
    """
    spread = {operator.id: _spread(operator.id, plan, shares or {}) for operator in flow.operators}
    first, tasks, operators = _numbered(flow, plan)
    ends: list[Floats] = []
    for edge in flow.edges:
        sender = flow.operator(edge.source)
        size = (bytes_per_record or {}).get(edge.source, record_bytes(sender))
        pairs = pair_shares(edge, plan, spread) * rates[edge.source][1] * size
        a, b = np.nonzero(pairs)
        ends.append(np.column_stack([a + first[edge.source], b + first[edge.target], pairs[a, b]]))
    edges = np.concatenate(ends) if ends else np.zeros((0, 3))
    load = _load_per_task(flow, rates, loads, spread)
    return CommunicationGraph.from_arrays(
        tasks,
        load,
        edges[:, 0].astype(np.int64),
        edges[:, 1].astype(np.int64),
        edges[:, 2],
        memory_mb=_per_task(flow, spread, memory_mb),
        state_mb=_per_task(flow, spread, state_mb),
        operators=operators,
    )


def _numbered(flow: Dataflow, plan: Mapping[str, int]) -> tuple[dict[str, int], list[str], list[str]]:
    first: dict[str, int] = {}
    tasks: list[str] = []
    operators: list[str] = []
    for operator in flow.operators:
        if operator.id not in plan:
            raise PlacementError(f"the plan does not name operator '{operator.id}': give every operator a parallelism")
        first[operator.id] = len(tasks)
        tasks.extend(task_id(operator.id, instance) for instance in range(plan[operator.id]))
        operators.extend([operator.id] * plan[operator.id])
    return first, tasks, operators


def _spread(operator: str, plan: Mapping[str, int], shares: Mapping[str, Sequence[float]]) -> Floats:
    degree = plan.get(operator, 1)
    if operator not in shares:
        return np.full(degree, 1.0 / degree)
    given = np.asarray(shares[operator], dtype=np.float64)
    if given.size != degree or not np.isfinite(given).all() or (given < 0).any() or given.sum() <= 0:
        raise PlacementError(
            f"operator '{operator}' has {degree} instances and needs as many shares of at least 0, but got {given.size}"
        )
    normal: Floats = given / given.sum()
    return normal


def pair_shares(edge: Edge, plan: Mapping[str, int], spread: Mapping[str, Floats]) -> Floats:
    """The share of an operator's records that goes from each of its instances to each of the receiver's."""
    send, receive = spread[edge.source], spread[edge.target]
    if edge.partitioning == "broadcast":
        receive = np.ones(plan[edge.target])
    elif edge.partitioning == "forward":
        return _forward(send, plan[edge.target])
    elif edge.partitioning == "rebalance":
        receive = np.full(plan[edge.target], 1.0 / plan[edge.target])
    pairs: Floats = send[:, None] * receive[None, :]
    return pairs


def _forward(send: Floats, receivers: int) -> Floats:
    """Instance i to instance i; with other numbers of instances, neighbours to neighbours as Flink's rescale does."""
    senders = send.size
    pairs = np.zeros((senders, receivers))
    if senders >= receivers:
        pairs[np.arange(senders), np.arange(senders) * receivers // senders] = send
    else:
        of = np.arange(receivers) * senders // receivers
        pairs[of, np.arange(receivers)] = send[of] / np.bincount(of, minlength=senders)[of]
    return pairs


def _load_per_task(
    flow: Dataflow,
    rates: Mapping[str, tuple[float, float]],
    loads: Mapping[str, float] | None,
    spread: Mapping[str, Floats],
) -> Floats:
    whole = loads or {operator.id: sum(rates[operator.id]) for operator in flow.operators}
    return np.concatenate([spread[operator.id] * whole[operator.id] for operator in flow.operators])


def _per_task(flow: Dataflow, spread: Mapping[str, Floats], values: Mapping[str, float] | None) -> Floats | None:
    if values is None:
        return None
    return np.concatenate([np.full(spread[o.id].size, float(values.get(o.id, 0.0))) for o in flow.operators])
