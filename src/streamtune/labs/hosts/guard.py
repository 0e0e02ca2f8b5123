"""Removes the namespaces of a lab when its owner is gone, however it went. Needs the standard library alone.

    python guard.py PREFIX FOLDER    reads stdin: a line "done" ends it without doing anything, the end of the pipe
                                     means the owner died (killed, crashed, lost its shell): then everything is
                                     removed, the lab's folder of temporary files too.

A process cannot clean up after its own SIGKILL. This one waits in a session of its own, so that what kills the owner's
group does not reach it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time

NAME = re.compile(r"^(st(\d+)x)(sw|h\d+)$")
FOLDER = "streamtune-hosts-"
_TRIES = 50


def namespaces(prefix: str | None = None) -> list[str]:
    """Our namespaces that exist, of one lab or of all."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
    names = [line.split()[0] for line in listed.splitlines() if line.strip()]
    ours = [(name, match) for name in names if (match := NAME.match(name))]
    return [name for name, match in ours if prefix is None or match[1] == prefix]


def remove(prefix: str) -> None:
    """End every process in a lab's namespaces and remove them, and their links with them."""
    names = namespaces(prefix)
    for name in names:
        for _ in range(_TRIES):
            inside = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False).stdout
            if not inside.split():
                break
            for pid in inside.split():
                with contextlib.suppress(ProcessLookupError, ValueError):
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.02)
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def stale() -> set[str]:
    """Prefixes of labs whose owner is not alive any more."""
    owners = {(match[1], int(match[2])) for name in namespaces() if (match := NAME.match(name))}
    return {prefix for prefix, pid in owners if not os.path.exists(f"/proc/{pid}")}


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if "done" not in sys.stdin.read():
        remove(sys.argv[1])
        if os.path.basename(sys.argv[2]).startswith(FOLDER):
            shutil.rmtree(sys.argv[2], ignore_errors=True)


if __name__ == "__main__":
    main()
