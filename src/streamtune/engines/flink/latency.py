"""End-to-end latency by Flink's latency markers, where the job has them (``metrics.latency.interval``).

Markers travel from every source through all queues, but not into windows; each operator keeps the latencies of the
last markers it saw. They are metrics of the job, one histogram per source, operator and subtask, and they add up along
the way, so the latency at the last operator is that of the job.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from streamtune.engines.flink.client import FlinkClient
from streamtune.errors import EngineError

_MEDIAN = re.compile(
    r"latency\.(?:source_id\.\w+\.(?:source_subtask_index\.\d+\.)?)?"
    r"operator_id\.(?P<operator>\w+)\.operator_subtask_index\.(?P<subtask>\d+)\.latency_median"
)
# A request must fit a line of HTTP; one name is about 150 characters long.
_NAMES_PER_CALL = 20


class LatencyReader:
    """Reads the latency of jobs; one that has no markers is found out once and not asked again."""

    def __init__(self, client: FlinkClient) -> None:
        self._client = client
        self._without_markers: set[str] = set()

    def read_ms(self, job_id: str, degrees: Mapping[str, int]) -> float | None:
        """Median latency at the operator that is furthest behind, or None; ``degrees`` is by vertex id.

        It comes after a window that was measured well, so nothing that goes wrong here may spoil that.
        """
        if job_id in self._without_markers:
            return None
        try:
            return self._read_ms(job_id, degrees)
        except EngineError:
            return None

    def _read_ms(self, job_id: str, degrees: Mapping[str, int]) -> float | None:
        wanted = medians_of(self._client.job_metric_names(job_id), degrees)
        if not wanted:
            self._without_markers.add(job_id)
            return None
        names = list(wanted)
        found: dict[str, float] = {}
        for first in range(0, len(names), _NAMES_PER_CALL):
            found |= self._client.job_metrics(job_id, names[first : first + _NAMES_PER_CALL])
        return slowest_ms(wanted, found)


def medians_of(names: Iterable[str], degrees: Mapping[str, int]) -> dict[str, str]:
    """The operator of every median; subtasks that a job no longer has are still listed and left out.

    >>> name = "latency.source_id.a.operator_id.b.operator_subtask_index.{}.latency_{}"
    >>> names = [name.format(0, "median"), name.format(0, "p99"), name.format(3, "median"), "uptime"]
    >>> list(medians_of(names, {"b": 2}).values())
    ['b']
    """
    widest = max(degrees.values(), default=0)
    found = {name: match for name in names if (match := _MEDIAN.fullmatch(name)) is not None}
    # Inside a chain an operator has an id of its own, and no vertex says how many subtasks it has.
    return {
        name: match["operator"]
        for name, match in found.items()
        if int(match["subtask"]) < degrees.get(match["operator"], widest)
    }


def slowest_ms(operator_of: Mapping[str, str], medians: Mapping[str, float]) -> float | None:
    """The largest mean over an operator's subtasks.

    >>> slowest_ms({"a0": "a", "b0": "b", "b1": "b"}, {"a0": 5.0, "b0": 9.0, "b1": 11.0})
    10.0
    """
    seen: dict[str, list[float]] = defaultdict(list)
    for name, operator in operator_of.items():
        if math.isfinite(medians.get(name, math.nan)):
            seen[operator].append(medians[name])
    return max((sum(values) / len(values) for values in seen.values()), default=None)
