"""A writer that was killed leaves a half-filled folder; the next one removes it, and no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from streamtune.sealed import whole_folder

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
