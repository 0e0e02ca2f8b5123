"""Optional packages: a missing one ends in one sentence that names the extra to install.

A room whose every module needs an extra calls ``require`` in its ``__init__``; a module in a mixed room imports its
packages inside ``needs``. Neither loads anything by itself.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from streamtune.errors import StreamTuneError

# What each extra of pyproject.toml brings, by the name it is imported as; a test compares the two.
EXTRAS: dict[str, tuple[str, ...]] = {
    "spark": ("pyspark", "pandas", "pyarrow", "matplotlib", "sklearn"),
    "learn": (
        "torch",
        "torch_geometric",
        "xgboost",
        "safetensors",
        "sklearn",
        "scipy",
        "pyarrow",
        "matplotlib",
    ),
    "flink": ("pyflink",),
    "timely": ("bytewax",),
    "placement": ("pymetis",),
    "provision": ("scipy", "sklearn", "statsforecast"),
    "autoconfig": ("optuna", "cmaes", "botorch", "torch"),
    "sundog": ("pyspark", "pandas", "pyarrow", "matplotlib", "sklearn", "xgboost", "ir_measures"),
}


class MissingExtraError(StreamTuneError, ImportError):
    """Something was asked for that needs packages which are not installed.

    It is an ``ImportError`` too: code that tries a room and goes on without it needs to know nothing about us.
    """

    def __init__(self, what: str, packages: tuple[str, ...], extra: str) -> None:
        self.extra = extra
        extras = [f"'{one}'" for one in extra.split(",")]
        wanted = f"the extra{'s' if len(extras) > 1 else ''} {_and(extras)}"
        super().__init__(
            f"{what} needs {_and(packages)}, not installed here: install {wanted} with "
            f"pip install 'streamtune[{extra}]'"
        )
        self.name = packages[0]


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def is_installed(package: str) -> bool:
    """Whether a package can be imported; it is looked for, not loaded.

    >>> is_installed("pydantic"), is_installed("no_such_package")
    (True, False)
    """
    if package in sys.modules:
        return sys.modules[package] is not None
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def require(*packages: str, extra: str, what: str) -> None:
    """Refuse to go on without these packages, all of which an extra brings, or several ("spark,learn").

    >>> require("pydantic", extra="learn", what="a job spec")
    >>> require("no_such_package", extra="learn", what="the tuner 'streamtune'")
    Traceback (most recent call last):
    streamtune.extras.MissingExtraError: the tuner 'streamtune' needs no_such_package, not installed here: ...
    """
    missing = tuple(package for package in packages if not is_installed(package))
    if missing:
        raise MissingExtraError(what, missing, extra)


@contextmanager
def needs(extra: str, what: str) -> Iterator[None]:
    """Imports of an extra's packages: a missing one ends in our sentence, any other failure as it is.

    >>> with needs("timely", "the Timely engine"):
    ...     raise ModuleNotFoundError("No module named 'bytewax'", name="bytewax")
    Traceback (most recent call last):
    streamtune.extras.MissingExtraError: the Timely engine needs bytewax, not installed here: install the extra ...
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS[extra]:
            raise
        raise MissingExtraError(what, (package,), extra) from error
