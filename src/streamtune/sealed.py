"""Sealed folders: files with a manifest and checksums, written whole or not at all, refused when damaged."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streamtune.errors import StreamTuneError
from streamtune.outputs import check_folder, is_alive
from streamtune.signatures import Keys, check_signature, sign_written

MANIFEST = "manifest.json"
LONGEST_NAME = 200  # of a file that a manifest names, in an error
# Names a half-filled folder, with the number of the process that fills it.
_HOST = re.sub("[^A-Za-z0-9.]", "_", socket.gethostname())


class SealedFolderError(StreamTuneError):
    """A sealed folder that cannot be read or written."""


def check_target(path: Path, what: str, marker: str = MANIFEST) -> None:
    """Refuse a path that holds anything but an older folder of the same kind, which has a file ``marker``."""
    try:
        taken = path.exists() and not (path / marker).exists() and any(path.iterdir() if path.is_dir() else [path])
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SealedFolderError(f"{path} cannot be written: {why}. Choose another --out") from error
    check_folder(path.absolute().parent, "--out")
    if not path.name:
        raise SealedFolderError(f"'{path}' is no name for a {what}: give a new folder")
    if taken:
        raise SealedFolderError(f"{path} exists and is not a {what}: choose another --out, or remove it")


@contextmanager
def whole_folder(path: Path, what: str, marker: str = MANIFEST) -> Iterator[Path]:
    """A new folder to fill. At the end it is moved into place as a whole and replaces an older one of its kind."""
    path = Path(path)
    check_target(path, what, marker)
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep_abandoned(path)
    _finish_replacement(path)
    staging = Path(tempfile.mkdtemp(prefix=f".{path.name}.{_HOST}-{os.getpid()}-", dir=path.parent))
    try:
        yield staging
        check_target(path, what, marker)
        _put_in_place(staging, path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _sweep_abandoned(path: Path) -> None:
    """Remove what writers that were killed on this machine have left half filled."""
    for folder in path.parent.glob(f".{glob.escape(path.name)}.{_HOST}-*-*"):
        number = folder.name.removeprefix(f".{path.name}.{_HOST}-").partition("-")[0]
        if number.isdecimal() and not is_alive(int(number)):
            shutil.rmtree(folder, ignore_errors=True)


def write_sealed(path: Path, files: Mapping[str, bytes], manifest: Mapping[str, Any], what: str) -> None:
    """Write the files and a manifest with their checksums. The manifest needs ``format`` and ``version``."""
    with whole_folder(path, what) as staging:
        for name, content in files.items():
            file = staging / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        sealed = {**manifest, "checksums": checksums_below(staging)}
        write_manifest(staging, json.dumps(sealed, indent=1) + "\n")
        sign_written(staging, MANIFEST)


def write_manifest(folder: Path, text: str, name: str = MANIFEST) -> None:
    """The manifest, which holds the checksums of all other files, and in a file beside it its own checksum."""
    (folder / name).write_bytes(text.encode("utf-8"))
    _seal(folder, name).write_text(checksum(text.encode("utf-8")) + "\n", encoding="ascii")


def has_whole_manifest(folder: Path, name: str = MANIFEST) -> bool:
    """Is the manifest what was written, to the bit? Release 0.1.0 wrote no checksum of it: there, nobody can say."""
    seal = _seal(folder, name)
    return not seal.exists() or seal.read_bytes() == f"{checksum((folder / name).read_bytes())}\n".encode()


def _seal(folder: Path, name: str) -> Path:
    return (folder / name).with_suffix(".sha256")


def checksums_below(folder: Path) -> dict[str, str]:
    """File name → checksum of everything in a folder."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): checksum(file.read_bytes()) for file in files}


def read_sealed(path: Path, format_name: str, version: int) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and the checked contents of all files."""
    path = Path(path)
    content = _manifest_bytes(path, format_name)
    check_signature(path, MANIFEST, content)
    manifest = _parsed(path, content)
    if not isinstance(manifest, dict) or manifest.get("format") != format_name:
        raise SealedFolderError(f"{path} is not a {format_name}: its manifest says something else. Check the path")
    if manifest.get("version") != version:
        raise SealedFolderError(
            f"{path} has version {manifest.get('version')}, this release reads {version}: make it again"
        )
    return manifest, _contents(path, manifest)


def sign_folder(path: Path, keys: Keys) -> str:
    """Sign a sealed folder of any kind, if it is whole; returns the name of the key."""
    _contents(path, _parsed(path, _manifest_bytes(path, "model")))
    return keys.sign(path, MANIFEST)


def verify_folder(path: Path, keys: Keys) -> str:
    """The name of the key that signed a sealed folder of any kind, every file of which is what was signed."""
    content = _manifest_bytes(path, "model")
    signer = keys.check(path, MANIFEST, content)
    _contents(path, _parsed(path, content))
    return signer


def _manifest_bytes(path: Path, what: str) -> bytes:
    file = path / MANIFEST
    try:
        if file.is_file():
            return file.read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SealedFolderError(f"{file} cannot be read: {why}. Check the path") from error
    raise SealedFolderError(f"{path} is not a {what}: it has no {MANIFEST}. Check the path")


def _parsed(path: Path, manifest: bytes) -> Any:
    try:
        return json.loads(manifest.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise SealedFolderError(
            f"{path / MANIFEST} is damaged: it is not valid JSON. Restore it, or make it again"
        ) from error


def _contents(path: Path, manifest: Any) -> dict[str, bytes]:
    checksums = manifest.get("checksums") if isinstance(manifest, dict) else None
    if not isinstance(checksums, dict):
        raise SealedFolderError(f"{path} is damaged: its manifest lists no checksums. Restore it, or make it again")
    if not has_whole_manifest(path):
        raise SealedFolderError(
            f"{path / MANIFEST} is damaged: it is not what was written. Restore it, or make it again"
        )
    return {name: _checked(path / name, name, expected) for name, expected in checksums.items()}


def _checked(file: Path, name: str, expected: str) -> bytes:
    try:
        content = file.read_bytes()
    except (OSError, ValueError) as error:  # also a name that no file can have
        what = f"{name[:LONGEST_NAME]} is missing, or cannot be read"
        raise SealedFolderError(f"{file.parent} is damaged: {what}. Restore it, or make it again") from error
    if checksum(content) != expected:
        raise SealedFolderError(
            f"{file.parent} is damaged: {name} is not what was written. Restore it, or make it again"
        )
    return content


def _put_in_place(staging: Path, path: Path) -> None:
    """Move the new folder into place. An old one is moved aside first, so that a crash leaves one of the two."""
    staging.chmod(0o755)
    if not path.exists():
        os.rename(staging, path)
        return
    aside = _aside(path)
    shutil.rmtree(aside, ignore_errors=True)
    os.rename(path, aside)
    os.rename(staging, path)
    shutil.rmtree(aside, ignore_errors=True)


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


def _finish_replacement(path: Path) -> None:
    """After a kill between the two renames the old folder is back; after one behind them its copy is gone."""
    aside = _aside(path)
    if aside.is_dir() and not path.exists():
        os.rename(aside, path)
    elif aside.is_dir():
        shutil.rmtree(aside, ignore_errors=True)


def checksum(content: bytes) -> str:
    """SHA-256, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()
