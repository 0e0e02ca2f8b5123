"""The stream and the batch give the same tables, row for row, whatever happens on the way."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from streamtune.errors import StreamTuneError
from streamtune.sundog.knowledge import load_knowledge
from streamtune.sundog.panes import Panes
from streamtune.sundog.pipeline import Sundog
from streamtune.sundog.places import day_of_number
from streamtune.sundog.settings import RankDays, StreamSettings, SundogSettings
from streamtune.sundog.stream import BatchReport, follow, stream_writer
from sundog.examples import make_lines
from sundog.test_pipeline import read_tables

pytestmark = pytest.mark.spark

WriteLog = Callable[[Path, list[Any]], Path]
SETTINGS = SundogSettings(buckets=2, compact_after=3)
LATE_DAYS = 1  # the newest day and the one before it are kept up to date


def fresh_days(sundog: Sundog) -> list[date]:
    """The days whose tables a stream keeps up to date."""
    newest = day_of_number(sundog.panes.require(sundog.knowledge.fingerprint).days[-1])
    return [newest - timedelta(days=back) for back in range(LATE_DAYS + 1)]


def drain(sundog: Sundog, folder: Path, **settings: Any) -> list[BatchReport]:
    reports: list[BatchReport] = []
    asked = StreamSettings(once=True, windows=(2, 7), **{"max_files": 1, "late_days": LATE_DAYS, **settings})
    follow(sundog, str(folder), asked, on_batch=reports.append).awaitTermination()
    return reports


def assert_same_tables(one: Path, other: Path) -> None:
    """On the days that ``other`` has: a stream has also ranked days that it no longer keeps up to date."""
    for table in ("features", "rankings"):
        here, there = read_tables(one, table), read_tables(other, table)
        here = here[here["day"].isin(set(there["day"]))].reset_index(drop=True)
        pd.testing.assert_frame_equal(here, there, check_categorical=False)
    broken = [
        pd.read_parquet(out / "quarantine").sort_values(["file", "position"]).reset_index(drop=True)
        for out in (one, other)
    ]
    pd.testing.assert_frame_equal(*broken)


def test_same_tables_after_a_crash_with_late_lines(
    spark: SparkSession,
    tmp_path: Path,
    knowledge_folder: Path,
    write_log: WriteLog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = make_lines(240)
    random.Random(1).shuffle(lines)  # every file has lines of all days: most of them late
    for number in range(4):
        write_log(tmp_path / f"in/{number}.jsonl", [*lines[60 * number : 60 * number + 60], "oops"])
    knowledge = load_knowledge(knowledge_folder)
    stream = Sundog(spark, knowledge, str(tmp_path / "stream"), SETTINGS)

    commit, calls = Panes.commit, []

    def die_after_the_second_commit(panes: Panes, state: Any) -> Any:
        calls.append(commit(panes, state))
        if len(calls) == 2:
            raise RuntimeError("killed by the test")
        return calls[-1]

    with monkeypatch.context() as patch:
        patch.setattr(Panes, "commit", die_after_the_second_commit)
        with pytest.raises(StreamingQueryException, match="killed by the test"):
            drain(stream, tmp_path / "in")
    after = drain(stream, tmp_path / "in", parallel_rankings=3)
    assert [report.new for report in after] == [False, True, True], "the second batch was counted before it was killed"
    state = stream.panes.require(knowledge.fingerprint)
    assert state.counts.lines == 244
    assert state.counts.broken == 4
    assert len(state.parts) == 2, "parts were merged"
    assert drain(stream, tmp_path / "in") == [], "nothing new, nothing done"

    batch = Sundog(spark, knowledge, str(tmp_path / "batch"), SundogSettings(buckets=3))
    batch.run([str(tmp_path / "in")], fresh_days(stream), [2, 7])
    assert_same_tables(tmp_path / "stream", tmp_path / "batch")


def test_a_writer_is_not_started_and_takes_the_checkpoint_of_who_starts_it(
    spark: SparkSession, tmp_path: Path, knowledge_folder: Path, write_log: WriteLog
) -> None:
    """As auto-configuration does: a new folder and a new checkpoint for every run."""
    write_log(tmp_path / "in/0.jsonl", make_lines(20))
    stream = Sundog(spark, load_knowledge(knowledge_folder), str(tmp_path / "out"), SETTINGS)
    writer = stream_writer(stream, str(tmp_path / "in"), StreamSettings(rank=RankDays.none))
    assert stream.panes.load() is None
    query = writer.option("checkpointLocation", str(tmp_path / "ours")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert stream.panes.require(stream.knowledge.fingerprint).counts.lines == 20
    assert sum(report["numInputRows"] for report in query.recentProgress) == 1, "Spark's rows are files"
    assert not Path(stream.checkpoint).exists()


def test_hostile_names_and_links_are_read_once(
    spark: SparkSession, tmp_path: Path, knowledge_folder: Path, write_log: WriteLog
) -> None:
    """A name that is a pattern too, and a link in a circle, by which Spark finds a file forty times."""
    lines = make_lines(60)
    for number, name in enumerate(("a[1].jsonl", "a1.jsonl", "b{x,y}.jsonl", "day/e*f.jsonl")):
        write_log(tmp_path / "in" / name, lines[15 * number : 15 * number + 15])
    (tmp_path / "in/day/again").symlink_to(tmp_path / "in/day")
    stream = Sundog(spark, load_knowledge(knowledge_folder), str(tmp_path / "stream"), SETTINGS)
    drain(stream, tmp_path / "in", max_files=1000, rank=RankDays.none)
    assert stream.panes.require(stream.knowledge.fingerprint).counts.lines == 60
    (tmp_path / "in/day/and-again").symlink_to(tmp_path / "in/day")
    with pytest.raises(StreamTuneError, match="cannot be followed: its links"):
        drain(stream, tmp_path / "in")


def test_retention_and_lost_checkpoints(
    spark: SparkSession, tmp_path: Path, knowledge_folder: Path, write_log: WriteLog
) -> None:
    knowledge = load_knowledge(knowledge_folder)
    stream = Sundog(
        spark, knowledge, str(tmp_path / "out"), SundogSettings(buckets=2, compact_after=2, retention_days=3)
    )
    for number in range(2):
        write_log(tmp_path / f"in/{number}.jsonl", make_lines(40, seed=number))
    future = {"user": "u", "time": "2999-01-01", "query": "nyc city hall"}
    write_log(tmp_path / "in/2.jsonl", [future])
    reports = drain(stream, tmp_path / "in", rank=RankDays.newest)
    assert {ranked.day for report in reports for ranked in report.rankings} == {date(2014, 1, 19)}
    state = stream.panes.require(knowledge.fingerprint)
    first, last = (date(2014, 1, 17) - date(1970, 1, 1)).days, (date(2014, 1, 19) - date(1970, 1, 1)).days
    assert state.days[:-1] == tuple(range(first, last + 1)), "three days, and one clock that is wrong"
    with pytest.raises(StreamTuneError, match="belongs to a stream"):
        stream.run([str(tmp_path / "in")], [date(2014, 1, 19)], [7])
    shutil.rmtree(stream.checkpoint)
    with pytest.raises(StreamTuneError, match="would count twice"):
        drain(stream, tmp_path / "in")


FOLLOWER = """
import sys
from streamtune.spark.session import build_session
from streamtune.spark.settings import SparkSettings
from streamtune.sundog.settings import SundogSettings
from streamtune.sundog.knowledge import load_knowledge
from streamtune.sundog.pipeline import Sundog
from streamtune.sundog.stream import follow
from streamtune.sundog.settings import StreamSettings

