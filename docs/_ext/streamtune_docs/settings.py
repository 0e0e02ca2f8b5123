"""The settings page: every subclass of ``streamtune.settings.Settings``, by room."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import streamtune
from streamtune.settings import Settings
from streamtune_docs.fields import table

SOURCE = Path(streamtune.__file__).parent


def settings_classes() -> list[type[Settings]]:
    """All of them, by module and place in it.

    Only modules that define one are imported: which those are is read off the sources, so that nothing heavy is loaded
    for nothing.
    """
    found = []
    for module_name, class_name in _defined():
        settings = getattr(importlib.import_module(module_name), class_name)
        if issubclass(settings, Settings):
            found.append(settings)
    return found


def page() -> str:
    """One section per room, one table per class."""
    by_room: dict[str, list[type[Settings]]] = defaultdict(list)
    classes = settings_classes()
    for settings in classes:
        by_room[settings.__module__.split(".")[1]].append(settings)
    links = {settings: f"#{settings.__name__.lower()}" for settings in classes}
    sections, parts = _sections(), []
    for room in sorted(by_room):
        parts.append(f"## {room}")
        for settings in by_room[room]:
            parts.append(f"### {settings.__name__}")
            section = f" Section `{sections[settings]}` of `streamtune.yaml`." if settings in sections else ""
            parts.append(f"`{settings.__module__}.{settings.__name__}`.{section} {_summary(settings)}".strip())
            parts.append(table(settings.model_fields, own=True, links=links))
    return "\n\n".join(parts)


def _sections() -> dict[type[Settings], str]:
    """Where a class is set in the config file, in releases that have one."""
    if importlib.util.find_spec("streamtune.config") is None:
        return {}
    sections = importlib.import_module("streamtune.config").all_sections()
    return {settings: name for name, settings in sections.items()}


def _summary(settings: type[Settings]) -> str:
    """The first paragraph of the docstring, on one line."""
    return " ".join(inspect.cleandoc(settings.__dict__.get("__doc__") or "").split("\n\n")[0].split())


def _defined() -> list[tuple[str, str]]:
    """(module, class) of all that derive from ``Settings``, also through one another, by the names of their bases."""
    classes = list(_all_classes())
    known = {"Settings"}
    while True:
        derived = {name for _, name, bases in classes if bases & known}
        if derived <= known:
            return sorted((module, name) for module, name, bases in classes if bases & known)
        known |= derived


def _all_classes() -> Iterator[tuple[str, str, set[str]]]:
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                yield module, node.name, {_last_name(base) for base in node.bases}


def _last_name(base: ast.expr) -> str:
    return ast.unparse(base).split("[")[0].split(".")[-1]
