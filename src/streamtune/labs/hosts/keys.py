"""The one place where this lab depends on one of our engines: keys that bytewax routes to a wanted worker."""

from streamtune.engines.timely.placement import worker_keys

__all__ = ["worker_keys"]
