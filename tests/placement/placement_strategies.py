"""Graphs, hosts and problems for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from streamtune.placement import CommunicationGraph, Host, Hosts, Problem

IMBALANCES = (1.0, 1.03, 1.1, 1.3, 2.0)


@st.composite
def graphs(draw: st.DrawFn, most_tasks: int = 14) -> CommunicationGraph:
    count = draw(st.integers(1, most_tasks))
    loads = draw(st.lists(st.integers(0, 8), min_size=count, max_size=count))
    place = st.integers(0, count - 1)
    edges = draw(st.lists(st.tuples(place, place, st.integers(0, 100).map(float)), max_size=3 * count))
    state = draw(st.lists(st.integers(0, 50), min_size=count, max_size=count))
    return CommunicationGraph.of([f"t{n}" for n in range(count)], loads, edges, state_mb=state)


@st.composite
def host_sets(draw: st.DrawFn, most: int = 4) -> Hosts:
    count = draw(st.integers(1, most))
    sizes = draw(st.lists(st.sampled_from([1.0, 1.0, 2.0]), min_size=count, max_size=count))
    zones = draw(st.sampled_from([1, 1, 2]))
    return Hosts.of(Host(name=f"h{n}", cpu=sizes[n], zone=f"z{n % zones}") for n in range(count))


@st.composite
def problems(draw: st.DrawFn, most_tasks: int = 14) -> Problem:
    return Problem(draw(graphs(most_tasks)), draw(host_sets()), draw(st.sampled_from(IMBALANCES)))
