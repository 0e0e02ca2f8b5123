"""The local cluster without starting one: ports, folders, configuration; and the commands around it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from engines.flink.fake_flink import FakeFlink
from streamtune.cli import main
from streamtune.errors import EngineError
from streamtune.labs.flink import ClusterSettings, FlinkDistribution, LocalCluster
from streamtune.labs.flink.cluster import ClusterProcess, free_port
from streamtune.labs.flink.distribution import HOME_VARIABLE
from streamtune.labs.flink.jar import workload_jar


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["streamtune", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code if isinstance(caught.value.code, int) else 0


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_busy_port_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        cluster = LocalCluster(tmp_path, ClusterSettings(port=taken.getsockname()[1]))
        with pytest.raises(EngineError, match=r"port \d+ is in use"):
            cluster.up()
    assert cluster.processes() == []
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_it_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert run(monkeypatch, "flink", "up", "--port", str(taken.getsockname()[1])) == 2
    assert "choose a free one with --port" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.jvm
def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A 'Flink' without classes: its JVM ends at once, and so must everything else."""
    home = tmp_path / "empty"
    (home / "lib").mkdir(parents=True)
    (home / "lib" / "flink-dist-9.9.9.jar").write_bytes(b"")
    cluster = LocalCluster(tmp_path / "state", ClusterSettings(port=free_port()), FlinkDistribution(home))
    started: list[ClusterProcess] = []
    remember = cluster._remember

    def note(processes: list[ClusterProcess]) -> None:
        started.extend(processes)
        remember(processes)

    monkeypatch.setattr(cluster, "_remember", note)
    with pytest.raises(EngineError, match="ended immediately"):
        cluster.up()
    assert started
    assert not any(process.is_running(cluster.folder) for process in started)
    assert cluster.processes() == []


def test_a_pid_that_belongs_to_someone_else_is_not_ours(tmp_path: Path) -> None:
    stranger = ClusterProcess("jobmanager", os.getpid())
    assert not stranger.is_running(tmp_path / "no-such-cluster")
    cluster = LocalCluster(tmp_path, ClusterSettings())
    cluster._remember([stranger])
    assert cluster.down() == []


def test_a_process_of_ours_is_stopped(tmp_path: Path) -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", str(tmp_path.resolve())])
    cluster = LocalCluster(tmp_path, ClusterSettings())
    cluster._remember([ClusterProcess("taskmanager-1", sleeper.pid)])
    assert cluster.down() == ["taskmanager-1"]
    assert not ClusterProcess("taskmanager-1", sleeper.pid).is_running(tmp_path)
    sleeper.wait(timeout=5)


def test_a_damaged_state_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(EngineError, match="is damaged"):
        LocalCluster(tmp_path, ClusterSettings()).processes()


def test_the_configuration_is_what_was_asked_for(tmp_path: Path) -> None:
    ClusterSettings(port=1234, slots=7, scheduler="default").write(tmp_path / "conf", 4321)
    options = yaml.safe_load((tmp_path / "conf" / "config.yaml").read_text())
    assert options["rest.port"] == 1234
    assert options["taskmanager.numberOfTaskSlots"] == 7
    assert options["jobmanager.scheduler"] == "default"
    assert options["rest.bind-address"] == "127.0.0.1"


def test_every_slot_has_managed_memory_for_sql_operators() -> None:
    """Without any, a job with a rank, a join or RocksDB does not start."""
    assert "taskmanager.memory.managed.size=168m" in ClusterSettings(slots=7).task_manager_options()


def test_a_folder_that_is_no_flink(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    with pytest.raises(EngineError, match="is no Flink"):
        FlinkDistribution.find()


@pytest.mark.jvm
def test_the_workload_is_compiled_once(tmp_path: Path) -> None:
    distribution = FlinkDistribution.find()
    jar = workload_jar(distribution, tmp_path)
    modified = jar.stat().st_mtime_ns
    assert workload_jar(distribution, tmp_path).stat().st_mtime_ns == modified
    assert distribution.version in jar.name
    assert [path.name for path in tmp_path.iterdir()] == [jar.name]


def test_status_of_nothing_and_of_something(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fake: FakeFlink
) -> None:
    assert run(monkeypatch, "flink", "status", "--port", str(free_port()), "--json") == 1
    assert json.loads(capsys.readouterr().out)["up"] is False
    assert run(monkeypatch, "flink", "status", "--url", fake.url, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["up"], found["version"], found["slots_free"]) == (True, "2.3.0", 19)


def test_plan_shows_how_a_job_is_understood(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fake: FakeFlink
) -> None:
    assert run(monkeypatch, "flink", "plan", "--url", fake.url, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [operator["type"] for operator in found["operators"]] == ["source", "map", "sink"]
    assert found["plan"] == {"bids": 1, "Map": 1, "sink": 1}
    assert run(monkeypatch, "flink", "plan", "--url", fake.url) == 0


def test_down_without_a_cluster(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "flink", "down", "--port", str(free_port())) == 0
    assert "no cluster started by StreamTune" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["up", "down", "status", "submit", "rates", "plan"])
def test_help_has_examples(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert run(monkeypatch, "flink", command, "--help") == 0
    assert f"streamtune flink {command}" in capsys.readouterr().out.split("Example", 1)[1]


def test_a_program_that_is_told_to_end_takes_its_cluster_along(tmp_path: Path) -> None:
    """SIGTERM in the middle of a ``with`` block; the 'cluster' is a sleeping process in a cluster's folder."""
    program = f"""
import subprocess, sys, time
from pathlib import Path
from streamtune.labs.flink.cluster import ClusterProcess, ClusterSettings, LocalCluster
class Pretended(LocalCluster):
    def up(self):
        sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", str(self.folder)])
        self._remember([ClusterProcess("jobmanager", sleeper.pid)])
with Pretended(Path({str(tmp_path)!r}), ClusterSettings()) as cluster:
    print(cluster.processes()[0].pid, flush=True)
    time.sleep(60)
"""
    running = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    pid = int(running.stdout.readline())
    running.terminate()
    assert running.wait(timeout=30) == 143
    assert not ClusterProcess("jobmanager", pid).is_running(tmp_path.resolve())
