"""No number of the command line is infinite, none is NaN, and none is larger than anything that can be counted.

typer takes ``inf``, ``nan`` and whole numbers of any length. What an option itself allows is said where it is declared;
this is what no option allows, checked at one place, so that no command has to think of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import typer

from streamtune.settings import LARGEST_NUMBER

Callback = Callable[[typer.Context, Any, Any], Any]


def refuse_odd_numbers(command: Any) -> Any:
    """Let every number of a command and of all below it be checked; returns the command."""
    for parameter in _parameters(command):
        if parameter.type_descriptor.annotation in (int, float):
            parameter.callback = partial(_checked, parameter.callback)
    return command


def _parameters(command: Any) -> Iterator[Any]:
    yield from command.params
    for below in getattr(command, "commands", {}).values():
        yield from _parameters(below)


def _checked(inner: Callback | None, context: typer.Context, parameter: Any, value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise typer.BadParameter(f"must be a finite number, but got {value:g}.", ctx=context, param=parameter)
    if isinstance(value, int) and parameter.max is None and abs(value) > LARGEST_NUMBER:
        shown = str(value) if abs(value) < 10**20 else f"one of {len(str(abs(value)))} digits"
        raise typer.BadParameter(f"must be at most {LARGEST_NUMBER}, but got {shown}.", ctx=context, param=parameter)
    return value if inner is None else inner(context, parameter, value)
