"""Tuning a job of a cluster: bounded, audited, and honest about how it ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engines.flink.fake_flink import FakeFlink
from streamtune.cli import main, run
from streamtune.cli.ahead import LookingAhead
from streamtune.cli.first_plan import PlanQuestion, answer_plan
from streamtune.cli.flink_tuning import FlinkTuning, tune_flink
from streamtune.clock import SystemClock
from streamtune.control.audit import AuditTrail, read_audit
from streamtune.control.controller import Outcome
from streamtune.control.guards import Guards
from streamtune.control.supervisor import SupervisorSettings
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.flink import FlinkSettings, RescaleSettings
from streamtune.errors import StreamTuneError
from streamtune.tuners import make_tuner

WINDOW = MeasurementWindow(settle_s=10.0, length_s=20.0)


def tune(
    fake: FakeFlink, folder: Path, guards: Guards | None = None, window: MeasurementWindow = WINDOW, **options: Any
) -> tuple[list[Outcome], list[Any]]:
    audit = folder / "audit.jsonl"
    settings = FlinkSettings(rescale=RescaleSettings(timeout_s=5.0))
    tuning = FlinkTuning(fake.url, settings=settings, supervision=SupervisorSettings(**options))
    with AuditTrail(audit) as trail:
        outcomes = tune_flink(
            tuning, lambda job: make_tuner("ds2", job), guards or Guards(), window, trail, clock=fake.clock
        )
    return outcomes, read_audit(audit)


def test_one_process_ends_without_backpressure(fake: FakeFlink, tmp_path: Path) -> None:
    """400/s at 100/s per subtask: DS2 asks for 4 at once."""
    [outcome], events = tune(fake, tmp_path)
    assert outcome.stop_reason == "no_backpressure"
    assert fake.degrees == {"bids": 1, "work": 4, "sink": 1}
    assert [event["event"] for event in events] == [
        "attached", "observed", "recommended", "deploying", "deployed", "observed", "stopped",
    ]  # fmt: skip


def test_a_dry_run_changes_nothing(fake: FakeFlink, tmp_path: Path) -> None:
    [outcome], _ = tune(fake, tmp_path, Guards(dry_run=True))
    assert outcome.stop_reason == "dry_run"
    assert outcome.recommendation["Map"] == 4
    assert not [request for request in fake.requests if not request.startswith("GET")]


def test_a_dry_run_says_that_the_cluster_takes_no_plans(fake: FakeFlink) -> None:
    fake.options["scheduler-mode"] = "reactive"
    told = list[str]()
    with AuditTrail(None) as trail:
        tune_flink(
            FlinkTuning(fake.url),
            lambda job: make_tuner("ds2", job),
            Guards(dry_run=True),
            WINDOW,
            trail,
            clock=fake.clock,
            tell=told.append,
        )
    assert any("reactive mode" in line for line in told)


def test_never_past_the_slots_there_are(fake: FakeFlink, tmp_path: Path) -> None:
    fake.slots = 3
    [outcome], events = tune(fake, tmp_path)
    assert fake.degrees["work"] == 3
    assert outcome.backpressure
    assert outcome.stop_reason == "unchanged"
    assert any(event.get("held_back") or event.get("chosen", {}).get("Map") == 3 for event in events)


def test_slots_that_come_in_the_middle_of_a_watch_are_used(fake: FakeFlink, tmp_path: Path) -> None:
    """Attached while a TaskManager was away: 400/s need 4 instances, there is room for 2 at first."""
    fake.slots = 2

    def comes_back(_method: str, _path: str) -> None:
        if fake.now_s > 200:
            fake.slots = 20

    fake.intercept = comes_back
    outcomes, events = tune(fake, tmp_path, watch_s=600.0)
    assert outcomes[0].deployment.plan["Map"] == 2
    held = next(event["held_back"] for event in events if event["event"] == "recommended")
    assert held == {"Map": "4 was recommended, slots are in reach for 2"}
    assert fake.degrees["work"] == 4
    assert not outcomes[-1].backpressure


def test_slots_that_come_while_one_process_goes_on_are_used(fake: FakeFlink, tmp_path: Path) -> None:
    fake.slots = 2

    def comes_back(method: str, _path: str) -> None:
        if method == "PUT":  # the first rescale has begun
            fake.slots = 20

    fake.intercept = comes_back
    [outcome], _ = tune(fake, tmp_path)
    assert fake.degrees["work"] == 4
    assert not outcome.backpressure


def test_the_hour_bounds_what_is_done(fake: FakeFlink, tmp_path: Path) -> None:
    """The rate moves all the time; two reconfigurations an hour are allowed."""
    for step in range(1, 9):
        fake.change_rate(400.0 * step, 300.0 + 100.0 * (step % 5))
    tune(fake, tmp_path, window=MeasurementWindow(10.0, 150.0), watch_s=3000.0, max_per_hour=2)
    assert len([request for request in fake.requests if request.startswith("PUT")]) == 2


@pytest.mark.parametrize("moment_s", [250.0, 300.0, 320.0, 323.0])
def test_watching_begins_again_when_rates_move(fake: FakeFlink, tmp_path: Path, moment_s: float) -> None:
    """900/s at 100/s per subtask is 9, in one step, wherever in a window (here 222 to 322 s) the rate moved."""
    fake.change_rate(moment_s, 900.0)
    outcomes, _ = tune(fake, tmp_path, window=MeasurementWindow(10.0, 100.0), watch_s=900.0)
    assert [outcome.reconfigurations for outcome in outcomes] == [1, 1]
    assert fake.degrees["work"] == 9


def test_a_failed_rescale_is_told_and_survived(fake: FakeFlink, tmp_path: Path) -> None:
    fake.rescale_works = False
    with pytest.raises(StreamTuneError, match="last good plan"):
        tune(fake, tmp_path)
    events = read_audit(tmp_path / "audit.jsonl")
    assert events[-1]["event"] == "failed"
    assert events[-1]["job_state"] == "RUNNING"
    assert events[-1]["runs_with"]["Map"] == 1


def test_a_task_manager_that_dies_while_tuning_is_waited_for(
    fake: FakeFlink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right after the new plan its slots are gone, half a minute later they are back: tuning goes on and tells it."""
    sleep = fake.clock.sleep
    died_s: list[float] = []

    def sleep_and_lose_a_task_manager(seconds: float) -> None:
        sleep(seconds)
        if fake.degrees["work"] == 4 and not died_s:
            died_s.append(fake.now_s)
            fake.state = "RESTARTING"
        elif died_s and fake.state == "RESTARTING" and fake.now_s > died_s[0] + 30:
            fake.state = "RUNNING"
            fake.restart()

    monkeypatch.setattr(fake.clock, "sleep", sleep_and_lose_a_task_manager)
    [outcome], events = tune(fake, tmp_path, Guards(not_ready_patience=60))
    assert outcome.stop_reason == "no_backpressure"
    assert fake.degrees == {"bids": 1, "work": 4, "sink": 1}
    told = [event["event"] for event in events]
    assert "not_ready" in told[told.index("deployed") :]
    assert any("RESTARTING" in event["reason"] for event in events if event["event"] == "not_ready")
    assert told[-2:] == ["observed", "stopped"]


