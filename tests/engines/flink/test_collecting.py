"""The collector: one record per settled window, through restarts and outages."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engines.flink.fake_flink import JOB, FakeFlink
from streamtune.cli import run as run_command
from streamtune.dataflow import Run
from streamtune.dataflow.run_files import RunFiles
from streamtune.engines.flink import FlinkClient, Overrides
from streamtune.engines.flink.collecting import Collector, CollectSettings, collect
from streamtune.errors import StreamTuneError

SETTINGS = CollectSettings(window_s=60.0, settle_s=30.0, poll_s=5.0)


def collector_of(fake: FakeFlink, told: list[str] | None = None) -> Collector:
    client = FlinkClient(fake.url, sleep=fake.clock.sleep, retries=0)
    return Collector(client, SETTINGS, clock=fake.clock, tell=(told if told is not None else []).append)


def ticks(fake: FakeFlink, collector: Collector, seconds: float) -> list[Run]:
    runs = []
    for _ in range(round(seconds / SETTINGS.poll_s)):
        runs += collector.tick()
        fake.clock.sleep(SETTINGS.poll_s)
    return runs


def test_one_record_per_window_once_settled(fake: FakeFlink) -> None:
    """30 s of settling, then a record at 90, 150 and 210 s."""
    runs = ticks(fake, collector_of(fake), 225)
    assert [round((run.observed_at - runs[0].observed_at).total_seconds()) for run in runs] == [0, 60, 120]
    assert runs[0].source_rates["bids"] == pytest.approx(400, rel=0.02)
    assert runs[0].engine == "flink"
    assert len({run.run_id for run in runs}) == 3


def test_a_restart_gives_no_record_and_begins_anew(fake: FakeFlink) -> None:
    collector = collector_of(fake)
    assert ticks(fake, collector, 60) == []
    fake.restart()
    assert ticks(fake, collector, 85) == []
    assert len(ticks(fake, collector, 30)) == 1


def test_a_new_job_id_is_followed(fake: FakeFlink) -> None:
    told: list[str] = []
    collector = collector_of(fake, told)
    ticks(fake, collector, 20)
    fake.job_id = "b" * 32
    fake.restart()
    runs = ticks(fake, collector, 120)
    assert [run.run_id[:40] for run in runs] == [f"flink-{'b' * 32}-"[:40]] or runs[0].run_id.startswith("flink-bbbb")
    assert any(f"job {JOB}" in line and "does not run" in line for line in told)


def test_a_job_manager_that_is_away_is_waited_for(fake: FakeFlink) -> None:
    told: list[str] = []
    collector = collector_of(fake, told)
    ticks(fake, collector, 40)
    fake.intercept = lambda _method, _path: (503, b"")
    assert ticks(fake, collector, 30) == []
    fake.intercept = lambda _method, _path: None
    assert len(ticks(fake, collector, 60)) == 1
    assert len([line for line in told if "waiting for it" in line]) == 1
    assert any("answers again" in line for line in told)


@pytest.mark.parametrize("jump_s", [-7200, -40, 40, 7200])
def test_a_clock_that_jumps_spoils_one_window_at_most(fake: FakeFlink, jump_s: float) -> None:
    """Put back by two hours, it once waited for two hours."""
    collector = Collector(FlinkClient(fake.url, sleep=fake.clock.sleep, retries=0), SETTINGS, clock=fake.clock)
    assert len(ticks(fake, collector, 105)) == 1
    fake.clock.jump(jump_s)  # the JobManager's too
    runs = ticks(fake, collector, 150)
    assert len(runs) >= 2
    for run in runs:
        assert run.source_rates["bids"] == pytest.approx(400, rel=0.02)
        assert run.window_s == pytest.approx(60, abs=6)


def test_records_wait_for_a_disk_with_room(fake: FakeFlink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    files, write = RunFiles(tmp_path), RunFiles.write
    full_until = fake.clock.now() + timedelta(seconds=170)

    def written(self: RunFiles, runs: list[Run]) -> Path | None:
        if runs and fake.clock.now() < full_until:
            raise StreamTuneError(f"{tmp_path} cannot be written: No space left on device")
        return write(self, runs)

    monkeypatch.setattr(RunFiles, "write", written)
    assert collect(collector_of(fake, told), files, SETTINGS, clock=fake.clock, limit=3) == 3
    assert sum(file.read_text().count("\n") for file in tmp_path.glob("*.jsonl")) == 3
    assert len([line for line in told if "No space left" in line]) == 1
    full_until = fake.clock.now() + timedelta(days=1)
    with pytest.raises(StreamTuneError, match="No space left"):  # the time is up, and there is still none
        collect(collector_of(fake, told), files, SETTINGS, clock=fake.clock, duration_s=200)


def test_overrides_for_other_jobs_do_no_harm(fake: FakeFlink) -> None:
    known = Overrides.model_validate({"operators": {"Map": {"type": "join"}, "elsewhere": {"type": "filter"}}})
    client = FlinkClient(fake.url, sleep=fake.clock.sleep, retries=0)
    runs = ticks(fake, Collector(client, SETTINGS, clock=fake.clock, overrides=known), 100)
    assert [operator.type for operator in runs[0].operators] == ["source", "join", "sink"]


def test_records_are_files_that_read_back(fake: FakeFlink, tmp_path: Path) -> None:
    written = collect(collector_of(fake), RunFiles(tmp_path), SETTINGS, clock=fake.clock, duration_s=160)
    assert written == 2
    lines = [line for file in sorted(tmp_path.glob("*.jsonl")) for line in file.read_text().splitlines()]
    assert [Run.model_validate(json.loads(line)).job for line in lines] == ["fake", "fake"]
    assert not list(tmp_path.glob(".*"))


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StreamTuneError, match="cannot be written"):
        RunFiles(tmp_path / "file" / "out")


def test_a_rate_that_the_overrides_say_is_what_was_offered(fake: FakeFlink) -> None:
    """The fake offers 400/s. ``tune`` has always taken the 4,000/s of the overrides; ``collect`` recorded the 400."""
    known = Overrides.model_validate({"operators": {"bids": {"rate": 4000}}})
    client = FlinkClient(fake.url, sleep=fake.clock.sleep, retries=0)
    runs = ticks(fake, Collector(client, SETTINGS, clock=fake.clock, overrides=known), 100)
    assert [run.source_rates["bids"] for run in runs] == [4000.0]


def test_a_guess_is_as_large_as_the_setting_allows(fake: FakeFlink) -> None:
    """Held up and without a lag, 100/s are taken: the middle of 100 and 150, not of 100 and 400."""
    fake.reports_lag = False
    client = FlinkClient(fake.url, sleep=fake.clock.sleep, retries=0)
    [run] = ticks(fake, Collector(client, SETTINGS, clock=fake.clock, largest_guess=1.5), 100)
    assert run.rate_origins == {"bids": "estimated"}
    assert run.source_rates["bids"] == pytest.approx(100 * math.sqrt(1.5), rel=0.02)


def test_the_command_knows_the_setting(fake: FakeFlink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    class Noting(Collector):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            given.append(options["largest_guess"])
            super().__init__(*arguments, **options)

    monkeypatch.setattr("streamtune.engines.flink.collecting.Collector", Noting)
    (tmp_path / "streamtune.yaml").write_text("engines: {flink: {largest_guess: 1.5}}")
    words = ("collect", "--url", fake.url, "--out", str(tmp_path / "out"), "--duration-s", "0")
    assert run_command(["--config", str(tmp_path / "streamtune.yaml"), *words]) == 0
    assert given == [1.5]


class Fetching(FakeFlink):
    """Its counters are those of the JobManager's last fetch, which are ten seconds apart."""

    @property
    def now_s(self) -> float:
        return super().now_s // 10 * 10


def test_a_short_window_waits_until_its_counters_have_covered_it() -> None:
    """16 s were asked for; of those, fetches ten seconds apart may show only ten."""
    settings = CollectSettings(window_s=16.0, settle_s=30.0, poll_s=4.0)
    with Fetching() as fake:
        client = FlinkClient(fake.url, sleep=fake.clock.sleep, retries=0)
        collector, runs = Collector(client, settings, clock=fake.clock), []
        for _ in range(60):
            runs += collector.tick()
            fake.clock.sleep(settings.poll_s)
    assert len(runs) >= 5
    assert min(run.window_s for run in runs) == 20
