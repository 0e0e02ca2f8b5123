"""What Sundog raises on purpose."""

from __future__ import annotations

from streamtune.errors import StreamTuneError


class SundogError(StreamTuneError):
    """A knowledge base, log, state or model that Sundog cannot use."""
