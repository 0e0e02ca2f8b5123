"""A stop-and-restart that was killed between stop and start is finished by 'flink resume', or by the next 'tune'."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engines.flink.fake_flink import FakeFlink
from streamtune.dataflow import Plan
from streamtune.engines.base import JobEndedError
from streamtune.engines.flink import FlinkClient, FlinkEngine, FlinkSettings, Program, RescaleSettings
from streamtune.engines.flink.client import FlinkUnreachableError
from streamtune.engines.flink.journal import Journal, Owner, Underway
from streamtune.engines.flink.resuming import resume, resume_all
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


def client_of(fake: FakeFlink) -> FlinkClient:
    return FlinkClient(fake.url, sleep=fake.clock.sleep, retries=0)


def noted(fake: FakeFlink, journal: Journal, **known: Any) -> Underway:
    """What a process wrote down that was killed since."""
    known = {"owner": Owner(host="elsewhere", process=1), "job_id": fake.job_id} | known
    return journal._write(Underway(url=fake.url, job_name=fake.job_name, jar_id="jar", **known))


def listed(state: str, *, job_id: str = "c" * 32, name: str = "fake", start: int = 2) -> dict[str, Any]:
    return {"jid": job_id, "name": name, "state": state, "start-time": start}


@pytest.mark.parametrize("trigger", [None, "never-sent"])
def test_a_job_whose_stop_never_began_is_left_alone_after_a_while(
    fake: FakeFlink, tmp_path: Path, trigger: str | None
) -> None:
    journal = Journal(tmp_path)
    entry = noted(fake, journal, trigger=trigger)
    assert "was not stopped: nothing was left to do" in resume(client_of(fake), journal, entry, clock=fake.clock)
    assert fake.clock.steady() == pytest.approx(15, abs=1), "a request to stop may still be on its way"
    assert journal.entries(fake.url) == []
    assert fake.submitted == []


def test_a_stop_under_way_is_followed_to_its_end(fake: FakeFlink, tmp_path: Path) -> None:
    """Killed while the savepoint was written, the job still ran: the entry was dropped, and it stayed down after."""
    fake.trigger, fake.savepoint_takes = "mine", 100
    journal = Journal(tmp_path)
    entry = noted(fake, journal, trigger="mine")
    said = resume(client_of(fake), journal, entry, clock=fake.clock)
    assert "runs again" in said
    assert fake.clock.steady() > 15
    assert [body["savepointPath"] for body in fake.submitted] == ["file:/savepoints/s1"]
    assert journal.entries(fake.url) == []


def test_a_stop_under_way_without_its_trigger_is_seen_by_its_savepoint(fake: FakeFlink, tmp_path: Path) -> None:
    """As older entries have none: the history of checkpoints tells."""
    journal = Journal(tmp_path)
    entry = noted(fake, journal)

    def answer(_method: str, path: str) -> tuple[int, Any] | None:
        if not path.endswith("/checkpoints"):
            return None
        if fake.clock.steady() < 100:
            return 200, {"history": [{"id": 7, "status": "IN_PROGRESS", "is_savepoint": True}]}
        fake.state = "FINISHED"
        return 200, {"latest": {"savepoint": {"id": 7, "external_path": "file:/s7"}}}

    fake.intercept = answer
    assert "runs again" in resume(client_of(fake), journal, entry, clock=fake.clock)
    assert fake.submitted[-1]["savepointPath"] == "file:/s7"


def test_a_stop_that_fails_leaves_the_job_as_it_is(fake: FakeFlink, tmp_path: Path) -> None:
    fake.trigger, fake.savepoint_failure = "mine", "java.io.IOException: disk full"
    journal = Journal(tmp_path)
    entry = noted(fake, journal, trigger="mine")
    assert "was not stopped, its savepoint failed" in resume(client_of(fake), journal, entry, clock=fake.clock)
    assert journal.entries(fake.url) == []


def test_a_stop_that_takes_too_long_is_kept_for_later(fake: FakeFlink, tmp_path: Path) -> None:
    fake.trigger, fake.savepoint_takes = "mine", 10**6
    journal = Journal(tmp_path)
    entry = noted(fake, journal, trigger="mine")
    settings = RescaleSettings(savepoint_timeout_s=20.0)
    with pytest.raises(EngineError, match="is still being stopped after 20 s"):
        resume(client_of(fake), journal, entry, clock=fake.clock, settings=settings)
    assert len(journal.entries(fake.url)) == 1


@pytest.mark.parametrize("state", ["INITIALIZING", "CREATED", "RESTARTING", "FAILING"])
@pytest.mark.parametrize("by", ["id", "name"])
def test_nothing_is_started_beside_a_job_that_is_alive(fake: FakeFlink, tmp_path: Path, state: str, by: str) -> None:
    """Only RUNNING counted: a job submitted just before the kill was started a second time."""
    fake.state = "FINISHED"
    new_id, name = ("c" * 32, "renamed") if by == "id" else ("d" * 32, "fake")
    fake.other_jobs = [listed(state, job_id=new_id, name=name)]
    fake.intercept = lambda _method, path: (200, {"status": state}) if f"/jobs/{new_id}/status" in path else None
    journal, settings = Journal(tmp_path), RescaleSettings(timeout_s=3.0)
    entry = noted(fake, journal, savepoint="file:/s", new_job_id="c" * 32)
    said = resume(client_of(fake), journal, entry, clock=fake.clock, settings=settings)
    assert f"is {state}: nothing is started beside it" in said
    assert fake.submitted == []
    assert len(journal.entries(fake.url)) == 1, "it may fail yet"
    fake.other_jobs = [listed("RUNNING", job_id=new_id, name=name)]
    assert "runs: nothing was left to do" in resume(client_of(fake), journal, entry, clock=fake.clock)
    assert journal.entries(fake.url) == []


def test_a_twin_that_ran_before_is_not_the_job(fake: FakeFlink, tmp_path: Path) -> None:
    fake.state = "FINISHED"
    fake.other_jobs = [listed("RUNNING", start=0)]
    journal = Journal(tmp_path)
    entry = noted(fake, journal, savepoint="file:/s")
    assert "runs again" in resume(client_of(fake), journal, entry, clock=fake.clock)


def test_the_new_job_has_the_id_that_was_noted_before(fake: FakeFlink, tmp_path: Path) -> None:
    """Flink takes a job of one id once: a submission still on its way when its process was killed is no second job."""
    fake.scheduler = "default"
    journal, seen = Journal(tmp_path), list[Underway]()

    def note(method: str, _path: str) -> None:
        if method == "POST":
            seen.extend(journal.entries(fake.url))

    fake.intercept = note
    engine = FlinkEngine(client_of(fake), clock=fake.clock, program=Program("jar"), journal=journal)
    engine.rescale(engine.attach(), PLAN)
    before_stop, before_start = seen
    assert before_stop.trigger == fake.trigger, "noted before Flink was told to stop the job"
    assert before_start.new_job_id == fake.submitted[-1]["jobId"] == fake.job_id
    assert before_start.owner == Owner.this_process()


def test_an_answer_that_is_lost_is_no_second_start(
    fake: FakeFlink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request to start had arrived: starting the last plan beside it would have made two jobs."""
    fake.scheduler = "default"
    client = client_of(fake)
    text_field = client._text_field

    def lose(method: str, path: str, field: str, **options: Any) -> str:
        answer = text_field(method, path, field, **options)
        if path.endswith("/run"):
            raise FlinkUnreachableError("did not answer in time")
        return answer

    monkeypatch.setattr(client, "_text_field", lose)
    engine = FlinkEngine(client, clock=fake.clock, program=Program("jar"), journal=Journal(tmp_path))
    engine.rescale(engine.attach(), PLAN)
    assert len(fake.submitted) == 1
    assert fake.degrees["work"] == 3


