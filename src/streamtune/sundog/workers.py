"""Manners of Spark's Python workers."""

from __future__ import annotations

import gc

_TASKS_TO_SETTLE = 3
_settled = 0


def settle() -> None:
    """Tell the garbage collector that what is loaded by now stays; call it at the end of a task.

    Spark's daemon collects garbage after every task, and with numba, pandas and pyarrow loaded each collection walks
    through hundreds of thousands of objects: more processor time than many of our tasks. Frozen ones it passes over.
    """
    global _settled
    if _settled < _TASKS_TO_SETTLE:
        _settled += 1
        gc.collect()
        gc.freeze()
