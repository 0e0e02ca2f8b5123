"""What a policy allows: pure decisions over a plan, the time and what was done before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from streamtune.control.guards import Guards, within_slots
from streamtune.dataflow import Job, Plan
from streamtune.service.settings import Policy

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


def _the_most(plan: Plan) -> int:
    """Slots of a plan whose operators all share them."""
    return max(plan.values())


@dataclass(frozen=True)
class Situation:
    """All that a policy looks at, beside the plan."""

    job: Job
    current: Plan
    now: datetime
    backpressured: bool
    changed_at: Sequence[datetime] = ()
    bounds: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    excluded: frozenset[str] = frozenset()
    slots: int | None = None
    slots_needed: Callable[[Plan], int] = _the_most
    budget_left: int | None = None


def allowed_plan(policy: Policy, wanted: Plan, at: Situation) -> tuple[Plan, dict[str, str]]:
    """The wanted plan within guards, bounds and slots, and for every operator that was held back, why."""
    guards = Guards(
        min_parallelism=policy.min_parallelism,
        max_parallelism=policy.max_parallelism,
        tune_sources=policy.tune_sources,
        exclude=excluded_by(policy, at.job) | at.excluded,
    )
    plan, held = guards.apply(at.job, wanted, at.current, slots=at.slots)
    changes = {}
    for key, bounds in at.bounds.items():
        if key in plan and key not in guards.exclude:
            limit = guards.limit(at.job, key, at.current, at.slots)
            degree = min(max(plan[key], bounds["min"]), bounds["max"], limit)
            if degree != plan[key]:
                held[key] = f"{plan[key]} was recommended, the bounds set for it are {bounds['min']} to {bounds['max']}"
                changes[key] = degree
            if degree < bounds["min"]:
                held[key] = f"{bounds['min']} are set as the least for it, but it can have {limit} at most now"
    plan = plan.replace(changes) if changes else plan
    return within_slots(plan, at.current, at.slots, at.slots_needed, held), held


def excluded_by(policy: Policy, job: Job) -> frozenset[str]:
    """The operators that a policy's patterns name."""
    return frozenset(key for key in job.dataflow.index if any(fnmatchcase(key, one) for one in policy.exclude))


def objection(policy: Policy, plan: Plan, at: Situation, *, by_person: bool = False) -> str | None:
    """Why a plan must not be applied now; None if it may. What a person asks for need not be worth it."""
    grows = any(plan[key] > at.current[key] for key in plan)
    shrinks = any(plan[key] < at.current[key] for key in plan)
    for window in policy.maintenance:
        if window.covers(at.now) and (window.allow == "nothing" or shrinks):
            what = "nothing" if window.allow == "nothing" else "only scaling up"
            return f"{what} is allowed until {window.end:%H:%M} {window.timezone}, by the maintenance window"
    trouble = _too_often(policy, at)
    if trouble is not None:
        return trouble
    more = plan.total - at.current.total
    if at.budget_left is not None and more > 0 and more > at.budget_left:
        return f"it needs {more} more instances, the budget of group '{policy.group}' has {max(0, at.budget_left)} left"
    if not by_person and not grows and not at.backpressured:
        freed = at.current.total - plan.total
        if freed < policy.min_gain * at.current.total:
            return f"it would free {freed} of {at.current.total} instances: not worth a restart"
    return None


def _too_often(policy: Policy, at: Situation) -> str | None:
    for limit, span, name in ((policy.max_per_hour, _HOUR, "hour"), (policy.max_per_day, _DAY, "day")):
        # After a clock was set back, a change may seem to lie ahead: it counts as well.
        recent = [moment for moment in at.changed_at if moment > at.now - span]
        if len(recent) >= limit:
            return f"the job was changed {len(recent)} times within one {name}, {limit} are allowed"
    return None
