"""What a run on real hosts sends, as a linear function of what the graph says; four coefficients, fitted on few hosts.

bytes = progress · frames + message · messages + overhead · tuples + factor · payload

Tuples and payload are those between hosts. Engines batch: what a batch costs (headers, acknowledgements, credits) is
the message. In Timely the sender and the receiver of a message each tell every other worker of their progress: frames.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from streamtune.labs.hosts.work import TaskWork
from streamtune.placement.graph import Floats

TIMELY_BATCH_S = 1.0  # how often the lab's sources emit
FLINK_BUFFER_S = 0.1  # Flink's execution.buffer-timeout
FLINK_BUFFER_BYTES = 8192.0


@dataclass(frozen=True)
class HopModel(ABC):
    """The coefficients, and how an engine turns work into frames and messages."""

    progress: float = 0.0
    message: float = 0.0
    overhead: float = 0.0
    factor: float = 1.0

    @abstractmethod
    def counts(self, work: TaskWork, hosts: int) -> tuple[float, float]:
        """Frames and messages of a whole run."""

    def totals(self, work: TaskWork, hosts: int) -> Floats:
        remote = work.remote()
        tuples = sum(count for count, _ in remote)
        return np.array([*self.counts(work, hosts), tuples, sum(count * size for count, size in remote)])

    def features(self, short: TaskWork, long: TaskWork, hosts: int) -> Floats:
        """Per emitted tuple, as the slope between two runs."""
        emitted = [sum(count for _, count in work.sources.values()) for work in (short, long)]
        change: Floats = (self.totals(long, hosts) - self.totals(short, hosts)) / (emitted[1] - emitted[0])
        return change

    def fitted(self, rows: Floats, values: Floats) -> Self:
        """Non-negative least squares over the calibration runs."""
        from scipy.optimize import nnls

        scale = np.where(rows.max(axis=0) > 0, rows.max(axis=0), 1.0)
        # Relative errors count: a small tuple's overhead matters as much as a large tuple's payload.
        weight = 1 / np.maximum(values, 1e-9)
        found, _ = nnls(rows / scale * weight[:, None], values * weight)
        progress, message, overhead, factor = found / scale
        return replace(
            self, progress=float(progress), message=float(message), overhead=float(overhead), factor=float(factor)
        )

    def predicted(self, short: TaskWork, long: TaskWork, hosts: int) -> float:
        """Bytes between hosts per emitted tuple."""
        coefficients = np.array([self.progress, self.message, self.overhead, self.factor])
        return float(self.features(short, long, hosts) @ coefficients)

    def __str__(self) -> str:
        return (
            f"{self.progress:.0f} bytes per frame, {self.message:.0f} per message, {self.overhead:.1f} per tuple and "
            f"{self.factor:.3f} per byte of it"
        )


class TimelyModel(HopModel):
    """Every message between hosts makes two workers tell all others: 2 · (hosts − 1) frames.

    The message's own headers are not told apart from these: on one number of hosts the two cannot be separated, and
    frames are most of it. What stays on a host changes nobody's progress and is never told.
    """

    def counts(self, work: TaskWork, hosts: int) -> tuple[float, float]:
        batches = max(count / rate for rate, count in work.sources.values()) / TIMELY_BATCH_S
        flows: dict[tuple[int, int, int], float] = defaultdict(float)
        for (a, b), (count, _) in work.tuples().items():
            if work.hosts[a] != work.hosts[b]:
                flows[work.depth[a], work.hosts[a], work.hosts[b]] += count
        messages = 0.0
        # A step is active once per batch, and once for every message that arrives from another host.
        active = dict.fromkeys(range(hosts), 1.0)
        for depth in range(work.stages):
            arriving = dict.fromkeys(range(hosts), 0.0)
            for (stage, a, b), count in flows.items():
                if stage == depth:
                    sent = min(count / batches, active[a])
                    messages += sent
                    arriving[b] += sent
            active = {host: max(1.0, arriving[host]) for host in range(hosts)}
        return 2 * (hosts - 1) * messages * batches, 0.0


class FlinkModel(HopModel):
    """A channel between two tasks on different hosts sends a buffer when it is full or 100 ms old."""

    def counts(self, work: TaskWork, hosts: int) -> tuple[float, float]:  # noqa: ARG002 - Flink tells nobody else
        seconds = max(count / rate for rate, count in work.sources.values())
        flushes = seconds / FLINK_BUFFER_S
        buffers = (min(count, flushes) + count * size / FLINK_BUFFER_BYTES for count, size in work.remote())
        return 0.0, float(sum(buffers))


MODELS: dict[str, HopModel] = {"timely": TimelyModel(), "flink": FlinkModel()}
