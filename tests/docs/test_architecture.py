"""The table of rooms against the contracts of import-linter and against the folders themselves."""

from __future__ import annotations

import re
import tomllib

from streamtune_docs.blocks import DOCS
from streamtune_docs.rooms import ROOT, folders, rooms, table

MOST_ROOMS = 24


def _layers() -> list[list[str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [contract for contract in contracts if contract["type"] == "layers"]
    assert len(layers) == 1
    assert layers[0]["exhaustive"]
    return [re.split(r"\s*[|:]\s*", layer.replace("(", "").replace(")", "")) for layer in layers[0]["layers"]]


def test_the_page_has_the_table() -> None:
    assert table() in (DOCS / "explanation" / "architecture.md").read_text()


def test_a_room_may_import_the_layers_below_and_nothing_else() -> None:
    depth = {name: number for number, layer in enumerate(_layers()) for name in layer}
    listed = rooms()
    names = {room.name for room in listed}
    for room in listed:
        assert set(room.may_import) == {name for name in names if depth[name] > depth[room.name]}


def test_every_folder_and_module_is_a_row() -> None:
    source = ROOT / "src" / "streamtune"
    modules = {path.stem for path in source.glob("*.py")} - {"__init__", "__main__"}
    assert {room.name for room in rooms()} == modules | set(folders())


def test_every_room_says_what_it_holds() -> None:
    assert not [room.name for room in rooms() if len(room.holds) < 20]


def test_the_package_reads_as_a_table_of_contents() -> None:
    assert len(folders()) <= MOST_ROOMS


def test_exceptions_are_named() -> None:
    by_name = {room.name: room for room in rooms()}
    assert "`dataflow.physics`" in by_name["tuners"].but_not
    assert by_name["cli"].but_not == ("`experiments` (except in `cli.demo`, `cli.bench`)",)
