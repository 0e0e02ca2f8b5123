"""``GraphSet``: the featurised runs a network learns from, flat, so that a batch is a few slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from streamtune.errors import StreamTuneError

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

# Parallelism enters every model as log p, scaled so that the paper's maximum of 100 is 1.
LOG_P_SCALE = float(np.log(100.0))


def scaled_log(parallelism: npt.ArrayLike) -> Floats:
    """log p / log 100.

    >>> scaled_log([1, 10, 100]).tolist()
    [0.0, 0.5, 1.0]
    """
    return (np.log(np.asarray(parallelism, dtype=np.float64)) / LOG_P_SCALE).astype(np.float32)


@dataclass(frozen=True)
class Batch:
    """Some runs as tensors: N operators, E edges."""

    features: torch.Tensor  # N × F
    log_p: torch.Tensor  # N, scaled
    labels: torch.Tensor  # N: −1, 0, 1
    edge_index: torch.Tensor  # 2 × E


@dataclass(frozen=True)
class GraphSet:
    """N operators and E edges of R runs, one after the other; edges are positions among the N."""

    features: Floats  # N × F
    parallelism: Ints  # N
    labels: npt.NDArray[np.int8]  # N: −1, 0, 1
    edges: Ints  # 2 × E
    starts: Ints  # R + 1: first operator of each run
    edge_starts: Ints  # R + 1: first edge of each run
    jobs: tuple[str, ...]  # R

    def __post_init__(self) -> None:
        count = len(self.features)
        if not len(self.parallelism) == len(self.labels) == count == (self.starts[-1] if len(self.starts) else 0):
            raise StreamTuneError(
                f"features, parallelism and labels must be of one length, but got {count}, {len(self.parallelism)} "
                f"and {len(self.labels)}"
            )

    @classmethod
    def of(
        cls,
        features: Floats,
        parallelism: npt.ArrayLike,
        labels: npt.ArrayLike,
        sizes: npt.ArrayLike,
        edge_source: npt.ArrayLike,
        edge_target: npt.ArrayLike,
        edge_counts: npt.ArrayLike,
        jobs: Sequence[str],
    ) -> GraphSet:
        """From lists as the history stores them: edges as positions within their own run."""
        starts = np.concatenate(([0], np.cumsum(np.asarray(sizes, dtype=np.int64))))
        counts = np.asarray(edge_counts, dtype=np.int64)
        offset = np.repeat(starts[:-1], counts)
        return cls(
            features=features,
            parallelism=np.asarray(parallelism, dtype=np.int64),
            labels=np.asarray(labels, dtype=np.int8),
            edges=np.stack(
                [np.asarray(edge_source, dtype=np.int64) + offset, np.asarray(edge_target, dtype=np.int64) + offset]
            ),
            starts=starts,
            edge_starts=np.concatenate(([0], np.cumsum(counts))),
            jobs=tuple(jobs),
        )

    @property
    def runs(self) -> int:
        return len(self.jobs)

    def select(self, runs: npt.ArrayLike) -> GraphSet:
        """Some of the runs, in the order given."""
        runs = np.asarray(runs, dtype=np.int64)
        nodes, edges, sizes, counts = self._slices(runs)
        shift = np.repeat(np.concatenate(([0], np.cumsum(sizes)[:-1])) - self.starts[runs], counts)
        return GraphSet(
            features=self.features[nodes],
            parallelism=self.parallelism[nodes],
            labels=self.labels[nodes],
            edges=self.edges[:, edges] + shift,
            starts=np.concatenate(([0], np.cumsum(sizes))),
            edge_starts=np.concatenate(([0], np.cumsum(counts))),
            jobs=tuple(self.jobs[run] for run in runs),
        )

    def _slices(self, runs: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        sizes = self.starts[runs + 1] - self.starts[runs]
        counts = self.edge_starts[runs + 1] - self.edge_starts[runs]
        return _ranges(self.starts[runs], sizes), _ranges(self.edge_starts[runs], counts), sizes, counts

    def batch(self, runs: npt.ArrayLike | None = None) -> Batch:
        """Some runs (all by default) as tensors."""
        chosen = self if runs is None else self.select(runs)
        return Batch(
            features=torch.from_numpy(np.ascontiguousarray(chosen.features, dtype=np.float32)),
            log_p=torch.from_numpy(scaled_log(chosen.parallelism)),
            labels=torch.from_numpy(chosen.labels.astype(np.float32)),
            edge_index=torch.from_numpy(np.ascontiguousarray(chosen.edges)),
        )


def _ranges(starts: Ints, lengths: Ints) -> Ints:
    """start, start+1, …, start+length−1 for every pair, one after the other."""
    total = int(lengths.sum())
    first = np.repeat(starts - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    return first + np.arange(total)
