"""A user's application: a Python file with ``query(spark, knobs)``, and what the harness asks of it."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamtune.autoconfig.space import Value
from streamtune.errors import StreamTuneError


@dataclass(frozen=True)
class Application:
    """``query`` gives a ``DataStreamWriter`` that is not started; ``prepare`` (optional) makes the input once."""

    path: Path
    query: Callable[[Any, Mapping[str, Value]], Any]
    prepare: Callable[[Any], None] | None


def load_application(path: Path) -> Application:
    """Import the file.

    :raises StreamTuneError: when it is missing, does not import, or has no ``query(spark, knobs)``.
    """
    if not path.is_file():
        raise StreamTuneError(f"--spark-app: {path} is not a file: give the Python file of your application")
    spec = importlib.util.spec_from_file_location(f"streamtune_tuned_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise StreamTuneError(f"--spark-app: {path} cannot be imported: it must be a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise StreamTuneError(f"--spark-app: {path} does not import: {type(error).__name__}: {error}") from error
    query = getattr(module, "query", None)
    if not callable(query) or len(inspect.signature(query).parameters) != 2:
        raise StreamTuneError(
            f"--spark-app: {path} needs a function query(spark, knobs) that returns a DataStreamWriter, not started: "
            "see examples/autoconfig"
        )
    prepare = getattr(module, "prepare", None)
    return Application(path, query, prepare if callable(prepare) else None)
