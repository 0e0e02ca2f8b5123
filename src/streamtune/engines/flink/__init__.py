"""A real Flink: attach to its jobs, watch them, rescale them; and a local cluster to try it on."""

from streamtune.engines.flink.client import FlinkClient
from streamtune.engines.flink.cluster import LocalCluster
from streamtune.engines.flink.cluster_settings import ClusterSettings
from streamtune.engines.flink.distribution import FlinkDistribution
from streamtune.engines.flink.engine import FlinkEngine, FlinkSettings
from streamtune.engines.flink.overrides import Overrides, load_overrides
from streamtune.engines.flink.rescaling import Program, RescaleSettings

__all__ = [
    "ClusterSettings",
    "FlinkClient",
    "FlinkDistribution",
    "FlinkEngine",
    "FlinkSettings",
    "LocalCluster",
    "Overrides",
    "Program",
    "RescaleSettings",
    "load_overrides",
]
