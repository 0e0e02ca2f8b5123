"""A watch ends when its time is up, and says what it waits for meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines.flink.fake_flink import JOB, NAMES, FakeFlink
from streamtune.cli import run
from streamtune.cli.flink_tuning import FlinkTuning, tune_flink
from streamtune.control.audit import AuditTrail, read_audit
from streamtune.control.controller import Outcome
from streamtune.control.guards import Guards
from streamtune.control.supervisor import SupervisorSettings
from streamtune.engines.base import JobNotYetRunningError, MeasurementWindow
from streamtune.engines.flink import FlinkClient, FlinkEngine, FlinkSettings, RescaleSettings
from streamtune.engines.flink.journal import Journal, Underway
from streamtune.errors import EngineError, StreamTuneError
from streamtune.tuners import make_tuner

WINDOW = MeasurementWindow(settle_s=10.0, length_s=20.0)


def watch(
    fake: FakeFlink,
    folder: Path,
    at: dict[float, Callable[[], None]],
    watch_s: float = 600.0,
    *,
    guards: Guards | None = None,
    tuning: dict[str, Any] | None = None,
    supervision: dict[str, Any] | None = None,
    rescale: dict[str, Any] | None = None,
    journal: Journal | None = None,
) -> tuple[list[Outcome], list[Any], list[str]]:
    """Tune for ten minutes of the test's own time; ``at`` says what happens when."""
    sleep, due, told = fake.clock.sleep, dict(at), []

    def sleep_and_happen(seconds: float) -> None:
        sleep(seconds)
        for moment in [one for one in due if fake.now_s >= one]:
            due.pop(moment)()

    fake.clock.sleep = sleep_and_happen  # type: ignore[method-assign]
    audit = folder / "audit.jsonl"
    settings = FlinkSettings(rescale=RescaleSettings(timeout_s=5.0, **(rescale or {})))
    supervised = SupervisorSettings(watch_s=watch_s, **(supervision or {}))
    what = FlinkTuning(fake.url, settings=settings, supervision=supervised, **(tuning or {}))
    try:
        with AuditTrail(audit) as trail:
            outcomes = tune_flink(
                what,
                lambda job: make_tuner("ds2", job),
                guards or Guards(),
                WINDOW,
                trail,
                clock=fake.clock,
                tell=told.append,
                journal=journal,
            )
    finally:
        fake.clock.sleep = sleep  # type: ignore[method-assign]
    return outcomes, read_audit(audit), told


def test_a_refusal_changes_nothing_and_is_tried_again(fake: FakeFlink, tmp_path: Path) -> None:
    """No checkpoint for the first minutes: noted once, then the plan goes through."""
    fake.checkpoint_age_s = None

    def healed() -> None:
        fake.checkpoint_age_s = 1.0

    outcomes, events, told = watch(fake, tmp_path, {200.0: healed})
    assert fake.degrees["work"] == 4
    assert outcomes[-1].backpressure is False
    refused = [event for event in events if event["event"] == "refused"]
    assert len(refused) == 1
    assert "26 failed" in refused[0]["error"]
    assert any("--without-checkpoint" in line for line in told)


def test_slots_of_its_own_old_tasks_count_as_its_own(fake: FakeFlink, tmp_path: Path) -> None:
    """A minute after a scale-down Flink still holds five slots for the job: none is free, five are its own."""
    fake.slots, fake.held_slots, fake.degrees["work"], fake.bounds["work"] = 5, 5, 2, (1, 2)
    outcomes, _, _ = watch(fake, tmp_path, {}, watch_s=0.0)
    assert fake.degrees["work"] == 4
    assert not outcomes[-1].backpressure


def submitted_again(fake: FakeFlink, job_id: str) -> Callable[[], None]:
    def again() -> None:
        fake.state, fake.job_id = "RUNNING", job_id
        fake.degrees = dict.fromkeys(fake.degrees, 1)
        fake.bounds = dict.fromkeys(fake.bounds, (1, 1))
        fake.restart()

    return again


def cancelled(fake: FakeFlink) -> Callable[[], None]:
    return lambda: setattr(fake, "state", "CANCELED")


def said_of(operator: str, said_in: str, folder: Path) -> dict[str, Any]:
    if said_in == "--exclude":
        return {"guards": Guards(exclude=frozenset({operator}))}
    overrides = folder / "overrides.yaml"
    overrides.write_text(f"operators: {{{operator}: {{tuple_width_in: 3}}}}\nexclude: [{operator}]\n")
    return {"tuning": {"overrides": overrides}}


