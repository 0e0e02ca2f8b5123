"""Disks that are small, full or read-only: a tmpfs where we may mount one, else a limit on the size of files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PAGE = 4096
FILLER = "filler"


@dataclass
class Disk:
    """A folder whose room is ours to give."""

    folder: Path
    mounted: bool
    room: dict[str, Any] = field(default_factory=dict)  # how a process is told, where nothing could be mounted

    def fill(self, room_bytes: int) -> None:
        """Leave no more room than that."""
        if not self.mounted:
            self.room = {"largest_file": max(1, room_bytes)}
            return
        free = os.statvfs(self.folder).f_bavail * PAGE
        with (self.folder / FILLER).open("wb") as file:
            file.write(b"\0" * max(0, free - room_bytes))

    def make_room(self) -> None:
        self.room = {}
        (self.folder / FILLER).unlink(missing_ok=True)

    def remount(self, how: str) -> None:
        """``ro`` or ``rw``."""
        subprocess.run(["mount", "-o", f"remount,{how}", str(self.folder)], check=True, capture_output=True)


def can_mount(folder: Path) -> bool:
    """Root of a container may still not be allowed to."""
    if os.geteuid() != 0:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    tried = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], capture_output=True, check=False)
    if tried.returncode == 0:
        subprocess.run(["umount", str(folder)], check=True)
    return tried.returncode == 0


@contextmanager
def small_disk(folder: Path, size_kb: int) -> Iterator[Disk]:
    folder.mkdir(parents=True, exist_ok=True)
    if not can_mount(folder.with_name("probe")):
        yield Disk(folder, mounted=False)
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_kb}k", "tmpfs", str(folder)], check=True)
    disk = Disk(folder, mounted=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
