"""Files wherever Spark can reach them (local disk, HDFS, object stores), through Hadoop's own file system classes."""

from __future__ import annotations

import os
import re
import uuid
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from streamtune.spark.errors import StorageError

# A folder with one link that leads back up is listed some forty times; whatever is listed more often has no end.
_FEW_FOLDERS = 200
_ROUNDS = 50


@dataclass(frozen=True)
class FileStatus:
    """One file: its full address, its size, and when it was last changed (ms since 1970).

    ``is_ordinary`` is false for pipes, sockets and devices, and where Java cannot spell the name. Such a name is shown
    in ``path``, and ``spelled`` is what the system calls it.
    """

    path: str
    size_bytes: int
    modified_ms: int
    is_ordinary: bool = True
    spelled: str = ""


def literal(path: str) -> str:
    """A path as Spark's readers want it: they take every path for a pattern, so what means something in one is escaped.

    >>> literal("/runs/a[1].jsonl")
    '/runs/a\\\\[1\\\\].jsonl'
    """
    return re.sub(r"([\\\[\]{}*?^])", r"\\\1", path)


class Files:
    """The few file operations that storage and ingest need."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._conf: Any = spark.sparkContext._jsc.hadoopConfiguration()

    def _at(self, path: str) -> tuple[Any, Any]:
        address = self._jvm.org.apache.hadoop.fs.Path(path)
        return address.getFileSystem(self._conf), address

    def exists(self, path: str) -> bool:
        system, address = self._at(path)
        return bool(system.exists(address))

    def local_path(self, folder: str) -> str | None:
        """Where a folder is on a disk that Python can open; None for any other file system."""
        system, address = self._at(folder)
        if str(system.getUri().getScheme()) != "file":
            return None
        path = str(system.makeQualified(address).toUri().getPath())
        return path if os.path.isdir(path) else None

    def delete(self, path: str) -> None:
        system, address = self._at(path)
        system.delete(address, True)

    def names(self, folder: str) -> list[str]:
        """Names in a folder, sorted; none where the folder does not exist."""
        system, address = self._at(folder)
        if not system.exists(address):
            return []
        return sorted(str(status.getPath().getName()) for status in system.listStatus(address))

    def read_text(self, path: str) -> str:
        system, address = self._at(path)
        stream = system.open(address)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def read_tail(self, path: str, count: int) -> bytes:
        """The last ``count`` bytes of a file (all of it when it is shorter)."""
        system, address = self._at(path)
        size = system.getFileStatus(address).getLen()
        stream = system.open(address)
        try:
            stream.seek(max(0, size - count))
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def create_text(self, path: str, text: str) -> bool:
        """Write a new file, completely or not at all; False if another process has written it already.

        A rename that does not overwrite is atomic on local disks and HDFS; on an object store the upload is.
        """
        system, address = self._at(path)
        waiting = self._jvm.org.apache.hadoop.fs.Path(address.getParent(), f".{address.getName()}.{uuid.uuid4().hex}")
        stream = system.create(waiting, False)
        try:
            stream.write(text.encode("utf-8"))
        finally:
            stream.close()
        if system.exists(address) or not system.rename(waiting, address):
            system.delete(waiting, False)
            return False
        self._sweep_waiting(system, address)
        return True

    def _sweep_waiting(self, system: Any, address: Any) -> None:
        """Remove what killed writers of the same file have left beside it."""
        prefix = f".{address.getName()}."
        for status in system.listStatus(address.getParent()):
            if str(status.getPath().getName()).startswith(prefix):
                system.delete(status.getPath(), False)

    def list_inputs(self, pattern: str) -> list[FileStatus]:
        """All files below the paths that a glob pattern names; hidden ones and Spark's bookkeeping are left out."""
        system, address = self._at(pattern)
        matches = [system.getFileStatus(address)] if system.exists(address) else system.globStatus(address)
        if not matches:
            raise StorageError(f"no file or folder '{pattern}': check the path")
        found: list[FileStatus] = []
        waiting = list(matches)
        visited: set[str] = set()
        while waiting:
            status = waiting.pop()
            name = str(status.getPath().getName())
            if status.isDirectory():
                place = _real(str(status.getPath().toString()))
                if place in visited:  # a link that leads back up
                    continue
                visited.add(place)
                found += unspellable(place)
                waiting.extend(
                    child
                    for child in system.listStatus(status.getPath())
                    if not str(child.getPath().getName()).startswith(("_", "."))
                )
            elif not name.startswith(("_", ".")):
                path = str(status.getPath().toString())
                size, modified = int(status.getLen()), int(status.getModificationTime())
                found.append(FileStatus(path, size, modified, is_ordinary(path)))
        # What is in a folder of such a name is read where a link with a sound one leads to it.
        return sorted((one for one in found if one.spelled not in visited), key=lambda entry: entry.path)


