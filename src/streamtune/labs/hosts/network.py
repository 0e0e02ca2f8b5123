"""``HostNetwork``: hosts as network namespaces on one switch, with limited links and byte counters.

Every host has one interface, eth0, joined by a veth pair to a bridge that sits in a namespace of its own: no traffic
leaves the namespaces this lab made. ``tbf`` limits what a host sends and what it receives; it also keeps byte counts
honest, since without it veth counts frames before they are split. All is removed at the end, whatever happens: by the
context manager, or by a guard process when the owner is killed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from streamtune.errors import EngineError
from streamtune.labs.hosts import guard

_MOST_HOSTS = 250
_BURST = "64kb"


class HostsUnavailableError(EngineError):
    """This machine does not allow hosts as namespaces. The message says why and what to use instead."""


@dataclass(frozen=True)
class Traffic:
    """Bytes one host sent and received over its interface."""

    sent: int
    received: int

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(self.sent - other.sent, self.received - other.received)


class HostNetwork:
    """Hosts 0 … count − 1 with the addresses 10.77.0.1, 10.77.0.2, …

    Use it as a context manager. ``mbit_per_s`` None leaves links as fast as the machine is.
    """

    def __init__(self, count: int, mbit_per_s: float | None = 100.0) -> None:
        if not 1 <= count <= _MOST_HOSTS:
            raise EngineError(f"a lab has 1 to {_MOST_HOSTS} hosts, but got {count}")
        if mbit_per_s is not None and not 0.1 <= mbit_per_s <= 1e6:
            raise EngineError(f"the bandwidth must be between 0.1 and 10⁶ Mbit/s, but got {mbit_per_s:g}")
        self.count = count
        self.mbit_per_s = mbit_per_s
        # The prefix names the owner, so that a later lab finds what a dead owner left; one lab at a time per process.
        self.prefix = f"st{os.getpid()}x"
        self._guard: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._children: list[subprocess.Popen[Any]] = []

    @property
    def folder(self) -> Path:
        """For temporary files of what runs on the hosts; it goes with them."""
        if self._folder is None:
            raise EngineError("the hosts are not up: use the network as a context manager")
        return Path(self._folder.name)

    def name(self, host: int) -> str:
        return f"{self.prefix}h{host}"

    @property
    def switch(self) -> str:
        return f"{self.prefix}sw"

    @staticmethod
    def address(host: int) -> str:
        """The address of a host.

        >>> HostNetwork.address(0)
        '10.77.0.1'
        """
        return f"10.77.{(host + 1) // 256}.{(host + 1) % 256}"

    def __enter__(self) -> Self:
        check_allowed()
        for prefix in guard.stale():
            guard.remove(prefix)
        if guard.namespaces(self.prefix):
            raise EngineError("this process has a lab of hosts open already: close it first")
        self._folder = tempfile.TemporaryDirectory(prefix=guard.FOLDER)
        self._guard = subprocess.Popen(
            [sys.executable, guard.__file__, self.prefix, self._folder.name],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def _build(self) -> None:
        _ip("netns", "add", self.switch)
        _ip("-n", self.switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", self.switch, "link", "set", "br0", "up")
        for host in range(self.count):
            name, port = self.name(host), f"s{host}"
            _ip("netns", "add", name)
            _ip("-n", self.switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("-n", self.switch, "link", "set", port, "master", "br0", "up")
            _ip("-n", name, "addr", "add", f"{self.address(host)}/16", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        if self.mbit_per_s is not None:
            self.limit(self.mbit_per_s)

    def limit(self, mbit_per_s: float) -> None:
        """Give every link another bandwidth while the lab runs."""
        for host in range(self.count):
            self._limit(self.name(host), "eth0", mbit_per_s)
            self._limit(self.switch, f"s{host}", mbit_per_s)
        self.mbit_per_s = mbit_per_s

    @staticmethod
    def _limit(namespace: str, device: str, mbit_per_s: float) -> None:
        rate = f"{mbit_per_s * 1000:.0f}kbit"
        shaping = ["tbf", "rate", rate, "burst", _BURST, "latency", "100ms"]
        _run(["tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", *shaping])

    def command(self, host: int, command: Sequence[str]) -> list[str]:
        """A command as it has to be started to run on a host."""
        return ["ip", "netns", "exec", self.name(host), *command]

    def start(
        self,
        host: int,
        command: Sequence[str],
        *,
        env: dict[str, str] | None = None,
        stdin: IO[Any] | int | None = subprocess.DEVNULL,
        stdout: IO[Any] | int | None = subprocess.DEVNULL,
        stderr: IO[Any] | int | None = subprocess.DEVNULL,
        cwd: Path | None = None,
    ) -> subprocess.Popen[Any]:
        """Start a process on a host; it ends with the lab at the latest."""
        child = subprocess.Popen(
            self.command(host, command),
            env=env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            start_new_session=True,
        )
        self._children.append(child)
        return child

    def traffic(self) -> list[Traffic]:
        """What every host sent and received so far; the switch's ports see it from the other side."""
        listed = json.loads(_ip("-n", self.switch, "-j", "-s", "link"))
        ports = {entry["ifname"]: entry["stats64"] for entry in listed if entry.get("ifname", "").startswith("s")}
        found = []
        for host in range(self.count):
            seen = ports[f"s{host}"]
            found.append(Traffic(sent=int(seen["rx"]["bytes"]), received=int(seen["tx"]["bytes"])))
        return found

    def close(self) -> None:
        """End what runs on the hosts and remove them. May be called again."""
        guard.remove(self.prefix)
        for child in self._children:
            child.wait(timeout=10)
        self._children.clear()
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.write(b"done\n")
            self._guard.stdin.close()
            self._guard.wait(timeout=10)
        self._guard = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_allowed() -> None:
    """Refuse in one sentence where namespaces cannot be had."""
    instead = "use the simulator instead (streamtune bench placement)"
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            raise HostsUnavailableError(
                f"hosts as namespaces need '{tool}' (Debian: apt-get install iproute2); or {instead}"
            )
    probe = f"st{os.getpid()}probe"
    tried = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        reason = (tried.stderr.strip().splitlines() or ["no reason given"])[0]
        raise HostsUnavailableError(
            f"this machine does not allow network namespaces ({reason}): run as root, or {instead}"
        )
    subprocess.run(["ip", "netns", "del", probe], capture_output=True, check=False)


def _ip(*arguments: str) -> str:
    return _run(["ip", *arguments])


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        raise EngineError(f"'{' '.join(command)}' failed: {reason}")
    return done.stdout
