"""Contracts that every implementation must pass: a new engine or tuner gets its tests by existing."""

from streamtune.testing.engine_contract import ENGINE_LAWS, EngineCase
from streamtune.testing.tuner_contract import TUNER_LAWS

__all__ = ["ENGINE_LAWS", "TUNER_LAWS", "EngineCase"]
