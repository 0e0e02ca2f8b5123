"""Responses of Flink's REST interface, as types. Fields we do not use are ignored, so that newer versions still fit."""

from __future__ import annotations

import math
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, RootModel, ValidationError, model_validator

from streamtune.errors import EngineError

# Flink writes NaN as a bare token, as text, or leaves the field out, depending on the version.
Number = Annotated[float, BeforeValidator(lambda value: math.nan if value is None else value)]
# As wide as Java's: what is larger cannot come from Flink, and could not be made a float.
Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Answer = TypeVar("Answer", bound=BaseModel)

RUNNING, FINISHED, CANCELED, FAILED, SUSPENDED = "RUNNING", "FINISHED", "CANCELED", "FAILED", "SUSPENDED"
ENDED = frozenset({FINISHED, CANCELED, FAILED})


class FlinkGarbledError(EngineError):
    """A response that is not what Flink's documentation promises."""


class Response(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        """Flink leaves out what it does not have, or writes null, depending on the version and on who answers."""
        if not isinstance(given, dict) or all(value is not None for value in given.values()):
            return given
        optional = {
            one for name, field in cls.model_fields.items() if not field.is_required() for one in (name, field.alias)
        }
        return {key: value for key, value in given.items() if value is not None or key not in optional}


class Overview(Response):
    taskmanagers: Whole
    slots_total: Whole = Field(alias="slots-total")
    slots_available: Whole = Field(alias="slots-available")
    version: str = Field(default="unknown", alias="flink-version")


class JobSummary(Response):
    id: str = Field(alias="jid")
    name: str
    state: str
    start_ms: Whole = Field(default=0, alias="start-time")


class JobList(Response):
    jobs: tuple[JobSummary, ...]


class JobStatus(Response):
    state: str = Field(alias="status")

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED


class IoMetrics(Response):
    """Counters since the subtasks started, summed over them; times are milliseconds."""

    records_in: Number = Field(default=math.nan, alias="read-records")
    records_out: Number = Field(default=math.nan, alias="write-records")
    records_in_complete: bool = Field(default=True, alias="read-records-complete")
    records_out_complete: bool = Field(default=True, alias="write-records-complete")
    busy_ms: Number = Field(default=math.nan, alias="accumulated-busy-time")
    idle_ms: Number = Field(default=math.nan, alias="accumulated-idle-time")
    backpressured_ms: Number = Field(default=math.nan, alias="accumulated-backpressured-time")


class Vertex(Response):
    id: str
    name: str
    parallelism: Whole
    max_parallelism: Whole = Field(default=-1, alias="maxParallelism")
    status: str
    start_ms: Whole = Field(default=-1, alias="start-time")
    slot_sharing_group: str | None = Field(default=None, alias="slotSharingGroupId")
    tasks: dict[str, Whole] = Field(default_factory=dict)
    metrics: IoMetrics = Field(default_factory=IoMetrics)

    @property
    def has_finished(self) -> bool:
        """Whether all of its subtasks have done their work, as those of a bounded source do, while the job goes on."""
        return self.tasks.get(FINISHED, 0) >= self.parallelism > 0


class PlanInput(Response):
    id: str
    ship_strategy: str = ""


class PlanNode(Response):
    id: str
    parallelism: Whole
    description: str = ""
    inputs: tuple[PlanInput, ...] = ()


class Plan(Response):
    nodes: tuple[PlanNode, ...] = ()


class JobDetails(Response):
    """One call that holds state, plan and the counters of all vertices."""

    id: str = Field(alias="jid")
    name: str
    state: str
    start_ms: Whole = Field(default=0, alias="start-time")
    now_ms: Whole = Field(default=0, alias="now")
    timestamps: dict[str, Whole] = Field(default_factory=dict)
    vertices: tuple[Vertex, ...]
    plan: Plan = Field(default_factory=Plan)

    @property
    def is_running(self) -> bool:
        return self.state == RUNNING

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED


class Subtask(Response):
    subtask: Whole
    attempt: Whole = 0
    status: str
    start_ms: Whole = Field(default=-1, alias="start-time")
    metrics: IoMetrics = Field(default_factory=IoMetrics)


class VertexDetails(Response):
    id: str
    name: str
    parallelism: Whole
    subtasks: tuple[Subtask, ...]


class Metric(Response):
    id: str
    minimum: Number = Field(default=math.nan, alias="min")
    maximum: Number = Field(default=math.nan, alias="max")
    average: Number = Field(default=math.nan, alias="avg")
    total: Number = Field(default=math.nan, alias="sum")


class CheckpointCounts(Response):
    total: Whole = 0
    completed: Whole = 0
    failed: Whole = 0


class Checkpoint(Response):
    id: Whole = 0
    trigger_ms: Whole = Field(default=0, alias="trigger_timestamp")
    acknowledged_ms: Whole = Field(default=0, alias="latest_ack_timestamp")
    path: str | None = Field(default=None, alias="external_path")

    @property
    def completed_ms(self) -> int:
        return max(self.trigger_ms, self.acknowledged_ms)


class PastCheckpoint(Response):
    """One line of the history, which also holds those under way."""

    status: str = ""
    is_savepoint: bool = False


class LatestCheckpoints(Response):
    completed: Checkpoint | None = None
    savepoint: Checkpoint | None = None


class Checkpoints(Response):
    counts: CheckpointCounts = Field(default_factory=CheckpointCounts)
    latest: LatestCheckpoints = Field(default_factory=LatestCheckpoints)
    history: tuple[PastCheckpoint, ...] = ()

    @property
    def has_savepoint_under_way(self) -> bool:
        return any(one.is_savepoint and one.status == "IN_PROGRESS" for one in self.history)


class AllocatedSlot(Response):
    job_id: str = Field(default="", alias="jobId")


class TaskManager(Response):
    id: str
    allocated: tuple[AllocatedSlot, ...] = Field(default=(), alias="allocatedSlots")


class TaskManagers(Response):
    taskmanagers: tuple[TaskManager, ...] = ()


class ExecutionConfig(Response):
    user_config: dict[str, str] = Field(default_factory=dict, alias="user-config")


class JobConfig(Response):
    execution_config: ExecutionConfig = Field(default_factory=ExecutionConfig, alias="execution-config")


class FailureCause(Response):
    kind: str | None = Field(default=None, alias="class")
    stack_trace: str | None = Field(default=None, alias="stack-trace")


class SavepointOperation(Response):
    location: str | None = None
    cause: FailureCause | None = Field(default=None, alias="failure-cause")


class SavepointId(Response):
    id: str


class SavepointStatus(Response):
    status: SavepointId
    operation: SavepointOperation | None = None


class Savepoint(Response):
    """The state of a savepoint: IN_PROGRESS or COMPLETED, and then its location or why it failed."""

    state: str
    location: str | None = None
    failure: str | None = None

    @property
    def is_open(self) -> bool:
        return self.location is None and self.failure is None


class Bounds(Response):
    lower: Whole = Field(alias="lowerBound")
    upper: Whole = Field(alias="upperBound")


class VertexRequirements(Response):
    parallelism: Bounds


class Requirements(RootModel[dict[str, VertexRequirements]]):
    """Bounds by the id of the vertex."""


class FailureEntry(Response):
    stacktrace: str | None = None


class FailureHistory(Response):
    entries: tuple[FailureEntry, ...] = ()


class Exceptions(Response):
    history: FailureHistory = Field(default_factory=FailureHistory, alias="exceptionHistory")


def parse(kind: type[Answer], payload: Any, what: str) -> Answer:
    """The response as a type, or an error that says which field is wrong."""
    try:
        return kind.model_validate(payload)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole answer"
        raise FlinkGarbledError(
            f"{what}: Flink's answer does not fit, {place}: {first['msg']}. "
            "Check that the address is a Flink REST endpoint of version 1.18 or newer"
        ) from error
