"""A stop-and-restart that was killed between stop and start is finished by 'flink resume', or by the next 'tune'."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engines.flink.fake_flink import FakeFlink
from streamtune.dataflow import Plan
from streamtune.engines.base import JobEndedError
from streamtune.engines.flink import FlinkClient, FlinkEngine, Program
from streamtune.engines.flink.journal import Journal, Underway, resume
from streamtune.errors import EngineError
from streamtune.outputs import unfinished_file

PLAN = Plan({"bids": 1, "Map": 3, "sink": 1})


def test_killed_after_the_stop_it_is_started_from_its_savepoint(fake: FakeFlink, tmp_path: Path) -> None:
    fake.scheduler = "default"
    journal = Journal(tmp_path)
    client = FlinkClient(fake.url, sleep=fake.clock.sleep, retries=0)
    engine = FlinkEngine(client, clock=fake.clock, program=Program("jar", "Main", ("--x",)), journal=journal)
    deployment = engine.attach()
    client_run = client.run_jar

    def die(*_arguments: object, **_options: object) -> str:
        raise KeyboardInterrupt  # as a kill would, nothing after this line runs

    client.run_jar = die  # type: ignore[method-assign, assignment]
    with pytest.raises(KeyboardInterrupt):
        engine.rescale(deployment, PLAN)
    assert fake.state == "FINISHED"  # stopped, with its savepoint on disk, and nobody to start it
    [entry] = journal.entries(fake.url)
    assert entry.savepoint == "file:/savepoints/s1"
    client.run_jar = client_run  # type: ignore[method-assign]
    said = resume(client, journal, entry, clock=fake.clock)
    assert "runs again" in said
    assert fake.degrees["work"] == 3
    assert fake.submitted[-1]["savepointPath"] == "file:/savepoints/s1"
    assert fake.submitted[-1]["programArgsList"] == ["--x"]
    assert journal.entries(fake.url) == []


def test_a_rescale_that_went_through_leaves_nothing_behind(fake: FakeFlink, tmp_path: Path) -> None:
    fake.scheduler = "default"
    journal = Journal(tmp_path)
    client = FlinkClient(fake.url, sleep=fake.clock.sleep, retries=0)
    engine = FlinkEngine(client, clock=fake.clock, program=Program("jar", "Main"), journal=journal)
    engine.rescale(engine.attach(), PLAN)
    assert fake.degrees["work"] == 3
    assert journal.entries(fake.url) == []


def test_a_job_that_runs_is_left_alone(fake: FakeFlink, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    client = FlinkClient(fake.url, sleep=fake.clock.sleep, retries=0)
    engine = FlinkEngine(client, clock=fake.clock, program=Program("jar"), journal=journal)
    entry = engine._rescaler._underway(fake.job_id, {}, PLAN, PLAN, Program("jar"))
    journal.write(entry)
    assert "nothing was left to do" in resume(client, journal, entry, clock=fake.clock)
    assert journal.entries(fake.url) == []
    assert fake.submitted == []


def test_a_job_that_finishes_while_it_is_waited_for_is_not_started_twice(
    fake: FakeFlink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the savepoint, whatever it did since would be done again."""
    fake.scheduler = "default"
    journal = Journal(tmp_path)
    client = FlinkClient(fake.url, sleep=fake.clock.sleep, retries=0)
    engine = FlinkEngine(client, clock=fake.clock, program=Program("jar"), journal=journal)
    deployment = engine.attach()
    run_jar = client.run_jar

    def short_job(*arguments: Any, **options: Any) -> str:
        started = run_jar(*arguments, **options)
        fake.state = "FINISHED"
        return started

    monkeypatch.setattr(client, "run_jar", short_job)
    with pytest.raises(JobEndedError, match="has done its work") as ended:
        engine.rescale(deployment, PLAN)
    assert ended.value.is_done
    assert len(fake.submitted) == 1
    assert journal.entries(fake.url) == []


def test_a_job_that_finished_after_a_kill_is_not_resumed(fake: FakeFlink, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    client = FlinkClient(fake.url, sleep=fake.clock.sleep, retries=0)
    entry = Underway(
        url=fake.url, job_id="b" * 32, job_name=fake.job_name, jar_id="jar", savepoint="file:/s", new_job_id=fake.job_id
    )
    journal.write(entry)
    fake.state = "FINISHED"
    assert "has done its work" in resume(client, journal, entry, clock=fake.clock)
    assert fake.submitted == []
    assert journal.entries(fake.url) == []


def test_without_a_savepoint_it_says_so(fake: FakeFlink, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    client = FlinkClient(fake.url, sleep=fake.clock.sleep, retries=0)
    engine = FlinkEngine(client, clock=fake.clock, program=Program("jar"), journal=journal)
    engine.attach()
    entry = engine._rescaler._underway(fake.job_id, {}, PLAN, PLAN, Program("jar"))
    fake.state = "CANCELED"
    with pytest.raises(EngineError, match="knows no savepoint"):
        resume(client, journal, entry, clock=fake.clock)


def test_what_a_killed_one_left_half_written_is_removed(tmp_path: Path) -> None:
    half = "from pathlib import Path; from streamtune.outputs import unfinished_file as unfinished; import sys; "
    half += "unfinished(Path(sys.argv[1]) / 'job.json').write_text('{')"
    subprocess.run([sys.executable, "-c", half, str(tmp_path)], check=True)
    assert len(list(tmp_path.iterdir())) == 1
    assert Journal(tmp_path).entries("http://flink") == []
    assert list(tmp_path.iterdir()) == []


def test_nothing_half_written_is_under_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before the file is in its place, all that is left is what the next one removes."""
    entry = Underway(url="http://flink", job_id="j", job_name="n", jar_id="jar")
    monkeypatch.setattr(Path, "replace", lambda *_: None)
    Journal(tmp_path).write(entry)
    [half] = tmp_path.iterdir()
    assert half == unfinished_file(tmp_path / "j.json")
    assert half.stat().st_mode & 0o077 == 0, "a job's arguments may hold its passwords"


def test_another_cluster_is_not_meant(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    (tmp_path / "broken.json").write_text("{")
    assert journal.entries("http://elsewhere") == []