@pytest.mark.parametrize("said_in", ["--exclude", "overrides"])
def test_what_is_said_of_an_operator_holds_by_its_new_name(
    fake: FakeFlink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said_in: str
) -> None:
    """The changed job calls 'Map', which needs four instances and may have one, otherwise."""

    def changed() -> None:
        monkeypatch.setitem(NAMES, "work", "Map (with users)")
        submitted_again(fake, "b" * 32)()

    at = {200.0: cancelled(fake), 250.0: changed}
    outcomes, events, told = watch(fake, tmp_path, at, watch_s=900.0, **said_of("Map", said_in, tmp_path))
    followed = [event for event in events if event["event"] == "followed"]
    assert [(event["to"], event["renamed"]) for event in followed] == [("b" * 32, {"Map": "Map-with-users"})]
    assert "its operator 'Map-with-users' is taken for what was 'Map'" in told
    assert not [event for event in events if event["event"] == "failed"]
    after = outcomes[-1].deployment
    assert after.job.dataflow.index.keys() == {"bids", "Map-with-users", "sink"}
    if said_in == "overrides":
        assert after.job.dataflow.operator("Map-with-users").tuple_width_in == 3
    assert outcomes[-1].backpressure, "it would have been given four"
    assert fake.degrees["work"] == 1


@pytest.mark.parametrize("said_in", ["--exclude", "overrides"])
def test_a_job_that_came_back_without_an_operator_is_waited_for(
    fake: FakeFlink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said_in: str
) -> None:
    """What the user says of 'sink' fits no operator of the changed job: that ended the watch."""
    options = said_of("sink", said_in, tmp_path)

    def changed() -> None:
        monkeypatch.setitem(NAMES, "sink", "KeyedProcess")
        submitted_again(fake, "b" * 32)()

    def as_it_was() -> None:
        monkeypatch.setitem(NAMES, "sink", "Sink: sink")
        submitted_again(fake, "c" * 32)()

    at = {200.0: cancelled(fake), 250.0: changed, 400.0: as_it_was}
    outcomes, events, told = watch(fake, tmp_path, at, watch_s=900.0, **options)
    assert outcomes[-1].deployment.id == "c" * 32
    assert fake.degrees["work"] == 4
    assert [event["to"] for event in events if event["event"] == "followed"] == ["c" * 32]
    noted = [event["error"] for event in events if event["event"] == "failed"]
    assert len(noted) == 1, "once, not every five seconds"
    assert "KeyedProcess" in noted[0]
    assert noted[0] in told


@pytest.mark.parametrize("trouble", ["away", "no plan"])
def test_a_successor_that_cannot_be_looked_at_yet_is_looked_at_again(
    fake: FakeFlink, tmp_path: Path, trouble: str
) -> None:
    """The list of jobs has it; all else fails for a minute, or has no plan in it yet."""

    def answer(_method: str, path: str) -> tuple[int, Any] | None:
        if fake.job_id == JOB or fake.now_s >= 360 or not path.startswith("/jobs/b"):
            return None
        if trouble == "away":
            return 404, {"errors": ["the JobManager is just coming up"]}
        return (200, {**fake._details(), "plan": {}}) if path == f"/jobs/{fake.job_id}" else None

    fake.intercept = answer
    at = {200.0: cancelled(fake), 300.0: submitted_again(fake, "b" * 32)}
    outcomes, events, _ = watch(fake, tmp_path, at, watch_s=900.0)
    assert outcomes[-1].deployment.id == "b" * 32
    assert any(event["event"] == "failed" for event in events)
    assert [event["to"] for event in events if event["event"] == "followed"] == ["b" * 32]


def test_a_watch_starts_its_job_again_after_a_stop_that_came_late(fake: FakeFlink, tmp_path: Path) -> None:
    """Its rescale had given up on the savepoint; when the job was stopped after all, the watch let it lie there."""
    fake.scheduler, fake.savepoint_takes = "default", 10**6
    fake.intercept = lambda _method, path: (200, {"filename": "/x/job.jar"}) if path == "/jars/upload" else None
    (tmp_path / "job.jar").write_bytes(b"jar")

    def stopped() -> None:
        fake.savepoint_takes, fake.state = 0, "FINISHED"

    journal = Journal(tmp_path / "rescales")
    outcomes, events, told = watch(
        fake,
        tmp_path,
        {200.0: stopped},
        tuning={"jar": tmp_path / "job.jar"},
        rescale={"savepoint_timeout_s": 5.0, "savepoint_folder": "file:/s"},
        journal=journal,
    )
    assert not outcomes[-1].backpressure
    assert fake.degrees["work"] == 4
    assert fake.requests.count(f"POST /jobs/{JOB}/stop") == 1, "not stopped again while it is being stopped"
    assert any("it was stopped to be started again" in line for line in told)
    assert not any("has done its work" in line for line in told)
    assert [event["event"] for event in events].count("followed") == 1
    assert journal.entries(fake.url) == []


