"""Decisions, and what people do about a job: approve, reject, roll back, pause, set bounds."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Body, Depends, Path, Query

from streamtune.service.api.jobs import JobId, Service
from streamtune.service.api.security import Operator, needs_operator
from streamtune.service.errors import RequestError
from streamtune.service.fleet.deciding import describe
from streamtune.service.store.decisions import new_id
from streamtune.service.views import BoundsView, Decision, DecisionList, JobDetail, Reason, Status

router = APIRouter(prefix="/api/v1/jobs/{job_id}", tags=["decisions"])
DecisionId = Annotated[str, Path(max_length=60, pattern=r"^[0-9a-f]*$")]


@router.get("/decisions", response_model=DecisionList)
def list_decisions(
    service: Service,
    job_id: JobId,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    before: Annotated[str | None, Query(max_length=60, description="``next`` of the page before")] = None,
    status: Annotated[list[Status] | None, Query(description="may be given several times")] = None,
) -> DecisionList:
    """The newest first."""
    service.keeper(job_id)
    found = service.store.decisions.of_job(job_id, limit=limit + 1, before=before, status=status or ())
    page = found[:limit]
    return DecisionList(decisions=page, next=page[-1].id if len(found) > limit else None)


@router.get("/decisions/{decision}", response_model=Decision)
def get_decision(service: Service, job_id: JobId, decision: DecisionId) -> Decision:
    """One decision with its reasons, its curves and its outcome."""
    found = service.store.decisions.get(job_id, decision)
    if found is None:
        raise RequestError(404, "no_decision", f"no decision {decision} of this job", "the list of decisions has them")
    return found


@router.post("/decisions/{decision}/{answer}", response_model=Decision, dependencies=[Depends(needs_operator)])
def answer_decision(
    service: Service, who: Operator, job_id: JobId, decision: DecisionId, answer: Literal["approve", "reject"]
) -> Decision:
    """Approve what is proposed, so that it is applied; or reject it."""
    keeper = service.keeper(job_id)
    if answer == "approve" and keeper.policy.mode not in ("approve", "auto"):
        raise RequestError(
            409,
            "mode",
            f"the policy '{keeper.policy.pattern}' lets nothing be applied: its mode is {keeper.policy.mode}",
            "set the mode approve in streamtune.yaml",
        )
    status: Status = "approved" if answer == "approve" else "rejected"
    now = service.context.now()
    found = service.store.decisions.answer(job_id, decision, status, who.name, now)
    service.store.audit.write(now, who.name, answer, job_id, {"decision": decision, "summary": found.summary})
    service.context.events.publish("decision", found)
    service.fleet.poll()
    return found


@router.post("/rollback", response_model=Decision, dependencies=[Depends(needs_operator)])
def roll_back(service: Service, who: Operator, job_id: JobId) -> Decision:
    """Back to the plan before the last one that was applied; the job is paused, or it would be tuned back."""
    keeper = service.keeper(job_id)
    last = service.store.decisions.last_applied(job_id)
    deployment = keeper.state.deployment
    if last is None or deployment is None or dict(deployment.plan) != last.after:
        raise RequestError(
            409, "nothing_applied", "what runs was not applied by this service", "there is no plan to go back to"
        )
    now = service.context.now()
    decision = Decision(
        id=new_id(now),
        job=job_id,
        time=now,
        kind="rollback",
        status="approved",
        before=last.after,
        after=last.before,
        summary=f"rollback: {describe(last.after, last.before)}",
        reasons=[Reason(operator="", text=f"{who.name} takes back decision {last.id}")],
        tuner=last.tuner,
        model=last.model,
        policy=keeper.policy.pattern,
        by=who.name,
    )
    service.store.decisions.add(decision, f"asked for by {who.name}", reverts=last.id)
    service.store.jobs.set_paused(job_id, True)
    service.store.audit.write(now, who.name, "rollback", job_id, {"decision": decision.id, "reverts": last.id})
    service.context.events.publish("decision", decision)
    service.fleet.poll()
    found = service.store.decisions.get(job_id, decision.id)
    assert found is not None
    return found


@router.post("/{action}", response_model=JobDetail, dependencies=[Depends(needs_operator)])
def pause_or_resume(service: Service, who: Operator, job_id: JobId, action: Literal["pause", "resume"]) -> JobDetail:
    """Let a job alone, or look after it again; it is observed all the same."""
    keeper = service.keeper(job_id)
    service.store.jobs.set_paused(job_id, action == "pause")
    service.store.audit.write(service.context.now(), who.name, action, job_id)
    service.fleet.poll()
    keeper.state.publish()
    return service.detail(job_id)


@router.put("/bounds", response_model=JobDetail, dependencies=[Depends(needs_operator)])
def set_bounds(
    service: Service,
    who: Operator,
    job_id: JobId,
    bounds: Annotated[dict[str, BoundsView], Body(description="operator → least and most instances; {} for none")],
) -> JobDetail:
    """Least and most instances of operators; what is not named has no bounds of its own."""
    keeper = service.keeper(job_id)
    limits = {operator.id: operator.max_parallelism for operator in service.detail(job_id).operators}
    of_policy = keeper.policy.max_parallelism
    for operator, one in bounds.items():
        if operator not in limits:
            raise RequestError(422, "no_operator", f"no operator '{operator[:80]}'", f"there are {', '.join(limits)}")
        most = min(limits[operator], of_policy or limits[operator])
        if one.min > most:
            whose = "the policy's" if most < limits[operator] else "its"
            raise RequestError(422, "bounds", f"min {one.min} is above {whose} limit of {most}", f"give at most {most}")
        if one.max < one.min:
            raise RequestError(422, "bounds", f"max {one.max} is below min {one.min}", "give max at least min")
    plain = {operator: one.model_dump() for operator, one in bounds.items()}
    service.store.jobs.set_bounds(job_id, plain)
    service.store.audit.write(service.context.now(), who.name, "bounds", job_id, plain)
    service.fleet.poll()
    keeper.state.tuned_for = None  # what was good enough may not be any more
    keeper.state.publish()
    return service.detail(job_id)
