"""What the service does to jobs: by mode, within policies, once, and again after a crash."""

from __future__ import annotations

from datetime import time
from pathlib import Path

import pytest

from service.worlds import START, WINDOW, World, key_of, make_world, short_job
from streamtune.dataflow import Plan
from streamtune.engines.base import NotReady
from streamtune.service.clusters.simulated import Fault, SimulatedCluster
from streamtune.service.settings import MaintenanceWindow, Policy
from streamtune.service.store import Store
from streamtune.service.views import Decision

Q1 = "nexmark-q1"


def engine_of(world: World) -> object:
    (cluster,) = world.clusters
    assert isinstance(cluster, SimulatedCluster)
    return cluster.engine.living[Q1]


def applied(world: World) -> list[dict[str, int]]:
    return engine_of(world).applied  # type: ignore[attr-defined,no-any-return]


def policy(**more: object) -> Policy:
    return Policy(tuner="ds2", **{"mode": "auto", **more})


def propose(tmp_path: Path, **more: object) -> tuple[World, Decision]:
    world = make_world(tmp_path, [short_job()], policy(mode="approve", **more))
    world.run(300)
    (decision,) = world.decisions(Q1, "proposed")
    return world, decision


def approve(world: World, decision: Decision) -> None:
    world.store.decisions.answer(decision.job, decision.id, "approved", "alice", world.clock.now())
    world.fleet.poll()


def test_a_job_without_a_policy_is_observed_and_never_changed(tmp_path: Path) -> None:
    world = make_world(tmp_path, [short_job()])
    world.run(1800)
    world.context.flush()
    assert applied(world) == []
    assert world.keeper(Q1).state.summary().mode == "observe"
    assert {one.status for one in world.decisions(Q1)} == {"observed"}
    assert len(world.store.jobs.observations(key_of(Q1), None, None, 100)) > 10
    assert set(world.store.leases.all(world.context.lease_now())) == {f"{key_of(Q1)}:watch"}  # free for 'tune'


def test_recommend_says_and_does_nothing(tmp_path: Path) -> None:
    world = make_world(tmp_path, [short_job()], policy(mode="recommend"))
    world.run(1800)
    assert applied(world) == []
    (decision,) = world.decisions(Q1)  # said once, not every minute
    assert decision.status == "proposed"
    assert decision.reasons
    assert world.keeper(Q1).state.summary().pending is None


def test_auto_applies_and_writes_down_why_and_what_came_of_it(tmp_path: Path) -> None:
    world = make_world(tmp_path, [short_job()], policy())
    world.run(1800)
    done = world.decisions(Q1, "applied")
    assert [one.after for one in reversed(done)] == applied(world)
    assert [step.status for step in done[-1].history] == ["approved", "applying", "applied"]
    assert done[0].outcome is not None
    assert not done[0].outcome.backpressured
    assert not world.keeper(Q1).state.summary().backpressured
    assert world.store.leases.all(world.context.lease_now())[key_of(Q1)].holder == world.holder


def test_a_fleet_lives_on_either_store(store_url: str, tmp_path: Path) -> None:
    world = make_world(tmp_path, [short_job()], policy(group="all"), store=Store(store_url), budgets={"all": 500})
    world.run(900)
    world.context.flush()
    (first, *_) = world.decisions(Q1, "applied")
    assert first.outcome is not None
    assert world.store.claims.all() == {key_of(Q1): ("all", world.keeper(Q1).state.running.plan.total)}
    assert len(world.store.jobs.observations(key_of(Q1), None, None, 100)) > 5
    world.start()
    world.run(300)
    assert world.keeper(Q1).state.summary().trouble == []
    world.store.close()


def test_approve_waits_for_a_person_and_then_acts_at_once(tmp_path: Path) -> None:
    world, decision = propose(tmp_path)
    assert world.keeper(Q1).state.summary().pending == decision.id
    assert applied(world) == []
    approve(world, decision)
    world.run(15)  # far less than a window
    assert applied(world) == [decision.after]
    assert world.decisions(Q1)[0].status == "applied"


def test_what_is_rejected_is_not_applied(tmp_path: Path) -> None:
    world, decision = propose(tmp_path)
    world.store.decisions.answer(decision.job, decision.id, "rejected", "alice", world.clock.now())
    world.run(600)
    assert applied(world) == []


def test_an_approval_for_a_plan_that_no_longer_fits_expires(tmp_path: Path) -> None:
    world, decision = propose(tmp_path)
    living = engine_of(world)
    other = Plan({**decision.before, next(key for key in decision.after if key != "bids"): 2})
    living.simulation.rescale(other, 0.0)  # type: ignore[attr-defined]  # somebody else has changed it
    world.keeper(Q1).state.deployment = None
    world.run(1)
    approve(world, decision)
    world.run(30)
    assert applied(world) == []
    found = world.store.decisions.get(decision.job, decision.id)
    assert found is not None
    assert found.status in ("expired", "rejected")


