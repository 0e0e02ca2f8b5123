"""The network of ZeroTune (Section III-C, Figure 4): node encoders, message passing in the paper's order, readout.

1. Every node is encoded by an MLP of its type (source, filter, join, aggregate, other operators, host).
2. Messages along the dataflow, level by level from the sources, so that each operator knows all that is before it.
3. Messages between the hosts of a cluster.
4. Messages over placements: hosts learn what runs on them, then operators learn what they run on.
5. Readout. As in the paper (``sink``): an MLP on the state of the sink. Or along the paths of the dataflow (``paths``),
   which follows Definition 1 (latency is the sum over the operators of a path) and what backpressure does
   (an operator limits all that feed it), and so does not have to be learnt anew for structures never seen.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import torch
from pydantic import Field
from torch import nn
from torch_geometric.utils import scatter

from streamtune.costmodel.graphs import GROUPS, PlanBatch
from streamtune.dataflow.operator import Frozen

Readout = Literal["paths", "sink"]

# Rates and latencies of nothing still need a logarithm.
_TINY = 1e-6
# Latencies beyond these bounds (ln s) are no predictions but overflows.
_LOG_LATENCY = (-9.0, 7.0)


class CostNetworkSettings(Frozen):
    """The shape of the network."""

    width: int = Field(default=48, ge=2, description="dimension of a node's state (the paper: 128)")
    head_layers: int = Field(default=2, ge=1, description="hidden layers of the final MLPs")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="share of activations dropped while training")
    readout: Readout = Field(default="paths", description="paths: along the dataflow; sink: the paper's")


def mlp(sizes: tuple[int, ...], dropout: float = 0.0) -> nn.Sequential:
    """Linear layers with LeakyReLU between them."""
    layers: list[nn.Module] = []
    for position, (before, after) in enumerate(pairwise(sizes)):
        layers.append(nn.Linear(before, after))
        if position < len(sizes) - 2:
            layers += [nn.LeakyReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers)


class CostNetwork(nn.Module):
    """Plans → (ln latency in s, ln throughput in records/s), each of shape (R)."""

    def __init__(self, features: int, host_features: int, settings: CostNetworkSettings) -> None:
        super().__init__()
        d, drop = settings.width, settings.dropout
        self.settings = settings
        self.encoders = nn.ModuleList(mlp((features, d, d), drop) for _ in GROUPS)
        self.host_encoder = mlp((host_features + 1, d, d), drop)
        self.along_dataflow = mlp((2 * d, d, d), drop)
        self.between_hosts = mlp((2 * d, d, d), drop)
        self.onto_hosts = mlp((2 * d, d, d), drop)
        self.onto_operators = mlp((3 * d, d, d), drop)
        hidden = (d,) * settings.head_layers
        self.throughput_head = mlp((2 * d, *hidden, 1), drop)
        self.latency_head = mlp((2 * d + (2 if settings.readout == "paths" else 0), *hidden, 1), drop)

    def forward(self, batch: PlanBatch) -> tuple[torch.Tensor, torch.Tensor]:
        encoded = self._encode(batch)
        state = self._on_hosts(self._along_dataflow(encoded, batch), batch)
        # What an operator is keeps a way past the messages.
        state = torch.cat([state, encoded], dim=1)
        if self.settings.readout == "sink":
            return self._read_sink(state, batch)
        return self._read_paths(state, batch)

    def _encode(self, batch: PlanBatch) -> torch.Tensor:
        where = [torch.nonzero(batch.groups == group).squeeze(1) for group in range(len(GROUPS))]
        parts = [
            encoder(batch.operators[index]) for encoder, index in zip(self.encoders, where, strict=True) if len(index)
        ]
        return torch.cat(parts)[torch.argsort(torch.cat(where))]

    def _along_dataflow(self, encoded: torch.Tensor, batch: PlanBatch) -> torch.Tensor:
        """h'_v = h_v + MLP([h_v ‖ Σ_{u→v} h'_u]), level by level."""
        states: torch.Tensor | None = None
        for level in range(len(batch.level_starts) - 1):
            first, end = batch.level_starts[level : level + 2]
            own = encoded[first:end]
            if states is None:
                message = torch.zeros_like(own)
            else:
                source, target = batch.edges[:, batch.edge_starts[level] : batch.edge_starts[level + 1]]
                message = scatter(states[source], target - first, dim_size=end - first, reduce="sum")
            updated = own + self.along_dataflow(torch.cat([own, message], dim=1))
            states = updated if states is None else torch.cat([states, updated])
        return encoded if states is None else states

    def _on_hosts(self, state: torch.Tensor, batch: PlanBatch) -> torch.Tensor:
        """Steps 3 and 4."""
        ones = torch.ones(len(batch.plan_of_host), 1)
        hosts = self.host_encoder(torch.cat([batch.hosts, ones], dim=1))
        cluster = scatter(hosts, batch.plan_of_host, dim_size=batch.plans, reduce="mean")
        hosts = hosts + self.between_hosts(torch.cat([hosts, cluster[batch.plan_of_host]], dim=1))
        running = scatter(
            state[batch.placed_operator] * batch.load[:, None], batch.placed_host, dim_size=len(hosts), reduce="sum"
        )
        hosts = hosts + self.onto_hosts(torch.cat([hosts, running], dim=1))
        below = hosts[batch.placed_host]
        size = len(state)
        mean = scatter(below * batch.share[:, None], batch.placed_operator, dim_size=size, reduce="sum")
        most = scatter(below, batch.placed_operator, dim_size=size, reduce="max")
        updated: torch.Tensor = state + self.onto_operators(torch.cat([state, mean, most], dim=1))
        return updated

    def _read_sink(self, state: torch.Tensor, batch: PlanBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """The paper's readout; of several sinks the mean."""
        sinks = scatter(
            state[batch.is_last], batch.plan_of_operator[batch.is_last], dim_size=batch.plans, reduce="mean"
        )
        return self.latency_head(sinks).squeeze(1), self.throughput_head(sinks).squeeze(1)

    def _read_paths(self, state: torch.Tensor, batch: PlanBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Throughput: each operator can pass a share of its demand, and sources emit what all behind them can pass.

        Latency: each operator adds its own, knowing what it and those behind it can pass; the slowest path counts.
        """
        able = -nn.functional.softplus(self.throughput_head(state).squeeze(1))
        passing = _smallest_downstream(able, batch)
        emitted = scatter(batch.rates * passing.exp(), batch.plan_of_operator, dim_size=batch.plans, reduce="sum")
        known = torch.cat([state, able[:, None], passing[:, None]], dim=1)
        own = self.latency_head(known).squeeze(1).clamp(*_LOG_LATENCY).exp()
        slowest = scatter(_longest_upstream(own, batch), batch.plan_of_operator, dim_size=batch.plans, reduce="max")
        return torch.log(slowest + _TINY), torch.log(emitted + _TINY)


def _smallest_downstream(values: torch.Tensor, batch: PlanBatch) -> torch.Tensor:
    """For every operator the least value among itself and all that its records reach: (N) → (N)."""
    levels = len(batch.level_starts) - 1
    parts: list[torch.Tensor] = [values[batch.level_starts[levels - 1] :]] if levels else []
    for level in range(levels - 2, -1, -1):
        first, end = batch.level_starts[level : level + 2]
        behind = torch.cat(parts[::-1])
        # Edges are sorted by target, so those that leave this level are spread over all deeper ones.
        source, target = batch.edges[:, batch.edge_starts[level + 1] :]
        leaves = (source >= first) & (source < end)
        source, target = source[leaves], target[leaves]
        own = values[first:end]
        index = torch.cat([torch.arange(end - first), source - first])
        least = scatter(torch.cat([own, behind[target - end]]), index, dim_size=end - first, reduce="min")
        parts.append(least)
    return torch.cat(parts[::-1]) if parts else values


def _longest_upstream(values: torch.Tensor, batch: PlanBatch) -> torch.Tensor:
    """For every operator the largest sum of values over a path that ends in it: (N) → (N)."""
    sums: torch.Tensor | None = None
    for level in range(len(batch.level_starts) - 1):
        first, end = batch.level_starts[level : level + 2]
        own = values[first:end]
        if sums is None:
            sums = own
            continue
        source, target = batch.edges[:, batch.edge_starts[level] : batch.edge_starts[level + 1]]
        longest = scatter(sums[source], target - first, dim_size=end - first, reduce="max")
        sums = torch.cat([sums, own + longest])
    return values if sums is None else sums
