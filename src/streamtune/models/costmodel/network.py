"""The network of ZeroTune (Section III-C, Figure 4): node encoders, message passing in the paper's order, readout.

1. Every node is encoded by an MLP of its type (source, filter, join, aggregate, other operators, host).
2. Messages along the dataflow, level by level from the sources, so that each operator knows all that is before it.
3. Messages between the hosts of a cluster.
4. Messages over placements: hosts learn what runs on them, then operators learn what they run on.
5. Readout. As in the paper (``sink``): an MLP on the state of the sink. Or along the paths of the dataflow (``paths``),
   which follows Definition 1 (latency is the sum over the operators of a path) and what backpressure does
   (an operator limits all that feed it), and so need not be learnt again for structures never seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn
from torch_geometric.utils import scatter

from streamtune.models.costmodel.graphs import GROUPS, PlanBatch
from streamtune.models.costmodel.settings import CostNetworkSettings

# Rates and latencies of nothing still need a logarithm.
_TINY = 1e-6
# Latencies beyond these bounds (ln s) are overflows, not predictions.
_LOG_LATENCY = (-9.0, 7.0)
# Numbers per host of which an operator gets the largest over its hosts.
_EXTREMES = 8


class StackedLinear(nn.Module):
    """The linear layers of M networks, side by side: x of shape (M, N, in) or (N, in) → (M, N, out)."""

    def __init__(self, members: int, before: int, after: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(max(1, before))
        self.weight = nn.Parameter(torch.empty(members, before, after).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(members, 1, after).uniform_(-bound, bound))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() == 2:
            x = x.expand(len(self.weight), *x.shape)
        return torch.baddbmm(self.bias, x, self.weight)


def mlp(members: int, sizes: tuple[int, ...], dropout: float = 0.0) -> nn.Sequential:
    """Linear layers with LeakyReLU between them."""
    layers: list[nn.Module] = []
    for position, (before, after) in enumerate(pairwise(sizes)):
        layers.append(StackedLinear(members, before, after))
        if position < len(sizes) - 2:
            layers += [nn.LeakyReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers)


class CostNetwork(nn.Module):
    """Plans → (ln latency in s, ln throughput in records/s), each of shape (M, R), for M networks at once.

    Networks are trained one by one and stacked for prediction: small graphs cost what their many small operations cost,
    not what they compute.
    """

    def __init__(self, features: int, host_features: int, settings: CostNetworkSettings, members: int = 1) -> None:
        super().__init__()
        d, drop = settings.width, settings.dropout
        self.settings = settings
        self.encoders = nn.ModuleList(mlp(members, (features, d, d), drop) for _ in GROUPS)
        self.host_encoder = mlp(members, (host_features + 1, d, d), drop)
        self.along_dataflow = mlp(members, (2 * d, d, d), drop)
        self.between_hosts = mlp(members, (2 * d, d, d), drop)
        self.onto_hosts = mlp(members, (2 * d, d, d), drop)
        self.extremes_of_hosts = StackedLinear(members, d, _EXTREMES)
        self.onto_operators = mlp(members, (2 * d + _EXTREMES, d, d), drop)
        hidden = (d,) * settings.head_layers
        self.throughput_head = mlp(members, (2 * d, *hidden, 1), drop)
        self.latency_head = mlp(members, (2 * d + (2 if settings.readout == "paths" else 0), *hidden, 1), drop)

    @classmethod
    def stacked(cls, networks: Sequence[CostNetwork]) -> CostNetwork:
        """Several networks as one."""
        states = [network.state_dict() for network in networks]
        first = networks[0]
        features = states[0]["encoders.0.0.weight"].shape[1]
        hosts = states[0]["host_encoder.0.weight"].shape[1] - 1
        whole = cls(features, hosts, first.settings, members=len(networks))
        whole.load_state_dict({key: torch.cat([state[key] for state in states]) for key in states[0]})
        return whole.eval()

    def forward(self, batch: PlanBatch) -> tuple[torch.Tensor, torch.Tensor]:
        encoded = self._encode(batch)
        state = self._on_hosts(self._along_dataflow(encoded, batch), batch)
        # What an operator is bypasses the messages.
        state = torch.cat([state, encoded], dim=2)
        if self.settings.readout == "sink":
            return self._read_sink(state, batch)
        return self._read_paths(state, batch)

    def _encode(self, batch: PlanBatch) -> torch.Tensor:
        parts = [
            encoder(batch.operators[index])
            for encoder, index in zip(self.encoders, batch.by_group, strict=True)
            if len(index)
        ]
        return torch.cat(parts, dim=1)[:, batch.group_order]

    def _along_dataflow(self, encoded: torch.Tensor, batch: PlanBatch) -> torch.Tensor:
        """h'_v = h_v + MLP([h_v ‖ Σ_{u→v} h'_u]), level by level."""
        states: torch.Tensor | None = None
        for level in batch.levels:
            own = encoded[:, level.first : level.end]
            if states is None:
                message = torch.zeros_like(own)
            else:
                message = _summed(states[:, level.source], level.target, level.size)
            updated = own + self.along_dataflow(torch.cat([own, message], dim=2))
            states = updated if states is None else torch.cat([states, updated], dim=1)
        return encoded if states is None else states

    def _on_hosts(self, state: torch.Tensor, batch: PlanBatch) -> torch.Tensor:
        """Steps 3 and 4."""
        ones = torch.ones(len(batch.plan_of_host), 1)
        hosts = self.host_encoder(torch.cat([batch.hosts, ones], dim=1))
        cluster = scatter(hosts, batch.plan_of_host, 1, batch.plans, reduce="mean")
        hosts = hosts + self.between_hosts(torch.cat([hosts, cluster[:, batch.plan_of_host]], dim=2))
        placed = state[:, batch.placed_operator] * batch.load[:, None]
        running = _summed(placed, batch.placed_host, len(ones))
        hosts = hosts + self.onto_hosts(torch.cat([hosts, running], dim=2))
        size = state.shape[1]
        mean = _summed(hosts[:, batch.placed_host] * batch.share[:, None], batch.placed_operator, size)
        # The slowest host decides; a few numbers are enough to say which one that is.
        extreme = self.extremes_of_hosts(hosts)[:, batch.placed_host]
        most = scatter(extreme, batch.placed_operator, 1, size, reduce="max")
        updated: torch.Tensor = state + self.onto_operators(torch.cat([state, mean, most], dim=2))
        return updated

    def _read_sink(self, state: torch.Tensor, batch: PlanBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """The paper's readout; of several sinks the mean."""
        plans = batch.plan_of_operator[batch.is_last]
        sinks = scatter(state[:, batch.is_last], plans, 1, batch.plans, reduce="mean")
        return self.latency_head(sinks).squeeze(2).clamp(*_LOG_LATENCY), self.throughput_head(sinks).squeeze(2)

    def _read_paths(self, state: torch.Tensor, batch: PlanBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Throughput: each operator can pass a share of its demand, and sources emit what all behind them can pass.

        Latency: each operator adds its own, knowing what it and those behind it can pass; the slowest path counts.
        """
        able = -nn.functional.softplus(self.throughput_head(state).squeeze(2))
        passing = _smallest_downstream(able, batch)
        emitted = scatter(batch.rates * passing.exp(), batch.plan_of_operator, 1, batch.plans, reduce="sum")
        known = torch.cat([state, able[:, :, None], passing[:, :, None]], dim=2)
        own = self.latency_head(known).squeeze(2).clamp(*_LOG_LATENCY).exp()
        slowest = scatter(_longest_upstream(own, batch), batch.plan_of_operator, 1, batch.plans, reduce="max")
        return torch.log(slowest + _TINY), torch.log(emitted + _TINY)


def _summed(values: torch.Tensor, index: torch.Tensor, size: int) -> torch.Tensor:
    """Rows of values (M, L, d) added up by index: (M, size, d)."""
    return values.new_zeros(values.shape[0], size, values.shape[2]).index_add(1, index, values)


def _smallest_downstream(values: torch.Tensor, batch: PlanBatch) -> torch.Tensor:
    """For every operator the least value among itself and all that its records reach: (M, N) → (M, N)."""
    behind: torch.Tensor | None = None
    for level in reversed(batch.levels):
        own = values[:, level.first : level.end]
        if behind is None:
            behind = own
            continue
        candidates = torch.cat([own, behind[:, level.reader]], dim=1)
        behind = torch.cat([scatter(candidates, level.reader_of, 1, level.size, reduce="min"), behind], dim=1)
    return values if behind is None else behind


def _longest_upstream(values: torch.Tensor, batch: PlanBatch) -> torch.Tensor:
    """For every operator the largest sum of values over a path that ends in it: (M, N) → (M, N)."""
    sums: torch.Tensor | None = None
    for level in batch.levels:
        own = values[:, level.first : level.end]
        if sums is not None:
            own = own + scatter(sums[:, level.source], level.target, 1, level.size, reduce="max")
        sums = own if sums is None else torch.cat([sums, own], dim=1)
    return values if sums is None else sums
