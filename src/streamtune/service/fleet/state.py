"""``KeptJob``: what is known of one job now. The keeper writes it; the API reads snapshots of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from streamtune.dataflow import Observation, Plan
from streamtune.engines.base import Deployment
from streamtune.errors import EngineError
from streamtune.service.clusters.base import Cluster
from streamtune.service.errors import LeaseHeldError
from streamtune.service.fleet.context import Context
from streamtune.service.fleet.summary import edges_of, operators_of, total_rate, worst_backpressure
from streamtune.service.settings import Policy
from streamtune.service.store.jobs import JobRow
from streamtune.service.views import (
    BoundsView,
    Decision,
    JobDetail,
    JobState,
    JobSummary,
    LeaseView,
)
from streamtune.tuners.base import Recommendation, Tuner


class KeptJob:
    """One job as the service sees it."""

    def __init__(self, context: Context, cluster: Cluster, row: JobRow) -> None:
        self._context = context
        self._cluster = cluster
        self.id = row.id
        self.name = row.name
        self.paused = row.paused
        self.bounds: Mapping[str, Mapping[str, int]] = row.bounds
        self.tuned_for: Mapping[str, float] | None = row.tuned_for
        self.deployment: Deployment | None = None
        self.seen: Observation | None = None
        self.tuner: Tuner | None = None
        self.model: str | None = None
        self.recommendation: Recommendation | None = None
        self.recommended: dict[str, int] | None = None
        self.autoscaler: int | None = None
        self.pending: str | None = None
        self.last_proposed: dict[str, int] | None = None
        self.awaits_outcome: str | None = None
        self.last_observed: datetime | None = None
        self._state: JobState = "unknown"
        self._trouble: dict[str, str] = {}
        self._other: LeaseHeldError | None = None
        self._day: str = ""
        self._saved = 0.0
        self._restarts = 0
        self._excluded: frozenset[str] = frozenset()
        self._summary: JobSummary | None = None

    @property
    def policy(self) -> Policy:
        return self._context.settings.policy_for(self._cluster.name, self.name)

    @property
    def running(self) -> Deployment:
        if self.deployment is None:
            raise EngineError("the job is not attached")
        return self.deployment

    @property
    def tuner_in_use(self) -> Tuner:
        if self.tuner is None:
            raise EngineError("the job has no tuner yet")
        return self.tuner

    @property
    def backpressured(self) -> bool:
        return self.seen is not None and self.seen.has_backpressure

    @property
    def may_act(self) -> bool:
        """Whether the lease on this job is ours."""
        return self._other is None

    @property
    def is_over(self) -> bool:
        return self._state == "finished"

    @property
    def recommended_total(self) -> int | None:
        return None if self.recommended is None else sum(self.recommended.values())

    # What happens to it

    def attached(self, deployment: Deployment) -> None:
        self.deployment = deployment
        if self._state != "restarting":
            self._state = "running"

    def lost(self, problem: str, listed: JobState) -> None:
        """The engine cannot be asked, or the job has ended: attach again later."""
        self.deployment = None
        self._trouble["engine"] = problem
        self._state = listed if listed in ("failed", "finished") else "unreachable"
        self.publish()

    def set_state(self, state: JobState) -> None:
        self._state = state

    def not_ready(self, reason: str) -> None:
        self._state = "restarting"
        self._trouble["engine"] = reason
        self.publish()

    def note_trouble(self, problem: str) -> None:
        self._trouble["service"] = problem
        self.publish()

    def held_by_other(self, error: LeaseHeldError) -> None:
        self._other = error
        self.publish()

    def holds_lease(self) -> None:
        self._other = None

    def observed(
        self, seen: Observation, recommendation: Recommendation | None, autoscaler: int | None, now: datetime
    ) -> None:
        """A good observation: all trouble is over."""
        self.seen, self.last_observed, self._state = seen, now, "running"
        self._trouble.clear()
        self.recommendation = recommendation
        if recommendation is not None:
            self.recommended = dict(recommendation.plan)
        self.autoscaler = autoscaler
        self._count_day(now)
        if autoscaler is not None and not seen.has_backpressure:  # starving a job is not thrift
            self._saved += (autoscaler - seen.plan.total) * seen.window_s / 3600

    def recommend(self, plan: Plan) -> None:
        self.recommended = dict(plan)

    def applied(self, deployment: Deployment, decision: str) -> None:
        self.deployment = deployment
        self.awaits_outcome = decision
        self.recommended = dict(deployment.plan)
        self.last_proposed = None
        self._count_day(self._context.now())
        self._restarts += 1

    def _count_day(self, now: datetime) -> None:
        """Start the day's counts anew; on the first day, with what the store knows of it."""
        day = now.strftime("%Y-%m-%d")
        if day == self._day:
            return
        first, self._day, self._saved, self._restarts = not self._day, day, 0.0, 0
        if first:
            midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
            self._saved = self._context.store.jobs.saved_since(self.id, midnight)
            self._restarts = len(self._context.store.decisions.changes_since(self.id, midnight))

    def set_excluded(self, excluded: frozenset[str]) -> None:
        self._excluded = excluded

    # What is told of it

    def publish(self) -> None:
        self._summary = None
        self._context.events.publish("job", self.summary())

    def tell(self, decision: Decision) -> None:
        self._context.decided(self.id, decision.status)
        self._context.events.publish("decision", decision)
        if decision.status != "observed":
            self._context.notify("decision", self.summary(), decision, decision.summary)
        self.publish()

    def tell_decision(self, decision_id: str) -> None:
        decision = self._context.store.decisions.get(self.id, decision_id)
        if decision is not None:
            self._context.events.publish("decision", decision)

    def summary(self) -> JobSummary:
        if self._summary is None:
            self._summary = JobSummary(**self._plain())
        return self._summary

    def refresh(self) -> None:
        """Something that others set has changed: make the summary anew."""
        self._summary = None

    def _plain(self) -> dict[str, Any]:
        policy, seen, lease = self.policy, self.seen, self._context.leases.get(self.id)
        trouble = list(self._trouble.values())
        if self._other is not None:
            trouble.append(f"{self._other.holder} looks after this job: here it is only shown")
        return {
            "id": self.id,
            "name": self.name,
            "cluster": self._cluster.name,
            "engine": self._cluster.engine.capabilities.name,
            "state": self._state,
            "mode": policy.mode,
            "policy": policy.pattern,
            "paused": self.paused,
            "rate": None if seen is None else total_rate(seen),
            "backpressure": None if seen is None else worst_backpressure(seen),
            "backpressured": self.backpressured and self._state == "running",
            "instances": None if self.deployment is None else self.deployment.plan.total,
            "recommended_instances": self.recommended_total,
            "autoscaler_instances": self.autoscaler,
            "restarts_today": self._restarts,
            "savings_today": round(self._saved, 3) if self._day else None,
            "last_observed": self.last_observed,
            "pending": self.pending,
            "trouble": trouble,
            "lease": None if lease is None else LeaseView(holder=lease.holder, until=lease.until),
        }

    def detail(self) -> JobDetail:
        deployment = self.deployment
        operators, edges = [], []
        if deployment is not None:
            operators = operators_of(deployment.job, deployment.plan, self.seen, self.recommended, self._excluded)
            edges = edges_of(deployment.job, self.seen)
        return JobDetail(
            **self.summary().model_dump(),
            operators=operators,
            edges=edges,
            bounds={key: BoundsView(**one) for key, one in self.bounds.items()},
            rules=self.policy.model_dump(mode="json"),
            model=self.model,
        )
