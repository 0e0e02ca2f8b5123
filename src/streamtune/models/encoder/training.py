"""Pre-training of one encoder: binary cross-entropy over labelled operators, early stopping by held-out jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from streamtune.errors import StreamTuneError
from streamtune.models.encoder.graphs import Batch, GraphSet, Ints
from streamtune.models.encoder.network import BottleneckNetwork
from streamtune.models.encoder.settings import TrainingSettings
from streamtune.models.splits import rank

Progress = Callable[[int, float, float], None]


@dataclass(frozen=True)
class Trained:
    """A network with the shift that undoes the class weights, and how it was trained."""

    network: BottleneckNetwork
    logit_shift: float
    validation_loss: float
    epochs: int
    runs: int
    jobs: int
    seconds: float

    @torch.no_grad()
    def embed(self, batch: Batch) -> torch.Tensor:
        """Parallelism-agnostic vectors, N × d."""
        return self.network.agnostic(batch.features, batch.edge_index, batch.log_p)

    @torch.no_grad()
    def probability(self, batch: Batch) -> torch.Tensor:
        """Calibrated probability of being a bottleneck, N."""
        logits = self.network(batch.features, batch.edge_index, batch.log_p)
        return torch.sigmoid(logits + self.logit_shift)

    @torch.no_grad()
    def probability_at(self, agnostic: torch.Tensor, log_p: torch.Tensor) -> torch.Tensor:
        """The probability for given vectors at any parallelism, N."""
        return torch.sigmoid(self.network.judge(agnostic, log_p) + self.logit_shift)


def validation_jobs(jobs: Sequence[str], share: float) -> set[str]:
    """The jobs kept for early stopping: by hash, so that a job is on the same side for every encoder.

    Where that leaves no job on one of the sides, the job with the least hash is held out.
    """

    ranks = {job: rank(f"validation:{job}") for job in set(jobs)}
    distinct = sorted(ranks, key=ranks.__getitem__)
    if len(distinct) < 2:
        return set()
    held_out = {job for job in distinct if ranks[job] < share}
    return held_out if 0 < len(held_out) < len(distinct) else {distinct[0]}


def train(
    graphs: GraphSet,
    settings: TrainingSettings | None = None,
    progress: Progress | None = None,
    start: Mapping[str, torch.Tensor] | None = None,
) -> Trained:
    """Fit one encoder, from scratch or from the weights ``start``, which it leaves only for better ones.

    With a single job there is nothing to hold out, so early stopping watches the training loss.
    """
    settings = settings or TrainingSettings()
    if not (graphs.labels == 1).any() or not (graphs.labels == 0).any():
        raise StreamTuneError(
            f"{graphs.runs} runs have {int((graphs.labels == 1).sum())} bottlenecks and "
            f"{int((graphs.labels == 0).sum())} others: both kinds are needed to learn from; add runs"
        )
    started = time.perf_counter()
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    held_out = validation_jobs(graphs.jobs, settings.validation_share)
    is_held_out = np.array([job in held_out for job in graphs.jobs])
    learning = np.flatnonzero(~is_held_out)
    watched = graphs.batch(np.flatnonzero(is_held_out) if _labelled(graphs, is_held_out) else learning)
    weight = _positive_weight(graphs.select(learning), settings.max_positive_weight)
    network = BottleneckNetwork(graphs.features.shape[1], settings.network)
    best_loss, best_epoch = float("inf"), 0
    if start is not None:
        network.load_state_dict(dict(start))
        best_loss = _loss(network, watched, weight)
        settings = settings.model_copy(update={"learning_rate": settings.learning_rate * settings.tuning_rate})
    best_state = {key: value.clone() for key, value in network.state_dict().items()}
    for epoch, training_loss in _epochs(network, graphs, learning, weight, settings):
        loss = _loss(network, watched, weight)
        if progress is not None:
            progress(epoch, training_loss, loss)
        if loss < best_loss:
            best_loss, best_epoch = loss, epoch
            best_state = {key: value.clone() for key, value in network.state_dict().items()}
        elif epoch - best_epoch >= settings.patience:
            break
    network.load_state_dict(best_state)
    network.eval()
    return Trained(
        network=network,
        logit_shift=-float(np.log(weight)),
        validation_loss=best_loss,
        epochs=best_epoch,
        runs=graphs.runs,
        jobs=len(set(graphs.jobs)),
        seconds=time.perf_counter() - started,
    )


def _labelled(graphs: GraphSet, is_held_out: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> bool:
    """Whether the held-out runs have labels to be judged by."""
    if not is_held_out.any():
        return False
    return bool((graphs.select(np.flatnonzero(is_held_out)).labels >= 0).any())


def _positive_weight(graphs: GraphSet, limit: float) -> float:
    positive, negative = int((graphs.labels == 1).sum()), int((graphs.labels == 0).sum())
    return float(np.clip(negative / max(positive, 1), 1.0, limit))


@torch.no_grad()
def _loss(network: BottleneckNetwork, batch: Batch, weight: float) -> float:
    network.eval()
    return float(_masked_loss(network, batch, weight).item())


def _masked_loss(network: BottleneckNetwork, batch: Batch, weight: float) -> torch.Tensor:
    """Mean weighted cross-entropy over labelled operators: the total loss of Section IV-A."""
    labelled = batch.labels >= 0
    logits = network(batch.features, batch.edge_index, batch.log_p)[labelled]
    return nn.functional.binary_cross_entropy_with_logits(
        logits, batch.labels[labelled], pos_weight=torch.tensor(weight)
    )


def _epochs(
    network: BottleneckNetwork, graphs: GraphSet, learning: Ints, weight: float, settings: TrainingSettings
) -> Iterator[tuple[int, float]]:
    """Trains one epoch per step; yields its number and mean loss."""
    random = np.random.default_rng(settings.seed)
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    steps = settings.epochs * -(-len(learning) // settings.batch_runs)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.learning_rate, total_steps=steps, pct_start=0.15)
    for epoch in range(1, settings.epochs + 1):
        network.train()
        order = random.permutation(learning)
        losses = []
        for first in range(0, len(order), settings.batch_runs):
            batch = graphs.batch(order[first : first + settings.batch_runs])
            if bool((batch.labels >= 0).any()):
                loss = _masked_loss(network, batch, weight)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimizer.step()
                losses.append(float(loss.item()))
            schedule.step()
        yield epoch, float(np.mean(losses)) if losses else float("nan")
