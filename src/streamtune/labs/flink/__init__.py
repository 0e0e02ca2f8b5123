"""A local Flink from the pip package, and job specs as real Flink jobs: a Java program that emulates service times."""

from streamtune.labs.flink.cluster import LocalCluster
from streamtune.labs.flink.cluster_settings import ClusterSettings
from streamtune.labs.flink.distribution import FlinkDistribution
from streamtune.labs.flink.program import WorkloadSettings
from streamtune.labs.flink.submission import Submitter

__all__ = ["ClusterSettings", "FlinkDistribution", "LocalCluster", "Submitter", "WorkloadSettings"]