@pytest.mark.parametrize("state", ["RESTARTING", "CREATED", "INITIALIZING"])
def test_a_watch_that_begins_before_its_job_runs_waits(fake: FakeFlink, tmp_path: Path, state: str) -> None:
    fake.state = state

    def runs() -> None:
        fake.state = "RUNNING"
        fake.restart()

    outcomes, events, told = watch(fake, tmp_path, {100.0: runs})
    assert not outcomes[-1].backpressure
    assert [event["event"] for event in events][:2] == ["waiting", "attached"]
    assert sum(f"is {state}" in line for line in told) == 1
    assert 600 <= fake.now_s < 700, "the wait is part of the watch"


def test_a_watch_whose_job_never_runs_ends_with_why(fake: FakeFlink, tmp_path: Path) -> None:
    fake.state = "RESTARTING"
    with pytest.raises(JobNotYetRunningError, match=r"is RESTARTING: y\.Z: / by zero"):
        watch(fake, tmp_path, {})
    assert fake.now_s == pytest.approx(600, abs=10)


@pytest.mark.parametrize("jump_s", [-7200.0, -40.0, 40.0, 7200.0])
def test_a_wall_clock_that_is_set_changes_no_watch(fake: FakeFlink, tmp_path: Path, jump_s: float) -> None:
    """Two hours forward once ended a watch of two hours, and a short jump within a window gave a wrong rate."""

    def faster() -> None:
        fake.rate = 700.0

    at = {110.0: lambda: fake.clock.jump(jump_s), 400.0: faster, 415.0: lambda: fake.clock.jump(-jump_s)}
    outcomes, events, _ = watch(fake, tmp_path, at, watch_s=900.0)
    assert 900 <= fake.now_s < 990
    assert fake.degrees["work"] == 7
    assert len(outcomes) == 2
    offered = {round(rate) for event in events if event["event"] == "observed" for rate in event["rates"].values()}
    assert all(rate in range(395, 406) or rate in range(690, 711) for rate in offered), offered


def test_how_often_and_how_long_go_by_the_steady_clock(fake: FakeFlink, tmp_path: Path) -> None:
    """A jump of two hours does not give the hour's changes back, nor one back two hours block the job."""
    at: dict[float, Callable[[], None]] = {}
    for number, rate in enumerate((700.0, 1100.0, 300.0)):
        at[300.0 * (number + 1)] = lambda rate=rate: setattr(fake, "rate", rate)  # type: ignore[misc]
        at[300.0 * (number + 1) - 10] = lambda: fake.clock.jump(7200.0)
    at[1300.0] = lambda: fake.clock.jump(-20000.0)
    _, events, _ = watch(fake, tmp_path, at, watch_s=4500.0, supervision={"max_per_hour": 2})
    deployed = [event for event in events if event["event"] == "deployed"]
    assert len(deployed) == 3, "two in the first hour, and one when it is over"
    held = [event["free_again_in_s"] for event in events if event.get("reason") == "max_per_hour"]
    assert held
    assert all(0 <= seconds <= 3600 for seconds in held)


def test_an_interrupted_restart_of_another_job_is_a_warning(fake: FakeFlink, tmp_path: Path) -> None:
    """It ended every tune on that cluster, whatever job it was for."""
    journal = Journal(tmp_path / "rescales")
    journal.write(Underway(url=fake.url, job_id="d" * 32, job_name="other", jar_id="gone"))
    told: list[str] = []

    def tune(job: str | None) -> list[Outcome]:
        what, make = FlinkTuning(fake.url, job), (lambda job: make_tuner("ds2", job))
        trail = AuditTrail(None)
        return tune_flink(what, make, Guards(), WINDOW, trail, clock=fake.clock, tell=told.append, journal=journal)

    assert tune(None)[0].reconfigurations == 1
    assert told[0].startswith(f"warning: job {'d' * 32} (other) does not run, and Flink knows no savepoint")
    with pytest.raises(EngineError, match=f"flink resume --forget {'d' * 32}"):
        tune("other")


