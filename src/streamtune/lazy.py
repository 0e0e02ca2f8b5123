"""Names that a package offers without loading the modules they live in: only a name that is used is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazily(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package (PEP 562): module below it → the names it gives.

    >>> find = lazily("streamtune", {"errors": ["StreamTuneError"]})
    >>> find("StreamTuneError").__name__
    'StreamTuneError'
    >>> find("Nothing")
    Traceback (most recent call last):
    AttributeError: module 'streamtune' has no attribute 'Nothing'
    """
    homes = {name: module for module, given in names.items() for name in given}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return find