def test_a_job_that_dies_ends_the_watch(fake: FakeFlink, tmp_path: Path) -> None:
    sleep = fake.clock.sleep

    def sleep_and_die(seconds: float) -> None:
        sleep(seconds)
        if fake.now_s > 200:
            fake.state = "FAILED"

    fake.clock.sleep = sleep_and_die  # type: ignore[method-assign]
    with pytest.raises(StreamTuneError, match="is FAILED"):
        tune(fake, tmp_path, watch_s=900.0)
    assert read_audit(tmp_path / "audit.jsonl")[-1]["job_state"] == "FAILED"


@pytest.mark.slow
def test_the_command(
    fake: FakeFlink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the wall clock, as a user would: look, do not touch."""
    monkeypatch.setattr(fake, "clock", SystemClock())
    timing = ("--settle", "0", "--window", "3")
    arguments = ("tune", "--engine", "flink", "--url", fake.url, "--tuner", "ds2", *timing, "--dry-run", "--json")
    monkeypatch.setattr("sys.argv", ["streamtune", *arguments, "--audit", str(tmp_path / "audit.jsonl")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    [outcome] = json.loads(capsys.readouterr().out)
    assert outcome["stop_reason"] == "dry_run"
    assert 3 <= outcome["recommended"]["Map"] <= 5, "four, give or take what a wall clock does to three seconds"
    assert fake.degrees["work"] == 1
    assert read_audit(tmp_path / "audit.jsonl")[0]["event"] == "attached"


def test_a_busy_day_is_planned_for_without_touching_the_job(
    fake: FakeFlink, capsys: pytest.CaptureFixture[str]
) -> None:
    """100/s per subtask and 400/s offered: twice that needs 8 instances, and one or two more to be sure."""
    question = PlanQuestion("", "2x", None, None, None, "flink", fake.url, None, 0)
    answer_plan(question, as_json=True, clock=fake.clock)
    found = json.loads(capsys.readouterr().out)
    assert 8 <= found["plan"]["Map"] <= 11
    assert sum(found["rates"].values()) == pytest.approx(800, rel=0.02)
    assert found["extrapolation"]["times_highest_seen"] > 1
    assert not [request for request in fake.requests if not request.startswith("GET")]


@pytest.mark.parametrize(("rate", "is_guess"), [(None, True), ("2x", True), ("800", False), ("bids=800", False)])
def test_a_plan_for_a_guessed_rate_says_so_and_is_less_sure(
    fake: FakeFlink, capsys: pytest.CaptureFixture[str], rate: str | None, is_guess: bool
) -> None:
    """Without a lag metric 100/s pass of what may be 100 to 400/s, until somebody says how much it is."""
    fake.reports_lag = False
    question = PlanQuestion("", rate, None, None, None, "flink", fake.url, None, 0)
    answer_plan(question, as_json=True, clock=fake.clock)
    found = json.loads(capsys.readouterr().out)
    said = found["extrapolation"]["verdict"]
    low, high = found["operators"]["Map"]["demand_per_s"]
    if is_guess:
        assert found["rate_origins"] == {"bids": "estimated"}
        assert 0.1 < found["rate_sds"]["bids"] < 0.5
        assert "what bids is offered now is a guess (± " in said
        assert high > 1.2 * low
    else:
        assert (found["rate_origins"], found["rate_sds"]) == ({}, {})
        assert "guess (±" not in said
        assert high < 1.2 * low


def test_a_plan_heeds_the_address_of_the_config_file_and_overrides(
    fake: FakeFlink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "streamtune.yaml").write_text(f"engines: {{flink: {{url: {fake.url}}}}}\n")
    monkeypatch.setenv("STREAMTUNE_CONFIG", str(tmp_path / "streamtune.yaml"))
    known = tmp_path / "known.yaml"
    known.write_text("operators: {bids: {rate: 300}}\nexclude: [Map]\n")
    monkeypatch.setattr("streamtune.engines.flink.engine.SystemClock", lambda: fake.clock)
    arguments = ["plan", "--engine", "flink", "--rate", "2x", "--overrides", str(known), "--json"]
    assert run(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rates"] == {"bids": 600}
    assert found["plan"]["Map"] == 1
    assert found["operators"]["Map"]["why"].startswith("excluded")
    assert found["certainty"]["reached"] < 0.01
    assert run(["plan", "nexmark-q5", "--overrides", str(known)]) == 2
    assert "add --engine flink" in " ".join(capsys.readouterr().err.split())


def test_a_plan_that_slots_do_not_suffice_for_says_so(fake: FakeFlink, capsys: pytest.CaptureFixture[str]) -> None:
    """40 times the rate: 160 instances of 100/s, and 20 slots."""
    fake.max_parallelism = 500
    question = PlanQuestion("", "40x", None, None, None, "flink", fake.url, None, 0)
    answer_plan(question, as_json=False, clock=fake.clock)
    told = capsys.readouterr().out
    assert "slots, 20 are in reach: start more TaskManagers first" in " ".join(told.split())


def test_with_a_forecast_the_job_grows_before_the_rise(fake: FakeFlink, tmp_path: Path) -> None:
    """Every day at midnight 400/s become 770/s, and midnight is next: 8 subtasks of 100/s, not 4."""
    rates = tmp_path / "rates.csv"
    rates.write_text("".join(f"{3600 * hour},{770 if hour % 24 < 12 else 400}\n" for hour in range(72)))
    make = LookingAhead.read(rates, None).around(lambda job: make_tuner("ds2", job))
    with AuditTrail(None) as trail:
        tuning = FlinkTuning(fake.url)
        [outcome] = tune_flink(tuning, make, Guards(dry_run=True), WINDOW, trail, clock=fake.clock)
    assert outcome.recommendation["Map"] == 8
