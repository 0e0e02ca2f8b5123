"""Optional packages: a missing one ends in one sentence that names the extra to install.

Nothing is loaded here. Modules import their packages at the top as everywhere; ``explain_missing_packages`` (called by
``streamtune/__init__``) sees to it that the one that is not there is reported in our words. What can be checked before
anything starts, a tuner for instance, is checked with ``require``.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

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
    "placement": ("pymetis", "scipy", "matplotlib"),
    "provision": ("scipy", "sklearn", "statsforecast", "xgboost", "pandas", "threadpoolctl", "matplotlib"),
    "autoconfig": (
        "optuna",
        "cmaes",
        "scipy",
        "sklearn",
        "threadpoolctl",
        "matplotlib",
    ),
    "sundog": ("pyspark", "pandas", "pyarrow", "matplotlib", "sklearn", "xgboost", "ir_measures"),
    "service": (
        "fastapi",
        "starlette",
        "uvicorn",
        "sse_starlette",
        "sqlalchemy",
        "alembic",
        "psycopg",
        "prometheus_client",
    ),
}

# What needs an extra, by room or module: the extras, and how to call it. The longest name counts.
NEEDS: dict[str, tuple[str, str]] = {
    "streamtune.spark": ("spark", "Spark"),
    "streamtune.history": ("spark", "an execution history"),
    "streamtune.training": ("spark,learn", "training on a history"),
    "streamtune.experiments": ("spark,learn", "an experiment"),
    "streamtune.experiments.sundog": ("spark,learn,sundog", "Sundog's study"),
    "streamtune.models": ("learn", "a learned model"),
    "streamtune.models.bottleneck": ("learn", "a bottleneck classifier"),
    "streamtune.models.bundle": ("learn", "a model bundle"),
    "streamtune.models.capacity": ("learn", "a capacity curve"),
    "streamtune.models.costmodel": ("learn", "a cost model"),
    "streamtune.models.encoder": ("learn", "an encoder"),
    "streamtune.tuners.streamtune": ("learn", "the tuner 'streamtune'"),
    "streamtune.tuners.zerotune": ("learn", "the tuner 'zerotune'"),
    "streamtune.reports": ("learn", "a picture"),
    "streamtune.reports.cluster_pictures": ("spark", "a picture of clusters"),
    "streamtune.reports.history_picture": ("spark", "a picture of a history"),
    "streamtune.labs.hosts.timely_flow": ("timely", "Timely on several hosts"),
    "streamtune.labs.cost_plans": ("spark,learn", "plans for a cost model"),
    "streamtune.labs.cost_runs": ("learn", "plans for a cost model"),
    "streamtune.labs.histories": ("spark", "a generated history"),
    "streamtune.engines.timely": ("timely", "the Timely engine"),
    "streamtune.placement": ("placement", "placement by METIS"),
    "streamtune.provisioning": ("provision", "provisioning"),
    "streamtune.forecasts": ("provision", "a forecast"),
    "streamtune.labs.sampling": ("provision", "samples of an operator"),
    "streamtune.autoconfig": ("autoconfig", "auto-configuration"),
    "streamtune.sundog": ("sundog", "Sundog"),
    "streamtune.service": ("service", "the service"),
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


def missing_extra(module: str, package: str) -> MissingExtraError | None:
    """The error for a package that one of our modules could not import; None if no extra brings that package.

    >>> print(missing_extra("streamtune.history.ingest", "pyspark.sql"))
    an execution history needs pyspark, not installed here: install the extra 'spark' with pip install ...
    >>> missing_extra("streamtune.history.ingest", "colours")
    """
    package = package.partition(".")[0]
    bringing = [extra for extra, packages in EXTRAS.items() if package in packages]
    if not bringing:
        return None
    rooms = [room for room in NEEDS if module == room or module.startswith(f"{room}.")]
    extra, what = NEEDS[max(rooms, key=len)] if rooms else (bringing[0], module)
    fits = any(package in EXTRAS[one] for one in extra.split(","))
    return MissingExtraError(what, (package,), extra if fits else bringing[0])


class _Explaining(SourceFileLoader):
    """Loads one of our modules as always; if a package of an extra is missing, the error says which extra."""

    def exec_module(self, module: ModuleType) -> None:
        try:
            super().exec_module(module)
        except ModuleNotFoundError as error:
            told = missing_extra(module.__name__, error.name or "")
            if told is None:
                raise
            raise told from error
        except MissingExtraError as error:
            # An experiment that lacks a cost model lacks more than that: tell all its extras at once.
            told = missing_extra(module.__name__, error.name or "")
            if told is None or not set(told.extra.split(",")) > set(error.extra.split(",")):
                raise
            raise told from error


class _Finder:
    """Finds the modules of ``streamtune`` where they always are; everybody else's are none of its business."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("streamtune."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Explaining(spec.loader.name, spec.loader.path)
        return spec


def explain_missing_packages() -> None:
    """Let every module of this package that is imported from now on say which extra it lacks. Idempotent.

    The alternative is a block around the imports of some sixty modules, and one more in every module to come.
    """
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
