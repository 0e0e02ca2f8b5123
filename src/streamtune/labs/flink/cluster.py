"""A local Flink cluster from the jars of the pip package: started, inspected, and stopped without leaving a process."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from streamtune.engines.flink.client import FlinkClient, FlinkUnreachableError
from streamtune.errors import EngineError
from streamtune.labs.flink.distribution import FlinkDistribution, check_java
from streamtune.labs.flink.settings import JAVA_FLAGS, ClusterSettings

_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_STATE_FILE = "cluster.json"
_STOP_PATIENCE_S = 10.0


@dataclass(frozen=True)
class ClusterProcess:
    """One JVM of the cluster: ``role`` is jobmanager or taskmanager-N."""

    role: str
    pid: int

    def is_running(self, folder: Path) -> bool:
        """Whether the process is alive and still the one we started: process ids are reused."""
        told = subprocess.run(
            ["ps", "-ww", "-o", "stat=,args=", "-p", str(self.pid)], capture_output=True, text=True, check=False
        )
        return str(folder) in told.stdout and not told.stdout.strip().startswith("Z")


class LocalCluster:
    """The cluster whose state lives in ``folder``; several can run side by side on different ports.

    >>> with LocalCluster.temporary(ClusterSettings(port=18081)) as cluster:  # doctest: +SKIP
    ...     print(cluster.url)
    http://127.0.0.1:18081
    """

    def __init__(self, folder: Path, settings: ClusterSettings, distribution: FlinkDistribution | None = None) -> None:
        self.folder = folder.resolve()
        self.settings = settings
        self._distribution = distribution
        self._owns_folder = False
        self._previous_handler: Any = None

    @classmethod
    def temporary(cls, settings: ClusterSettings, distribution: FlinkDistribution | None = None) -> LocalCluster:
        """A cluster for one ``with`` block: its folder is removed with it."""
        cluster = cls(Path(tempfile.mkdtemp(prefix="streamtune-flink-")), settings, distribution)
        cluster._owns_folder = True
        return cluster

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.settings.port}"

    @property
    def distribution(self) -> FlinkDistribution:
        if self._distribution is None:
            self._distribution = FlinkDistribution.find()
        return self._distribution

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            # On a signal this block must still be left in order, or its processes would live on.
            self._previous_handler = signal.signal(signal.SIGTERM, _leave)
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()
        if self._previous_handler is not None:
            signal.signal(signal.SIGTERM, self._previous_handler)
        if self._owns_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def up(self) -> None:
        """Start all processes and wait until every slot is there; on any failure nothing is left running."""
        if any(process.is_running(self.folder) for process in self.processes()):
            raise EngineError(
                f"a local cluster already runs at {self.url}: use it, or stop it first with 'streamtune flink down'"
            )
        refuse_busy_port(self.settings.port)
        check_java()
        for name in ("conf", "logs", "tmp", "upload", "checkpoints", "savepoints"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.settings.write(self.folder / "conf", free_port())
        self._remember([])
        try:
            self.start_job_manager()
            for number in range(1, self.settings.task_managers + 1):
                self.start_task_manager(number)
            self._wait_until_ready()
        except BaseException:
            self.down()
            raise

    def down(self) -> list[str]:
        """Stop all processes, gently at first; returns the roles of those that ran."""
        running = [process for process in self.processes() if process.is_running(self.folder)]
        for process in reversed(running):
            _send(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_PATIENCE_S
        while time.monotonic() < deadline and any(process.is_running(self.folder) for process in running):
            _reap(running)
            time.sleep(0.1)
        for process in running:
            if process.is_running(self.folder):
                _send(process.pid, signal.SIGKILL)
        _reap(running)
        with contextlib.suppress(FileNotFoundError):
            (self.folder / _STATE_FILE).unlink()
        return [process.role for process in running]

    def start_job_manager(self) -> None:
        heap = self.settings.job_manager_heap_mb
        self._start("jobmanager", _JOB_MANAGER, [f"-Xms{heap}m", f"-Xmx{heap}m", "-XX:MaxMetaspaceSize=256m"], [])

    def start_task_manager(self, number: int) -> None:
        self._start(
            f"taskmanager-{number}",
            _TASK_MANAGER,
            [*self.settings.task_manager_java, "-XX:MaxMetaspaceSize=256m"],
            [*self.settings.task_manager_options(), "-D", f"taskmanager.resource-id=tm-{number}-{time.time_ns()}"],
        )

    def kill(self, role: str) -> None:
        """Kill one process without warning, as a crash would."""
        for process in self.processes():
            if process.role == role:
                _send(process.pid, signal.SIGKILL)
                _reap([process])
                self._remember([other for other in self.processes() if other.role != role])
                return
        known = ", ".join(process.role for process in self.processes()) or "none"
        raise EngineError(f"no process '{role}' to kill: running are {known}")

    def processes(self) -> list[ClusterProcess]:
        """The processes that were started, as remembered in the cluster's folder."""
        try:
            state = json.loads((self.folder / _STATE_FILE).read_text())
            return [ClusterProcess(entry["role"], entry["pid"]) for entry in state["processes"]]
        except FileNotFoundError:
            return []
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise EngineError(f"{self.folder / _STATE_FILE} is damaged: remove it once no Flink runs there") from error

    def _start(self, role: str, main_class: str, java_options: list[str], arguments: list[str]) -> None:
        conf, logs = self.folder / "conf", self.folder / "logs"
        command = [
            check_java(),
            *JAVA_FLAGS,
            *java_options,
            f"-Dlog.file={logs / role}.log",
            f"-Dlog4j.configurationFile={(conf / 'log4j.properties').as_uri()}",
            "-cp",
            self.distribution.class_path,
            main_class,
            "--configDir",
            str(conf),
            *arguments,
        ]
        with (logs / f"{role}.out").open("ab") as output:
            started = subprocess.Popen(
                self.placed(role, command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._remember([*self.processes(), ClusterProcess(role, started.pid)])

    def placed(self, role: str, command: list[str]) -> list[str]:  # noqa: ARG002 - for clusters over several hosts
        """The command as it is started; a cluster over several hosts says here on which one a process runs."""
        return command

    def _remember(self, processes: list[ClusterProcess]) -> None:
        state = {"url": self.url, "processes": [{"role": one.role, "pid": one.pid} for one in processes]}
        scratch = self.folder / f"{_STATE_FILE}.new"
        scratch.write_text(json.dumps(state))
        scratch.replace(self.folder / _STATE_FILE)

    def _wait_until_ready(self) -> None:
        wanted = self.settings.slots * self.settings.task_managers
        deadline = time.monotonic() + self.settings.start_timeout_s
        slots = 0
        with FlinkClient(self.url, timeout_s=5.0, retries=0) as client:
            while time.monotonic() < deadline:
                for process in self.processes():
                    if not process.is_running(self.folder):
                        raise EngineError(f"Flink's {process.role} ended immediately: {self._last_words(process.role)}")
                with contextlib.suppress(FlinkUnreachableError):
                    slots = client.overview().slots_total
                    if slots >= wanted:
                        return
                time.sleep(0.25)
        raise EngineError(
            f"Flink did not come up within {self.settings.start_timeout_s:g} s ({slots} of {wanted} slots): "
            f"see the logs in {self.folder / 'logs'}"
        )

    def _last_words(self, role: str) -> str:
        for name in (f"{role}.out", f"{role}.log"):
            with contextlib.suppress(OSError):
                lines = (self.folder / "logs" / name).read_text(errors="replace").strip().splitlines()
                if lines:
                    return f"{lines[-1]} (see {self.folder / 'logs'})"
        return f"see {self.folder / 'logs'}"


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def refuse_busy_port(port: int) -> None:
    """Refuse a port that is in use, before anything is started."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise EngineError(
                f"port {port} is in use: another Flink may run there ('streamtune flink status --port {port}'), "
                "or choose a free one with --port"
            ) from error


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _reap(processes: list[ClusterProcess]) -> None:
    """Collect children of this process that have ended, so that no zombie stays."""
    for process in processes:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)