def test_a_paused_job_is_observed_only(tmp_path: Path) -> None:
    world = make_world(tmp_path, [short_job()], policy())
    world.run(1)
    world.store.jobs.set_paused(key_of(Q1), True)
    world.run(1800)
    assert applied(world) == []
    assert world.keeper(Q1).state.summary().last_observed is not None


@pytest.mark.parametrize(("allow", "acts"), [("nothing", False), ("scale_up", True)])
def test_maintenance_windows(tmp_path: Path, allow: str, acts: bool) -> None:
    window = MaintenanceWindow(start=time(9), end=time(12), allow=allow)
    world = make_world(tmp_path, [short_job()], policy(maintenance=(window,)))
    world.run(1800)
    assert bool(applied(world)) == acts
    if not acts:
        assert "maintenance window" in world.decisions(Q1, "refused")[0].summary
        world.run(2 * 3600)
        assert applied(world)  # afterwards it is done


def test_a_job_is_changed_so_often_and_no_more(tmp_path: Path) -> None:
    world = make_world(tmp_path, [short_job()], policy(max_per_hour=0))
    world.run(1800)
    assert applied(world) == []
    assert "0 are allowed" in world.decisions(Q1, "refused")[0].summary


def test_the_bounds_of_a_person_hold(tmp_path: Path) -> None:
    world = make_world(tmp_path, [short_job()], policy())
    world.run(1)
    operator = next(key for key in world.keeper(Q1).state.running.plan if key != "bids")
    world.store.jobs.set_bounds(key_of(Q1), {operator: {"min": 1, "max": 2}})
    world.run(1800)
    assert max(plan[operator] for plan in applied(world)) == 2


def test_excluded_operators_are_not_touched(tmp_path: Path) -> None:
    world = make_world(tmp_path, [short_job()], policy(exclude=("*",)))
    world.run(1800)
    assert applied(world) == []


def test_a_budget_is_kept(tmp_path: Path) -> None:
    job = short_job()
    assert job.start is not None
    world = make_world(tmp_path, [job], policy(group="all"), budgets={"all": job.start.total + 1})
    world.run(1800)
    assert all(sum(plan.values()) <= job.start.total + 1 for plan in applied(world))
    assert "budget" in world.decisions(Q1, "refused")[0].summary


def test_two_services_keep_one_budget(tmp_path: Path) -> None:
    """Each looks after one of two jobs; there is room for one of them to grow, and neither sees the other's change."""
    other = "nexmark-q2"
    jobs = [short_job(), short_job(other)]
    starts = [job.start.total for job in jobs if job.start is not None]
    alone = make_world(tmp_path / "alone", jobs, policy())
    alone.run(900)
    grown = [living.simulation.plan.total for living in alone.clusters[0].engine.living.values()]  # type: ignore[attr-defined]
    room = max(after - before for after, before in zip(grown, starts, strict=True))
    assert min(after - before for after, before in zip(grown, starts, strict=True)) > 0
    budget = sum(starts) + room

    first = make_world(tmp_path, jobs, policy(group="all"), budgets={"all": budget})
    first.store.leases.take(key_of(other), "serve@b#2", first.store.lease_clock.now(), 60)
    second = World(Store(f"sqlite:///{tmp_path}/service.db"), first.clock, first.clusters, first.settings, "serve@b#2")
    for _ in range(120):
        for world in (first, second):
            world.run(5)
            living = first.clusters[0].engine.living.values()  # type: ignore[attr-defined]
            assert sum(one.simulation.plan.total for one in living) <= budget
    assert first.decisions(Q1, "applied")
    told = [*second.decisions(other, "refused"), *second.decisions(Q1, "refused")]
    assert any("budget" in one.history[-1].text or "budget" in one.summary for one in told)


def test_scaling_down_must_be_worth_it(tmp_path: Path) -> None:
    job = short_job(multiple=1.0)
    assert job.start is not None
    large = Plan(dict.fromkeys(job.start, 40))
    from dataclasses import replace

    modest = make_world(tmp_path / "a", [replace(job, start=large)], policy(min_gain=0.99))
    modest.run(1800)
    assert applied(modest) == []
    keen = make_world(tmp_path / "b", [replace(job, start=large)], policy(min_gain=0.05))
    keen.run(1800)
    assert applied(keen)


def test_the_loser_says_who_holds_the_lease(tmp_path: Path) -> None:
    first = make_world(tmp_path, [short_job()], policy())
    first.run(1)
    second = World(Store(f"sqlite:///{tmp_path}/service.db"), first.clock, first.clusters, first.settings, "serve@b#2")
    for _ in range(60):  # both live
        second.run(5)
        first.run(5)
    assert first.decisions(Q1, "applied")
    assert all(one.by == first.holder for one in second.decisions(Q1, "applied"))
    (told,) = second.keeper(Q1).state.summary().trouble
    assert first.holder in told
    first.store.leases.release(first.holder)
    second.run(300)
    assert second.keeper(Q1).state.summary().trouble == []


