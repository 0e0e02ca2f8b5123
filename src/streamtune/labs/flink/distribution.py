"""Where Flink's jars and Java are: the pip package, or a folder of the user's choice."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from streamtune.errors import EngineError

HOME_VARIABLE = "STREAMTUNE_FLINK_HOME"
_OLDEST_JAVA = 11
_INSTALL_FLINK = "install the extra 'flink' with pip install 'streamtune[flink]'"


@dataclass(frozen=True)
class FlinkDistribution:
    """A folder with ``lib/flink-dist-*.jar``: a Flink download, or what the pip package brings."""

    home: Path

    @classmethod
    def find(cls, home: Path | None = None) -> FlinkDistribution:
        """The given folder, else ``$STREAMTUNE_FLINK_HOME``, else the installed pip package."""
        given = home or (Path(os.environ[HOME_VARIABLE]) if os.environ.get(HOME_VARIABLE) else None)
        if given is None:
            # The package is a namespace of jars without code; it is found, never imported.
            package = importlib.util.find_spec("pyflink")
            places = list(package.submodule_search_locations or ()) if package else []
            if not places:
                raise EngineError(f"Flink is not installed: {_INSTALL_FLINK}, or set {HOME_VARIABLE}")
            given = Path(places[0])
        distribution = cls(given.resolve())
        if not distribution._dist_jars:
            raise EngineError(
                f"{given} is no Flink, it has no lib/flink-dist-*.jar: {_INSTALL_FLINK}, or set {HOME_VARIABLE}"
            )
        return distribution

    @property
    def _dist_jars(self) -> list[Path]:
        return sorted((self.home / "lib").glob("flink-dist-*.jar"))

    @property
    def class_path(self) -> str:
        return str(self.home / "lib" / "*")

    @cached_property
    def version(self) -> str:
        """As in the name of the jar, for instance 2.3.0."""
        return self._dist_jars[-1].stem.removeprefix("flink-dist-").removeprefix("flink-dist_2.12-")


def java_tool(name: str) -> str:
    """The path of ``java`` or ``javac``; JAVA_HOME goes before PATH."""
    home = os.environ.get("JAVA_HOME")
    given = Path(home) / "bin" / name if home else None
    if given is not None and given.exists():
        if not os.access(given, os.X_OK):
            raise EngineError(f"{given} cannot be executed: change its permissions, or set JAVA_HOME to another JDK")
        return str(given)
    found = shutil.which(name)
    if found is None:
        raise EngineError(
            f"'{name}' was not found: Flink needs a JDK 11 or newer "
            "(Debian/Ubuntu: apt-get install openjdk-17-jdk-headless; macOS: brew install openjdk@17)"
        )
    return found


def check_java() -> str:
    """The path of a ``java`` that Flink can run on."""
    java = java_tool("java")
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise EngineError(f"{java} cannot be executed: {error.strerror}. Set JAVA_HOME to another JDK") from error
    told = answer.stderr
    match = re.search(r'version "(\d+)', told)
    if match is None or int(match[1]) < _OLDEST_JAVA:
        first = told.splitlines()[0] if told else "nothing"
        raise EngineError(f"Flink needs Java {_OLDEST_JAVA} or newer, but '{java} -version' says: {first}")
    return java
