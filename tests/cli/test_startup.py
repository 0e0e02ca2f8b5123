"""How the command line starts: by question, and with nothing heavy on board."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    *("torch", "torch_geometric", "pyspark", "sklearn", "xgboost", "matplotlib", "scipy", "numba", "httpx", "pandas"),
    *("pyarrow", "numpy", "jinja2", "bytewax", "safetensors"),
)
LIGHT = (
    "import streamtune.cli",
    "from streamtune.config import all_sections; all_sections()",
    "import streamtune.tuners, streamtune.engines.simulator, streamtune.engines.flink, streamtune.engines.timely",
    "import streamtune.similarity, streamtune.readings, streamtune.workloads, streamtune.labs.flink",
    "import streamtune.models.encoder, streamtune.tuners.streamtune, streamtune.control.guards",
)


@pytest.mark.parametrize("statement", LIGHT)
def test_nothing_heavy_is_loaded(statement: str) -> None:
    """In a process of its own: here others have loaded everything long ago."""
    code = f"import sys; {statement}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("arguments", [["--help"], ["config", "show"], ["validate", "absent.yaml"]])
def test_neither_do_the_commands_that_only_look(arguments: list[str]) -> None:
    code = (
        f"import sys; sys.argv = ['streamtune', *{arguments!r}]\n"
        "from streamtune.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print('loaded:', *[name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip().splitlines()[-1] == "loaded:"


@pytest.mark.parametrize(
    "room",
    [
        *("tuners", "tuners.streamtune", "engines.simulator", "engines.flink", "engines.timely", "readings"),
        *("similarity", "workloads", "labs.flink", "models.encoder"),
    ],
)
def test_every_name_that_a_room_offers_is_there(room: str) -> None:
    from importlib import import_module

    package = import_module(f"streamtune.{room}")
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        package.nothing  # noqa: B018


def test_help_is_ordered_by_question() -> None:
    from typer.testing import CliRunner

    from streamtune.cli import QUESTIONS, app

    text = CliRunner().invoke(app, ["--help"]).stdout
    places = [text.index(f"{question}:") for question in QUESTIONS]
    assert places == sorted(places)
    first = text[places[0] : places[1]]
    assert all(f"\n  {name} " in first for name in ("tune", "recommend", "compare"))
    assert "Commands:" not in text