def is_ordinary(path: str) -> bool:
    """False for a local pipe, socket or device: whoever opens it may wait forever."""
    real = _real(path)
    return not os.path.exists(real) or os.path.isfile(real)


def unspellable(folder: str) -> list[FileStatus]:
    """What a local folder holds under names that are not UTF-8: Java does not see it, and it would be lost unseen."""
    if not os.path.isdir(folder):
        return []
    found = []
    for entry in os.scandir(os.fsencode(folder)):
        try:
            entry.name.decode("utf-8")
        except UnicodeDecodeError:
            if not entry.name.startswith((b"_", b".")) and os.path.exists(entry.path):
                shown = f"file:{entry.path.decode('utf-8', 'backslashreplace')}"
                about = entry.stat()
                spelled = os.path.realpath(os.fsdecode(entry.path))
                found.append(FileStatus(shown, about.st_size, about.st_mtime_ns // 10**6, False, spelled))
    return found


def unseen_below(spark: SparkSession, folder: str) -> list[FileStatus]:
    """Files that Spark's readers pass over in silence: empty ones, pipes among them, and names that are not UTF-8.

    One that a link with a sound name leads to is not among them: it is read by that name.
    """
    if _is_remote(folder):
        return [file for file in Files(spark).list_inputs(folder) if not file.size_bytes]
    found: list[FileStatus] = []
    visited: set[str] = set()
    linked: set[str] = set()
    for place, names, files in os.walk(folder.removeprefix("file:"), followlinks=True):
        names[:] = [name for name in names if not name.startswith(("_", ".")) and _is_spellable(name)]
        if os.path.realpath(place) in visited:  # a link that leads back up
            names.clear()
            continue
        visited.add(os.path.realpath(place))
        found += unspellable(place)
        for name in files:
            path = os.path.join(place, name)
            if not name.startswith(("_", ".")) and _is_spellable(name) and os.path.exists(path):
                about = os.stat(path)
                if os.path.islink(path):
                    linked.add(os.path.realpath(path))
                if not about.st_size:
                    modified = about.st_mtime_ns // 10**6
                    found.append(FileStatus(f"file:{os.path.abspath(path)}", 0, modified, os.path.isfile(path)))
    return [file for file in found if file.spelled not in visited | linked]


def endless_links(folder: str) -> list[str]:
    """Links below a local folder, where whoever follows them all would list its folders without end; none elsewhere.

    The system follows forty links on the way to a file. One that leads back up makes a list forty times as long; where
    there are two ways round, it doubles with each of them: 2⁴⁰ folders.
    """
    if _is_remote(folder):
        return []
    links: set[str] = set()
    places: set[str] = set()
    waiting, seen = [folder.removeprefix("file:")], 0
    while waiting:
        place = waiting.pop()
        seen += 1
        places.add(os.path.realpath(place))
        if seen > _FEW_FOLDERS + _ROUNDS * len(places):
            return sorted(links)
        try:
            folders = [entry for entry in os.scandir(place) if not entry.name.startswith(("_", ".")) and _is_dir(entry)]
        except OSError:  # forty links on the way, or gone since
            continue
        links.update(os.path.join(os.path.realpath(place), entry.name) for entry in folders if entry.is_symlink())
        waiting.extend(entry.path for entry in folders)
    return []


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def leads_in_circles(path: str) -> bool:
    """Does a local path go through a link back to a folder that it has been in already?"""
    if _is_remote(path):
        return False
    folders = [os.path.realpath(parent) for parent in PurePath(path.removeprefix("file:")).parents]
    return len(set(folders)) < len(folders)


def _is_spellable(name: str) -> bool:
    return not any("\udc80" <= letter <= "\udcff" for letter in name)


def _is_remote(path: str) -> bool:
    return urlsplit(path).scheme not in ("", "file")


def _real(path: str) -> str:
    """A local folder without links; any other as it is."""
    return os.path.realpath(path.removeprefix("file:")) if path.startswith(("file:", "/")) else path