knowledge, folder, out = sys.argv[1:]
quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "spark.ui.enabled": "false"}
spark = build_session(SparkSettings(master="local[2]", conf=quick))
sundog = Sundog(spark, load_knowledge(knowledge), out, SundogSettings(buckets=2, compact_after=3))
settings = StreamSettings(once=True, windows=(2, 7), max_files=1, late_days=1)
print("ready", flush=True)
follow(sundog, folder, settings, on_batch=lambda report: print("batch", flush=True)).awaitTermination()
print("done", flush=True)
"""


@pytest.mark.slow
def test_killed_at_random_moments(
    spark: SparkSession, tmp_path: Path, knowledge_folder: Path, write_log: WriteLog
) -> None:
    """SIGKILL to the whole job; SUNDOG_KILLS=20 for the full count."""
    kills = int(os.environ.get("SUNDOG_KILLS", "1"))
    draw, killed, delivered = random.Random(4), 0, 0
    for _ in range(3 * kills + 3):
        for _ in range(3):  # so that there is something to do whenever it is killed
            delivered += 1
            write_log(tmp_path / f"in/{delivered:03d}.jsonl", [*make_lines(30, seed=delivered), "oops"])
        killed += not run_follower(knowledge_folder, tmp_path / "in", tmp_path / "stream", draw.uniform(0.2, 6.0))
        if killed == kills:
            break
    assert killed == kills, "it should have been killed in the middle of its work"
    assert run_follower(knowledge_folder, tmp_path / "in", tmp_path / "stream", None)
    batch = Sundog(spark, load_knowledge(knowledge_folder), str(tmp_path / "batch"), SETTINGS)
    stream = Sundog(spark, load_knowledge(knowledge_folder), str(tmp_path / "stream"), SETTINGS)
    batch.run([str(tmp_path / "in")], fresh_days(stream), [2, 7])
    assert_same_tables(tmp_path / "stream", tmp_path / "batch")


def run_follower(knowledge: Path, folder: Path, out: Path, kill_after_s: float | None) -> bool:
    """Whether it came to its end; it is killed ``kill_after_s`` seconds after it was ready."""
    command = [sys.executable, "-c", FOLLOWER, str(knowledge), str(folder), str(out)]
    job = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True, text=True
    )
    assert job.stdout is not None
    assert job.stdout.readline() == "ready\n"
    if kill_after_s is None:
        answer, _ = job.communicate(timeout=180 + 10 * len(list(folder.iterdir())))  # a batch per file that is left
        return answer.endswith("done\n")
    time.sleep(kill_after_s)
    done = job.poll() is not None
    os.killpg(job.pid, signal.SIGKILL)
    job.communicate()
    return done
