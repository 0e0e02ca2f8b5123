"""Options that come from settings: their defaults, limits and descriptions are those of the class.

An option that is not given is ``None``. What counts then is the config file, and else the default of the class:
command line over file over default. ``resolved`` puts the three together.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import annotated_types
import typer

from streamtune.config import Config, load_config
from streamtune.settings import Settings
from streamtune.signatures import SignatureSettings, follow

S = TypeVar("S", bound=Settings)
_LOAD: ContextVar[Callable[[], Config]] = ContextVar("streamtune.config", default=load_config)


def default_of(kind: type[Settings], field: str) -> Any:
    """The default of a setting.

    >>> from streamtune.control.guards import Guards
    >>> default_of(Guards, "max_reconfigurations")
    10
    """
    return kind.model_fields[field].get_default(call_default_factory=True, validated_data={})


def help_of(kind: type[Settings], field: str) -> str:
    """The description of a setting as a sentence.

    >>> from streamtune.control.guards import Guards
    >>> help_of(Guards, "min_parallelism")
    'No operator goes below.'
    """
    text = kind.model_fields[field].description or ""
    return f"{text[:1].upper()}{text[1:]}."


def setting(kind: type[Settings], field: str, *names: str, help: str | None = None, **more: Any) -> Any:
    """An option for a setting; use it with the default ``None``, and ``resolved`` for the value."""
    shown = _shown(default_of(kind, field))
    limits = {**_limits(kind, field), **more}
    return typer.Option(*names, help=help or help_of(kind, field), show_default=shown, **limits)


def resolved(kind: type[S], **options: Any) -> S:
    """The settings in force for a command: what its options say, else the config file, else the defaults."""
    return changed(current_config().settings(kind), **options)


def changed(settings: S, **options: Any) -> S:
    """The settings with the options that were given."""
    given = {name: value for name, value in options.items() if value is not None}
    return settings.replace(**given) if given else settings


def use_config(context: typer.Context, path: Path | None) -> None:
    """Let this call of the command line read this config file, once, and only if a command asks for a setting."""
    load = cache(partial(load_config, path))
    token = _LOAD.set(load)
    context.call_on_close(lambda: _LOAD.reset(token))
    before = follow(lambda: load().settings(SignatureSettings))
    context.call_on_close(lambda: follow(before))


def current_config() -> Config:
    """The config of this call of the command line."""
    return _LOAD.get()()


def _limits(kind: type[Settings], field: str) -> dict[str, Any]:
    """What typer can check by itself; the rest the settings refuse."""
    limits: dict[str, Any] = {}
    for one in kind.model_fields[field].metadata:
        if isinstance(one, annotated_types.Ge):
            limits["min"] = one.ge
        elif isinstance(one, annotated_types.Le):
            limits["max"] = one.le
    return limits


def _shown(default: Any) -> str | bool:
    if default is None or default in ((), {}, frozenset()):
        return False
    if isinstance(default, bool):
        return "yes" if default else False
    return ", ".join(map(str, default)) if isinstance(default, tuple) else str(default)
