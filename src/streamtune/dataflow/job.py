"""``Job``: what is tuned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from streamtune.dataflow.graph import Dataflow
from streamtune.dataflow.operator import SINK
from streamtune.dataflow.plan import Plan
from streamtune.errors import DataflowError

DEFAULT_MAX_PARALLELISM = 100


@dataclass(frozen=True)
class Job:
    """A runnable job as tuners see it: a dataflow with at least one source, and a limit.

    It never carries the physics of an emulated job: that stays with the engine.

    >>> from streamtune.dataflow import Dataflow, Edge, Operator
    >>> bids, hot = Operator(id="bids", type="source", rate=80_000), Operator(id="hot", type="filter")
    >>> job = Job("hot-bids", Dataflow((bids, hot), (Edge("bids", "hot"),)))
    >>> job.source_rates, job.initial_plan.total
    ({'bids': 80000.0}, 2)
    >>> job.check_plan(Plan({"bids": 1, "hot": 130}))
    Traceback (most recent call last):
    streamtune.errors.DataflowError: operator 'hot': the plan asks for parallelism 130, the limit is 100: ...
    """

    name: str
    dataflow: Dataflow
    max_parallelism: int = DEFAULT_MAX_PARALLELISM

    def __post_init__(self) -> None:
        flow = self.dataflow
        if not flow.sources:
            raise DataflowError(
                "the job has no source: add an operator with type: source and a rate", field="operators"
            )
        for operator in flow.operators:
            inputs, outputs = flow.predecessors(operator.id), flow.successors(operator.id)
            if operator.is_source:
                if inputs:
                    raise DataflowError("a source has no inputs", operator=operator.id, field="inputs")
                if operator.rate is None:
                    raise DataflowError(
                        "a source needs a rate in records per second, for instance rate: 80000",
                        operator=operator.id,
                        field="rate",
                    )
            elif not inputs:
                raise DataflowError("needs at least one input", operator=operator.id, field="inputs")
            elif operator.rate is not None:
                raise DataflowError(
                    f"only a source has a rate, but this is a {operator.type}", operator=operator.id, field="rate"
                )
            if operator.type == SINK and outputs:
                raise DataflowError(
                    f"a sink has no outputs, but '{outputs[0]}' reads it", operator=outputs[0], field="inputs"
                )
            limit = self.limit_of(operator.id)
            if operator.parallelism is not None and operator.parallelism > limit:
                raise DataflowError(
                    f"is {operator.parallelism}, the limit is {limit}: raise it or lower this",
                    operator=operator.id,
                    field="parallelism",
                )

    @cached_property
    def source_rates(self) -> dict[str, float]:
        """Nominal rate of every source, records/s."""
        return {source.id: source.rate or 0.0 for source in self.dataflow.sources}

    @cached_property
    def initial_plan(self) -> Plan:
        """The parallelism that the spec asks for, 1 where it asks for none."""
        return Plan({operator.id: operator.parallelism or 1 for operator in self.dataflow.operators})

    def limit_of(self, operator_id: str) -> int:
        """The most instances that an operator may have: its own limit, or the job's where that is smaller."""
        own = self.dataflow.operator(operator_id).max_parallelism
        return self.max_parallelism if own is None else min(own, self.max_parallelism)

    def check_plan(self, plan: Plan) -> None:
        """Refuse a plan that does not fit this job."""
        for operator in self.dataflow.operators:
            if operator.id not in plan:
                raise DataflowError(
                    "the plan does not name it: give every operator a parallelism", operator=operator.id
                )
            if plan[operator.id] > self.limit_of(operator.id):
                raise DataflowError(
                    f"the plan asks for parallelism {plan[operator.id]}, the limit is {self.limit_of(operator.id)}: "
                    "raise max_parallelism or exclude it",
                    operator=operator.id,
                )
        for operator_id in plan:
            if operator_id not in self.dataflow.index:
                known = ", ".join(self.dataflow.index)
                raise DataflowError(f"the plan names '{operator_id}', but the operators are {known}")

    def check_rates(self, rates: Mapping[str, float]) -> None:
        """Refuse source rates that do not fit this job."""
        if set(rates) != set(self.source_rates):
            raise DataflowError(
                f"rates are needed for the sources {', '.join(self.source_rates)}, but got {', '.join(rates) or 'none'}"
            )
        for source, rate in rates.items():
            if not 0 <= rate < float("inf"):
                raise DataflowError(
                    f"must be a finite rate of at least 0, but got {rate!r}", operator=source, field="rate"
                )
