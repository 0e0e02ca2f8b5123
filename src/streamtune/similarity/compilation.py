"""How the kernels are compiled: once per machine, kept on disk, and never silently.

numba keeps machine code in ``__pycache__`` beside the source, or in the user's cache folder where the package is
read-only (``NUMBA_CACHE_DIR`` overrides both). Its index knows the file a function stands in and not the functions it
calls from elsewhere, so all kernels live in the one file ``kernels.py``: an edit there compiles all of them again.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numba
from numba.extending import intrinsic

NOTICE_AFTER_S = 1.0
NOTICE = (
    "streamtune: preparing the graph edit distance kernels: numba compiles them once per machine, "
    "which takes some 20 seconds; later processes read them from disk"
)

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(signature: Any, *, entry: bool = False) -> Callable[[Function], Function]:
    """numba's ``njit`` with an explicit signature and the cache; only an ``entry`` can be called from Python.

    The signature keeps numba from compiling a kernel once more for every literal it is called with, and leaving out
    the wrappers that Python would need halves what is left.
    """
    options: dict[str, Any] = {"error_model": "numpy", "nogil": True, "_nrt": False}
    if not entry:
        options |= {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

    def decorate(function: Function) -> Function:
        try:
            kernel = numba.njit(signature, cache=True, **options)(function)
        except RuntimeError:  # numba found no folder to cache in
            kernel = numba.njit(signature, **options)(function)
        return kernel  # type: ignore[no-any-return]

    return decorate


@contextmanager
def announced() -> Iterator[None]:
    """Say on stderr what the caller is waiting for when the body takes more than a second."""
    timer = threading.Timer(NOTICE_AFTER_S, lambda: print(NOTICE, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _population_count(_context: Any, _word: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return numba.int64(numba.int64), generate


# How many bits of a 64-bit word are set; numba has none of its own. Known to kernels only.
population_count: Callable[[int], int] = intrinsic(_population_count)  # type: ignore[assignment]
