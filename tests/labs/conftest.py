"""The fake Flink of the engine's tests serves the labs' tests too."""

from __future__ import annotations

from engines.flink.conftest import fake

__all__ = ["fake"]