def test_a_job_that_is_resumed_is_tuned_under_its_new_id(fake: FakeFlink, tmp_path: Path) -> None:
    journal, old = Journal(tmp_path / "rescales"), fake.job_id
    fake.state = "FINISHED"
    fake.checkpoint_age_s = 1.0
    journal.write(Underway(url=fake.url, job_id=old, job_name="fake", jar_id="jar", savepoint="file:/s"))
    what, make = FlinkTuning(fake.url, old), (lambda job: make_tuner("ds2", job))
    [outcome] = tune_flink(what, make, Guards(), WINDOW, AuditTrail(None), clock=fake.clock, journal=journal)
    assert fake.job_id != old
    assert outcome.deployment.id == fake.job_id


def test_resume_and_forget(
    fake: FakeFlink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("streamtune.cli.flink.state_folder", lambda: tmp_path)
    Journal(tmp_path / "rescales").write(
        Underway(url=fake.url, job_id="d" * 32, job_name="other", jar_id="jar", savepoint="file:/nowhere")
    )
    fake.intercept = lambda _method, path: (404, {"errors": ["no such jar"]}) if path.endswith("/run") else None
    assert run(["flink", "resume", "--url", fake.url]) == 1
    assert "no such jar" in capsys.readouterr().out
    assert run(["flink", "resume", "--url", fake.url, "--forget", "nobody"]) == 2
    assert "noted are dddd" in capsys.readouterr().err
    assert run(["flink", "resume", "--url", fake.url, "--forget", "other"]) == 0
    assert "its savepoint is file:/nowhere" in capsys.readouterr().out
    assert run(["flink", "resume", "--url", fake.url]) == 0
    assert "no rescale was interrupted" in capsys.readouterr().out


def test_a_job_submitted_again_under_its_name_is_followed(fake: FakeFlink, tmp_path: Path) -> None:
    def cancelled() -> None:
        fake.state = "CANCELED"

    def resubmitted() -> None:
        fake.state, fake.job_id, fake.rate = "RUNNING", "b" * 32, 700.0
        fake.degrees = dict.fromkeys(fake.degrees, 1)
        fake.bounds = dict.fromkeys(fake.bounds, (1, 1))
        fake.restart()

    outcomes, events, told = watch(fake, tmp_path, {200.0: cancelled, 300.0: resubmitted}, watch_s=900.0)
    kinds = [event["event"] for event in events]
    assert kinds.count("ended") == 1
    followed = next(event for event in events if event["event"] == "followed")
    assert followed["to"] == "b" * 32
    assert fake.degrees["work"] == 7
    assert outcomes[-1].deployment.id == "b" * 32
    assert any("is CANCELED" in line for line in told)
    assert any("was replaced by" in line for line in told)


def test_a_restart_is_waited_for(fake: FakeFlink, tmp_path: Path) -> None:
    def restarting() -> None:
        fake.state = "RESTARTING"

    def back() -> None:
        fake.state = "RUNNING"
        fake.restart()

    outcomes, events, _ = watch(fake, tmp_path, {200.0: restarting, 300.0: back})
    assert not outcomes[-1].backpressure
    assert any("is RESTARTING: y.Z: / by zero" in event.get("reason", "") for event in events)


def test_a_finished_job_is_not_told_to_be_fixed(fake: FakeFlink, tmp_path: Path) -> None:
    def finished() -> None:
        fake.state = "FINISHED"

    outcomes, _, told = watch(fake, tmp_path, {200.0: finished})
    assert len(outcomes) == 1
    assert any("it has done its work" in line for line in told)
    assert not any("Fix it" in line for line in told)


def test_a_failed_job_that_never_comes_back_is_the_error_at_the_end(fake: FakeFlink, tmp_path: Path) -> None:
    def failed() -> None:
        fake.state = "FAILED"

    with pytest.raises(StreamTuneError, match=r"is FAILED: y\.Z: / by zero\. Fix it and start it again"):
        watch(fake, tmp_path, {200.0: failed})
    assert fake.now_s >= 600


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("RESTARTING", r"is RESTARTING: y\.Z: / by zero\. Wait until it runs"),
        ("CREATED", r"is CREATED: y\.Z: / by zero\. Wait until it runs, or watch it"),
        ("FINISHED", "is FINISHED: it has done its work"),
        ("CANCELED", "is CANCELED. Start it again"),
    ],
)
def test_the_right_words_for_a_job_that_does_not_run(fake: FakeFlink, state: str, words: str) -> None:
    fake.state = state
    for job in ("fake", None) if state in ("RESTARTING", "CREATED") else ("fake",):
        with pytest.raises(EngineError, match=words):
            FlinkEngine(FlinkClient(fake.url), clock=fake.clock).attach(job)
