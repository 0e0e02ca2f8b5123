"""The Python API page: the façade, and the interfaces that one's own engines and tuners implement."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

from pydantic import BaseModel

from streamtune_docs.fields import table

# Beside the façade: what is implemented, tested against, or caught.
INTERFACES = ("streamtune.engines.base", "streamtune.tuners.base", "streamtune.testing", "streamtune.errors")
# What the façade is made of, for as long as ``streamtune`` itself exports nothing.
NOUNS = ("streamtune.dataflow",)


def page() -> str:
    """Sections of autodoc directives, one per name."""
    facade = importlib.import_module("streamtune")
    names = [name for name in getattr(facade, "__all__", ()) if not name.startswith("_")]
    sections = [_section("streamtune", facade, names)] if names else []
    for path in (*(() if names else NOUNS), *INTERFACES):
        module = importlib.import_module(path)
        sections.append(_section(path, module, _public(module)))
    return "\n\n".join(sections)


def _public(module: ModuleType) -> list[str]:
    """What a module exports, or defines itself, in the order of its source."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]


def _section(path: str, module: ModuleType, names: list[str]) -> str:
    parts = [f"## {path}", "```{eval-rst}\n.. currentmodule:: " + path + "\n```"]
    for name in names:
        parts.append(f"### {name}")
        value = getattr(module, name)
        parts.append("```{eval-rst}\n" + _directive(path, name, value) + "\n```")
        if inspect.isclass(value) and issubclass(value, BaseModel) and value.model_fields:
            parts.append(table(value.model_fields))
    return "\n\n".join(parts)


def _directive(path: str, name: str, value: object) -> str:
    if inspect.ismodule(value):
        return f".. automodule:: {path}.{name}\n   :no-index:"
    if inspect.isclass(value):
        options = "" if issubclass(value, BaseException) else "\n   :members:"
        return f".. autoclass:: {path}.{name}{options}"
    return f".. {'autofunction' if callable(value) else 'autodata'}:: {path}.{name}"
