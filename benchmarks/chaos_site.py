"""Where chaos is made: a job whose every record can be counted, and ``streamtune tune`` at work on it.

The job (``chaos_jobs/NumberedJob.java``) sends the numbers 0 … N − 1 once each and writes them to files that only a
checkpoint makes visible. When it has finished, every number must be in them exactly once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from streamtune.control.audit import read_audit
from streamtune.engines.flink import FlinkClient
from streamtune.engines.flink.client import FlinkNotFoundError, FlinkUnreachableError
from streamtune.labs.flink import FlinkDistribution, LocalCluster
from streamtune.labs.flink.cluster import free_port
from streamtune.labs.flink.jar import compile_jar
from streamtune.labs.flink.settings import ClusterSettings

SOURCES = Path(__file__).parent / "chaos_jobs"
PATIENCE_S = 100.0
# A process that is gone is missed within seconds, and a checkpoint that fails does not restart the job.
QUICK = {
    "heartbeat.interval": 1000,
    "heartbeat.timeout": 8000,
    "execution.checkpointing.tolerable-failed-checkpoints": 1000,
}


class ChaosError(Exception):
    """A scenario that could not be played to its end: what was waited for did not come."""


def wait_for(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S, every_s: float = 0.2) -> None:
    """Wait until it holds; Flink may be away meanwhile."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except (FlinkUnreachableError, FlinkNotFoundError):
            pass
        time.sleep(every_s)
    raise ChaosError(f"{what} did not happen within {patience_s:g} s")


def settings_of(**more: Any) -> ClusterSettings:
    options = {**QUICK, **more.pop("options", {})}
    given = {"slots": 8, "task_heap_mb": 160, "network_mb": 48, "managed_mb_per_slot": 4, "start_timeout_s": 120.0}
    return ClusterSettings.model_validate({"port": free_port(), **given, **more, "options": options})


def make_jar(distribution: FlinkDistribution, folder: Path) -> Path:
    """The numbered job, compiled against this version of Flink."""
    return compile_jar(sorted(SOURCES.glob("*.java")), distribution, folder / "numbered.jar")


@dataclass(frozen=True)
class NumberedJob:
    """At 300 numbers/s and 10 ms each, ``work`` needs a little more than three instances; it starts with one."""

    folder: Path
    name: str = "numbered"
    records: int = 9000
    rate: float = 300.0
    work_us: int = 10_000
    checkpoint_s: float = 2.0
    entry_class: str = "chaos.NumberedJob"

    @property
    def arguments(self) -> list[str]:
        return [
            self.name,
            str(self.records),
            str(self.rate),
            str(self.work_us),
            self.folder.as_uri(),
            str(round(1000 * self.checkpoint_s)),
        ]

    def committed(self) -> Counter[int]:
        """How often each number is in the files that are visible: those under way have a dot before their names."""
        found: Counter[int] = Counter()
        for path in self.folder.rglob("*"):
            if path.is_file() and not path.name.startswith((".", "_")):
                found.update(int(line) for line in path.read_text().split())
        return found


class Tune:
    """``streamtune tune --engine flink --watch`` as a user starts it."""

    def __init__(self, url: str, job: str, folder: Path, settings: dict[str, Any], *words: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.audit, self.log, config = folder / "audit.jsonl", folder / "tune.log", folder / "streamtune.yaml"
        config.write_text(yaml.safe_dump(settings))
        command = [sys.executable, "-c", "from streamtune.cli import main; main()", "--config", str(config), "tune"]
        command += ["--engine", "flink", "--url", url, "--job", job, "--audit", str(self.audit)]
        command += ["--state", str(folder / "state.db"), "--history", str(folder / "runs")]
        command += ["--settle-s", "4", "--window-s", "6", "--max-per-hour", "60", *words]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "XDG_STATE_HOME": str(folder / "home"), "COLUMNS": "200"},
            )

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        found = read_audit(self.audit) if self.audit.exists() else []
        return [event for event in found if not kinds or event["event"] in kinds]

    def said(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines()

    def wait_for(self, *kinds: str, after: int = 0, patience_s: float = PATIENCE_S) -> dict[str, Any]:
        """The first event of these kinds behind the first ``after`` events of the trail."""

        def seen() -> bool:
            if self.process.poll() is not None:
                raise ChaosError(f"tune ended by itself with {self.process.returncode}: {self.said()[-3:]}")
            return any(event["event"] in kinds for event in self.events()[after:])

        wait_for(seen, f"tune's '{' or '.join(kinds)}'", patience_s, every_s=0.05)
        return next(event for event in self.events()[after:] if event["event"] in kinds)

    def end(self) -> int | None:
        """As a user ends it; None if it does not end. Killed, whatever happens."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()


@dataclass
class Stage:
    """One scenario while it is played."""

    cluster: LocalCluster
    client: FlinkClient
    jar: Path
    job: NumberedJob
    work: Path
    job_id: str = ""
    tune: Tune | None = None
    faults: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    _jar_id: str = ""

    @property
    def watch(self) -> Tune:
        assert self.tune is not None, "start_tune first"
        return self.tune

    def submit(self, savepoint: str | None = None) -> str:
        """Start the job and wait for its first checkpoint, as a job that is tuned has one."""
        self._jar_id = self.client.upload_jar(self.jar)
        entry, arguments = self.job.entry_class, self.job.arguments
        job_id = self.client.run_jar(self._jar_id, entry_class=entry, arguments=arguments, savepoint=savepoint)
        wait_for(lambda: self.client.job(job_id).is_running, "the job's start")
        wait_for(lambda: self.client.checkpoints(job_id).latest.completed is not None, "the job's first checkpoint")
        self.job_id = job_id
        return job_id

    def start_tune(self, **settings: Any) -> Tune:
        rescale = {"rescale": {"timeout_s": 60.0, **settings}}
        words = ["--watch", "600"]
        self.tune = Tune(self.cluster.url, self.job_id, self.work, {"engines": {"flink": rescale}}, *words)
        return self.tune

    def fault(self, text: str) -> None:
        self.faults.append(text)
        print(f"  {time.monotonic() - self.began:5.1f} s  {text}", flush=True)

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(what)

    @property
    def degrees(self) -> dict[str, int]:
        """What runs now, by the vertices' names."""
        return {vertex.name: vertex.parallelism for vertex in self.client.job(self.job_id).vertices}

    @property
    def task_manager(self) -> int:
        """The number of the TaskManager that runs the first subtask of the first vertex."""
        vertex = self.client.job(self.job_id).vertices[0].id
        told = self.client.read(f"/jobs/{self.job_id}/vertices/{vertex}")["subtasks"][0]["taskmanager-id"]
        return int(told.split("-")[1])  # as LocalCluster names them: tm-1-…

    def finish(self) -> None:
        """Wait until the job has sent and committed everything."""
        wait_for(lambda: self.client.status(self.job_id).state == "FINISHED", "the job's end", every_s=0.5)


@contextmanager
def a_stage(cluster: LocalCluster, jar: Path, work: Path, **job: Any) -> Iterator[Stage]:
    """A job on a cluster that runs; ``tune`` and the job's files are left behind for a look, no process is."""
    numbered = NumberedJob(work / "numbers", **job)
    with FlinkClient(cluster.url, timeout_s=15.0) as client:
        stage = Stage(cluster, client, jar, numbered, work)
        try:
            yield stage
        finally:
            if stage.tune is not None:
                stage.tune.end()
