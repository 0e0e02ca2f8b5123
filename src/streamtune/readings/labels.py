"""The labelling rule, vectorised over the operators of many runs.

StreamTune, Algorithm 1 and Section V-B, with what the paper leaves open settled as follows.

*Engines with backpressure (Flink).* An operator is under backpressure when its backpressured share of
busy + idle + backpressured time exceeds ``backpressure_share``. R is the busy share. "Downstream" means direct
successors. Without backpressure all operators are 0; with it, the successors of the last backpressured operators are
1 where R > ``busy_threshold`` and 0 where not; all others stay −1.

*Sources* have no predecessor that Algorithm 1 could find backpressured. A source that is busy above the threshold,
not backpressured, and emits less than its nominal rate is 1. What lies behind such a source sees less than the demanded
rate, so "no backpressure" says nothing about it: there, 0 becomes −1, for the reason the paper gives in its step 3.

*Engines without backpressure (Timely).* An operator is 1 when its input rate is below ``input_ratio`` times what its
predecessors send it, else 0. A source's predecessor is the world outside: its nominal rate. An operator that takes
nine records of ten passes this rule while its queue, and with it latency, grows without end. Where the trend of queues
is known, ``backlog_growth_share`` makes such an operator 1 as well. It is off by default: the paper has no such rule.

*Missing values.* An operator whose metrics are null or NaN (or all zero, so that no share can be formed) is −1, and
counts as not under backpressure for its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamtune.readings.settings import LabelSettings

UNLABELLED, FINE, BOTTLENECK = -1, 0, 1

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Labels = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class OperatorBatch:
    """The operators of many runs, one after the other: N operators, E edges, R runs.

    Times are ms per s, rates records/s, NaN where nothing was measured. ``nominal_per_s`` is the offered rate of a
    source, NaN for all others. Edges are pairs of positions among the N operators.
    """

    run: Indices  # N: position of the run an operator belongs to
    is_source: Bools  # N
    busy_ms_per_s: Floats  # N
    idle_ms_per_s: Floats  # N
    backpressured_ms_per_s: Floats  # N
    records_in_per_s: Floats  # N
    records_out_per_s: Floats  # N
    nominal_per_s: Floats  # N
    edge_source: Indices  # E
    edge_target: Indices  # E
    without_backpressure: Bools  # R: judged by rates instead
    backlog_growth_per_s: Floats | None = None  # N: trend of the queue in front of an operator
    edge_per_s: Floats | None = None  # E: records over an edge, NaN where nobody counted them
    is_guess: Bools | None = None  # R: a rate offered to the sources is a guess


def label_batch(batch: OperatorBatch, settings: LabelSettings | None = None) -> Labels:
    """A label (−1, 0 or 1) for each of the N operators."""
    settings = settings or LabelSettings()
    by_rates = batch.without_backpressure
    if not by_rates.any():
        return _by_backpressure(batch, settings)
    if by_rates.all():
        return _by_rates(batch, settings)
    return np.where(by_rates[batch.run], _by_rates(batch, settings), _by_backpressure(batch, settings))


def _by_backpressure(batch: OperatorBatch, settings: LabelSettings) -> Labels:
    """Algorithm 1. Comparisons with NaN are false, which is what the rule for missing values asks for."""
    with np.errstate(invalid="ignore", divide="ignore"):
        total = batch.busy_ms_per_s + batch.idle_ms_per_s + batch.backpressured_ms_per_s
        busy_share = batch.busy_ms_per_s / total
        held_up = batch.backpressured_ms_per_s / total > settings.backpressure_share
    known = np.isfinite(busy_share)

    run_held_up = np.zeros(len(batch.without_backpressure), dtype=np.bool_)
    run_held_up[batch.run[held_up]] = True
    labels = np.where(run_held_up[batch.run], UNLABELLED, FINE).astype(np.int8)

    passes_it_on = np.zeros(len(held_up), dtype=np.bool_)
    passes_it_on[batch.edge_source[held_up[batch.edge_target]]] = True
    last_held_up = held_up & ~passes_it_on
    suspects = batch.edge_target[last_held_up[batch.edge_source]]
    labels[suspects] = busy_share[suspects] > settings.busy_threshold

    short = batch.records_out_per_s < batch.nominal_per_s * (1 - settings.source_tolerance)
    blamed = batch.is_source & short & (busy_share > settings.busy_threshold) & ~held_up
    if batch.is_guess is not None:
        blamed &= ~batch.is_guess[batch.run]
    if blamed.any():
        starved = _reachable(blamed, batch) & ~run_held_up[batch.run]
        labels[starved] = UNLABELLED
        labels[blamed] = BOTTLENECK
    labels[~known] = UNLABELLED
    return labels


def _by_rates(batch: OperatorBatch, settings: LabelSettings) -> Labels:
    """Section V-B, Timely Dataflow."""
    sent = batch.records_out_per_s[batch.edge_source]
    if batch.edge_per_s is not None:
        sent = np.where(np.isfinite(batch.edge_per_s), batch.edge_per_s, sent)
    offered = np.bincount(batch.edge_target, weights=sent, minlength=len(batch.run))
    offered = np.where(batch.is_source, batch.nominal_per_s, offered)
    taken = np.where(batch.is_source, batch.records_out_per_s, batch.records_in_per_s)
    with np.errstate(invalid="ignore"):
        labels = (taken < settings.input_ratio * offered).astype(np.int8)
        if settings.backlog_growth_share is not None and batch.backlog_growth_per_s is not None:
            labels[batch.backlog_growth_per_s > settings.backlog_growth_share * offered] = BOTTLENECK
    labels[~(np.isfinite(taken) & np.isfinite(offered))] = UNLABELLED
    return labels


def _reachable(start: Bools, batch: OperatorBatch) -> Bools:
    """What lies behind ``start``, itself included. As many rounds as the longest path has edges."""
    reached = start.copy()
    while True:
        fresh = batch.edge_target[reached[batch.edge_source]]
        fresh = fresh[~reached[fresh]]
        if not len(fresh):
            return reached
        reached[fresh] = True
