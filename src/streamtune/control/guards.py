"""``Guards``: what a tuner may never do, whatever it recommends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import Field, model_validator

from streamtune.dataflow import Job, Plan
from streamtune.errors import TuningError
from streamtune.settings import Settings


class Guards(Settings):
    """What a tuner may never do, whatever it recommends."""

    max_reconfigurations: int = Field(default=10, ge=1, description="most reconfigurations per change of rates")
    min_parallelism: int = Field(default=1, ge=1, description="no operator goes below")
    max_parallelism: int | None = Field(
        default=None, ge=1, description="no operator goes above; none: the job's own limit"
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

    def apply(self, job: Job, wanted: Plan, current: Plan) -> tuple[Plan, dict[str, str]]:
        """The plan that is allowed, and for each operator that was held back, why."""
        limit = min(self.max_parallelism or job.max_parallelism, job.max_parallelism)
        allowed: dict[str, int] = {}
        held: dict[str, str] = {}
        for operator in job.dataflow.operators:
            key, degree = operator.id, wanted[operator.id]
            allowed[key] = degree
            if key in self.exclude or (operator.is_source and not self.tune_sources):
                allowed[key] = current[key]
                if degree != current[key]:
                    held[key] = f"{degree} was recommended, but the operator is excluded"
            elif not self.min_parallelism <= degree <= limit:
                allowed[key] = min(max(degree, self.min_parallelism), limit)
                held[key] = f"{degree} was recommended, the limits are {self.min_parallelism} to {limit}"
        return _within(wanted, allowed), held


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
