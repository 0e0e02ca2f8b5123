"""``import streamtune``: few names, each with an example, and nothing loaded before it is used."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import streamtune

SOURCE = Path(streamtune.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
NAMES = [name for name in streamtune.__all__ if name != "__version__"]
# Packages whose names are loaded lazily.
LAZY = sorted(
    ".".join(("streamtune", *path.parent.relative_to(SOURCE).parts))
    for path in SOURCE.rglob("__init__.py")
    if "lazily(" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there_and_has_an_example(name: str) -> None:
    """The example is in the docstring of the name, and runs with the doctests of its module."""
    value = getattr(streamtune, name)
    assert getattr(streamtune, name) is value
    assert name in dir(streamtune)
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(value) or "")
    assert examples, f"give {name} an example"


def test_unknown_names_are_refused_as_everywhere() -> None:
    with pytest.raises(AttributeError, match="module 'streamtune' has no attribute 'Tunr'"):
        streamtune.Tunr  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError):
        from streamtune import Tunr  # type: ignore[attr-defined]  # noqa: F401


@pytest.mark.parametrize("package", LAZY)
def test_type_checkers_and_programs_see_the_same_names(package: str) -> None:
    module = importlib.import_module(package)
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    branch = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.name: node.module for node in branch.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    table = next(node for other in branch.orelse for node in ast.walk(other) if isinstance(node, ast.Dict))
    lazy = {name: f"{package}.{home}" for home, names in ast.literal_eval(table).items() for name in names}
    assert lazy == typed
    assert set(lazy) <= set(module.__all__)


def loaded_by(statement: str) -> set[str]:
    """The packages that an interpreter has loaded after a statement."""
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return set(json.loads(answer.stdout.splitlines()[-1]))


def test_the_facade_loads_nothing() -> None:
    loaded = loaded_by("import streamtune; streamtune.__version__, dir(streamtune)")
    assert {name for name in loaded if name.startswith("streamtune")} == {
        "streamtune",
        "streamtune.errors",
        "streamtune.extras",
        "streamtune.lazy",
    }
    assert not loaded & {"numpy", "pydantic", "yaml", "numba", "httpx", "torch", "pyspark", "scipy", "typer"}


def test_names_and_settings_of_tuners_load_no_method() -> None:
    loaded = loaded_by("from streamtune.tuners import StreamTuneSettings, TUNERS, tuner_names; list(TUNERS)")
    assert not loaded & {"streamtune.tuners.ds2", "streamtune.tuners.streamtune.tuner", "scipy", "sklearn", "xgboost"}


def test_there_is_one_version_number() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in pyproject["project"]
    assert pyproject["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "streamtune.__version__"}
    assert f"\n## {streamtune.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_lock_pins_everything_exactly() -> None:
    """torch has to be spelled like this: an index of CPU builds serves it with a local version, PyPI without."""
    entries = re.sub(r"\\\n\s*", " ", (ROOT / "requirements.lock").read_text(encoding="utf-8")).splitlines()
    lines = [entry.split(" ")[0] for entry in entries]
    assert [line for line in lines if line.count("==") != 1 or "+" in line] == []
    unhashed = [entry for entry in entries if not re.fullmatch(r"\S+( +--hash=sha256:[0-9a-f]{64})+", entry)]
    assert unhashed == ["torch==2.13.0"]
    assert "torch==2.13.0" in lines
    assert any(line.startswith("setuptools==") for line in lines)
