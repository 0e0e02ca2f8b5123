"""``HopCost``: what a tuple costs on its way from one task to another, and how many bytes that puts on the wire.

An engine does not send tuples but buffers: one is sent when it is full, or when it has waited for long enough. A
buffer costs headers and credits. All channels from one host to another share a connection, which costs segments and
acknowledgements of its own, up to once a flush. With r tuples/s of s bytes on a channel, f = (r⁻⁴ + flushes⁻⁴)^(−1/4)
(the smaller of both, rounded off where they are near), m = f + r · s / buffer messages/s, and λ = Σ m messages/s on its
connection, the bytes/s of a connection are

    Σ r · (overhead + factor · s) + Σ m · message + acknowledgement · min(λ, flushes)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from streamtune.settings import Settings

if TYPE_CHECKING:
    from streamtune.placement.graph import Floats, Ints


# How sharply the flushes of a channel turn from one a tuple to one a period.
_ROUNDED = 4.0


class HopCost(Settings):
    """What one tuple costs on its way. The bytes are those of Flink over hosts, as calibrated on four real ones."""

    overhead_bytes: float = Field(default=18.04, ge=0, description="bytes on the wire beside a tuple's own")
    byte_factor: float = Field(default=1.001, ge=0, description="bytes on the wire per byte of a tuple")
    message_bytes: float = Field(default=211.7, ge=0, description="bytes on the wire of a buffer beside its tuples")
    buffer_bytes: float = Field(default=8192.0, gt=0, description="size of a buffer")
    flushes_per_s: float = Field(default=10.0, ge=0, description="buffers that a channel sends before they are full")
    ack_bytes: float = Field(default=132.8, ge=0, description="bytes of a connection beside its buffers, once a flush")
    local_us: float = Field(default=2.0, ge=0, description="CPU of a tuple handed over within a host, µs")
    remote_us: float = Field(default=6.0, ge=0, description="CPU of sending and receiving a tuple, each, µs")
    remote_ns_per_byte: float = Field(default=2.0, ge=0, description="CPU of a byte sent or received, ns")
    service_us: float = Field(default=10.0, ge=0, description="CPU of a task for one tuple, µs")

    def per_tuple(self, tuple_bytes: Floats) -> Floats:
        """Bytes on the wire of one more tuple, on a channel that is faster than its flushes.

        >>> cost = HopCost(overhead_bytes=10, byte_factor=1, message_bytes=100, ack_bytes=20, buffer_bytes=1000)
        >>> cost.per_tuple(50.0)
        65.0
        """
        return self.overhead_bytes + (self.byte_factor + self.message_bytes / self.buffer_bytes) * tuple_bytes

    def messages(self, tuples_per_s: Floats, tuple_bytes: Floats) -> Floats:
        """Buffers/s that channels send.

        >>> import numpy as np
        >>> HopCost(buffer_bytes=1000).messages(np.array([0.0, 1.0, 200.0]), np.full(3, 50.0)).round(3).tolist()
        [0.0, 1.05, 20.0]
        """
        import numpy as np  # here, so that settings can be read without it

        with np.errstate(divide="ignore", over="ignore"):
            rounded = np.power(tuples_per_s, -_ROUNDED) + np.power(self.flushes_per_s, -_ROUNDED)
            flushes: Floats = np.power(rounded, -1 / _ROUNDED)
        return flushes + tuples_per_s * tuple_bytes / self.buffer_bytes

    def acknowledgements(self, messages_per_s: Floats) -> Floats:
        """Exchanges/s of segments and acknowledgements on connections with so many messages/s."""
        import numpy as np

        return np.minimum(messages_per_s, self.flushes_per_s)

    def per_second(self, tuples_per_s: Floats, tuple_bytes: Floats) -> Floats:
        """Bytes/s of channels that have a connection of their own each.

        >>> import numpy as np
        >>> cost = HopCost(overhead_bytes=10, byte_factor=1, message_bytes=100, ack_bytes=0, buffer_bytes=1000)
        >>> cost.per_second(np.array([1.0, 200.0]), np.array([50.0, 50.0])).round(1).tolist()
        [165.0, 14000.0]
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
