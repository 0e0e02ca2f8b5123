"""The page says which calls of Flink's REST interface we make: all of them, and no others."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from streamtune_docs.blocks import DOCS

from streamtune.engines.flink import client

_METHODS = ("GET", "PUT", "POST", "PATCH", "DELETE")


def _path(node: ast.expr) -> str | None:
    """A path as it is written in the client, with ``:x`` for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        found = node.value
    elif isinstance(node, ast.JoinedStr):
        found = "".join(str(part.value) if isinstance(part, ast.Constant) else ":x" for part in node.values)
    else:
        return None
    return found if re.match("/[a-z]", found) else None


def _made() -> set[str]:
    found = set()
    for call in ast.walk(ast.parse(Path(client.__file__).read_text())):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            methods = [one.value for one in call.args if isinstance(one, ast.Constant) and one.value in _METHODS]
            found |= {f"{methods[0] if methods else 'GET'} {path}" for one in call.args if (path := _path(one))}
    return found


def _said() -> set[str]:
    text = (DOCS / "how-to" / "flink.md").read_text()
    table = text.split("## What is read, what is changed")[1].split("\n\n")[0]
    calls = re.findall(rf"`((?:(?:{'|'.join(_METHODS)}) )?/[^`\s]*)`", table)
    named = {call if " " in call else f"GET {call}" for call in calls}
    return {re.sub(r":\w+", ":x", call) for call in named}


def test_the_page_names_every_call_and_no_other() -> None:
    made = _made()
    assert "PUT /jobs/:x/resource-requirements" in made
    assert _said() == made
