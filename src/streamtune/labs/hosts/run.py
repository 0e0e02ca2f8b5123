"""``HostRun``: what a run on real hosts did."""

from __future__ import annotations

from dataclasses import dataclass

from streamtune.labs.hosts.network import Traffic


@dataclass(frozen=True)
class HostRun:
    """What a run did: bytes at every host's interface, tuples every task handled, from the first tuple to the last."""

    traffic: tuple[Traffic, ...]
    handled: dict[int, int]
    emitted: int
    seconds: float

    @property
    def throughput(self) -> float:
        """Tuples/s that the sources emitted."""
        return self.emitted / self.seconds if self.seconds else 0.0

    @property
    def sent_bytes(self) -> int:
        """Bytes all hosts sent: the thesis' bandwidth counts each of them twice, at the sender and the receiver."""
        return sum(host.sent for host in self.traffic)
