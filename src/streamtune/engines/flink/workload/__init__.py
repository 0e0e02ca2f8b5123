"""Job specs as real Flink jobs: a small Java program that emulates service times, selectivities and skew."""

from streamtune.engines.flink.workload.program import WorkloadSettings
from streamtune.engines.flink.workload.submission import Submitter

__all__ = ["Submitter", "WorkloadSettings"]
