"""End-to-end latency by Flink's latency markers, where the job has them (``metrics.latency.interval``).

Markers travel from every source through all queues, but not into windows; each operator keeps the latencies of the
last markers it saw: one histogram per source, operator and subtask, among the metrics of its vertex. They add up along
the way, so what the last operators say is the latency of the job.
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
    """Reads the latency of jobs; a job without markers is detected once and not asked again."""

    def __init__(self, client: FlinkClient) -> None:
        self._client = client
        self._without_markers: set[str] = set()

    def read_ms(self, job_id: str, last: Mapping[str, int]) -> float | None:
        """Median latency at the slowest of the last vertices, or None; ``last`` is their parallelism by vertex id.

        It is read after a window was measured, so no error here may lose that window.
        """
        if job_id in self._without_markers:
            return None
        try:
            found = [self._at_vertex(job_id, vertex_id, degree) for vertex_id, degree in last.items()]
        except EngineError:
            return None
        if not any(found):
            self._without_markers.add(job_id)
        return max((ms for medians in found if (ms := slowest_ms(medians)) is not None), default=None)

    def _at_vertex(self, job_id: str, vertex_id: str, degree: int) -> dict[str, list[float]]:
        """The medians of every operator of a vertex."""
        operator_of = medians_of(self._client.metric_names(job_id, vertex_id), degree)
        names = list(operator_of)
        medians: dict[str, list[float]] = defaultdict(list)
        for first in range(0, len(names), _NAMES_PER_CALL):
            some = names[first : first + _NAMES_PER_CALL]
            for name, metric in self._client.vertex_metrics(job_id, vertex_id, some, "avg").items():
                medians[operator_of[name]].append(metric.average)
        return medians


def medians_of(names: Iterable[str], degree: int) -> dict[str, str]:
    """The operator of every median, without subtasks that the job no longer has.

    >>> name = "latency.source_id.a.operator_id.b.operator_subtask_index.{}.latency_{}"
    >>> names = [name.format(0, "median"), name.format(0, "p99"), name.format(3, "median"), "numRecordsIn"]
    >>> list(medians_of(names, degree=2).values())
    ['b']
    """
    found = {name: match for name in names if (match := _MEDIAN.fullmatch(name)) is not None}
    return {name: match["operator"] for name, match in found.items() if int(match["subtask"]) < degree}


def slowest_ms(medians: Mapping[str, list[float]]) -> float | None:
    """The largest mean over an operator's subtasks: of a chain, its end.

    >>> slowest_ms({"a": [5.0], "b": [9.0, 11.0]})
    10.0
    """
    known = [[value for value in values if math.isfinite(value)] for values in medians.values()]
    return max((sum(values) / len(values) for values in known if values), default=None)
