"""What the API shows; the store keeps decisions in the same form."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Mode = Literal["observe", "recommend", "approve", "auto"]
JobState = Literal["running", "restarting", "failed", "finished", "unreachable", "unknown"]
Status = Literal[
    "observed", "proposed", "approved", "rejected", "applying", "applied", "failed", "rolled_back", "expired", "refused"
]


class View(BaseModel):
    """Read only, and made by our own code: nothing is checked twice."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, protected_namespaces=())


class LeaseView(View):
    holder: str
    until: datetime


class JobSummary(View):
    """One row of the fleet."""

    id: str
    name: str
    cluster: str
    engine: str
    state: JobState
    mode: Mode
    policy: str
    paused: bool
    rate: float | None = None
    backpressure: float | None = Field(default=None, description="the worst operator's share")
    backpressured: bool = False
    instances: int | None = None
    recommended_instances: int | None = None
    autoscaler_instances: int | None = None
    restarts_today: int = 0
    savings_today: float | None = Field(
        default=None, description="instance-hours against what the autoscaler would run"
    )
    last_observed: datetime | None = None
    pending: str | None = Field(default=None, description="the decision that waits for an approval")
    trouble: list[str] = Field(default_factory=list)
    lease: LeaseView | None = None


class OperatorView(View):
    id: str
    type: str
    parallelism: int
    max_parallelism: int
    recommended: int | None = None
    busy: float | None = None
    backpressured: float | None = None
    idle: float | None = None
    rate_in: float | None = None
    rate_out: float | None = None
    bottleneck: bool = False
    excluded: bool = False


class EdgeView(View):
    source: str = Field(alias="from")
    target: str = Field(alias="to")
    rate: float | None = None


class BoundsView(View):
    model_config = ConfigDict(frozen=True, extra="forbid")

    min: int = Field(ge=1, le=32768)
    max: int = Field(ge=1, le=32768)


class JobDetail(JobSummary):
    """One job with its operators."""

    operators: list[OperatorView] = Field(default_factory=list)
    edges: list[EdgeView] = Field(default_factory=list)
    bounds: dict[str, BoundsView] = Field(default_factory=dict)
    rules: dict[str, Any] = Field(default_factory=dict, description="the whole policy")
    model: str | None = None


class JobList(View):
    total: int
    jobs: list[JobSummary]


class Series(View):
    """Observations over time, a list each."""

    time: list[datetime]
    rate: list[float | None]
    backpressure: list[float | None]
    instances: list[int | None]
    recommended: list[int | None]
    autoscaler: list[int | None]
    parallelism: dict[str, list[int | None]]


class Reason(View):
    operator: str
    text: str


class Outcome(View):
    time: datetime
    text: str
    backpressured: bool
    instances: int


class Step(View):
    time: datetime
    status: Status
    by: str
    text: str


class Decision(View):
    """What was decided about a job, why, by whom, and what came of it."""

    id: str
    job: str
    time: datetime
    kind: Literal["tune", "rollback"] = "tune"
    status: Status
    before: dict[str, int] = Field(alias="from")
    after: dict[str, int] = Field(alias="to")
    summary: str
    reasons: list[Reason] = Field(default_factory=list)
    curves: dict[str, list[tuple[int, float]]] = Field(default_factory=dict)
    tuner: str
    model: str | None = None
    policy: str
    by: str
    outcome: Outcome | None = None
    history: list[Step] = Field(default_factory=list)


class DecisionList(View):
    decisions: list[Decision]
    next: str | None = None


class ClusterView(View):
    name: str
    engine: str
    url: str
    state: Literal["ok", "unreachable", "unknown"]
    jobs: int
    error: str | None = None


class Identity(View):
    name: str
    role: Literal["viewer", "operator"]


class ServiceView(View):
    version: str
    started: datetime
    now: datetime
    demo: Literal["simulated", "flink"] | None
    speed: float
    identity: Identity | None
    read_only: bool
    holder: str
    clusters: list[ClusterView]
    counts: dict[str, int]
    learning: dict[str, Any] | None = None


class ModelView(View):
    version: str
    created: datetime
    data: dict[str, Any]
    scores: dict[str, float | None]
    status: Literal["candidate", "running", "retired", "rejected"]
    compared_with: str | None = None
    changed: str = ""


class ModelList(View):
    running: str | None
    models: list[ModelView]


class HistoryDay(View):
    day: str
    engine: str
    runs: int


class QuarantineReason(View):
    reason: str
    count: int
    samples: list[str]


class Quarantine(View):
    total: int
    reasons: list[QuarantineReason]


class HistoryView(View):
    days: list[HistoryDay]
    quarantine: Quarantine


class PolicyList(View):
    policies: list[dict[str, Any]]
    source: str


class AuditEntry(View):
    time: datetime
    who: str
    what: str
    target: str
    detail: dict[str, Any]


class AuditList(View):
    entries: list[AuditEntry]


class ErrorBody(View):
    code: str
    message: str
    next: str


class ErrorView(View):
    error: ErrorBody
