"""Which packages an environment has that was installed with certain extras and nothing else."""

from __future__ import annotations

import re
import sys
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


@cache
def owners_of_packages() -> dict[str, list[str]]:
    """Import name → the distributions that bring it."""
    found = metadata.packages_distributions()
    return {package: [_normal(owner) for owner in owners] for package, owners in found.items()}


@cache
def project() -> dict[str, Any]:
    """The table ``project`` of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def declared(extra: str) -> list[Requirement]:
    """What an extra asks for, those extras of ours it refers to among it; the plain install is the extra ''."""
    found = []
    for text in project()["optional-dependencies"][extra] if extra else project()["dependencies"]:
        requirement = Requirement(text)
        if requirement.name == project()["name"]:
            found += [one for other in sorted(requirement.extras) for one in declared(other)]
        else:
            found.append(requirement)
    return found


def distributions(*extras: str) -> set[str]:
    """The distributions of an install with these extras: what they declare, and what that needs in turn."""
    waiting = [one for extra in ("", *extras) for one in declared(extra)]
    done: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        key = (_normal(requirement.name), frozenset(requirement.extras))
        if key in done:
            continue
        done.add(key)
        try:
            needed = metadata.requires(requirement.name) or []
        except metadata.PackageNotFoundError:
            continue
        for text in needed:
            one = Requirement(text)
            if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in requirement.extras or {""}):
                waiting.append(one)
    return {name for name, _ in done}


def refused(*extras: str) -> list[str]:
    """The packages that are here but would not be in an environment with these extras, by import name."""
    there = distributions(*extras) | {"streamtune"}
    return sorted(
        package
        for package, owners in owners_of_packages().items()
        if package not in sys.stdlib_module_names
        and package != "streamtune"
        and package.isidentifier()
        and there.isdisjoint(owners)
    )


def import_names(distribution: str) -> set[str]:
    """What a distribution is imported as."""
    wanted = _normal(distribution)
    return {package for package, owners in owners_of_packages().items() if wanted in owners}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
