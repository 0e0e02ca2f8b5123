"""A real Flink over several hosts: a TaskManager on each, and a job whose tasks are placed by slot sharing groups.

As tried in PLATFORM.md: one slot per TaskManager, an external resource per host that pins a group to it, the default
scheduler. The JobManager runs on host 0 beside a TaskManager; its traffic (heartbeats, metrics) is the background.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from streamtune.errors import EngineError
from streamtune.labs.hosts.flink_parts import JAVA_FLAGS, class_path, java_tool
from streamtune.labs.hosts.network import HostNetwork
from streamtune.labs.hosts.run import HostRun
from streamtune.labs.hosts.settings import FlinkHostSettings
from streamtune.labs.hosts.work import TaskWork

_SOURCE = Path(__file__).parent / "java" / "UnrolledJob.java"
_REST_PORT, _RPC_PORT, _DATA_PORT = 8081, 6123, 6200
_TAIL_CHARACTERS = 600
_ASK = "import sys, urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1], timeout=5).read().decode())"


class FlinkOnHosts:
    """A cluster over the hosts of a network; use it as a context manager inside the network's."""

    def __init__(self, network: HostNetwork, settings: FlinkHostSettings | None = None) -> None:
        self.network = network
        self.settings = settings or FlinkHostSettings()
        self._folder = tempfile.TemporaryDirectory(prefix="flink-", dir=network.folder)
        self._children: list[subprocess.Popen[Any]] = []
        self._client: subprocess.Popen[Any] | None = None

    @property
    def folder(self) -> Path:
        return Path(self._folder.name)

    def __enter__(self) -> Self:
        try:
            self._jar = self._built_jar()
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def _built_jar(self) -> Path:
        classes, jar = self.folder / "classes", self.folder / "unrolled.jar"
        command = [java_tool("javac"), "-d", str(classes), "-cp", class_path(), str(_SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise EngineError(f"the unrolled job does not compile: {done.stderr.strip()[:_TAIL_CHARACTERS]}")
        with zipfile.ZipFile(jar, "w") as archive:
            for file in sorted(classes.rglob("*.class")):
                archive.write(file, file.relative_to(classes).as_posix())
        return jar

    def _options(self, host: int) -> dict[str, str]:
        first, here = self.network.address(0), self.network.address(host)
        heap, network = self.settings.task_heap_mb, self.settings.network_mb
        return {
            "rest.address": first, "rest.bind-address": "0.0.0.0", "rest.port": str(_REST_PORT),
            "jobmanager.rpc.address": first, "jobmanager.bind-host": "0.0.0.0", "jobmanager.rpc.port": str(_RPC_PORT),
            "jobmanager.scheduler": "default", "restart-strategy.type": "none",
            "taskmanager.host": here, "taskmanager.bind-host": "0.0.0.0", "taskmanager.data.port": str(_DATA_PORT),
            "taskmanager.numberOfTaskSlots": "1", "taskmanager.cpu.cores": "1.0",
            "taskmanager.memory.task.heap.size": f"{heap}m", "taskmanager.memory.task.off-heap.size": "0m",
            "taskmanager.memory.framework.heap.size": "64m", "taskmanager.memory.framework.off-heap.size": "48m",
            "taskmanager.memory.managed.size": "0m", "taskmanager.memory.network.min": f"{network}m",
            "taskmanager.memory.network.max": f"{network}m", "taskmanager.memory.segment-size": "8kb",
            "taskmanager.memory.jvm-metaspace.size": "128m", "taskmanager.memory.jvm-overhead.min": "64m",
            "taskmanager.memory.jvm-overhead.max": "64m", "external-resources": f"host{host}",
            f"external-resource.host{host}.amount": "1", "pekko.ask.timeout": "60s", "heartbeat.timeout": "120000",
            "io.tmp.dirs": str(self.folder / f"tmp{host}"), "metrics.fetcher.update-interval": "0",
        }  # fmt: skip

    def _configuration(self, host: int) -> Path:
        folder = self.folder / f"conf{host}"
        folder.mkdir()
        lines = [f"{key}: {json.dumps(value)}" for key, value in self._options(host).items()]
        (folder / "config.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return folder

    def _start(self) -> None:
        folders = [self._configuration(host) for host in range(self.network.count)]
        entry = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
        self._launch(0, "jobmanager", ["-Xmx256m"], entry, folders[0])
        heap = self.settings.task_heap_mb + 64
        memory = [f"-Xms{heap}m", f"-Xmx{heap}m", f"-XX:MaxDirectMemorySize={self.settings.network_mb + 48}m"]
        for host, folder in enumerate(folders):
            runner = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
            self._launch(host, f"taskmanager{host}", memory, runner, folder)
        until = time.monotonic() + self.settings.start_timeout_s
        while self._task_managers() < self.network.count:
            dead = [number for number, child in enumerate(self._children) if child.poll() is not None]
            if dead or time.monotonic() > until:
                raise EngineError(f"Flink did not start on all {self.network.count} hosts: {self._last_words(dead)}")
            time.sleep(0.5)

    def _launch(self, host: int, name: str, memory: list[str], main: str, configuration: Path) -> None:
        log = (self.folder / f"{name}.log").open("wb")
        command = [java_tool("java"), *JAVA_FLAGS, *memory, "-cp", class_path(), main]
        child = self.network.start(host, [*command, "--configDir", str(configuration)], stdout=log, stderr=log)
        log.close()
        self._children.append(child)

    def _task_managers(self) -> int:
        try:
            return int(self._ask("/overview")["taskmanagers"])
        except (EngineError, KeyError, ValueError):
            return 0

    def _ask(self, path: str) -> Any:
        url = f"http://{self.network.address(0)}:{_REST_PORT}{path}"
        command = self.network.command(0, [sys.executable, "-S", "-E", "-c", _ASK, url])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise EngineError(f"Flink does not answer {path}")
        return json.loads(done.stdout)

    def run(self, work: TaskWork, timeout_s: float = 120.0) -> HostRun:
        """Run the work to its end; bytes are counted from before the submission until after the last task."""
        job = self.folder / "work.txt"
        job.write_text("\n".join(_lines(work)) + "\n", encoding="utf-8")
        before = self.network.traffic()
        answer = self._client_answer(str(job), timeout_s)
        if not answer.startswith("RUNTIME_MS"):
            raise EngineError(f"the job failed: {answer.removeprefix('FAILED').strip()[-_TAIL_CHARACTERS:]}")
        traffic = tuple(now - then for now, then in zip(self.network.traffic(), before, strict=True))
        emitted = sum(count for _, count in work.sources.values())
        return HostRun(traffic, {}, emitted, float(answer.split()[1]) / 1000)

    def _client_answer(self, name: str, timeout_s: float) -> str:
        """What the client says to the name of a work file. It is started once: a JVM a job costs more than the job."""
        if self._client is None or self._client.poll() is not None:
            self._client = self._started_client()
        client = self._client
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(f"{name}\n".encode())
        client.stdin.flush()
        if not select.select([client.stdout], [], [], timeout_s)[0]:
            client.kill()
            raise EngineError(f"the job was not done after {timeout_s:g} s: give a longer timeout or fewer tuples")
        answer = client.stdout.readline().decode(errors="replace").strip()
        log = self.folder / "client.log"
        return answer or f"FAILED {log.read_text(encoding='utf-8', errors='replace').strip()}"

    def _started_client(self) -> subprocess.Popen[Any]:
        way = "pinned" if self.settings.pinned else "grouped"
        command = [java_tool("java"), *JAVA_FLAGS, "-Xmx160m", "-cp", f"{class_path()}{os.pathsep}{self._jar}"]
        command += ["UnrolledJob", self.network.address(0), str(_REST_PORT), str(self._jar), way]
        with (self.folder / "client.log").open("wb") as log:
            client = self.network.start(0, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self._children.append(client)
        return client

    def _last_words(self, dead: list[int]) -> str:
        names = ["jobmanager", *(f"taskmanager{host}" for host in range(self.network.count))]
        log = self.folder / f"{names[dead[0] if dead else 0]}.log"
        text = log.read_text(encoding="utf-8", errors="replace").strip() if log.exists() else ""
        return text[-_TAIL_CHARACTERS:] or "no reason given"

    def close(self) -> None:
        """End the cluster's processes; the hosts stay."""
        for child in self._children:
            child.kill()
        for child in self._children:
            child.wait(timeout=10)
        self._children.clear()
        self._client = None
        self._folder.cleanup()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _lines(work: TaskWork) -> list[str]:
    order = sorted(range(len(work.hosts)), key=lambda task: (work.depth[task], task))
    lines = [f"task {task} {work.hosts[task]}" for task in order]
    lines += [f"source {task} {rate!r} {count}" for task, (rate, count) in work.sources.items()]
    lines += [f"route {task} {b} {ratio!r} {size}" for task in order for b, ratio, size in work.routes[task]]
    return lines
