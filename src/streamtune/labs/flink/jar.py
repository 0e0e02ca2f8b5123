"""The small Java job that builds job specs: compiled on first use, and cached by its sources and Flink's version."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from streamtune.errors import EngineError
from streamtune.labs.flink.distribution import FlinkDistribution, java_tool

EMULATED_JOB = "streamtune.workload.EmulatedJob"
SQL_JOB = "streamtune.workload.SqlJob"
_SOURCES = Path(__file__).parent / "java"


def cache_folder() -> Path:
    """Where compiled jars are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "streamtune" / "flink"


def workload_jar(distribution: FlinkDistribution, folder: Path | None = None) -> Path:
    """The jar for this version of Flink, compiled now if it is not there yet."""
    sources = sorted(_SOURCES.glob("*.java"))
    digest = hashlib.sha256(distribution.version.encode())
    for source in sources:
        digest.update(source.read_bytes())
    jar = (folder or cache_folder()) / f"streamtune-workload-{distribution.version}-{digest.hexdigest()[:12]}.jar"
    if not jar.exists():
        compile_jar(sources, distribution, jar, main_class=EMULATED_JOB)
    return jar


def compile_jar(
    sources: Iterable[Path], distribution: FlinkDistribution, jar: Path, main_class: str | None = None
) -> Path:
    """Java sources, compiled against this version of Flink and packed; the jar is there as a whole or not at all."""
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jar.parent) as scratch:
        classes, packed = Path(scratch) / "classes", Path(scratch) / jar.name
        _compile(sources, distribution, classes)
        _pack(classes, packed, main_class)
        packed.replace(jar)  # atomically: two processes that compile side by side both end with a complete jar
    return jar


def _compile(sources: Iterable[Path], distribution: FlinkDistribution, target: Path) -> None:
    command = [java_tool("javac"), "-nowarn", "-cp", distribution.class_path, "-d", str(target), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip())
        raise EngineError(f"the workload does not compile against Flink {distribution.version}: {first}")


def _pack(classes: Path, jar: Path, main_class: str | None) -> None:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        if main_class is not None:
            archive.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\nMain-Class: {main_class}\n\n")
        for file in sorted(classes.rglob("*.class")):
            archive.write(file, file.relative_to(classes).as_posix())
