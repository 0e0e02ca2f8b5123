"""``HopCost``: what a tuple costs on its way from one task to another, and how many bytes that puts on the wire.

An engine does not send tuples but buffers: one is sent when it is full, or when it has waited for long enough. A
buffer costs headers and credits, and is acknowledged. Buffers that follow each other closely on one connection (all
channels from one host to another share one) are acknowledged together, which is what delayed acknowledgements are for.
With r tuples/s of s bytes on a channel, m = min(r, flushes) + r · s / buffer messages/s, and λ messages/s on its
connection, the bytes/s of a connection are

    Σ r · (overhead + factor · s) + Σ m · message + acknowledgement · λ / (1 + delay · λ)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from streamtune.settings import Settings

if TYPE_CHECKING:
    from streamtune.placement.graph import Floats, Ints


class HopCost(Settings):
    """What one tuple costs on its way. The bytes are those of Flink over hosts, as calibrated on four real ones."""

    overhead_bytes: float = Field(default=18.2, ge=0, description="bytes on the wire beside a tuple's own")
    byte_factor: float = Field(default=0.992, ge=0, description="bytes on the wire per byte of a tuple")
    message_bytes: float = Field(default=152.0, ge=0, description="bytes on the wire of a buffer beside its tuples")
    buffer_bytes: float = Field(default=8192.0, gt=0, description="size of a buffer")
    flushes_per_s: float = Field(default=10.0, ge=0, description="buffers that a channel sends before they are full")
    ack_bytes: float = Field(default=238.0, ge=0, description="bytes on the wire of an acknowledgement")
    ack_delay_s: float = Field(default=0.04, ge=0, description="how long one waits for others (Linux: 40 ms)")
    local_us: float = Field(default=2.0, ge=0, description="CPU of a tuple handed over within a host, µs")
    remote_us: float = Field(default=6.0, ge=0, description="CPU of sending and receiving a tuple, each, µs")
    remote_ns_per_byte: float = Field(default=2.0, ge=0, description="CPU of a byte sent or received, ns")
    service_us: float = Field(default=10.0, ge=0, description="CPU of a task for one tuple, µs")

    def per_tuple(self, tuple_bytes: Floats) -> Floats:
        """Bytes on the wire of one more tuple, on a channel that is faster than its flushes, acknowledged alone.

        >>> cost = HopCost(overhead_bytes=10, byte_factor=1, message_bytes=100, ack_bytes=20, buffer_bytes=1000)
        >>> cost.per_tuple(50.0)
        66.0
        """
        of_buffers = (self.message_bytes + self.ack_bytes) / self.buffer_bytes
        return self.overhead_bytes + (self.byte_factor + of_buffers) * tuple_bytes

    def messages(self, tuples_per_s: Floats, tuple_bytes: Floats) -> Floats:
        """Buffers/s that channels send.

        >>> import numpy as np
        >>> HopCost(buffer_bytes=1000).messages(np.array([5.0, 200.0]), np.array([50.0, 50.0])).tolist()
        [5.25, 20.0]
        """
        import numpy as np  # here, so that settings can be read without it

        return np.minimum(tuples_per_s, self.flushes_per_s) + tuples_per_s * tuple_bytes / self.buffer_bytes

    def acknowledgements(self, messages_per_s: Floats) -> Floats:
        """Acknowledgements/s of connections with so many messages/s."""
        return messages_per_s / (1 + self.ack_delay_s * messages_per_s)

    def per_second(self, tuples_per_s: Floats, tuple_bytes: Floats) -> Floats:
        """Bytes/s of channels that have a connection of their own each.

        >>> import numpy as np
        >>> cost = HopCost(overhead_bytes=10, byte_factor=1, message_bytes=100, ack_bytes=0, buffer_bytes=1000)
        >>> cost.per_second(np.array([5.0, 200.0]), np.array([50.0, 50.0])).tolist()
        [825.0, 14000.0]
        """
        messages = self.messages(tuples_per_s, tuple_bytes)
        payload = tuples_per_s * (self.overhead_bytes + self.byte_factor * tuple_bytes)
        return payload + self.message_bytes * messages + self.ack_bytes * self.acknowledgements(messages)

    def between_hosts(
        self, tuples_per_s: Floats, tuple_bytes: Floats, source_host: Ints, target_host: Ints, hosts: int
    ) -> Floats:
        """hosts × hosts: bytes/s from host to host of channels between tasks there; 0 within a host."""
        import numpy as np

        pair = source_host * hosts + target_host
        messages = self.messages(tuples_per_s, tuple_bytes)
        payload = tuples_per_s * (self.overhead_bytes + self.byte_factor * tuple_bytes) + self.message_bytes * messages
        sums = (np.bincount(pair, weights=values, minlength=hosts * hosts) for values in (payload, messages))
        sent, buffers = (values.astype(np.float64).reshape(hosts, hosts) for values in sums)
        wire: Floats = sent + self.ack_bytes * self.acknowledgements(buffers)
        np.fill_diagonal(wire, 0.0)
        return wire
