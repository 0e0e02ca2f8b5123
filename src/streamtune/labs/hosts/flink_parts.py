"""The one place where this lab leans on our Flink: where its jars and Java are, and which flags Java needs."""

from __future__ import annotations

from streamtune.engines.flink.cluster_settings import JAVA_FLAGS
from streamtune.engines.flink.distribution import FlinkDistribution, java_tool

__all__ = ["JAVA_FLAGS", "class_path", "java_tool"]


def class_path() -> str:
    """Flink's jars as Java wants them."""
    return FlinkDistribution.find().class_path
