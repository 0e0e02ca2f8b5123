"""What the documentation takes from the code: settings, commands, fields, rooms; and the checks on its links.

A page marks where generated text goes. ``<!-- generated: NAME ARGUMENT -->`` … ``<!-- end -->`` is filled in the file
itself by ``python docs/generate.py``, so that it can be read without a build; a test fails when it is stale.
``<!-- at build time: NAME -->`` is filled while Sphinx reads the page.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from streamtune_docs.blocks import built, has_build_time_blocks

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment


def _fill(_app: Sphinx, _docname: str, source: list[str]) -> None:
    source[0] = built(source[0])


def _read_again(_app: Sphinx, env: BuildEnvironment, *_changes: set[str]) -> list[str]:
    """Pages that are made from code change with the code, whatever their own date says."""
    pages = [(name, env.doc2path(name)) for name in env.found_docs]
    return [name for name, path in pages if has_build_time_blocks(path.read_text(encoding="utf-8"))]


def _without_fields(
    _app: Sphinx, _what: str, _name: str, documented: object, _options: object, _signature: str, _returns: str
) -> tuple[str, str | None] | None:
    """Fields of a model have a table; its signature would repeat them in pydantic's words."""
    if inspect.isclass(documented) and issubclass(documented, BaseModel):
        return "", None
    return None


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", _fill)
    app.connect("env-get-outdated", _read_again)
    app.connect("autodoc-process-signature", _without_fields)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
