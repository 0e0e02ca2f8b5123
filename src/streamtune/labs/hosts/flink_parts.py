"""The one place where this lab leans on our Flink: where its jars and Java are, and which flags Java needs."""

from __future__ import annotations

from streamtune.labs.flink.distribution import FlinkDistribution, java_tool
from streamtune.labs.flink.settings import JAVA_FLAGS

__all__ = ["JAVA_FLAGS", "class_path", "java_tool"]


def class_path() -> str:
    """Flink's jars as Java wants them."""
    return FlinkDistribution.find().class_path
