"""What a run on real hosts sends, as a linear function of what its graph says; four coefficients, fitted on few hosts.

Tuples and their bytes between hosts cost what they cost on any engine. What comes on top is an engine's own: Flink
sends buffers, which are acknowledged (``HopCost``); in Timely the sender and the receiver of a message each tell every
other worker of their progress.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from streamtune.labs.hosts.work import TaskWork
from streamtune.placement.graph import Floats
from streamtune.placement.wire import HopCost

TIMELY_BATCH_S = 1.0  # how often the lab's sources emit


@dataclass(frozen=True)
class HopModel(ABC):
    """The coefficients of an engine's terms: two of its own, then tuples and bytes between hosts."""

    coefficients: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)

    @abstractmethod
    def own_terms(self, work: TaskWork, hosts: int) -> tuple[float, float]:
        """What an engine's own two coefficients are multiplied by, per second."""

    def terms(self, work: TaskWork, hosts: int) -> Floats:
        """Per emitted tuple, while all sources emit."""
        seconds = _seconds(work)
        remote = work.remote()
        tuples = sum(count for count, _ in remote) / seconds
        payload = sum(count * size for count, size in remote) / seconds
        emitted = sum(count for _, count in work.sources.values()) / seconds
        found: Floats = np.array([*self.own_terms(work, hosts), tuples, payload]) / emitted
        return found

    def fitted(self, rows: Sequence[Floats], values: Sequence[float]) -> Self:
        """Non-negative least squares over the calibration runs; relative errors count, so that small tuples matter."""
        from scipy.optimize import nnls

        matrix, measured = np.array(rows), np.array(values)
        scale = np.where(matrix.max(axis=0) > 0, matrix.max(axis=0), 1.0)
        weight = 1 / np.maximum(measured, 1e-9)
        found, _ = nnls(matrix / scale * weight[:, None], measured * weight)
        first, second, overhead, factor = (found / scale).tolist()
        return replace(self, coefficients=(first, second, overhead, factor))

    def predicted(self, work: TaskWork, hosts: int) -> float:
        """Bytes between hosts per emitted tuple."""
        return float(self.terms(work, hosts) @ np.array(self.coefficients))


class FlinkModel(HopModel):
    """A channel sends a buffer when it is full or 100 ms old; buffers on one connection share acknowledgements."""

    def own_terms(self, work: TaskWork, hosts: int) -> tuple[float, float]:
        cost, seconds = HopCost(), _seconds(work)
        connections = np.zeros((hosts, hosts))
        for (a, b), (count, size) in work.tuples().items():
            if work.hosts[a] != work.hosts[b]:
                sent = cost.messages(np.array([count / seconds]), np.array([float(size)]))
                connections[work.hosts[a], work.hosts[b]] += float(sent[0])
        return float(connections.sum()), float(cost.acknowledgements(connections).sum())

    @property
    def hop_cost(self) -> HopCost:
        """The same as settings of the simulators."""
        message, acknowledgement, overhead, factor = self.coefficients
        return HopCost(
            overhead_bytes=overhead, byte_factor=factor, message_bytes=message, ack_bytes=acknowledgement
        )  # fmt: skip

    def __str__(self) -> str:
        message, acknowledgement, overhead, factor = self.coefficients
        return (
            f"{message:.0f} bytes per buffer, {acknowledgement:.0f} per acknowledgement, {overhead:.1f} per tuple and "
            f"{factor:.3f} per byte of it"
        )


class TimelyModel(HopModel):
    """Every message between hosts makes two workers tell all others: 2 · (hosts − 1) frames.

    What stays on a host changes nobody's progress and is never told. The second coefficient is that of the messages.
    """

    def own_terms(self, work: TaskWork, hosts: int) -> tuple[float, float]:
        batches = _seconds(work) / TIMELY_BATCH_S
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
        per_second = messages / TIMELY_BATCH_S
        return 2 * (hosts - 1) * per_second, per_second

    def __str__(self) -> str:
        frame, message, overhead, factor = self.coefficients
        return (
            f"{frame:.0f} bytes per frame of progress, {message:.0f} per message, {overhead:.1f} per tuple and "
            f"{factor:.3f} per byte of it"
        )


def _seconds(work: TaskWork) -> float:
    return max(count / rate for rate, count in work.sources.values())


MODELS: dict[str, HopModel] = {"timely": TimelyModel(), "flink": FlinkModel()}
# Fitted to the calibration runs on two to four hosts, and left alone since (docs/results/placement.md).
TIMELY_FROZEN = TimelyModel((0.0, 112.0, 45.0, 1.052))
