"""Extras are honest: each is enough for what it names, and what is missing is said in one sentence."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

import streamtune
from library import installed
from streamtune.extras import EXTRAS, NEEDS, MissingExtraError, explain_missing_packages
from streamtune.tuners.registry import REGISTRY

HERE = Path(__file__).parent
SOURCE = Path(streamtune.__file__).parent

# Modules that need less than their room as ``NEEDS`` has it, or more.
EXCEPTIONS: dict[str, str] = {
    "streamtune.models.features": "",
    "streamtune.reports": "",
    "streamtune.reports.advice_picture": "learn",
    "streamtune.reports.model_picture": "learn",
    "streamtune.reports.verdict_picture": "learn",
    "streamtune.tuners.ahead": "provision",
    "streamtune.engines.timely": "",
    "streamtune.engines.timely.flow": "timely",
    "streamtune.engines.timely.worker": "timely",
}
EXPECTED = {room: extras for room, (extras, _) in NEEDS.items()} | EXCEPTIONS


def modules() -> list[str]:
    """All modules of the product, the names of the façade as ``streamtune:Name``, and every tuner."""
    found = [
        ".".join(("streamtune", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        for path in sorted(SOURCE.rglob("*.py"))
    ]
    names = [f"streamtune:{name}" for name in streamtune.__all__]
    return [*found, *names, *(entry.place for entry in REGISTRY.values())]


@cache
def facade() -> dict[str, str]:
    """Where the façade's names come from, by its imports for type checkers."""
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def needs_of(name: str) -> frozenset[str]:
    """The extras that a module (or a name of the façade) needs."""
    module, _, attribute = name.partition(":")
    if attribute:
        module = facade().get(attribute, module)
    if module.endswith(".settings"):
        return frozenset()  # what can be set is known everywhere
    rooms = [room for room in EXPECTED if module == room or module.startswith(f"{room}.")]
    extras = EXPECTED[max(rooms, key=len)] if rooms else ""
    return frozenset(extras.split(",")) - {""}


def imported(extras: Iterable[str], names: list[str]) -> dict[str, str]:
    """How each import ends where nothing but these extras is installed: '' or the error."""
    answer = subprocess.run(
        [sys.executable, str(HERE / "bare_imports.py"), json.dumps(installed.refused(*extras)), json.dumps(names)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    outcome: dict[str, str] = json.loads(answer.stdout)
    return outcome


def test_a_plain_install_imports_all_that_needs_no_extra_and_says_what_the_rest_needs() -> None:
    outcome = imported((), modules())
    plain = [name for name in outcome if not needs_of(name)]
    assert {name: outcome[name] for name in plain if outcome[name]} == {}
    assert {"streamtune:Controller", "streamtune.tuners.ds2", "streamtune.control.controller"} <= set(plain)
    unclear = {
        name: error
        for name, error in outcome.items()
        if error and not (error.startswith("MissingExtraError") and "pip install 'streamtune[" in error)
    }
    assert unclear == {}


# One extra each; training and the papers' experiments need several.
@pytest.mark.parametrize(
    "extras", sorted({tuple(sorted(one.split(","))) for one in EXPECTED.values() if one}), ids="+".join
)
@pytest.mark.slow
def test_an_extra_is_enough_for_what_it_names(extras: tuple[str, ...]) -> None:
    names = [name for name in modules() if needs_of(name) == frozenset(extras)]
    if not names:
        pytest.skip(f"nothing needs {' and '.join(extras)} yet")
    assert {name: error for name, error in imported(extras, names).items() if error} == {}


def test_a_tuner_is_refused_with_its_name_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    from streamtune.tuners import check_tuner

    monkeypatch.setattr("streamtune.extras.is_installed", lambda package: package != "scipy")
    with pytest.raises(MissingExtraError) as caught:
        check_tuner("streamtune", has_model=False)
    assert str(caught.value) == (
        "the tuner 'streamtune' needs scipy, not installed here: install the extra 'learn' with "
        "pip install 'streamtune[learn]'"
    )
    assert isinstance(caught.value, ImportError)
    check_tuner("ds2", has_model=False)


def test_packages_of_a_tuner_belong_to_the_extra_it_names() -> None:
    for name, entry in REGISTRY.items():
        assert set(entry.packages) <= set(EXTRAS["learn"]), name


@pytest.mark.parametrize("extra", EXTRAS)
def test_import_names_of_an_extra_are_those_of_pyproject(extra: str) -> None:
    declared = [requirement.name for requirement in installed.declared(extra)]
    for distribution in declared:
        assert installed.import_names(distribution) & set(EXTRAS[extra]), f"{distribution} is not in EXTRAS"
    for package in EXTRAS[extra]:
        assert any(package in installed.import_names(one) for one in declared), f"{package} is not in pyproject.toml"


def test_all_brings_every_extra() -> None:
    everything = set(installed.distributions("all"))
    for extra in EXTRAS:
        assert installed.distributions(extra) <= everything, extra


def test_a_room_that_needs_several_extras_names_them_all() -> None:
    [error] = imported((), ["streamtune.experiments.platform"]).values()
    assert error.startswith("MissingExtraError: an experiment needs ")
    assert "install the extras 'spark' and 'learn' with pip install 'streamtune[spark,learn]'" in error


def test_what_no_extra_brings_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a missing package of an extra is explained; a module that fails in another way fails as it would anyway."""
    for name, text in {"odd": "import colours_of_the_wind", "lacking": "import pymetis_", "broken": "1 / 0"}.items():
        (tmp_path / f"{name}_module_of_a_test.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(streamtune, "__path__", [*streamtune.__path__, str(tmp_path)])
    monkeypatch.setitem(EXTRAS, "placement", ("pymetis_",))
    with pytest.raises(ModuleNotFoundError, match="colours_of_the_wind"):
        importlib.import_module("streamtune.odd_module_of_a_test")
    with pytest.raises(ZeroDivisionError):
        importlib.import_module("streamtune.broken_module_of_a_test")
    with pytest.raises(MissingExtraError, match=r"streamtune\[placement\]") as caught:
        importlib.import_module("streamtune.lacking_module_of_a_test")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_the_finder_is_there_once_and_minds_its_own_business() -> None:
    explain_missing_packages()
    ours = [finder for finder in sys.meta_path if finder.__class__ is type and finder.__module__ == "streamtune.extras"]
    assert len(ours) == 1
    assert ours[0].find_spec("json") is None
