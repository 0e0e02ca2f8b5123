"""The table of rooms: what each holds, by its docstring, and what it may import, by the contracts of import-linter."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = "streamtune"


@dataclass(frozen=True)
class Room:
    """One folder, or one module that stands by itself."""

    name: str
    holds: str
    may_import: tuple[str, ...]
    but_not: tuple[str, ...]


def rooms(root: Path = ROOT) -> list[Room]:
    """From top to bottom, as the layers contract lists them."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = [_names(layer) for layer in next(c for c in contracts if c["type"] == "layers")["layers"]]
    source = root / "src" / PACKAGE
    return [
        Room(
            name,
            _holds(source, name),
            tuple(other for lower in layers[depth + 1 :] for other in lower if _exists(source, other)),
            _forbidden(contracts, name),
        )
        for depth, layer in enumerate(layers)
        for name in layer
        if _exists(source, name)
    ]


def folders(root: Path = ROOT) -> list[str]:
    """The rooms that are folders, as ``ls src/streamtune`` shows them."""
    return sorted(path.parent.name for path in (root / "src" / PACKAGE).glob("*/__init__.py"))


def table(root: Path = ROOT) -> str:
    """The rooms as a Markdown table."""
    rows = ["| room | what it holds | may import | but not |", "| --- | --- | --- | --- |"]
    for room in rooms(root):
        cells = (f"`{room.name}`", room.holds, _shown(room.may_import), ", ".join(room.but_not))
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join([*rows, "", *_homes(root)])


def _homes(root: Path) -> list[str]:
    """Where heavy libraries may be imported: the names of the contracts that say it."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    outside = [c["name"] for c in contracts if not str(c.get("forbidden_modules", [PACKAGE])[0]).startswith(PACKAGE)]
    return [f"- {name.replace(' lives in ', ' lives in: ')}" for name in outside]


def _names(layer: str) -> list[str]:
    """The rooms of one layer; a name in brackets is a room that need not be there.

    >>> _names("training | (reports)")
    ['training', 'reports']
    """
    return re.findall(r"\w+", layer)


def _exists(source: Path, name: str) -> bool:
    return (source / name / "__init__.py").exists() or (source / f"{name}.py").exists()


def _holds(source: Path, name: str) -> str:
    """The first paragraph of the docstring."""
    folder = source / name / "__init__.py"
    text = (folder if folder.exists() else source / f"{name}.py").read_text(encoding="utf-8")
    paragraph = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0]
    return " ".join(paragraph.replace("``", "`").split()).replace("|", "\\|").rstrip(".")


def _forbidden(contracts: list[dict[str, Any]], name: str) -> tuple[str, ...]:
    """What the other contracts take away from a room as a whole, with the exceptions they make."""
    found: dict[str, None] = {}
    for contract in contracts:
        if contract["type"] != "forbidden" or f"{PACKAGE}.{name}" not in contract["source_modules"]:
            continue
        exempt = [ignored.split(" -> ")[0] for ignored in contract.get("ignore_imports", ())]
        except_for = f" (except in {', '.join(f'`{_short(module)}`' for module in exempt)})" if exempt else ""
        ours = [module for module in contract["forbidden_modules"] if module.startswith(PACKAGE)]
        found |= dict.fromkeys(f"`{_short(module)}`{except_for}" for module in ours)
    return tuple(found)


def _short(module: str) -> str:
    return module.removeprefix(f"{PACKAGE}.")


def _shown(names: tuple[str, ...]) -> str:
    """Rooms by name, or where there are many by the first of them: the table is in the order of the layers."""
    if len(names) > 5:
        return f"all {len(names)} from `{names[0]}` down"
    return ", ".join(f"`{name}`" for name in names) or "no other room"
