"""The service itself: who it is, its policies, models, history, audit trail, health."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from streamtune import __version__
from streamtune.service.api.jobs import Service
from streamtune.service.api.security import Operator, identity_of, needs_operator, needs_reader
from streamtune.service.errors import RequestError, StoreError
from streamtune.service.views import AuditList, HistoryView, ModelList, PolicyList, ServiceView

router = APIRouter(prefix="/api/v1", tags=["service"])
health = APIRouter(tags=["health"])


@router.get("/service", response_model=ServiceView)
def get_service(service: Service, request: Request) -> ServiceView:
    """What this service is, and who is asking."""
    identity = identity_of(request)
    jobs = service.summaries()
    counts = Counter[str](job.state for job in jobs)
    counts["jobs"] = len(jobs)
    counts["backpressured"] = sum(job.backpressured for job in jobs)
    counts["trouble"] = sum(bool(job.trouble) for job in jobs)
    counts["pending"] = sum(job.pending is not None for job in jobs)
    counts["instances"] = sum(job.instances or 0 for job in jobs)
    return ServiceView(
        version=__version__,
        started=service.started,
        now=service.context.now(),
        demo=service.demo,
        speed=service.context.clock.speed,
        identity=identity,
        read_only=identity is None or identity.role != "operator",
        holder=service.context.holder,
        clusters=service.fleet.views(),
        counts=dict(counts),
        learning=service.learning(),
    )


@router.get("/policies", response_model=PolicyList)
def get_policies(service: Service) -> PolicyList:
    """The policies in force, in their order: the first that matches a job counts."""
    policies = [policy.model_dump(mode="json") for policy in service.context.settings.policies]
    for policy in policies:
        policy["budget"] = service.context.settings.budgets.get(policy["group"] or "")
    return PolicyList(policies=policies, source=service.policy_source)


@router.get("/models", response_model=ModelList)
def get_models(service: Service) -> ModelList:
    """Models, the newest first."""
    rows = service.store.models.all()
    running = next((row.version for row in rows if row.status == "running"), None)
    return ModelList(running=running, models=[row.view() for row in rows])


@router.post("/models/rollback", response_model=ModelList, dependencies=[Depends(needs_operator)])
def roll_back_model(service: Service, who: Operator) -> ModelList:
    """Back to the model that ran before."""
    now = service.context.now()
    version = service.store.models.roll_back(now)
    service.store.audit.write(now, who.name, "model_rollback", version)
    service.model_changed()
    return get_models(service)


@router.post("/models/{version}/promote", response_model=ModelList, dependencies=[Depends(needs_operator)])
def promote_model(service: Service, who: Operator, version: Annotated[str, Path(max_length=100)]) -> ModelList:
    """Let a model run."""
    now = service.context.now()
    service.store.models.promote(version, now)
    service.store.audit.write(now, who.name, "promote", version)
    service.model_changed()
    return get_models(service)


@router.get("/history", response_model=HistoryView)
def get_history(service: Service) -> HistoryView:
    """What there is to learn from: runs per day and engine, and what was put into quarantine."""
    return service.history()


@router.get("/audit", response_model=AuditList)
def get_audit(service: Service, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> AuditList:
    """Who changed what, the newest first."""
    return AuditList(entries=service.store.audit.newest(limit))


@health.get("/healthz")
def healthz() -> dict[str, str]:
    """The process lives."""
    return {"status": "ok"}


@health.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}},
    dependencies=[Depends(needs_reader)],
)
def metrics(service: Service) -> Response:
    """Prometheus' metrics; a scrape from elsewhere needs a viewer's token."""
    return Response(service.metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")


@health.get("/readyz", responses={503: {"description": "not yet"}})
def readyz(service: Service) -> dict[str, str]:
    """The store answers and every cluster was asked once."""
    try:
        service.store.ping()
    except StoreError as error:
        raise RequestError(503, "store", str(error), "see the log") from error
    if not service.fleet.is_ready():
        raise RequestError(503, "starting", "not every cluster was asked yet", "ask again in some seconds")
    return {"status": "ok"}