def test_a_submission_that_was_still_on_its_way_is_taken_for_the_own(fake: FakeFlink, tmp_path: Path) -> None:
    """The killed process had asked for the same job: Flink 2.3 refuses the second request, and the job runs."""
    fake.state = "FINISHED"
    journal = Journal(tmp_path)
    entry = noted(fake, journal, savepoint="file:/s", job_id="b" * 32, new_job_id="c" * 32)

    def refuse(_method: str, path: str) -> tuple[int, Any] | None:
        if not path.endswith("/run"):
            return None
        fake.state, fake.job_id, fake.job_name = "RUNNING", "c" * 32, "fake"
        return 400, {"errors": ["DuplicateApplicationSubmissionException: Application has already been submitted."]}

    fake.intercept, fake.job_name = refuse, "another"
    said = resume(client_of(fake), journal, entry.model_copy(update={"job_name": "fake"}), clock=fake.clock)
    assert f"runs again as {'c' * 32}" in said


def test_what_the_new_job_has_done_is_not_done_twice(fake: FakeFlink, tmp_path: Path) -> None:
    """It failed an hour after it was started again: from the old savepoint, that hour would be done again."""
    journal = Journal(tmp_path)
    entry = noted(fake, journal, savepoint="file:/s", job_id="b" * 32, new_job_id=fake.job_id)
    fake.state = "FAILED"
    with pytest.raises(EngineError, match=r"start it by hand from its last checkpoint, file:/c/9; .* --forget b"):
        resume(client_of(fake), journal, entry, clock=fake.clock)
    assert fake.submitted == []


def test_a_savepoint_from_before_the_stop_is_not_taken(fake: FakeFlink, tmp_path: Path) -> None:
    """The job ended by itself; a savepoint of last week would undo a week."""
    fake.state, fake.savepoint_takes = "FINISHED", None
    old = {"id": 3, "trigger_timestamp": 1000, "external_path": "file:/old"}
    newer = {"id": 4, "trigger_timestamp": 2000, "external_path": "file:/c"}
    fake.intercept = lambda _method, path: (
        (200, {"latest": {"savepoint": old, "completed": newer}}) if path.endswith("/checkpoints") else None
    )
    journal = Journal(tmp_path)
    with pytest.raises(EngineError, match="knows no savepoint that it was stopped with"):
        resume(client_of(fake), journal, noted(fake, journal), clock=fake.clock)


