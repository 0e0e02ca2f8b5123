"""A plan is cut to the slots in reach, also where operators do not share them."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from control.test_controller import Scripted, ThresholdEngine, job
from streamtune.control.controller import Controller
from streamtune.control.guards import within_slots
from streamtune.dataflow import Plan
from streamtune.engines.base import Deployment, RescaleRefusedError

KEYS = "abcd"
DEGREES = st.lists(st.integers(1, 12), min_size=4, max_size=4)


def plan_of(degrees: list[int]) -> Plan:
    return Plan(dict(zip(KEYS, degrees, strict=True)))


def needed_in(plan: Plan, group_of: Mapping[str, int]) -> int:
    return sum(max(plan[key] for key in plan if group_of[key] == group) for group in {group_of[key] for key in plan})


@given(DEGREES, DEGREES, st.lists(st.integers(0, 2), min_size=4, max_size=4), st.integers(1, 40))
def test_a_plan_fits_and_no_cut_is_idle(wanted: list[int], runs: list[int], groups: list[int], slots: int) -> None:
    """It never takes away what runs, and nothing that was cut could be had again."""
    plan, current = plan_of(wanted), plan_of(runs)
    group_of = dict(zip(KEYS, groups, strict=True))
    held: dict[str, str] = {}
    allowed = within_slots(plan, current, slots, lambda one: needed_in(one, group_of), held)
    room = max(slots, needed_in(current, group_of))
    assert needed_in(allowed, group_of) <= room
    assert held.keys() == {key for key in KEYS if allowed[key] != plan[key]}
    for key in KEYS:
        assert min(plan[key], current[key]) <= allowed[key] <= plan[key]
        if key in held:
            assert needed_in(allowed.replace({key: allowed[key] + 1}), group_of) > room


def test_without_a_limit_nothing_is_asked() -> None:
    plan = plan_of([9, 9, 9, 9])
    assert within_slots(plan, plan_of([1, 1, 1, 1]), None, lambda _: 1 // 0, {}) == plan


class SeparateSlots(ThresholdEngine):
    """The source has two slots of its own, and so have the others theirs; refuses what does not fit into eight."""

    def slots_in_reach(self, deployment: Deployment) -> int | None:  # noqa: ARG002 - as Engine has it
        return 8

    def slots_needed(self, deployment: Deployment, plan: Plan) -> int:  # noqa: ARG002 - as Engine has it
        return plan.total

    def rescale(self, deployment: Deployment, plan: Plan) -> Deployment:
        if plan.total > 8:
            raise RescaleRefusedError(f"the plan needs {plan.total} slots, 8 are available")
        return super().rescale(deployment, plan)


def test_the_loop_goes_as_far_as_there_are_slots() -> None:
    """2 + 1 + 1 run, and the script asks for 2 + 6 + 6 of 8: 2 + 3 + 3 fit."""
    engine = SeparateSlots(needed=3)
    script = Scripted(6, others={"sink": 6})
    outcome = Controller(engine, script).tune(engine.deploy(job(), job().initial_plan))
    assert dict(outcome.deployment.plan) == {"source": 2, "work": 3, "sink": 3}
    assert outcome.stop_reason == "no_backpressure"


def test_by_default_one_slot_holds_an_instance_of_every_operator() -> None:
    engine = ThresholdEngine(needed=1)
    assert engine.slots_needed(engine.deploy(job(), job().initial_plan), Plan({"source": 2, "work": 7, "sink": 3})) == 7
