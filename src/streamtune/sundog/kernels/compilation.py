"""How Sundog's kernels are compiled: at first use, kept on disk, and typed as what they were written as.

numba's cache knows the file a function stands in, not the functions it calls from elsewhere: an edit to those would go
unnoticed. So the cache's folder carries a hash of all files in this package.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(function: Kernel) -> Kernel:
    """Compile at first use; Spark's Python workers load what the first of them compiled."""
    return _compiled(function)


def inlined(function: Kernel) -> Kernel:
    """Compile as a part of every kernel that calls it.

    A call that hands on arrays counts their references, up and down: in inner loops that costs more than the work.
    """
    return _compiled(function, inline="always")


def _compiled(function: Kernel, **more: Any) -> Kernel:
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", **more}
    config: Any = numba.config
    usual = config.CACHE_DIR
    try:
        config.CACHE_DIR = usual or _cache_folder()
        kernel = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder to cache in
        kernel = numba.njit(**options)(function)
    finally:
        config.CACHE_DIR = usual
    return kernel  # type: ignore[no-any-return]


@cache
def _cache_folder() -> str:
    here = Path(__file__).parent
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(here.glob("*.py")))).hexdigest()
    return str(here / "__pycache__" / f"kernels-{digest[:12]}")


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, not writable: buffers of Arrow are, and one kernel should serve both kinds of input."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
