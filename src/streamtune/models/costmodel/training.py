"""Training of cost networks, their scores, and few-shot fine-tuning (ZeroTune Sections III-C1 and V-A2)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from streamtune.errors import StreamTuneError
from streamtune.models.costmodel.graphs import PlanBatch, PlanGraphs
from streamtune.models.costmodel.network import CostNetwork, StackedLinear
from streamtune.models.costmodel.settings import CostTrainingSettings

Floats = npt.NDArray[np.float64]
Progress = Callable[[int, float, float], None]


@dataclass(frozen=True)
class Labels:
    """What was measured of R plans."""

    latency_ms: Floats
    throughput_per_s: Floats

    def __post_init__(self) -> None:
        if not (np.all(self.latency_ms > 0) and np.all(self.throughput_per_s > 0)):
            raise StreamTuneError("latencies and throughputs to learn from must be positive: drop the other runs first")

    def select(self, plans: npt.ArrayLike) -> Labels:
        plans = np.asarray(plans, dtype=np.int64)
        return Labels(self.latency_ms[plans], self.throughput_per_s[plans])

    @property
    def logs(self) -> npt.NDArray[np.float32]:
        """R × 2: ln latency in s, ln throughput in records/s."""
        return np.stack([np.log(self.latency_ms / 1000), np.log(self.throughput_per_s)], axis=1).astype(np.float32)


def q_errors(truth: npt.ArrayLike, predicted: npt.ArrayLike) -> Floats:
    """max(c / c', c' / c): 1 is perfect.

    >>> q_errors([10.0, 10.0], [5.0, 10.0]).tolist()
    [2.0, 1.0]
    """
    c, p = np.asarray(truth, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    errors: Floats = np.maximum(c / p, p / c)
    return errors


def summary(truth: npt.ArrayLike, predicted: npt.ArrayLike) -> dict[str, float]:
    """Median and 95th percentile of the q-errors, as in Table IV."""
    errors = q_errors(truth, predicted)
    if not len(errors):
        return {"median": float("nan"), "p95": float("nan"), "plans": 0}
    median, high = np.percentile(errors, [50, 95])
    return {"median": float(median), "p95": float(high), "plans": len(errors)}


@dataclass(frozen=True)
class TrainedNetwork:
    """A network and how it was trained."""

    network: CostNetwork
    validation_loss: float
    epochs: int
    seconds: float


def train_network(
    graphs: PlanGraphs,
    labels: Labels,
    validation: tuple[PlanGraphs, Labels],
    settings: CostTrainingSettings | None = None,
    *,
    start: Mapping[str, torch.Tensor] | None = None,
    progress: Progress | None = None,
) -> TrainedNetwork:
    """Fit one network, or go on from ``start`` (few-shot). The best epoch by validation is kept."""
    settings = settings or CostTrainingSettings()
    if not graphs.plans:
        raise StreamTuneError("there are no plans to learn from: generate or ingest runs first")
    started = time.perf_counter()
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    random = np.random.default_rng(settings.seed)
    network = CostNetwork(graphs.operators.shape[1], graphs.hosts.shape[1], settings.network)
    if start is not None:
        network.load_state_dict(dict(start))
    else:
        _start_at_the_mean(network, labels, graphs)
    watched, watched_truth = validation[0].batch(), torch.from_numpy(validation[1].logs)
    truth = labels.logs
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    steps = settings.epochs * -(-graphs.plans // settings.batch_plans)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.learning_rate, total_steps=steps, pct_start=0.2)
    best, best_epoch = _loss(network, watched, watched_truth, settings), 0
    best_state = {key: value.clone() for key, value in network.state_dict().items()}
    for epoch in range(1, settings.epochs + 1):
        network.train()
        losses = []
        order = random.permutation(graphs.plans)
        for first in range(0, len(order), settings.batch_plans):
            chosen = order[first : first + settings.batch_plans]
            losses.append(_step(network, graphs.batch(chosen), torch.from_numpy(truth[chosen]), optimizer, settings))
            schedule.step()
        score = _loss(network, watched, watched_truth, settings)
        if progress is not None:
            progress(epoch, float(np.mean(losses)), score)
        if score < best:
            best, best_epoch = score, epoch
            best_state = {key: value.clone() for key, value in network.state_dict().items()}
        elif epoch - best_epoch >= settings.patience:
            break
    network.load_state_dict(best_state)
    network.eval()
    return TrainedNetwork(network, best, best_epoch, time.perf_counter() - started)


def _step(
    network: CostNetwork,
    batch: PlanBatch,
    truth: torch.Tensor,
    optimizer: torch.optim.Optimizer,
    settings: CostTrainingSettings,
) -> float:
    loss = _error(network(batch), truth, settings)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    return float(loss.item())


def _start_at_the_mean(network: CostNetwork, labels: Labels, graphs: PlanGraphs) -> None:
    """The last biases start at the mean label, so that no epoch is spent on finding it."""
    latency, throughput = labels.logs.mean(axis=0)
    with torch.no_grad():
        last, last_throughput = network.latency_head[-1], network.throughput_head[-1]
        assert isinstance(last, StackedLinear)
        assert isinstance(last_throughput, StackedLinear)
        if network.settings.readout == "sink":
            last_throughput.bias.fill_(float(throughput))
        else:
            operators = len(graphs.operators) / graphs.plans
            latency -= float(np.log(operators))
        last.bias.fill_(float(latency))


@torch.no_grad()
def _loss(network: CostNetwork, batch: PlanBatch, truth: torch.Tensor, settings: CostTrainingSettings) -> float:
    network.eval()
    return float(_error(network(batch), truth, settings).item())


def _error(
    predicted: tuple[torch.Tensor, torch.Tensor], truth: torch.Tensor, settings: CostTrainingSettings
) -> torch.Tensor:
    """Mean over both targets. In logarithms the q-error of a prediction is exp |Δ|."""
    apart = torch.stack(predicted, dim=2) - truth
    # Beyond e^6 the exponential would drown every other plan of the batch.
    q_error = apart.abs().clamp(max=6.0).exp().mean()
    if settings.loss == "q_error":
        return q_error
    return nn.functional.smooth_l1_loss(apart, torch.zeros_like(apart), beta=0.1) + settings.q_error_weight * q_error