@pytest.mark.parametrize("mode", ["approve", "recommend"])
def test_a_restart_does_not_replace_what_somebody_may_be_reading(tmp_path: Path, mode: str) -> None:
    world = make_world(tmp_path, [short_job()], policy(mode=mode))
    world.run(400)
    (before,) = world.decisions(Q1, "proposed")
    for _ in range(3):
        world.start()
        world.run(400)
    assert [one.id for one in world.decisions(Q1)] == [before.id]


def test_a_crash_while_applying_is_settled_by_what_runs(tmp_path: Path) -> None:
    world, decision = propose(tmp_path)
    approve(world, decision)
    world.run(6)  # the engine has changed the job, the service has not heard of it yet
    assert applied(world) == [decision.after]
    found = world.store.decisions.get(decision.job, decision.id)
    assert found is not None
    assert found.status == "applying"
    world.start()
    world.run(300)
    found = world.store.decisions.get(decision.job, decision.id)
    assert found is not None
    assert (found.status, found.history[-1].text) == ("applied", "found applied after a restart of the service")
    assert found.outcome is not None
    assert applied(world) == [decision.after]


def test_a_crash_before_the_engine_was_asked_applies_nothing(tmp_path: Path) -> None:
    world, decision = propose(tmp_path)
    approve(world, decision)
    world.run(1)
    assert applied(world) == []
    world.start()
    world.run(120)
    found = world.store.decisions.get(decision.job, decision.id)
    assert found is not None
    assert (found.status, applied(world)) == ("failed", [])


def test_an_approval_outlives_a_crash(tmp_path: Path) -> None:
    world, decision = propose(tmp_path)
    world.store.decisions.answer(decision.job, decision.id, "approved", "alice", world.clock.now())
    world.start()
    world.run(60)
    assert applied(world) == [decision.after]


def test_a_rescale_that_fails_is_told_and_counted(tmp_path: Path) -> None:
    from dataclasses import replace

    world = make_world(tmp_path, [replace(short_job(), refuses_rescale=True)], policy(max_per_hour=2))
    told: list[str] = []
    world.context.notify = lambda event, _job, _decision, text: told.append(f"{event}: {text}")
    world.run(1800)
    failed = world.decisions(Q1, "failed")
    assert len(failed) == 2  # and no more within the hour
    assert any(text.startswith("failure: ") and "NoResourceAvailable" in text for text in told)


def test_jobs_come_go_and_fail(tmp_path: Path) -> None:
    from dataclasses import replace

    job = replace(short_job(), faults=(Fault("failed", 1e9, 900, 600),))
    world = make_world(tmp_path, [job], policy(mode="observe"))
    world.run(500)
    assert world.keeper(Q1).state.summary().state == "running"
    world.run(400)
    summary = world.keeper(Q1).state.summary()
    assert summary.state == "failed"
    assert "OutOfMemory" in summary.trouble[0] or "failed" in summary.trouble[0]
    world.run(1200)
    assert world.keeper(Q1).state.summary().state == "running"


def test_a_wall_clock_that_jumps_stops_nothing(tmp_path: Path) -> None:
    world = make_world(tmp_path, [short_job()], policy(mode="observe"))
    world.run(300)
    world.clock.jump(-7200)
    world.run(300)
    seen = world.keeper(Q1).state.summary().last_observed
    assert seen is not None
    assert START.hour - 2 <= seen.hour < START.hour


def test_a_defect_of_ours_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job and a cluster that trip over an error that nobody thought of are looked after again once it is gone."""
    world = make_world(tmp_path, [short_job()], policy())
    with monkeypatch.context() as patch:
        patch.setattr("streamtune.service.fleet.keeper.AutoscalerShadow.instances", _divide)
        patch.setattr(type(world.clusters[0]), "jobs", _divide)
        world.run(400)
        assert world.fleet.views()[0].error == "a defect of the service (ZeroDivisionError): its log has the details"
    with monkeypatch.context() as patch:
        patch.setattr("streamtune.service.fleet.keeper.AutoscalerShadow.instances", _divide)
        world.run(400)
        assert "a defect of the service (ZeroDivisionError)" in world.keeper(Q1).state.summary().trouble[0]
    world.run(900)
    assert world.fleet.views()[0].error is None
    assert world.keeper(Q1).state.summary().trouble == []
    assert applied(world)


def _divide(*_: object) -> None:
    raise ZeroDivisionError


def test_an_engine_that_answers_nonsense_ends_nothing(tmp_path: Path) -> None:
    world = make_world(tmp_path, [short_job()], policy(mode="observe"))
    world.run(300)
    (cluster,) = world.clusters
    whole = cluster.engine.observing

    def nonsense(*_: object) -> object:
        yield 1.0
        return NotReady("garbage")

    cluster.engine.observing = nonsense  # type: ignore[method-assign,assignment]
    world.run(300)
    assert world.keeper(Q1).state.summary().trouble == ["garbage"]
    cluster.engine.observing = whole  # type: ignore[method-assign]
    world.run(300)
    assert world.keeper(Q1).state.summary().trouble == []
    assert WINDOW.length_s == 60.0
