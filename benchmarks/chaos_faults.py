"""What goes wrong around a cluster: hosts cut off, folders that cannot be written; a ZooKeeper for its JobManager."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos_site import ChaosError

from streamtune.labs.flink import FlinkDistribution, LocalCluster
from streamtune.labs.flink.cluster import free_port
from streamtune.labs.flink.distribution import java_tool
from streamtune.labs.hosts.network import HostNetwork

_ZOOKEEPER = "org.apache.flink.shaded.zookeeper3.org.apache.zookeeper.server.ZooKeeperServerMain"
_NEW_NET = 0x40000000


@contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    """A folder that is read-only for everybody, root included, and still has what it had. Needs root."""
    _mount("--bind", str(folder), str(folder))
    try:
        _mount("-o", "remount,ro,bind", str(folder))
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)


def _mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChaosError(f"'mount {' '.join(words)}' failed: {done.stderr.strip()}. Run as root")


@contextmanager
def on_host(network: HostNetwork, host: int) -> Iterator[None]:
    """What this thread starts and whom it talks to within the block is on that host."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(path: str) -> None:
        with open(path) as there:
            if libc.setns(there.fileno(), _NEW_NET):
                raise ChaosError(f"cannot go to {path}: {os.strerror(ctypes.get_errno())}")

    with open("/proc/self/ns/net") as home:
        enter(f"/run/netns/{network.name(host)}")
        try:
            yield
        finally:
            if libc.setns(home.fileno(), _NEW_NET):
                raise ChaosError(f"cannot go back: {os.strerror(ctypes.get_errno())}")


class ClusterOverHosts(LocalCluster):
    """The JobManager on host 0, TaskManager 1 on host 1, and so on."""

    network: HostNetwork

    def placed(self, role: str, command: list[str]) -> list[str]:
        if not role.startswith("taskmanager-"):
            return command
        host = int(role.rpartition("-")[2])
        return self.network.command(host, [*command, "-D", f"taskmanager.host={self.network.address(host)}"])


def over_hosts(network: HostNetwork) -> dict[str, str]:
    """The options that let a cluster span hosts; to be used within ``on_host(network, 0)``."""
    everywhere, first = "0.0.0.0", network.address(0)
    return {
        "rest.bind-address": everywhere,
        "jobmanager.rpc.address": first,
        "jobmanager.bind-host": everywhere,
        "taskmanager.bind-host": everywhere,
    }


def link(network: HostNetwork, host: int, state: str) -> None:
    """Take a host's cable out (``down``) or put it in again (``up``)."""
    subprocess.run(["ip", "-n", network.switch, "link", "set", f"s{host}", state], check=True, capture_output=True)


@contextmanager
def a_zookeeper(distribution: FlinkDistribution, folder: Path) -> Iterator[int]:
    """One ZooKeeper, from the classes that Flink brings for its own client; yields its port."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    config = folder / "zoo.cfg"
    config.write_text(f"tickTime=1000\ndataDir={folder}\nclientPort={port}\nadmin.enableServer=false\n")
    command = [java_tool("java"), "-Xmx64m", "-cp", distribution.class_path, _ZOOKEEPER, str(config)]
    with (folder / "zookeeper.out").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        _wait_for_port(port, process)
        yield port
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        if process.poll() is not None:
            raise ChaosError(f"ZooKeeper ended with {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise ChaosError("ZooKeeper did not come up within 30 s")


def high_availability(port: int, folder: Path) -> dict[str, str | int]:
    return {
        "high-availability.type": "zookeeper",
        "high-availability.zookeeper.quorum": f"127.0.0.1:{port}",
        "high-availability.storageDir": (folder / "ha").as_uri(),
        "high-availability.cluster-id": "/chaos",
        # The lead of a JobManager that was killed is free again after so long.
        "high-availability.zookeeper.client.session-timeout": 4000,
        "high-availability.zookeeper.client.connection-timeout": 3000,
    }
