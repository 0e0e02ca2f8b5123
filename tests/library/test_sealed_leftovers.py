"""A writer that was killed leaves a half-filled folder; the next one removes it, and no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamtune.errors import StreamTuneError
from streamtune.sealed import MANIFEST, read_sealed, whole_folder, write_sealed

KILLED = """
import os, signal, sys
from pathlib import Path
from streamtune.sealed import whole_folder
with whole_folder(Path(sys.argv[1]), "bundle") as staging:
    (staging / "half").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_only_what_the_dead_have_left_is_swept(tmp_path: Path) -> None:
    target = tmp_path / "mo[d]el"
    assert subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False).returncode == -9
    (left,) = tmp_path.iterdir()
    living = left.with_name(left.name.replace(left.name.split("-")[-2], str(os.getpid())))
    living.mkdir()
    with whole_folder(target, "bundle") as staging:
        (staging / "manifest.json").write_text("{}")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([living.name, target.name])


def test_a_kill_between_the_two_renames_loses_nothing(tmp_path: Path) -> None:
    """The old folder was moved aside, the new one not yet in its place: for ever, until somebody looked."""
    target, aside = tmp_path / "model", tmp_path / ".model.old"
    write_sealed(target, {"a": b"old"}, {"format": "f", "version": 1}, "model")
    target.rename(aside)
    with pytest.raises(RuntimeError), whole_folder(target, "model"):
        raise RuntimeError("the next writer fails too")
    assert read_sealed(target, "f", 1)[1] == {"a": b"old"}
    aside.mkdir()  # killed behind the second rename
    write_sealed(target, {"a": b"new"}, {"format": "f", "version": 1}, "model")
    assert read_sealed(target, "f", 1)[1] == {"a": b"new"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_one_flipped_bit_in_a_manifest_is_found(tmp_path: Path) -> None:
    """Whichever it is: in a number, in a name, in a checksum, in the seal."""
    write_sealed(tmp_path / "model", {"a": b"x"}, {"format": "f", "version": 1, "error": 0.25}, "model")
    for name in (MANIFEST, "manifest.sha256"):
        file = tmp_path / "model" / name
        whole = file.read_bytes()
        for place in range(len(whole)):
            for bit in range(8):
                file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
                with pytest.raises(StreamTuneError):
                    read_sealed(tmp_path / "model", "f", 1)
        file.write_bytes(whole)
    assert read_sealed(tmp_path / "model", "f", 1)[1] == {"a": b"x"}
    (tmp_path / "model" / "manifest.sha256").unlink()  # as release 0.1.0 wrote it
    assert read_sealed(tmp_path / "model", "f", 1)[1] == {"a": b"x"}
