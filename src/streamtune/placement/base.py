"""The base of this room's settings, from the one place where all rooms get it."""

from streamtune.dataflow.operator import Frozen

__all__ = ["Frozen"]
