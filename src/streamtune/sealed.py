"""Sealed folders: files with a manifest and checksums, written whole or not at all, refused when damaged."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamtune.errors import StreamTuneError

MANIFEST = "manifest.json"


class SealedFolderError(StreamTuneError):
    """A sealed folder that cannot be read or written."""


def write_sealed(path: Path, files: Mapping[str, bytes], manifest: Mapping[str, Any]) -> None:
    """Write the files and a manifest with their checksums; an older folder of the same kind is replaced.

    The manifest needs ``format`` and ``version``. Anything else that is in the way is refused.
    """
    path = Path(path)
    if path.exists() and not (path / MANIFEST).exists() and any(path.iterdir() if path.is_dir() else [path]):
        raise SealedFolderError(f"{path} exists and is no folder of ours: choose another --out, or remove it")
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        for name, content in files.items():
            file = staging / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        sealed = {**manifest, "checksums": {name: checksum(content) for name, content in sorted(files.items())}}
        (staging / MANIFEST).write_text(json.dumps(sealed, indent=1) + "\n", encoding="utf-8")
        put_in_place(staging, path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def read_sealed(path: Path, format_name: str, version: int) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and the checked contents of all files."""
    path = Path(path)
    file = path / MANIFEST
    if not file.is_file():
        raise SealedFolderError(f"{path} is no {format_name}: it has no {MANIFEST}. Check the path")
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise SealedFolderError(f"{file} is damaged: it is not valid JSON. Restore it, or make it again") from error
    if not isinstance(manifest, dict) or manifest.get("format") != format_name:
        raise SealedFolderError(f"{path} is no {format_name}: its manifest says something else. Check the path")
    if manifest.get("version") != version:
        raise SealedFolderError(
            f"{path} has version {manifest.get('version')}, this release reads {version}: make it again"
        )
    checksums = manifest.get("checksums")
    if not isinstance(checksums, dict):
        raise SealedFolderError(f"{path} is damaged: its manifest lists no checksums. Restore it, or make it again")
    return manifest, {name: _checked(path / name, name, expected) for name, expected in checksums.items()}


def _checked(file: Path, name: str, expected: str) -> bytes:
    if not file.is_file():
        raise SealedFolderError(f"{file.parent} is damaged: {name} is missing. Restore it, or make it again")
    content = file.read_bytes()
    if checksum(content) != expected:
        raise SealedFolderError(
            f"{file.parent} is damaged: {name} is not what was written. Restore it, or make it again"
        )
    return content


def put_in_place(staging: Path, path: Path) -> None:
    """Put the new folder in its place; an old one steps aside first, so that a crash leaves one of the two."""
    staging.chmod(0o755)
    if not path.exists():
        os.rename(staging, path)
        return
    aside = path.with_name(f".{path.name}.old")
    shutil.rmtree(aside, ignore_errors=True)
    os.rename(path, aside)
    os.rename(staging, path)
    shutil.rmtree(aside, ignore_errors=True)


def checksum(content: bytes) -> str:
    """SHA-256, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()
