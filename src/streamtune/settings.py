"""``Settings``: the one base of everything that can be set, so that every option is described and can be listed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Self, get_args

from annotated_types import Le, Lt
from pydantic import ConfigDict, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from streamtune.errors import StreamTuneError
from streamtune.frozen import Frozen

# numpy and scikit-learn take no larger one.
LARGEST_SEED = 2**32 - 1
# What counts things: no machine of ours gets further, and the libraries below us overflow.
LARGEST_NUMBER = 2**31 - 1
# A hundred years: no clock and no sleep takes many more.
LARGEST_SECONDS = 36_525 * 86_400

# What pydantic's kinds of errors mean to a user; the braces are filled from the error's own context.
_MEANINGS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "finite_number": "must be a finite number",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text",
    "literal_error": "must be {expected}",
    "string_pattern_mismatch": "must be written as {pattern} says",
    "too_short": "must have at least {min_length} entries",
    "mapping_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping of settings",
    "tuple_type": "must be a list",
    "frozen_set_type": "must be a list",
}


def later_seed(seed: int, step: int) -> int:
    """The seed of the next draw, within the limit however large the first one is.

    >>> later_seed(7, 1), later_seed(LARGEST_SEED, 1)
    (8, 0)
    """
    return (seed + step) % (LARGEST_SEED + 1)


def largest_of(name: str, value: object) -> int | None:
    """The largest that a number of that name can be where nothing else limits it; None where that is nobody's business.

    >>> largest_of("runs", 5), largest_of("window_s", 5.0), largest_of("rate", 5.0)
    (2147483647, 3155760000, None)
    """
    if type(value) is int:
        return LARGEST_NUMBER
    is_time = isinstance(value, float) and math.isfinite(value) and name.endswith(("_s", "seconds"))
    return LARGEST_SECONDS if is_time else None


class SettingsError(StreamTuneError):
    """A setting that cannot be: says where, what is allowed and what was given."""


class Settings(Frozen):
    """Options with a type, a default and a description each; a class that leaves one undescribed cannot be defined.

    >>> from pydantic import Field
    >>> class Patience(Settings):
    ...     wait_s: float = Field(default=5.0, gt=0, description="how long to wait")
    >>> Patience().wait_s, Patience(7).wait_s, Patience().replace(wait_s=9).wait_s
    (5.0, 7.0, 9.0)
    >>> Patience(wait_s=-1)
    Traceback (most recent call last):
    streamtune.settings.SettingsError: Patience.wait_s must be above 0, but got -1
    >>> Patience(wait=3)
    Traceback (most recent call last):
    streamtune.settings.SettingsError: Patience has no setting 'wait': did you mean 'wait_s'?
    >>> class Silent(Settings):
    ...     wait_s: float = 5.0
    Traceback (most recent call last):
    TypeError: Silent.wait_s has no description: give it Field(description=…)
    """

    # No setting means anything as NaN; the few that may be infinite say so themselves.
    model_config = ConfigDict(validate_default=True, allow_inf_nan=False)

    def __init__(self, *values: Any, **named: Any) -> None:
        """Settings by position, in the order of the fields, or by name."""
        names = type(self).model_fields
        if len(values) > len(names):
            raise TypeError(f"{type(self).__name__} has {len(names)} settings, but got {len(values)} values")
        for name, value in zip(names, values, strict=False):
            if name in named:
                raise TypeError(f"{type(self).__name__} got two values for '{name}'")
            named[name] = value
        try:
            super().__init__(**named)
        except ValidationError as error:
            raise SettingsError(explain(error, type(self), type(self).__name__)) from None
        except UnicodeEncodeError as error:  # pydantic cannot hand on a message with such a text
            raise SettingsError(_not_text(error, type(self).__name__)) from None

    # pydantic checks nested settings itself then, without calling the method above: errors keep their whole path.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        for name, field in cls.model_fields.items():
            if not field.description:
                raise TypeError(f"{cls.__name__}.{name} has no description: give it Field(description=…)")

    @classmethod
    def of(cls, values: Mapping[str, Any], place: str | None = None) -> Self:
        """The settings that a mapping says; ``place`` is how errors call them, for instance a section of a file."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise SettingsError(explain(error, cls, place or cls.__name__)) from None
        except UnicodeEncodeError as error:
            raise SettingsError(_not_text(error, place or cls.__name__)) from None

    @model_validator(mode="after")
    def _countable(self) -> Self:
        """No number is larger than anything that can be counted or waited for, unless its own limit says so."""
        for name, field in type(self).model_fields.items():
            value, limited = getattr(self, name), any(isinstance(one, Le | Lt) for one in field.metadata)
            most = None if limited else largest_of(name, value)
            if most is not None and abs(value) > most:
                raise ValueError(f"{name} must be at most {most}, but got {value:.3g}")
        return self

    def replace(self, **changes: Any) -> Self:
        """The same settings with some changed; checked like new ones."""
        return type(self)(**{**{name: getattr(self, name) for name in type(self).model_fields}, **changes})


