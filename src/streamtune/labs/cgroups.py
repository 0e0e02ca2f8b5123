"""Control groups, version 1 and 2: a CPU quota and a memory limit for processes of our own, removed at the end."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from streamtune.errors import StreamTuneError

PERIOD_US = 20_000  # short periods: a throttled instance stutters less
LEAST_QUOTA_US = 1_000  # the kernel refuses less
MOUNT = Path("/sys/fs/cgroup")
_MIB = 1 << 20


class CgroupError(StreamTuneError):
    """Control groups that are not there, or that we may not use."""


@dataclass(frozen=True)
class Usage:
    """What a group has used so far."""

    cpu_s: float
    throttled_periods: int
    peak_memory_mb: float


@dataclass(frozen=True)
class Hierarchy:
    """Where groups can be made: one folder (version 2), or one per controller (version 1)."""

    version: int
    cpu: Path
    cpuacct: Path
    memory: Path


def find_hierarchy(mount: Path = MOUNT) -> Hierarchy:
    """The control groups of this machine, or one sentence about what is missing.

    Version 2 needs the controllers cpu and memory in its root; a hybrid machine has them in version 1.
    """
    controllers = mount / "cgroup.controllers"
    if controllers.is_file():
        offered = controllers.read_text().split()
        missing = [name for name in ("cpu", "memory") if name not in offered]
        if missing:
            lacking = " and ".join(missing)
            raise CgroupError(f"control groups at {mount} do not offer {lacking}: use the simulator instead")
        found = Hierarchy(2, mount, mount, mount)
    else:
        folders = {name: _version_1(mount, name) for name in ("cpu", "cpuacct", "memory")}
        absent = [name for name, folder in folders.items() if folder is None]
        if absent:
            raise CgroupError(
                f"no control groups for {' and '.join(absent)} at {mount}: real samples need version 1 or 2 of them. "
                "Use the simulator instead"
            )
        found = Hierarchy(1, *(folders[name] for name in ("cpu", "cpuacct", "memory")))  # type: ignore[arg-type]
    for folder in (found.cpu, found.memory):
        if not os.access(folder, os.W_OK):
            raise CgroupError(f"{folder} may not be written: run as root, or use the simulator instead")
    return found


def _version_1(mount: Path, name: str) -> Path | None:
    for folder in (mount / name, mount / "cpu,cpuacct"):
        marker = {"cpu": "cpu.cfs_quota_us", "cpuacct": "cpuacct.usage", "memory": "memory.limit_in_bytes"}[name]
        if (folder / marker).exists():
            return folder
    return None


class ResourceGroup:
    """One group of processes; a context manager that removes it, whatever happens.

    Limits can be changed while the processes run.
    """

    def __init__(self, hierarchy: Hierarchy, name: str) -> None:
        self.version = hierarchy.version
        self.cpu, self.cpuacct, self.memory = (
            root / name for root in (hierarchy.cpu, hierarchy.cpuacct, hierarchy.memory)
        )
        try:
            if self.version == 2:
                _write(hierarchy.cpu / "cgroup.subtree_control", "+cpu +memory")
            for folder in self.folders:
                folder.mkdir(exist_ok=True)
        except OSError as error:
            self.remove()
            raise CgroupError(
                f"the control group {self.cpu} cannot be made: {error.strerror}. Use the simulator instead"
            ) from error

    @property
    def folders(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys((self.cpu, self.cpuacct, self.memory)))

    @property
    def process_files(self) -> tuple[Path, ...]:
        """Where a process writes its id to join."""
        return tuple(folder / "cgroup.procs" for folder in self.folders)

    def limit(self, cpu: float, memory_mb: float) -> None:
        """Set the quota in cores and the memory limit in MiB, swap included where it is accounted for."""
        quota = max(LEAST_QUOTA_US, round(cpu * PERIOD_US))
        memory = str(int(memory_mb * _MIB))
        try:
            if self.version == 2:
                _write(self.cpu / "cpu.max", f"{quota} {PERIOD_US}")
                _write(self.cpu / "cpu.weight", "10000")
                _write(self.memory / "memory.max", memory)
                if (self.memory / "memory.swap.max").exists():
                    _write(self.memory / "memory.swap.max", "0")
                return
            _write(self.cpu / "cpu.cfs_period_us", str(PERIOD_US))
            _write(self.cpu / "cpu.cfs_quota_us", str(quota))
            # On a busy machine a quota is only an upper bound: a large weight makes it the amount.
            _write(self.cpu / "cpu.shares", "262144")
            _write(self.memory / "memory.limit_in_bytes", memory)
        except OSError as error:
            raise CgroupError(
                f"{cpu:g} cores and {memory_mb:g} MiB cannot be set: {error.strerror}. Is more than that in use?"
            ) from error

    def usage(self) -> Usage:
        """CPU seconds, throttled periods and the highest memory so far."""
        if self.version == 2:
            stat = _pairs(self.cpu / "cpu.stat")
            peak = self.memory / "memory.peak"
            used = int((peak if peak.exists() else self.memory / "memory.current").read_text())
            return Usage(stat.get("usage_usec", 0) / 1e6, stat.get("nr_throttled", 0), used / _MIB)
        return Usage(
            int((self.cpuacct / "cpuacct.usage").read_text()) / 1e9,
            _pairs(self.cpu / "cpu.stat").get("nr_throttled", 0),
            int((self.memory / "memory.max_usage_in_bytes").read_text()) / _MIB,
        )

    def remove(self) -> None:
        """Remove the group; its processes must have ended, and the kernel may need a moment to notice."""
        for folder in self.folders:
            for _ in range(50):
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.02)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def _write(file: Path, text: str) -> None:
    file.write_text(text)


def _pairs(file: Path) -> dict[str, int]:
    return {line.split()[0]: int(line.split()[1]) for line in file.read_text().splitlines() if len(line.split()) == 2}
