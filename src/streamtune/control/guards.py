"""``Guards``: what a tuner may never do, whatever it recommends."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Self

from pydantic import Field, model_validator

from streamtune.dataflow import Job, Plan
from streamtune.errors import TuningError
from streamtune.settings import Settings

_CUT = "one step"


class Guards(Settings):
    """What a tuner may never do, whatever it recommends."""

    max_reconfigurations: int = Field(default=10, ge=1, description="most reconfigurations per change of rates")
    min_parallelism: int = Field(default=1, ge=1, description="no operator goes below")
    max_parallelism: int | None = Field(
        default=None, ge=1, description="no operator goes above; none: the job's own limit"
    )
    largest_step_up: float | None = Field(
        default=None, gt=1, description="one reconfiguration multiplies an operator's instances by at most this"
    )
    largest_guessed_step_up: float = Field(
        default=4.0, gt=1, description="the same while the rate that a source is offered is only a guess"
    )
    largest_step_down: float | None = Field(
        default=None, gt=0, lt=1, description="largest share of an operator's instances taken away in one step"
    )
    never_down: bool = Field(default=False, description="let operators grow, but never shrink")
    max_total: int | None = Field(default=None, ge=1, description="quota: most instances of the whole job")
    instance_cores: float = Field(default=1.0, gt=0, description="cores that one instance counts as, for max_cores")
    instance_memory_mb: float = Field(default=0.0, ge=0, description="MiB that one instance counts as")
    max_cores: float | None = Field(default=None, gt=0, description="quota: most cores of the whole job")
    max_memory_mb: float | None = Field(default=None, gt=0, description="quota: most MiB of the whole job")
    roll_back_loss: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="a plan after which the job is held up and gets less through than before, by more than this share, "
        "or does not get healthy (it restarts again and again), is taken back; none: off",
    )
    ineffective_gain: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="operators whose growth gained less than this share of what it promised grow no further; none: off",
    )
    exclude: frozenset[str] = Field(default=frozenset(), description="operators never to touch")
    tune_sources: bool = Field(default=False, description="let sources be changed too")
    dry_run: bool = Field(default=False, description="recommend, but deploy nothing")
    not_ready_patience: int = Field(
        default=20, ge=1, description="how often in a row an engine may have no metrics before tuning is given up"
    )

    @model_validator(mode="after")
    def _limits_in_order(self) -> Self:
        if self.max_parallelism is not None and self.max_parallelism < self.min_parallelism:
            raise ValueError(
                f"max_parallelism must be at least min_parallelism {self.min_parallelism}, "
                f"but got {self.max_parallelism}"
            )
        return self

    def check(self, job: Job) -> None:
        unknown = sorted(self.exclude - set(job.dataflow.index))
        if unknown:
            raise TuningError(
                f"cannot exclude '{unknown[0]}': the operators of '{job.name}' are {', '.join(job.dataflow.index)}"
            )

    def apply(
        self, job: Job, wanted: Plan, current: Plan, *, is_guess: bool = False, slots: int | None = None
    ) -> tuple[Plan, dict[str, str]]:
        """The plan that is allowed, and for each operator that was held back, why.

        ``is_guess`` says that the plan was made for rates that nobody measured; ``slots`` is the highest parallelism
        that there is room for now, of which none is taken away from what runs.
        """
        allowed: dict[str, int] = {}
        held: dict[str, str] = {}
        for operator in job.dataflow.operators:
            key, degree = operator.id, wanted[operator.id]
            limit = self.limit(job, key, current, slots)
            least = min(self.min_parallelism, limit)
            allowed[key] = degree
            if key in self.exclude or (operator.is_source and not self.tune_sources):
                allowed[key] = current[key]
                if degree != current[key]:
                    held[key] = f"{degree} was recommended, but the operator is excluded"
            elif not least <= degree <= limit:
                allowed[key] = min(max(degree, least), limit)
                held[key] = f"{degree} was recommended, the limits are {least} to {limit}"
                if degree > limit < self.limit(job, key, current):
                    held[key] = f"{degree} was recommended, slots are in reach for {limit}"
            if key not in self.exclude:
                step = self._step(allowed[key], current[key], is_guess)
                if step != allowed[key]:
                    held[key] = f"{degree} was recommended, {_CUT} goes from {current[key]} to {step} at most"
                    allowed[key] = min(step, limit)
            if allowed[key] < current[key] and self.never_down:
                allowed[key], held[key] = current[key], f"{degree} was recommended, but nothing shrinks now"
        self._keep_quota(allowed, current, held)
        return _within(wanted, allowed), held

    def limit(self, job: Job, key: str, current: Plan, slots: int | None = None) -> int:
        """The most instances that an operator may have: the tightest of its own limit, the guard and the slots."""
        limits = [job.limit_of(key), self.max_parallelism, None if slots is None else max(slots, *current.values())]
        return min(limit for limit in limits if limit is not None)

    @property
    def quota(self) -> int | None:
        """The most instances of the whole job: the tightest of the quotas."""
        limits = [
            self.max_total,
            None if self.max_cores is None else int(self.max_cores / self.instance_cores + 1e-9),
            None
            if self.max_memory_mb is None or not self.instance_memory_mb
            else int(self.max_memory_mb / self.instance_memory_mb + 1e-9),
        ]
        return min((limit for limit in limits if limit is not None), default=None)

    def _keep_quota(self, allowed: dict[str, int], current: Plan, held: dict[str, str]) -> None:
        """Take back growth, the largest first, until the quota holds; what runs already is not taken away."""
        quota = self.quota
        while quota is not None and sum(allowed.values()) > quota:
            key = max(allowed, key=lambda one: allowed[one] - current[one])
            if allowed[key] <= current[key]:
                return
            allowed[key] -= 1
            held[key] = f"the quota of {quota} instances leaves it {allowed[key]}"

    def _step(self, wanted: int, current: int, is_guess: bool) -> int:
        """As far as one step goes; at least one instance up or down."""
        factors = [self.largest_step_up, self.largest_guessed_step_up if is_guess else None]
        up = min((factor for factor in factors if factor is not None), default=None)
        if up is not None and wanted > current:
            return min(wanted, max(current + 1, math.floor(current * up + 1e-9)))
        if self.largest_step_down is not None and wanted < current:
            return max(wanted, min(current - 1, math.ceil(current * (1 - self.largest_step_down) - 1e-9)))
        return wanted


def within_slots(
    plan: Plan, current: Plan, slots: int | None, needed: Callable[[Plan], int], held: dict[str, str]
) -> Plan:
    """The plan with as much growth taken back, the largest first, as it takes to fit into the slots in reach.

    ``needed`` says how many slots a plan takes: operators may share them, or have their own. What runs is not taken
    away. Every cut is noted in ``held``.
    """
    if slots is None:
        return plan
    room, allowed = max(slots, needed(current)), dict(plan)
    while needed(Plan(allowed)) > room:
        key = max(allowed, key=lambda one: allowed[one] - current[one])
        if allowed[key] <= current[key]:
            break
        allowed[key] -= 1
    for key in plan:  # what lives in the slots of a larger operator costs none, and is given back
        while allowed[key] < plan[key] and needed(Plan({**allowed, key: allowed[key] + 1})) <= room:
            allowed[key] += 1
    for key, degree in plan.items():
        if allowed[key] != degree:
            held[key] = f"the {room} slots in reach of the whole job leave it {allowed[key]}"
    return _within(plan, allowed)


def is_cut(held: Mapping[str, str]) -> bool:
    """Whether a plan was held back for the length of its step alone: the next step goes on from there."""
    return any(_CUT in reason for reason in held.values())


def _within(wanted: Plan, allowed: Mapping[str, int]) -> Plan:
    """The wanted plan with the allowed parallelism; sizes and places of instances that are not allowed are dropped."""
    resources, placement = wanted.resources, wanted.placement
    return Plan(
        allowed,
        resources=None
        if resources is None
        else {key: groups for key, groups in resources.items() if allowed[key] == wanted[key]},
        placement=None
        if placement is None
        else {one: host for one, host in placement.items() if one.number < allowed[one.operator]},
        configuration=wanted.configuration,
    )