def test_a_rescale_that_another_process_is_at_is_left_to_it(fake: FakeFlink, tmp_path: Path) -> None:
    """A second tune on the same cluster started the job that the first was about to start."""
    fake.state = "FINISHED"
    journal, told = Journal(tmp_path), list[str]()
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as alive:
        owner = Owner.of(alive.pid)
        entry = noted(fake, journal, savepoint="file:/s", owner=owner)
        resume_all(client_of(fake), journal, told.append, clock=fake.clock)
        assert told == [f"job {entry.job_id} (fake) is being restarted by process {alive.pid}: left to it"]
        assert fake.submitted == []
        # Another process that has the number of one that is gone is not its owner.
        noted(fake, journal, savepoint="file:/s", owner=owner.model_copy(update={"started": "another"}))
        resume_all(client_of(fake), journal, told.append, clock=fake.clock)
        alive.communicate()
    assert "runs again" in told[-1]
    assert not owner.is_somebody_else_alive


def test_an_entry_without_owner_is_read_as_before(fake: FakeFlink, tmp_path: Path) -> None:
    fake.state = "FINISHED"
    entry = {"url": fake.url, "job_id": fake.job_id, "job_name": "fake", "jar_id": "jar", "savepoint": "file:/s"}
    (tmp_path / f"{fake.job_id}.json").write_text(json.dumps(entry))
    journal, told = Journal(tmp_path), list[str]()
    assert resume_all(client_of(fake), journal, told.append, clock=fake.clock) == []
    assert "runs again" in told[0]


def test_what_went_wrong_in_a_living_process_is_free_for_others(fake: FakeFlink, tmp_path: Path) -> None:
    """A watch lives on after a restart that failed: its entry is nobody's then."""
    fake.scheduler = "default"
    fake.intercept = lambda _method, path: (400, {"errors": ["no such jar"]}) if path.endswith("/run") else None
    journal = Journal(tmp_path)
    engine = FlinkEngine(client_of(fake), clock=fake.clock, program=Program("jar"), journal=journal)
    with pytest.raises(EngineError, match="the job is DOWN"):
        engine.rescale(engine.attach(), PLAN)
    [entry] = journal.entries(fake.url)
    assert entry.owner is None
    assert entry.savepoint == "file:/savepoints/s1"


def test_a_savepoint_that_comes_late_is_kept_in_mind(fake: FakeFlink, tmp_path: Path) -> None:
    """The rescale gave up waiting, and the job is stopped all the same, minutes later."""
    fake.scheduler, fake.savepoint_takes = "default", 10**6
    journal = Journal(tmp_path)
    settings = FlinkSettings(rescale=RescaleSettings(savepoint_timeout_s=5.0))
    engine = FlinkEngine(client_of(fake), clock=fake.clock, program=Program("jar"), journal=journal, settings=settings)
    with pytest.raises(EngineError, match="then 'streamtune flink resume' starts it again"):
        engine.rescale(engine.attach(), PLAN)
    fake.savepoint_takes = 0
    [entry] = journal.entries(fake.url)
    assert "runs again" in resume(client_of(fake), journal, entry, clock=fake.clock)


def test_an_entry_that_cannot_be_finished_stands_in_no_other_jobs_way(fake: FakeFlink, tmp_path: Path) -> None:
    """The error names the file and how to be rid of it; of the job itself it is raised."""
    fake.state = "CANCELED"
    journal, told = Journal(tmp_path), list[str]()
    entry = noted(fake, journal)
    assert len(resume_all(client_of(fake), journal, told.append, clock=fake.clock)) == 1
    assert told[0].startswith("warning: job aaaa")
    assert f"streamtune flink resume --forget {entry.job_id} (noted in {journal.path_of(entry)})" in told[0]
    with pytest.raises(EngineError, match="--forget"):
        resume_all(client_of(fake), journal, told.append, needed=lambda one: one.is_called("fake"), clock=fake.clock)


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


def test_an_id_leads_to_no_other_folder(tmp_path: Path) -> None:
    """Whoever answers instead of Flink chooses the ids of jobs."""
    journal = Journal(tmp_path / "notes")
    entry = journal.write(Underway(url="http://flink", job_id="../../outside", job_name="x", jar_id="jar"))
    assert [path.parent.name for path in tmp_path.rglob("*.json")] == ["notes"]
    assert journal.entries("http://flink") == [entry]
    other = tmp_path / "notes" / "other.json"
    other.write_text(entry.model_dump_json())
    assert journal.entries("http://flink") == [entry]  # the other file is not where that job's would be
    journal.done(entry)
    assert list(tmp_path.rglob("*.json")) == [other]
