"""What can be set about the service; loads none of its libraries."""

from __future__ import annotations

import os
from datetime import datetime, time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, Self
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator, model_validator

from streamtune.settings import Settings

Mode = Literal["observe", "recommend", "approve", "auto"]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


STORE_VARIABLE = "STREAMTUNE_STORE"


def state_folder() -> Path:
    """Where the service keeps what belongs to this user on this machine."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "streamtune"


class MaintenanceWindow(Settings):
    """A time of the week in which nothing, or only scaling up, happens by itself.

    >>> from datetime import UTC
    >>> night = MaintenanceWindow(days=("fri",), start="22:00", end="04:00", allow="scale_up")
    >>> night.covers(datetime(2026, 11, 21, 3, 0, tzinfo=UTC)), night.covers(datetime(2026, 11, 21, 5, 0, tzinfo=UTC))
    (True, False)
    """

    days: tuple[Day, ...] = Field(default=_DAYS, description="days of the week on which it begins")
    start: time = Field(default=time(0, 0), description="when it begins, for instance 22:00")
    end: time = Field(default=time(0, 0), description="when it ends; on the next day where that is not after the start")
    timezone: str = Field(default="UTC", description="of the times, for instance Europe/Zurich")
    allow: Literal["nothing", "scale_up"] = Field(default="nothing", description="what may still be done in it")

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError) as error:
            raise ValueError(f"must be a time zone such as UTC or Europe/Zurich, but got {value!r}") from error
        return value

    def covers(self, moment: datetime) -> bool:
        """Whether a moment lies in it."""
        local = moment.astimezone(ZoneInfo(self.timezone))
        today, yesterday = _DAYS[local.weekday()], _DAYS[local.weekday() - 1]
        clock = local.time().replace(tzinfo=None)
        if self.start < self.end:
            return today in self.days and self.start <= clock < self.end
        return (today in self.days and clock >= self.start) or (yesterday in self.days and clock < self.end)


class Policy(Settings):
    """What may be done to the jobs whose name matches a pattern; the first policy that matches counts."""

    pattern: str = Field(
        default="*", min_length=1, description="names of jobs, with * and ?; cluster/name matches one cluster alone"
    )
    mode: Mode = Field(
        default="observe",
        description="observe: change nothing, propose nothing; recommend: propose; approve: apply what a person "
        "approves; auto: apply",
    )
    tuner: str = Field(default="streamtune", description="which method decides")
    model: str | None = Field(
        default=None, description="a model bundle; none: the model that 'streamtune learn' promoted, if there is one"
    )
    min_parallelism: int = Field(default=1, ge=1, description="no operator goes below")
    max_parallelism: int | None = Field(
        default=None, ge=1, description="no operator goes above; none: the job's own limit"
    )
    tune_sources: bool = Field(default=False, description="let sources be changed too")
    exclude: tuple[str, ...] = Field(default=(), description="operators never to touch, with * and ?")
    max_per_hour: int = Field(default=4, ge=0, description="how often a job may be changed in an hour")
    max_per_day: int = Field(default=24, ge=0, description="how often a job may be changed in a day")
    min_gain: float = Field(
        default=0.1,
        ge=0,
        lt=1,
        description="share of the job's instances that scaling down must free to be worth a restart",
    )
    rate_change: float = Field(
        default=0.1, gt=0, lt=1, description="share by which a source rate must move before the job is looked at again"
    )
    maintenance: tuple[MaintenanceWindow, ...] = Field(
        default=(), description="times in which nothing, or only scaling up, happens"
    )
    group: str | None = Field(default=None, description="name of the group of jobs that share a budget")

    @model_validator(mode="after")
    def _limits_in_order(self) -> Self:
        if self.max_parallelism is not None and self.max_parallelism < self.min_parallelism:
            raise ValueError(
                f"max_parallelism must be at least min_parallelism {self.min_parallelism}, "
                f"but got {self.max_parallelism}"
            )
        return self

    def matches(self, cluster: str, job: str) -> bool:
        return fnmatchcase(job, self.pattern) or fnmatchcase(f"{cluster}/{job}", self.pattern)


_NO_POLICY = Policy()


class WatchedCluster(Settings):
    """One cluster whose jobs are looked after."""

    name: str = Field(min_length=1, max_length=100, description="how it is called")
    engine: Literal["flink"] = Field(default="flink", description="what runs there")
    url: str = Field(description="address of the JobManager's REST endpoint")
    overrides: str | None = Field(default=None, description="YAML file with what the plans of its jobs do not tell")
    settle_s: float | None = Field(default=None, ge=0, description="wait after a change before measuring")
    window_s: float | None = Field(default=None, ge=1, description="how long to measure")


class WebhookSettings(Settings):
    """Whom to tell of what happens."""

    url: str = Field(description="where it is posted to")
    secret: str | None = Field(
        default=None, description="key of the HMAC-SHA256 signature; $NAME takes it from the environment"
    )
    events: tuple[Literal["decision", "failure", "approval_wanted"], ...] = Field(
        default=("decision", "failure", "approval_wanted"), description="what is told"
    )
    allow_internal: bool = Field(
        default=False, description="let the address be one of this machine or of a private network"
    )
    attempts: int = Field(default=8, ge=1, le=50, description="how often it is tried, with pauses that double")
    timeout_s: float = Field(default=5.0, gt=0, le=60, description="how long an answer may take")


class RetentionSettings(Settings):
    """How long the store keeps what."""

    observations_days: float = Field(default=14.0, gt=0, description="observations")
    decisions_days: float = Field(default=365.0, gt=0, description="decisions that are over")
    audit_days: float = Field(default=730.0, gt=0, description="entries of the audit trail")


class LearnSettings(Settings):
    """When and how the service learns from what it has observed."""

    every_hours: float = Field(default=0.0, ge=0, description="hours between two rounds of learning; 0: only by hand")
    evaluate_days: int = Field(default=1, ge=1, description="newest days that are kept from training to judge by")
    min_runs: int = Field(default=200, ge=1, description="fewer runs than that are not worth learning from")
    tolerance: float = Field(
        default=0.02, ge=0, lt=1, description="how much worse a score may be and still count as not worse"
    )
    engine: str = Field(default="", description="engine whose runs are learnt from; empty: the one with most runs")
    max_windows: int = Field(default=2000, ge=10, description="most observations that are replayed to judge a model")


class ApiSettings(Settings):
    """Who may ask, how much and how often."""

    host: str = Field(default="127.0.0.1", pattern=r"^[\w.:%-]+$", description="address to listen on")
    port: int = Field(default=8440, ge=0, le=65535, description="port to listen on; 0: any free one")
    allowed_hosts: tuple[str, ...] = Field(
        default=(), description="names under which the service may be addressed, beside its own address"
    )
    tls_certificate: str | None = Field(default=None, description="file with the certificate, PEM")
    tls_key: str | None = Field(default=None, description="file with its key, PEM")
    anonymous_read: bool = Field(
        default=True, description="let this machine itself read without a token; elsewhere a token is always needed"
    )
    max_body_bytes: int = Field(default=65536, ge=1024, description="largest request")
    requests_per_minute: int = Field(default=1200, ge=1, description="most requests of one client in a minute")
    failures_per_minute: int = Field(default=20, ge=1, description="most wrong tokens of one client in a minute")
    session_hours: float = Field(default=12.0, gt=0, description="how long a login of the dashboard lasts")
    events_clients: int = Field(default=100, ge=1, description="most listeners to live changes at a time")

    @model_validator(mode="after")
    def _both_files(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key belong together: give both, or neither")
        return self


class ServiceSettings(Settings):
    """The service: which clusters, under which policies, and where it keeps what it knows."""

    store: str = Field(
        default="",
        description="address of the store, sqlite:///FILE or postgresql://…; empty: $STREAMTUNE_STORE, else a file of "
        "this user",
    )
    data: str = Field(
        default="", description="folder for history, models and what jobs have taught; empty: a folder of this user"
    )
    clusters: tuple[WatchedCluster, ...] = Field(default=(), description="whose jobs are looked after")
    policies: tuple[Policy, ...] = Field(
        default=(), description="what may be done to which job; the first match counts"
    )
    budgets: dict[str, int] = Field(
        default_factory=dict, description="most instances that the jobs of a group may have together, by group"
    )
    window_s: float = Field(default=60.0, ge=1, description="how long one observation lasts")
    settle_s: float = Field(default=60.0, ge=0, description="wait after a change before measuring")
    discover_s: float = Field(default=30.0, gt=0, description="seconds between two looks for new jobs")
    lease_s: float = Field(default=60.0, ge=5, description="how long a lease on a job lasts unless it is renewed")
    stop_grace_s: float = Field(default=180.0, ge=0, description="how long a rescale under way may take at the end")
    history: bool = Field(default=True, description="append what is observed to the history that is learnt from")
    webhooks: tuple[WebhookSettings, ...] = Field(default=(), description="whom to tell of what happens")
    retention: RetentionSettings = Field(default_factory=RetentionSettings, description="how long what is kept")
    learn: LearnSettings = Field(default_factory=LearnSettings, description="when and how the service learns")
    api: ApiSettings = Field(default_factory=ApiSettings, description="who may ask, how much and how often")

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        names = [cluster.name for cluster in self.clusters]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two clusters are called '{twice}': give each its own name")
        groups = {policy.group for policy in self.policies if policy.group}
        lost = sorted(groups - set(self.budgets))
        if lost:
            raise ValueError(f"the group '{lost[0]}' has no budget: add it to budgets, for instance {lost[0]}: 100")
        return self

    @property
    def store_url(self) -> str:
        """The address of the store; where none is given, one file per user, which ``serve`` and ``tune`` both find."""
        return self.store or os.environ.get(STORE_VARIABLE) or f"sqlite:///{state_folder() / 'service.db'}"

    @property
    def data_folder(self) -> Path:
        """Where history, models and what jobs have taught are kept."""
        return Path(self.data) if self.data else state_folder() / "service"

    def policy_for(self, cluster: str, job: str) -> Policy:
        """The first policy that matches; a job that none matches is observed."""
        return next((policy for policy in self.policies if policy.matches(cluster, job)), _NO_POLICY)
