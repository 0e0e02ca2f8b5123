"""Jobs: the fleet, one job, what was observed of it, its picture."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Response

from streamtune.service.api.state import ApiState, state_of
from streamtune.service.drawing import draw_job
from streamtune.service.errors import RequestError
from streamtune.service.views import JobDetail, JobList, JobState, JobSummary, Series

router = APIRouter(prefix="/api/v1/jobs", tags=["jobs"])
Service = Annotated[ApiState, Depends(state_of)]
JobId = Annotated[str, Path(max_length=120, description="the id of a job, as the list of jobs has it")]


@router.get("", response_model=JobList)
def list_jobs(
    service: Service,
    query: Annotated[str, Query(max_length=200, description="part of a name or of a cluster's name")] = "",
    state: Annotated[JobState | Literal["", "trouble", "backpressured", "pending"], Query()] = "",
    cluster: Annotated[str, Query(max_length=100)] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> Response:
    """The fleet, by name."""
    wanted = query.casefold()
    found = [
        job
        for job in service.summaries()
        if (not wanted or wanted in job.name.casefold() or wanted in job.cluster.casefold())
        and (not cluster or job.cluster == cluster)
        and _is(job, state)
    ]
    page = found[offset : offset + limit]
    jobs = ",".join(service.fleet.json_of(job) for job in page)
    return Response(f'{{"total":{len(found)},"jobs":[{jobs}]}}', media_type="application/json")


def _is(job: JobSummary, state: str) -> bool:
    if state == "trouble":
        return bool(job.trouble or job.backpressured)
    if state == "backpressured":
        return job.backpressured
    if state == "pending":
        return job.pending is not None
    return not state or job.state == state


@router.get("/{job_id}", response_model=JobDetail)
def get_job(service: Service, job_id: JobId) -> JobDetail:
    """One job with its operators, its policy and its bounds."""
    return service.detail(job_id)


@router.get("/{job_id}/drawing.svg", response_class=Response, responses={200: {"content": {"image/svg+xml": {}}}})
def get_drawing(
    service: Service, job_id: JobId, theme: Annotated[Literal["light", "dark"], Query()] = "light"
) -> Response:
    """The dataflow, coloured by load."""
    job = service.detail(job_id)
    if not job.operators:
        raise RequestError(404, "no_drawing", "the job was not attached to yet", "ask again in a minute")
    return Response(draw_job(job, theme), media_type="image/svg+xml")


@router.get("/{job_id}/observations", response_model=Series)
def get_observations(
    service: Service,
    job_id: JobId,
    since: Annotated[datetime | None, Query(description="ISO 8601")] = None,
    until: Annotated[datetime | None, Query(description="ISO 8601")] = None,
    points: Annotated[int, Query(ge=2, le=5000, description="most points")] = 500,
) -> Series:
    """Observations over time, thinned evenly; the newest is always there."""
    service.keeper(job_id)
    rows = service.store.jobs.observations(job_id, _utc(since), _utc(until), points)
    operators = dict.fromkeys(key for row in rows for key in row.parallelism)
    return Series(
        time=[row.time for row in rows],
        rate=[row.rate for row in rows],
        backpressure=[row.backpressure for row in rows],
        instances=[row.instances for row in rows],
        recommended=[row.recommended for row in rows],
        autoscaler=[row.autoscaler for row in rows],
        parallelism={key: [row.parallelism.get(key) for row in rows] for key in operators},
    )


def _utc(moment: datetime | None) -> datetime | None:
    """A moment without a zone is taken as UTC; one beyond all calendars is refused."""
    if moment is None:
        return None
    try:
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (OverflowError, ValueError) as error:
        raise RequestError(422, "bad_time", "that moment is beyond the calendar", "give one of our days") from error
