"""Random dataflows and jobs for property tests."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from streamtune.dataflow import Dataflow, Edge, Job, Operator, Window
from streamtune.dataflow.operator import KNOWN_TYPES
from streamtune.dataflow.physics import OperatorPhysics

TYPES = ("filter", "map", "window_join", "sink")


@st.composite
def typed_dags(draw: st.DrawFn, max_size: int = 8, types: tuple[str, ...] = TYPES) -> Dataflow:
    """Any typed DAG: also empty, disconnected or without a source."""
    size = draw(st.integers(0, max_size))
    kinds = draw(st.lists(st.sampled_from(types), min_size=size, max_size=size))
    pairs = [(a, b) for b in range(size) for a in range(b)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return Dataflow.from_edges(kinds, chosen)


@dataclass(frozen=True)
class EmulatedJob:
    job: Job
    physics: dict[str, OperatorPhysics]


_PHYSICS = st.builds(
    OperatorPhysics,
    service_us=st.floats(50, 5000),
    selectivity=st.floats(0.05, 1.2),
    contention=st.floats(0, 0.01),
    coherency=st.floats(0, 5e-5),
    skew=st.floats(0, 0.2),
    cv=st.floats(0, 0.4),
    fire_share=st.floats(0, 0.2),
)


@st.composite
def emulated_jobs(draw: st.DrawFn, max_inner: int = 5, *, windows: bool = True, linear: bool = False) -> EmulatedJob:
    """A runnable job with physics: one or two sources, some inner operators, a sink behind every loose end."""
    sources = draw(st.integers(1, 2))
    inner = draw(st.integers(1, max_inner))
    rate = draw(st.floats(200, 5000))
    operators = [Operator(id=f"s{i}", type="source", rate=rate, parallelism=1) for i in range(sources)]
    edges: list[Edge] = []
    physics = {f"s{i}": OperatorPhysics(service_us=draw(st.floats(1, 50))) for i in range(sources)}
    for position in range(inner):
        kind = draw(st.sampled_from(("map", "filter", "window_aggregate")))
        is_window = windows and kind == "window_aggregate"
        window = Window(type="tumbling", policy="time", length=draw(st.sampled_from((0.5, 1.0, 2.0))))
        key = f"o{position}"
        operators.append(Operator(id=key, type=kind, window=window if is_window else None))
        earlier = [operator.id for operator in operators[:-1]]
        inputs = draw(st.lists(st.sampled_from(earlier), min_size=1, max_size=2, unique=True))
        if position < sources:  # every source is read
            inputs = sorted({*inputs, f"s{position}"})
        edges += [Edge(before, key) for before in inputs]
        truth = draw(_PHYSICS)
        if linear:
            truth = truth.model_copy(update={"contention": 0.0, "coherency": 0.0, "skew": 0.0})
        physics[key] = truth
    read = {edge.source for edge in edges}
    for operator in list(operators):
        if operator.id not in read:
            key = f"sink_{operator.id}"
            operators.append(Operator(id=key, type="sink"))
            edges.append(Edge(operator.id, key))
            physics[key] = OperatorPhysics(service_us=1)
    return EmulatedJob(Job("random", Dataflow(tuple(operators), tuple(edges))), physics)


known_types = st.sampled_from(KNOWN_TYPES)
