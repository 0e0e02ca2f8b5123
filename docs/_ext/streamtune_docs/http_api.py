"""The endpoints of the service, as a table."""

from __future__ import annotations

from typing import Any

_METHODS = ("get", "post", "put", "delete")


def table() -> str:
    """Every address with what it is for, in the order of the application."""
    rows = ["| address | | for | what it does |", "| --- | --- | --- | --- |"]
    for path, methods in _schema()["paths"].items():
        for method in _METHODS:
            operation = methods.get(method)
            if operation is not None:
                told = " ".join(operation["description"].split()).replace("``", "`").replace("|", "\\|")
                rows.append(f"| `{path}` | {method.upper()} | {_who(path, method)} | {told} |")
    return "\n".join(rows)


def _who(path: str, method: str) -> str:
    if path in ("/healthz", "/readyz") or "/log" in path:
        return "all"
    return "viewer" if method == "get" else "operator"


def _schema() -> dict[str, Any]:
    from streamtune.service.api.app import routers_only

    schema: dict[str, Any] = routers_only().openapi()
    return schema
