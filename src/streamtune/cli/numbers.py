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

from streamtune.settings import largest_of

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
    most = largest_of(parameter.name, value) if parameter.max is None else None
    if most is not None and abs(value) > most:
        raise typer.BadParameter(f"must be at most {most}, but got {float(value):.3g}.", ctx=context, param=parameter)
    return value if inner is None else inner(context, parameter, value)
