"""Nothing that StreamTune reads can make it run code: no way of loading that executes what it finds.

A file that somebody else wrote (a bundle, a state file, a history, a job spec, an answer of Flink) is data. What could
turn it into code is searched for in the whole source, so that a new reader cannot bring it in by accident.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "streamtune"
# Modules whose loading executes what is in a file.
FORBIDDEN_IMPORTS = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "skops"}
# Calls that do, by their last names, unless the keyword that makes them safe has, as it stands there, the safe value.
UNSAFE_CALLS: dict[tuple[str, str], tuple[str, bool] | None] = {
    ("torch", "load"): ("weights_only", True),
    ("yaml", "load"): None,
    ("yaml", "unsafe_load"): None,
    ("yaml", "full_load"): None,
    ("np", "load"): ("allow_pickle", False),
    ("numpy", "load"): ("allow_pickle", False),
    ("pd", "read_pickle"): None,
    ("pandas", "read_pickle"): None,
}
# Where a module is imported by a name that is worked out, and where that name comes from.
IMPORTED_BY_NAME = {
    "config.py": "a table in the code",
    "lazy.py": "a table in the code",
    "autoconfig/strategies/__init__.py": "a table in the code",
    "tuners/registry.py": "a table in the code",
    "autoconfig/spark/application.py": "--spark-app: the user's own application, which is there to be run",
    "extras.py": "the import system, which it explains the errors of",
}
IMPORTING = {"import_module", "spec_from_file_location", "exec_module", "run_path", "run_module"}
BUILT_IN = {"eval", "exec", "compile", "__import__"}
# Spark sends its own functions to its workers with its own pickle; bytewax's state is never read back.


@cache
def trees() -> list[tuple[Path, ast.Module]]:
    files = sorted(SOURCE.rglob("*.py"))
    return [(path.relative_to(SOURCE), ast.parse(path.read_text(encoding="utf-8"))) for path in files]


def problems(tree: ast.Module) -> Iterator[str]:
    """What could run code, as line and words."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            yield from (f"{node.lineno}: imports {name}" for name in names if name.split(".")[0] in FORBIDDEN_IMPORTS)
        if isinstance(node, ast.ImportFrom):  # under a name of its own a call of it would pass unseen
            unsafe = [alias.name for alias in node.names if (node.module, alias.name) in UNSAFE_CALLS]
            yield from (f"{node.lineno}: imports {name} of {node.module}" for name in unsafe)
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in BUILT_IN:
            yield f"{node.lineno}: calls {node.func.id}"
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            call = (node.func.value.id, node.func.attr)
            if call in UNSAFE_CALLS and not _is_made_safe(node, UNSAFE_CALLS[call]):
                yield f"{node.lineno}: calls {'.'.join(call)}"


def _is_made_safe(call: ast.Call, by: tuple[str, bool] | None) -> bool:
    given = {word.arg: word.value.value for word in call.keywords if isinstance(word.value, ast.Constant)}
    return by is not None and given.get(by[0]) is by[1]


@pytest.mark.slow
def test_no_reader_of_the_source_can_run_what_it_reads() -> None:
    found = [f"{path}:{problem}" for path, tree in trees() for problem in problems(tree)]
    assert found == []


def test_only_these_import_modules_by_a_name_that_is_worked_out() -> None:
    found = {str(path) for path, tree in trees() if any(_is_import(node) for node in ast.walk(tree))}
    assert found == set(IMPORTED_BY_NAME)


def _is_import(node: ast.AST) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else None
    return name in IMPORTING


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from joblib import load",
        "import torch\ntorch.load('model.pt')",
        "from torch import load",
        "yaml.load(text, Loader=yaml.Loader)",
        "np.load(path)",
        "torch.load('model.pt', weights_only=False)",
        "torch.load('model.pt', weights_only=is_ours)",
        "np.load(path, allow_pickle=True)",
        "numpy.load(path, allow_pickle=1)",
        "eval(expression)",
    ],
)
def test_each_of_these_would_be_found(text: str) -> None:
    assert list(problems(ast.parse(text)))


@pytest.mark.parametrize("text", ["torch.load('model.pt', weights_only=True)", "np.load(path, allow_pickle=False)"])
def test_what_is_safe_as_it_stands_is_not(text: str) -> None:
    assert list(problems(ast.parse(text))) == []
