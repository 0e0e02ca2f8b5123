"""A watch ends when its time is up, and says what it waits for meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines.flink.fake_flink import FakeFlink
from streamtune.cli.flink_tuning import FlinkTuning, tune_flink
from streamtune.control.audit import AuditTrail, read_audit
from streamtune.control.controller import Outcome
from streamtune.control.guards import Guards
from streamtune.control.supervisor import SupervisorSettings
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.flink import FlinkClient, FlinkEngine, FlinkSettings, RescaleSettings
from streamtune.errors import EngineError, StreamTuneError
from streamtune.tuners import make_tuner

WINDOW = MeasurementWindow(settle_s=10.0, length_s=20.0)


def watch(
    fake: FakeFlink, folder: Path, at: dict[float, Callable[[], None]], watch_s: float = 600.0, **rescale: Any
) -> tuple[list[Outcome], list[Any], list[str]]:
    """Tune for ten minutes of the test's own time; ``at`` says what happens when."""
    sleep, due, told = fake.clock.sleep, dict(at), []

    def sleep_and_happen(seconds: float) -> None:
        sleep(seconds)
        for moment in [one for one in due if fake.now_s >= one]:
            due.pop(moment)()

    fake.clock.sleep = sleep_and_happen  # type: ignore[method-assign]
    audit = folder / "audit.jsonl"
    settings = FlinkSettings(rescale=RescaleSettings(timeout_s=5.0, **rescale))
    tuning = FlinkTuning(fake.url, settings=settings, supervision=SupervisorSettings(watch_s=watch_s))
    try:
        with AuditTrail(audit) as trail:
            outcomes = tune_flink(
                tuning,
                lambda job: make_tuner("ds2", job),
                Guards(),
                WINDOW,
                trail,
                clock=fake.clock,
                tell=told.append,
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
        ("FINISHED", "is FINISHED: it has done its work"),
        ("CANCELED", "is CANCELED. Start it again"),
    ],
)
def test_the_right_words_for_a_job_that_does_not_run(fake: FakeFlink, state: str, words: str) -> None:
    fake.state = state
    with pytest.raises(EngineError, match=words):
        FlinkEngine(FlinkClient(fake.url), clock=fake.clock).attach("fake")
