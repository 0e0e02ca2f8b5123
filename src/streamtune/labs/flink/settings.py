"""What can be set about a local cluster, and the configuration files that follow from it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field

from streamtune.settings import Settings

# Flink's own defaults for Java 17, which its start scripts would add.
JAVA_FLAGS = (
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.text=ALL-UNNAMED",
    "--add-opens=java.base/java.time=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED",
    # Emulated jobs sleep; what they compute is not worth a garbage collector with threads, nor the second compiler.
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
)

Scheduler = Literal["adaptive", "default"]

_LOG_CONFIGURATION = """\
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = File
appender.file.name = File
appender.file.type = RollingFile
appender.file.fileName = ${sys:log.file}
appender.file.filePattern = ${sys:log.file}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{HH:mm:ss,SSS} %-5p %-60c %x - %m%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
"""


class WorkloadSettings(Settings):
    """How a spec is emulated."""

    key_groups: int = Field(default=2048, ge=1, le=32768, description="Flink's maximum parallelism of the job")
    checkpoint_s: float = Field(default=5.0, gt=0, description="seconds between checkpoints")
    limit: int | None = Field(
        default=None, ge=0, description="how many records a source makes; without it, it never ends"
    )


class ClusterSettings(Settings):
    """A cluster of one JobManager and some TaskManagers on the loopback interface."""

    port: int = Field(default=8081, ge=1, le=65535, description="port of the REST interface and the web page")
    slots: int = Field(default=40, ge=1, description="task slots of each TaskManager")
    task_managers: int = Field(default=1, ge=1, description="how many TaskManagers")
    scheduler: Scheduler = Field(
        default="adaptive", description="adaptive rescales live; default only by stop and restart"
    )
    job_manager_heap_mb: int = Field(default=384, ge=128, description="heap of the JobManager")
    task_heap_mb: int = Field(default=512, ge=64, description="heap of each TaskManager for the jobs' own objects")
    network_mb: int = Field(default=128, ge=16, description="network buffers of each TaskManager")
    managed_mb_per_slot: int = Field(default=24, ge=0, description="memory for SQL operators; taken when they need it")
    rpc_timeout_s: int = Field(
        default=10, ge=1, description="how long processes wait for each other; thousands of subtasks take minutes"
    )
    options: dict[str, str | int | bool] = Field(
        default_factory=dict, description="further options of Flink; they win over ours"
    )
    start_timeout_s: float = Field(default=90.0, gt=0, description="how long the start may take")

    def write(self, folder: Path, rpc_port: int) -> None:
        """The configuration folder that the JVMs are started with."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").write_text(yaml.safe_dump(self._options(folder.parent, rpc_port)))
        (folder / "log4j.properties").write_text(_LOG_CONFIGURATION)

    def _options(self, state: Path, rpc_port: int) -> dict[str, str | int | bool]:
        checkpoints, savepoints = (state / "checkpoints").as_uri(), (state / "savepoints").as_uri()
        host = "127.0.0.1"
        return {
            "rest.address": host,
            "rest.bind-address": host,
            "rest.port": self.port,
            "jobmanager.rpc.address": host,
            "jobmanager.bind-host": host,
            "jobmanager.rpc.port": rpc_port,
            "jobmanager.scheduler": self.scheduler,
            "jobmanager.execution.failover-strategy": "region",
            "taskmanager.host": host,
            "taskmanager.bind-host": host,
            "taskmanager.numberOfTaskSlots": self.slots,
            "io.tmp.dirs": str(state / "tmp"),
            "web.upload.dir": str(state / "upload"),
            "execution.checkpointing.dir": checkpoints,
            "execution.checkpointing.savepoint-dir": savepoints,
            "state.checkpoints.dir": checkpoints,
            "state.savepoints.dir": savepoints,
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 2147483647,
            "restart-strategy.fixed-delay.delay": "1s",
            "web.refresh-interval": 1000,
            "metrics.fetcher.update-interval": 1000,
            # Latency markers: a few each second, and only the newest count, so that a change of plan or rate shows.
            "metrics.latency.interval": 250,
            "metrics.latency.history-size": 16,
            "heartbeat.interval": 3000,
            "heartbeat.timeout": 1000 * max(20, self.rpc_timeout_s),
            "pekko.ask.timeout": f"{self.rpc_timeout_s}s",
            "akka.ask.timeout": f"{self.rpc_timeout_s}s",
            **_ADAPTIVE,
            **_SMALL_BUFFERS,
            **self.options,
        }

    def task_manager_options(self) -> list[str]:
        """Without the start scripts, every memory size must be given."""
        sizes = {
            "taskmanager.cpu.cores": "1.0",
            "taskmanager.memory.task.heap.size": f"{self.task_heap_mb}m",
            "taskmanager.memory.task.off-heap.size": "0m",
            "taskmanager.memory.framework.heap.size": "96m",
            "taskmanager.memory.framework.off-heap.size": "64m",
            "taskmanager.memory.managed.size": f"{self.managed_mb_per_slot * self.slots}m",
            "taskmanager.memory.network.min": f"{self.network_mb}m",
            "taskmanager.memory.network.max": f"{self.network_mb}m",
            "taskmanager.memory.jvm-metaspace.size": "256m",
            "taskmanager.memory.jvm-overhead.min": "128m",
            "taskmanager.memory.jvm-overhead.max": "128m",
        }
        return [part for key, value in sizes.items() for part in ("-D", f"{key}={value}")]

    @property
    def task_manager_java(self) -> list[str]:
        heap = self.task_heap_mb + 96
        return [f"-Xms{heap}m", f"-Xmx{heap}m", f"-XX:MaxDirectMemorySize={self.network_mb + 64}m"]


# Rescale soon after it is asked for. Names changed between Flink 1.20 and 2.0; a version ignores what it does not know.
_ADAPTIVE: dict[str, str | int | bool] = {
    "jobmanager.adaptive-scheduler.scaling-interval.min": "1s",
    "jobmanager.adaptive-scheduler.resource-stabilization-timeout": "1s",
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "1s",
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "1s",
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": "1s",
    "jobmanager.adaptive-scheduler.rescale-trigger.max-delay": "5s",
}

# Emulated jobs run at a few hundred records/s: with Flink's default buffers of 32 KB it would take minutes until they
# are full and backpressure shows. Debloating keeps about a second of records in flight.
_SMALL_BUFFERS: dict[str, str | int | bool] = {
    "taskmanager.memory.segment-size": "4kb",
    "taskmanager.network.memory.buffers-per-channel": 2,
    "taskmanager.network.memory.floating-buffers-per-gate": 4,
    "taskmanager.network.memory.buffer-debloat.enabled": True,
    "taskmanager.network.memory.buffer-debloat.target": "1s",
}