def explain(error: ValidationError, kind: type[Settings], place: str) -> str:
    """The first problem of an error, as one sentence that names the place, what is allowed and what was given."""
    first = error.errors(include_url=False)[0]
    path = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        *above, name = path
        return unknown(".".join([place, *above]), name, _names_at(kind, above))
    where = ".".join([place, *path])
    if first["type"] == "value_error":
        problem = str(first["ctx"]["error"])
        return f"{where} {problem}" if path and problem.startswith("must ") else f"{where}: {problem}"
    if first["type"] == "missing":
        return f"{where} is missing: it has no default"
    return f"{where} {_meaning(first)}, but got {first['input']!r}"


def _not_text(error: UnicodeEncodeError, place: str) -> str:
    return f"{place}: every text must be UTF-8, but got {error.object[error.start : error.end]!r}: type it again"


def unknown(place: str, name: str, known: list[str], what: str = "setting") -> str:
    """The sentence about a name that does not exist, with the one that may have been meant."""
    close = get_close_matches(name.replace("-", "_"), [one.replace("-", "_") for one in known], n=1)
    meant = next((one for one in known if close and one.replace("-", "_") == close[0]), None)
    hint = f"did you mean '{meant}'?" if meant else f"there are {', '.join(known)}"
    return f"{place} has no {what} '{name}': {hint}"


def with_default(kind: type[Settings], field: str, default: Any) -> Any:
    """A field of other settings with another default, for a subclass: description and limits stay.

    >>> from pydantic import Field
    >>> class Patience(Settings):
    ...     wait_s: float = Field(default=5.0, gt=0, description="how long to wait")
    >>> class LongPatience(Patience):
    ...     wait_s: float = with_default(Patience, "wait_s", 60.0)
    >>> LongPatience().wait_s
    60.0
    """
    return FieldInfo.merge_field_infos(kind.model_fields[field], default=default)


def settings_within(kind: type[Settings], field: str) -> type[Settings] | None:
    """The settings class that a field holds, if it holds one."""
    annotation = kind.model_fields[field].annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, Settings) else None


def _names_at(kind: type[Settings], path: list[str]) -> list[str]:
    for name in (name for name in path if not name.isdecimal()):  # places in a list have no names
        inner = _settings_in_list(kind, name) or settings_within(kind, name) if name in kind.model_fields else None
        if inner is None:
            break
        kind = inner
    return list(kind.model_fields)


def _settings_in_list(kind: type[Settings], field: str) -> type[Settings] | None:
    entries = get_args(kind.model_fields[field].annotation)
    return next((one for one in entries if isinstance(one, type) and issubclass(one, Settings)), None)


def _meaning(problem: ErrorDetails) -> str:
    template = _MEANINGS.get(problem["type"])
    if template is None:
        return f"is refused ({problem['msg'][:1].lower()}{problem['msg'][1:]})"
    context = {
        name: f"{value:g}" if isinstance(value, float) else value for name, value in problem.get("ctx", {}).items()
    }
    return template.format(**context)
