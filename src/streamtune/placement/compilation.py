"""How the kernels are compiled: by numba, once per machine, kept on disk, and never in silence."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from numba import njit

NOTICE_AFTER_S = 1.0
NOTICE = (
    "streamtune: preparing the placement kernels: numba compiles them once per machine, "
    "which takes some 20 seconds; later processes read them from disk"
)


def kernel(function: Callable[..., Any]) -> Any:
    """numba's ``njit`` with NumPy's rules for division, cached where a folder can be written."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder to cache in
        return njit(**options)(function)


def announced(work: Callable[[], None]) -> None:
    """Do the work, and say on stderr what the caller is waiting for when it takes more than a second."""
    timer = threading.Timer(NOTICE_AFTER_S, lambda: print(NOTICE, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        work()
    finally:
        timer.cancel()
