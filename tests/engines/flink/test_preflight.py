"""Safety before measuring: what stands in the way is found in the first second, with what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engines.flink.fake_flink import FakeFlink
from streamtune.cli import main, run
from streamtune.dataflow import Plan
from streamtune.engines.base import RescaleRefusedError
from streamtune.engines.flink import FlinkClient, FlinkEngine, FlinkSettings, RescaleSettings
from streamtune.engines.flink.preflight import Finding, Preflight
from streamtune.errors import EngineError


def preflight(fake: FakeFlink, *, has_program: bool = False, **settings: object) -> Preflight:
    return Preflight(FlinkClient(fake.url), RescaleSettings.model_validate(settings), has_program)


def finding(found: list[Finding], name: str) -> Finding:
    return next(one for one in found if one.name == name)


def test_all_is_well(fake: FakeFlink) -> None:
    check = preflight(fake)
    assert {one.verdict for one in [*check.cluster(), *check.job(fake.job_id)]} == {"ok"}


def test_reactive_mode_is_named(fake: FakeFlink) -> None:
    fake.options["scheduler-mode"] = "reactive"
    found = finding(preflight(fake).cluster(), "scheduler")
    assert found.verdict == "failed"
    assert "reactive mode" in found.seen
    with pytest.raises(EngineError, match=r"reactive mode: .* remove scheduler-mode"):
        preflight(fake).check_cluster()


def test_without_the_adaptive_scheduler_a_jar_and_a_savepoint_folder_are_needed(fake: FakeFlink) -> None:
    fake.scheduler = "default"
    assert finding(preflight(fake).cluster(), "scheduler").verdict == "failed"
    found = preflight(fake, has_program=True).cluster()
    assert finding(found, "scheduler").verdict == "warning"
    assert "FLINK-38770" in finding(found, "scheduler").seen
    fake.options["state.savepoints.dir"] = "s3://savepoints"
    assert any("FLINK-38770" in told for told in preflight(fake, has_program=True).check_cluster())
    del fake.options["state.savepoints.dir"]
    fake.version = "1.20.5"
    found = preflight(fake, has_program=True).cluster()
    assert finding(found, "scheduler").verdict == "ok"
    assert finding(found, "savepoints").verdict == "failed"
    fake.options["state.savepoints.dir"] = "s3://savepoints"
    assert finding(preflight(fake, has_program=True).cluster(), "savepoints").verdict == "ok"
    fake.options["web.submit.enable"] = "false"
    assert "takes no jobs" in finding(preflight(fake, has_program=True).cluster(), "scheduler").seen


def test_who_asked_for_restarts_is_not_told_of_live_rescaling(fake: FakeFlink) -> None:
    fake.options["state.savepoints.dir"] = "s3://savepoints"
    found = finding(preflight(fake, mode="restart").cluster(), "scheduler")
    assert (found.verdict, "mode is restart" in found.seen) == ("failed", True)
    assert "set engines.flink.rescale.mode: auto" in found.to_do
    assert finding(preflight(fake, mode="restart", has_program=True).cluster(), "scheduler").verdict == "warning"


@pytest.mark.parametrize(("scheduler", "method"), [("adaptive", "PUT"), ("default", "POST")])
def test_rights_are_tried_on_a_job_that_does_not_exist(fake: FakeFlink, scheduler: str, method: str) -> None:
    """Flink answers 404, which is a right; a proxy that lets only reading through answers 403."""
    fake.scheduler = scheduler
    [found] = preflight(fake).rights()
    assert found.verdict == "ok"
    changing = [request for request in fake.requests if not request.startswith("GET")]
    assert len(changing) == 1
    assert changing[0].startswith(f"{method} /jobs/{'0' * 32}/")
    fake.intercept = lambda way, _path: (403, b"<html>forbidden</html>") if way != "GET" else None
    [found] = preflight(fake).rights()
    assert (found.verdict, "reading is allowed" in found.seen) == ("failed", True)
    fake.intercept = lambda way, _path: (502, b"<html>bad gateway</html>") if way != "GET" else None
    [found] = preflight(fake).rights()
    assert (found.verdict, "not known" in found.seen) == ("warning", True)


@pytest.mark.parametrize("age_s", [None, 4000.0])
def test_nothing_is_rescaled_without_a_recent_checkpoint_unless_the_user_insists(
    fake: FakeFlink, age_s: float | None
) -> None:
    fake.checkpoint_age_s = age_s
    plan = Plan({"bids": 1, "Map": 3, "sink": 1})
    engine = FlinkEngine(FlinkClient(fake.url), clock=fake.clock)
    with pytest.raises(RescaleRefusedError, match="checkpoint"):
        engine.rescale(engine.attach(), plan)
    assert fake.degrees["work"] == 1
    settings = FlinkSettings(rescale=RescaleSettings(without_checkpoint=True))
    insisting = FlinkEngine(FlinkClient(fake.url), clock=fake.clock, settings=settings)
    insisting.rescale(insisting.attach(), plan)
    assert fake.degrees["work"] == 3


@pytest.mark.parametrize(
    ("failed", "age_s", "verdict"), [(0, 5.0, "warning"), (1, 5.0, "warning"), (4, 5.0, "failed"), (1, 100.0, "failed")]
)
def test_a_young_job_may_miss_checkpoints_as_it_starts(
    fake: FakeFlink, failed: int, age_s: float, verdict: str
) -> None:
    """One that came due before all tasks ran was declined, and the tuning of a job 3 s old ended with it."""
    none = {"counts": {"total": failed, "completed": 0, "failed": failed}, "latest": {"completed": None}}
    fake.intercept = lambda _method, path: (200, none) if path.endswith("/checkpoints") else None
    check = preflight(fake)
    details = check.client.job(fake.job_id)
    young = details.model_copy(update={"start_ms": details.now_ms - round(1000 * age_s)})
    found = check.checkpoint(young)
    assert found.verdict == verdict
    assert ("wait for the first one" in found.to_do) == (verdict == "warning")


@pytest.mark.parametrize("comes_after_s", [8.0, 100.0])
def test_the_first_checkpoint_of_a_young_job_is_waited_for(fake: FakeFlink, comes_after_s: float) -> None:
    """Rescales right after a start were refused, and ended the tuning of whoever had just started the job."""
    none = {"counts": {"total": 0, "completed": 0, "failed": 0}, "latest": {"completed": None}}

    def answer(_method: str, path: str) -> tuple[int, Any] | None:
        is_early = fake.now_s < comes_after_s
        return (200, none) if path.endswith("/checkpoints") and is_early else None

    fake.intercept = answer
    engine = FlinkEngine(FlinkClient(fake.url), clock=fake.clock)
    plan = Plan({"bids": 1, "Map": 3, "sink": 1})
    if comes_after_s < RescaleSettings().first_checkpoint_s:
        engine.rescale(engine.attach(), plan)
        assert fake.degrees["work"] == 3
        assert fake.now_s >= comes_after_s
    else:
        with pytest.raises(RescaleRefusedError, match="none has completed"):
            engine.rescale(engine.attach(), plan)
        assert fake.degrees["work"] == 1


def test_the_doctor_prints_a_list_and_fails_where_something_is_wrong(
    fake: FakeFlink, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.checkpoint_age_s = None

    def doctor(*more: str) -> object:
        monkeypatch.setattr("sys.argv", ["streamtune", "flink", "doctor", "--url", fake.url, *more])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code

    assert doctor("--json") == 2
    found = json.loads(capsys.readouterr().out)
    assert [one["what"] for one in found if one["verdict"] == "failed"] == ["checkpoint"]
    fake.checkpoint_age_s = 3.0
    assert not doctor()
    assert "checkpoint" in capsys.readouterr().out
    fake.intercept = lambda _method, _path: (401, b"")
    assert doctor("--json") == 2
    [told] = json.loads(capsys.readouterr().out)
    assert told["seen"].endswith("set STREAMTUNE_FLINK_TOKEN, or STREAMTUNE_FLINK_USER and STREAMTUNE_FLINK_PASSWORD")


def _doctor(fake: FakeFlink, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, dict[str, str]]]:
    code = run(["flink", "doctor", "--url", fake.url, "--json", *more])
    return code, {one["what"]: one for one in json.loads(capsys.readouterr().out)}


def test_a_cluster_with_several_jobs_or_none_has_nothing_in_the_way(
    fake: FakeFlink, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code was 2, and what failed was called Flink."""
    fake.other_jobs = [{"jid": "b" * 32, "name": "other", "state": "RUNNING", "start-time": 1}]
    code, found = _doctor(fake, capsys)
    assert code == 0
    assert (found["job"]["verdict"], found["Flink"]["verdict"]) == ("warning", "ok")
    assert "say which job with --job" in found["job"]["seen"]
    assert _doctor(fake, capsys, "--job", fake.job_id)[1]["job"]["verdict"] == "ok"
    code, found = _doctor(fake, capsys, "--job", "nobody")
    assert (code, found["job"]["verdict"]) == (2, "failed")
    fake.other_jobs, fake.state = [], "FINISHED"
    code, found = _doctor(fake, capsys)
    assert (code, found["job"]["verdict"]) == (0, "warning")
    assert "no job runs" in found["job"]["seen"]


