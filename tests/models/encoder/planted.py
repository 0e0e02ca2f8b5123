"""Small histories with a known rule, for tests of the encoder."""

from __future__ import annotations

import numpy as np

from streamtune.models.encoder import GraphSet

FEATURES = 6


def planted_runs(runs: int, seed: int = 0, jobs: int | None = None, unlabelled: float = 0.2) -> GraphSet:
    """Random DAGs whose operators are bottlenecks below a parallelism that follows from their first two features."""
    random = np.random.default_rng(seed)
    features, parallelism, labels, sizes, sources, targets, counts = [], [], [], [], [], [], []
    for _ in range(runs):
        size = int(random.integers(2, 7))
        own = random.random((size, FEATURES)).astype(np.float32)
        degrees = random.integers(1, 61, size)
        needed = np.exp(1 + 2.5 * own[:, 0] + own[:, 1])
        label = (degrees < needed).astype(np.int8)
        label[random.random(size) < unlabelled] = -1
        edges = [(int(random.integers(0, node)), node) for node in range(1, size)]
        features.append(own)
        parallelism.append(degrees)
        labels.append(label)
        sizes.append(size)
        sources += [a for a, _ in edges]
        targets += [b for _, b in edges]
        counts.append(len(edges))
    names = [f"job{index % (jobs or runs)}" for index in range(runs)]
    return GraphSet.of(
        np.concatenate(features),
        np.concatenate(parallelism),
        np.concatenate(labels),
        sizes,
        sources,
        targets,
        counts,
        names,
    )
