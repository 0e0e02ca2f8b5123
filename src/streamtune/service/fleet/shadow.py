"""What the Flink autoscaler would run: the measure for savings."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

from streamtune.dataflow import Job, Observation
from streamtune.tuners.flink_autoscaler import FlinkAutoscaler
from streamtune.tuners.settings import FlinkAutoscalerSettings

_INTERVAL = timedelta(hours=1)


class AutoscalerShadow:
    """The autoscaler, asked but never obeyed.

    It waits an hour before it scales down and then takes the largest of that hour's proposals. Its own waiting starts
    from what runs, which here is not its plan: so it is asked without waiting, and the hour's largest is taken here.
    """

    def __init__(self, job: Job) -> None:
        self._tuner = FlinkAutoscaler(job, FlinkAutoscalerSettings().replace(scale_down_interval_s=0))
        self._recent: deque[tuple[datetime, dict[str, int]]] = deque()

    def instances(self, seen: Observation, now: datetime) -> int:
        """How many instances it would have now."""
        self._tuner.learn(seen)
        self._recent.append((now, dict(self._tuner.recommend(seen).plan)))
        while self._recent and self._recent[0][0] < now - _INTERVAL:
            self._recent.popleft()
        return sum(max(plan.get(key, 0) for _, plan in self._recent) for key in seen.operators)