@pytest.mark.parametrize("answer", [(200, b"***"), (200, {"masked": True}), (403, b"")])
def test_a_proxy_that_masks_the_configuration_is_no_reason_to_stop_looking(
    fake: FakeFlink, capsys: pytest.CaptureFixture[str], answer: tuple[int, Any]
) -> None:
    """The first line was the last; whether jobs can be rescaled live is then seen when one is."""
    fake.intercept = lambda _method, path: answer if path == "/jobmanager/config" else None
    code, found = _doctor(fake, capsys)
    assert code == 0
    assert (found["scheduler"]["verdict"], found["checkpoint"]["verdict"]) == ("warning", "ok")
    engine = FlinkEngine(FlinkClient(fake.url), clock=fake.clock)
    assert not engine.capabilities.live_rescale
    engine.rescale(engine.attach(), Plan({"bids": 1, "Map": 3, "sink": 1}))
    assert fake.degrees["work"] == 3


@pytest.mark.parametrize("way", [(), ("--json",)])
def test_what_stands_in_square_brackets_is_shown(
    fake: FakeFlink, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], way: tuple[str, ...]
) -> None:
    """It was taken for markup: "Config key  is not set"."""
    monkeypatch.setenv("COLUMNS", "200")
    said = {"errors": ["java.lang.IllegalStateException: Config key [state.savepoints.dir] is not set"]}
    fake.intercept = lambda _method, path: (400, said) if path.endswith("/overview") else None
    assert run(["flink", "doctor", "--url", fake.url, *way]) == 2
    assert run(["tune", "--engine", "flink", "--url", fake.url]) != 0
    told = capsys.readouterr()
    for text in (told.out, told.err):
        assert "Config key [state.savepoints.dir] is not set" in " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize(("pressure", "words"), [({"max_heap_share": 0.8}, "heap"), ({"max_gc_share": 0.2}, "garbage")])
def test_nothing_is_rescaled_under_memory_pressure(fake: FakeFlink, pressure: dict[str, float], words: str) -> None:
    values = {
        "Status.JVM.Memory.Heap.Used": 95.0,
        "Status.JVM.Memory.Heap.Max": 100.0,
        "Status.JVM.GarbageCollector.All.TimeMsPerSecond": 400.0,
    }
    metrics = [{"id": name, "max": value} for name, value in values.items()]
    fake.intercept = lambda _method, path: (200, metrics) if path.startswith("/taskmanagers/metrics") else None
    with pytest.raises(RescaleRefusedError, match=words):
        preflight(fake, pressure=pressure).check_pressure()
    preflight(fake).check_pressure()  # off by default
