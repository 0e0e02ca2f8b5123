"""Run as a script: import modules in an interpreter that lacks the given packages, and say how each ended.

``python bare_imports.py '["torch"]' '["streamtune.tuners.ds2"]'`` prints one JSON object, module → "" or the error.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class Without(PathFinder):
    """The usual search along ``sys.path``, to which some packages look as if they were not installed."""

    refused: frozenset[str] = frozenset()

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] in cls.refused:
            return None
        return super().find_spec(fullname, path, target)


def main(refused: Sequence[str], modules: Sequence[str]) -> dict[str, str]:
    Without.refused = frozenset(refused)
    sys.meta_path[:] = [Without if finder is PathFinder else finder for finder in sys.meta_path]
    answers = {}
    for name in modules:
        module, _, attribute = name.partition(":")
        try:
            loaded = importlib.import_module(module)
            if attribute:
                getattr(loaded, attribute)
            answers[name] = ""
        except ImportError as error:
            answers[name] = f"{type(error).__name__}: {error}"
    return answers


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]), json.loads(sys.argv[2]))))
