"""Names that a package offers without loading the modules they live in: only a name that is used is imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazily(package: str, names: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package (PEP 562): module below it → the names it gives.

    Type checkers do not look in here: such a package repeats its names as imports under ``TYPE_CHECKING``.

    >>> find, listed = lazily("streamtune", {"errors": ["StreamTuneError"]})
    >>> find("StreamTuneError").__name__, "StreamTuneError" in listed()
    ('StreamTuneError', True)
    >>> find("Nothing")
    Traceback (most recent call last):
    AttributeError: module 'streamtune' has no attribute 'Nothing'
    """
    homes = {name: module for module, given in names.items() for name in given}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)  # found directly from now on
        return value

    return find, lambda: sorted({*vars(sys.modules[package]), *homes})
