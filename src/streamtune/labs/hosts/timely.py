"""A real Timely Dataflow (bytewax) over several hosts: runs a job under an assignment and counts the bytes."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from streamtune.errors import EngineError
from streamtune.labs.hosts.network import HostNetwork
from streamtune.labs.hosts.run import HostRun
from streamtune.labs.hosts.work import TaskWork

_PORT = 2101
_TAIL_CHARACTERS = 400
MOST_HOSTS = 20


def run_on_hosts(
    network: HostNetwork, work: TaskWork, timeout_s: float = 60.0, sleep: Callable[[float], None] = time.sleep
) -> HostRun:
    """Run the work until all tuples are through; anything that goes wrong is one clear error."""
    if importlib.util.find_spec("bytewax") is None:
        raise EngineError("bytewax is not installed: pip install 'streamtune[timely]'")
    if network.count > MOST_HOSTS:
        raise EngineError(f"a Timely over hosts runs on up to {MOST_HOSTS} of them, but got {network.count}")
    if max(work.hosts) >= network.count:
        raise EngineError(f"the assignment names host {max(work.hosts)}, but there are {network.count}")
    with tempfile.TemporaryDirectory(prefix="timely-", dir=network.folder) as folder:
        return _run(network, work, Path(folder), timeout_s, sleep)


def _run(
    network: HostNetwork, work: TaskWork, folder: Path, timeout_s: float, sleep: Callable[[float], None]
) -> HostRun:
    job = folder / "work.json"
    work.write(job)
    addresses = ";".join(f"{network.address(host)}:{_PORT}" for host in range(network.count))
    before, start = network.traffic(), time.monotonic()
    children = []
    for host in range(network.count):
        env = {
            **os.environ,
            "STREAMTUNE_WORK": str(job),
            "STREAMTUNE_OUT": str(folder / f"handled-{host}.json"),
            "STREAMTUNE_HOSTS": str(network.count),
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "bytewax.run", "streamtune.labs.hosts.timely_flow:flow"]
        command += ["-i", str(host), "-a", addresses, "-s", "3600"]
        errors = (folder / f"errors-{host}.txt").open("wb")
        children.append(network.start(host, command, env=env, stderr=errors, stdout=errors))
        errors.close()
    while any(child.poll() is None for child in children):
        failed = [host for host, child in enumerate(children) if child.poll() not in (None, 0)]
        if failed or time.monotonic() - start > timeout_s:
            for child in children:
                child.kill()
            raise EngineError(_why(folder, failed, timeout_s))
        sleep(0.05)
    failed = [host for host, child in enumerate(children) if child.returncode != 0]
    if failed:
        raise EngineError(_why(folder, failed, timeout_s))
    traffic = tuple(now - then for now, then in zip(network.traffic(), before, strict=True))
    left = [json.loads((folder / f"handled-{host}.json").read_text(encoding="utf-8")) for host in range(network.count)]
    handled: dict[int, int] = {}
    for task, count in (pair for entry in left for pair in entry["handled"].items()):
        handled[int(task)] = handled.get(int(task), 0) + count
    busy = [entry for entry in left if entry["handled"]]
    span = max(entry["last_s"] for entry in busy) - min(entry["first_s"] for entry in busy) if busy else 0.0
    emitted = sum(count for _, count in work.sources.values())
    return HostRun(traffic, handled, emitted, span)


def _why(folder: Path, failed: list[int], timeout_s: float) -> str:
    if not failed:
        return f"the Timely workers were not done after {timeout_s:g} s: give a longer timeout or fewer tuples"
    tail = (
        (folder / f"errors-{failed[0]}.txt").read_text(encoding="utf-8", errors="replace").strip()[-_TAIL_CHARACTERS:]
    )
    return f"the Timely worker on host {failed[0]} died: {tail or 'it said nothing'}"
