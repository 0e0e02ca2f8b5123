"""From a recommendation to a decision: what would change, why, and how sure the tuner is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime

from streamtune.dataflow import Observation, Plan
from streamtune.service.store.decisions import new_id
from streamtune.service.views import Decision, Outcome, Reason, Status
from streamtune.tuners.base import Recommendation, Tuner

_CURVE_POINTS = 40


def make_decision(
    job: str,
    now: datetime,
    status: Status,
    current: Plan,
    plan: Plan,
    recommendation: Recommendation,
    held: Mapping[str, str],
    tuner: Tuner,
    seen: Observation,
    *,
    model: str | None,
    policy: str,
    by: str,
    note: str = "",
) -> Decision:
    """A decision with its reasons and curves."""
    reasons = [Reason(operator=key, text=text) for key, text in recommendation.why.items()]
    reasons += [Reason(operator=key, text=f"held back: {text}") for key, text in held.items()]
    reasons.sort(key=lambda reason: plan.get(reason.operator, 0) == current.get(reason.operator, 0))
    return Decision(
        id=new_id(now),
        job=job,
        time=now,
        status=status,
        before=dict(current),
        after=dict(plan),
        summary=describe(current, plan) + (f"; {note}" if note else ""),
        reasons=reasons,
        curves=curves_of(tuner, seen, current, plan),
        tuner=tuner.name,
        model=model,
        policy=policy,
        by=by,
    )


def describe(current: Mapping[str, int], plan: Mapping[str, int]) -> str:
    """What a plan changes, in a line.

    >>> describe({"bids": 1, "join": 3, "sink": 1}, {"bids": 1, "join": 5, "sink": 1})
    'join 3 → 5 (5 → 7 instances)'
    """
    changes = [f"{key} {current[key]} → {plan[key]}" for key in plan if plan[key] != current.get(key)]
    shown = ", ".join(changes[:4]) + (f" and {len(changes) - 4} more" if len(changes) > 4 else "")
    return f"{shown or 'no change'} ({sum(current.values())} → {sum(plan.values())} instances)"


def much_the_same(proposed: Mapping[str, int], plan: Mapping[str, int]) -> bool:
    """Whether a plan differs from a proposal by no more than noise does: by one, or by a tenth, per operator.

    Somebody may be reading the proposal: it is not replaced under their eyes for that.

    >>> much_the_same({"join": 5, "map": 40}, {"join": 6, "map": 43}), much_the_same({"join": 5}, {"join": 7})
    (True, False)
    """
    return proposed.keys() == plan.keys() and all(
        abs(plan[key] - proposed[key]) <= max(1, proposed[key] // 10) for key in plan
    )


def curves_of(
    tuner: Tuner, seen: Observation, current: Mapping[str, int], plan: Mapping[str, int]
) -> dict[str, list[tuple[int, float]]]:
    """Operator → parallelism and the probability of being a bottleneck at it, for tuners that have one."""
    judge = getattr(tuner, "verdicts", None)
    if judge is None:
        return {}
    curves = {}
    for key, verdict in judge(seen).items():
        highest = min(len(verdict.safe), max(8, 2 * max(current.get(key, 1), plan.get(key, 1))))
        stride = max(1, math.ceil(highest / _CURVE_POINTS))
        points = sorted({*range(1, highest + 1, stride), plan.get(key, 1), current.get(key, 1)})
        curves[key] = [
            (p, round(1 - float(verdict.safe[p - 1]), 4))
            for p in points
            if p <= len(verdict.safe) and math.isfinite(verdict.safe[p - 1])
        ]
    return curves


def outcome_of(seen: Observation, now: datetime) -> Outcome:
    """What the first observation after a change says of it."""
    held = ", ".join(seen.backpressured()) or ", ".join(seen.bottlenecks)
    text = f"backpressure at {held}" if seen.has_backpressure else "no backpressure"
    total = seen.plan.total
    return Outcome(
        time=now, text=f"{text} with {total} instances", backpressured=seen.has_backpressure, instances=total
    )
