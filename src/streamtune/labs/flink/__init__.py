"""A local Flink from the pip package, and job specs as real Flink jobs: a Java program that emulates service times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamtune.lazy import lazily

if TYPE_CHECKING:
    from streamtune.labs.flink.cluster import LocalCluster
    from streamtune.labs.flink.distribution import FlinkDistribution
    from streamtune.labs.flink.settings import ClusterSettings, WorkloadSettings
    from streamtune.labs.flink.submission import Submitter
else:
    __getattr__ = lazily(
        __name__,
        {
            "cluster": ["LocalCluster"],
            "distribution": ["FlinkDistribution"],
            "settings": ["ClusterSettings", "WorkloadSettings"],
            "submission": ["Submitter"],
        },
    )

__all__ = ["ClusterSettings", "FlinkDistribution", "LocalCluster", "Submitter", "WorkloadSettings"]
