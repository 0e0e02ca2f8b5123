"""Laws of the network: shapes, permutation, and vectors that do not know their own parallelism."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.encoder.planted import FEATURES, planted_runs
from streamtune.models.encoder import BottleneckNetwork, GraphSet, NetworkSettings
from streamtune.models.encoder.settings import Fusion


def network(fusion: Fusion = "late", iterations: int = 3) -> BottleneckNetwork:
    torch.manual_seed(1)
    made = BottleneckNetwork(FEATURES, NetworkSettings(width=16, iterations=iterations, fusion=fusion))
    return made.eval()


@given(st.integers(0, 2**31), st.integers(0, 4))
@settings(max_examples=10)
def test_shapes(seed: int, iterations: int) -> None:
    batch = planted_runs(5, seed).batch()
    net = network(iterations=iterations)
    with torch.no_grad():
        agnostic = net.agnostic(batch.features, batch.edge_index)
        assert agnostic.shape == (len(batch.features), 16)
        assert net.aware(agnostic, batch.log_p).shape == agnostic.shape  # Eq. 3 leaves the dimension unchanged
        assert net(batch.features, batch.edge_index, batch.log_p).shape == (len(batch.features),)


@given(st.integers(0, 2**31), st.data())
@settings(max_examples=10)
def test_renumbering_operators_renumbers_the_vectors(seed: int, data: st.DataObject) -> None:
    batch = planted_runs(3, seed).batch()
    order = torch.tensor(data.draw(st.permutations(range(len(batch.features)))))
    place = torch.argsort(order)  # old position → new position
    edge_order = torch.tensor(data.draw(st.permutations(range(batch.edge_index.shape[1]))))
    edges = place[batch.edge_index][:, edge_order]
    net = network()
    with torch.no_grad():
        before = net(batch.features, batch.edge_index, batch.log_p)
        after = net(batch.features[order], edges, batch.log_p[order])
    assert torch.allclose(after, before[order], atol=1e-5)


def moved(seed: int, fusion: Fusion) -> tuple[float, float]:
    """By how much a node's own agnostic vector, and that of the others, changes with that node's parallelism."""
    batch = planted_runs(4, seed).batch()
    net = network(fusion)
    own, others = 0.0, 0.0
    with torch.no_grad():
        base = net.agnostic(batch.features, batch.edge_index, batch.log_p)
        for node in range(len(batch.features)):
            log_p = batch.log_p.clone()
            log_p[node] = 1.0 if batch.log_p[node] < 0.5 else 0.0
            change = (net.agnostic(batch.features, batch.edge_index, log_p) - base).abs().max(dim=1).values
            own = max(own, float(change[node]))
            change[node] = 0
            others = max(others, float(change.max()))
    return own, others


@given(st.integers(0, 2**31))
@settings(max_examples=10)
def test_late_fusion_keeps_vectors_free_of_parallelism(seed: int) -> None:
    """Neither through an operator itself nor through its neighbours."""
    assert moved(seed, "late") == (0.0, 0.0)


def test_the_literal_equation_leaks() -> None:
    """Eq. 3 after every iteration brings v's own parallelism back through its neighbours."""
    own, others = moved(3, "every")
    assert own > 1e-4
    assert others > 1e-4


def test_a_disconnected_operator_hears_nobody() -> None:
    net = network()
    features = torch.rand(3, FEATURES)
    edges = torch.tensor([[0], [1]])
    with torch.no_grad():
        together = net.agnostic(features, edges)
        alone = net.agnostic(features[2:], torch.zeros((2, 0), dtype=torch.long))
    assert torch.allclose(together[2], alone[0], atol=1e-6)


def test_direction_matters() -> None:
    net = network()
    features = torch.rand(2, FEATURES)
    with torch.no_grad():
        forward = net.agnostic(features, torch.tensor([[0], [1]]))
        backward = net.agnostic(features, torch.tensor([[1], [0]]))
    assert not torch.allclose(forward, backward, atol=1e-3)


@given(st.integers(0, 2**31), st.data())
@settings(max_examples=10)
def test_a_selection_is_the_same_runs(seed: int, data: st.DataObject) -> None:
    graphs = planted_runs(6, seed)
    chosen = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=8))
    picked = graphs.select(chosen)
    assert picked.jobs == tuple(graphs.jobs[run] for run in chosen)
    for position, run in enumerate(chosen):
        assert runs_equal(graphs, run, picked, position)


def runs_equal(a: GraphSet, run_a: int, b: GraphSet, run_b: int) -> bool:
    def part(graphs: GraphSet, run: int) -> list[np.ndarray]:
        nodes = slice(graphs.starts[run], graphs.starts[run + 1])
        edges = slice(graphs.edge_starts[run], graphs.edge_starts[run + 1])
        local = graphs.edges[:, edges] - graphs.starts[run]
        return [graphs.features[nodes], graphs.parallelism[nodes], graphs.labels[nodes], local]

    return all(np.array_equal(x, y) for x, y in zip(part(a, run_a), part(b, run_b), strict=True))


def test_lengths_must_agree() -> None:
    graphs = planted_runs(2)
    with pytest.raises(Exception, match="must be of one length"):
        GraphSet(
            graphs.features,
            graphs.parallelism[:-1],
            graphs.labels,
            graphs.edges,
            graphs.starts,
            graphs.edge_starts,
            graphs.jobs,
        )
