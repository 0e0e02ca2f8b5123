"""The GNN: operator embeddings that do not know parallelism, and a head that does (StreamTune Section IV-A)."""

from __future__ import annotations

import torch
from torch import nn
from torch_geometric.nn import MessagePassing

from streamtune.models.encoder.settings import NetworkSettings


class DirectedConv(MessagePassing):  # type: ignore[misc]
    r"""One iteration of Eq. 1 and 2 with separate weights by direction.

    .. math::
        m_v = \mathrm{mean}_{u \to v} W_\mathrm{in} h_u + \mathrm{mean}_{v \to u} W_\mathrm{out} h_u, \qquad
        h_v' = h_v + \mathrm{ReLU}(\mathrm{LN}(W h_v + m_v))

    Shapes: h is (N, d), edge_index (2, E) from predecessor to successor; the result is (N, d).
    """

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__(aggr="mean")
        self.own = nn.Linear(width, width)
        self.from_before = nn.Linear(width, width, bias=False)
        self.from_after = nn.Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, h: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        before = self.propagate(edge_index, h=self.from_before(h))
        after = self.propagate(edge_index.flip(0), h=self.from_after(h))
        updated: torch.Tensor = h + self.dropout(torch.relu(self.norm(self.own(h) + before + after)))
        return updated

    def message(self, h_j: torch.Tensor) -> torch.Tensor:
        return h_j


class BottleneckNetwork(nn.Module):
    """Features and edges → parallelism-agnostic vectors → with log p fused in → the logit of being a bottleneck.

    Shapes: features (N, F), edge_index (2, E), log_p (N); ``agnostic`` gives (N, d), ``forward`` (N).
    """

    def __init__(self, features: int, settings: NetworkSettings) -> None:
        super().__init__()
        width = settings.width
        self.settings = settings
        self.enter = nn.Linear(features, width)
        self.layers = nn.ModuleList(DirectedConv(width, settings.dropout) for _ in range(settings.iterations))
        # An operator's own features bypass the iterations: what it is matters more than what is near it.
        self.leave = nn.Linear(features + width * (settings.iterations + 1), width)
        self.fusers = nn.ModuleList(
            nn.Linear(width + 1, width) for _ in range(settings.iterations if settings.fusion == "every" else 0)
        )
        self.fuse_last = nn.Linear(width + 1, width)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def agnostic(
        self, features: torch.Tensor, edge_index: torch.Tensor, log_p: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The vectors Algorithm 2 feeds to M_f. ``log_p`` is used by the literal fusion alone."""
        h = torch.relu(self.enter(features))
        steps = [h]
        for position, layer in enumerate(self.layers):
            h = layer(h, edge_index)
            steps.append(h)
            if self.fusers and log_p is not None and position < len(self.layers) - 1:
                h = self._fuse(self.fusers[position], h, log_p)
        return torch.relu(self.leave(torch.cat([features, *steps], dim=1)))

    def aware(self, agnostic: torch.Tensor, log_p: torch.Tensor) -> torch.Tensor:
        """FUSE(h ‖ p) of Eq. 3; the dimension is unchanged."""
        return self._fuse(self.fuse_last, agnostic, log_p)

    def judge(self, agnostic: torch.Tensor, log_p: torch.Tensor) -> torch.Tensor:
        """The logit for given vectors and parallelism."""
        logits: torch.Tensor = self.head(self.aware(agnostic, log_p)).squeeze(1)
        return logits

    def forward(self, features: torch.Tensor, edge_index: torch.Tensor, log_p: torch.Tensor) -> torch.Tensor:
        return self.judge(self.agnostic(features, edge_index, log_p), log_p)

    @staticmethod
    def _fuse(layer: nn.Module, h: torch.Tensor, log_p: torch.Tensor) -> torch.Tensor:
        fused: torch.Tensor = torch.relu(layer(torch.cat([h, log_p.unsqueeze(1)], dim=1)))
        return fused
