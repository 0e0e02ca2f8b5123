"""Limits of an operator hold for what people set, and for what runs are compared by."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from streamtune.dataflow import Dataflow, Edge, Job, Operator, Plan
from streamtune.dataflow.observation import EdgeMetrics
from streamtune.service.learn.replay import needs_of
from streamtune.service.policies import Situation, allowed_plan
from streamtune.service.settings import Policy
from tuners.sightings import metrics, sighting

JOB = Job(
    "global",
    Dataflow(
        (
            Operator(id="source", type="source", rate=1000),
            Operator(id="many", type="map"),
            Operator(id="one", type="aggregate", max_parallelism=1),
        ),
        (Edge("source", "many", "rebalance"), Edge("source", "one", "hash")),
    ),
    max_parallelism=40,
)
NOW = Plan({"source": 1, "many": 2, "one": 1})


def situation(bounds: dict[str, dict[str, int]], slots: int | None = None) -> Situation:
    return Situation(JOB, NOW, datetime(2026, 1, 1, tzinfo=UTC), False, bounds=bounds, slots=slots)


def test_bounds_of_a_person_give_no_single_instance_a_second() -> None:
    plan, held = allowed_plan(Policy(), NOW, situation({"one": {"min": 5, "max": 9}}))
    assert plan["one"] == 1
    JOB.check_plan(plan)
    assert held["one"] == "5 are set as the least for it, but it can have 1 at most now"


@pytest.mark.parametrize(("policy", "slots", "most"), [(Policy(max_parallelism=6), None, 6), (Policy(), 8, 8)])
def test_bounds_of_a_person_stay_within_the_policy_and_the_slots(policy: Policy, slots: int | None, most: int) -> None:
    plan, _ = allowed_plan(policy, NOW, situation({"many": {"min": 20, "max": 30}}, slots))
    assert plan["many"] == most


def test_the_slots_of_all_groups_bound_a_plan_together() -> None:
    """1 + 2 + 1 run in slots of their own, 1 + 9 + 1 are wanted: ten slots leave 8, whoever asks for it."""
    own = replace(situation({"many": {"min": 20, "max": 30}}, 10), slots_needed=lambda plan: plan.total)
    for at in (own, replace(own, bounds={})):
        plan, held = allowed_plan(Policy(), NOW.replace({"many": 9}), at)
        assert plan["many"] == 8
        assert held["many"] == "the 10 slots in reach of the whole job leave it 8"


def test_nothing_is_said_to_have_needed_more_than_it_can_have() -> None:
    """A single instance that was saturated, and a branch that gets a tenth of what the source sends."""
    seen = sighting(
        {
            "source": metrics(1, 1000, 100.0, blocked=700.0),
            "many": metrics(2, 100, 250.0),
            "one": metrics(1, 500, 1000.0),
        }
    )
    counted = {"many": 100.0, "one": 1000.0}
    edges = tuple(EdgeMetrics(source="source", target=key, records_per_s=rate) for key, rate in counted.items())
    seen = seen.model_copy(update={"edges": edges})
    needs = needs_of(JOB, seen)
    assert needs["one"] == 1
    assert needs["many"] == 1, "not ten times what it takes"
