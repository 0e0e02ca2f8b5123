"""``Settings``: the one base of everything that can be set, so that every option is described and can be listed."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict

from streamtune.frozen import Frozen


class Settings(Frozen):
    """Options with a type, a default and a description each; a class that leaves one undescribed cannot be defined.

    >>> from pydantic import Field
    >>> class Patience(Settings):
    ...     seconds: float = Field(default=5.0, gt=0, description="how long to wait")
    >>> Patience().seconds
    5.0
    >>> class Silent(Settings):
    ...     seconds: float = 5.0
    Traceback (most recent call last):
    TypeError: Silent.seconds has no description: give it Field(description=…)
    """

    model_config = ConfigDict(validate_default=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        for name, field in cls.model_fields.items():
            if not field.description:
                raise TypeError(f"{cls.__name__}.{name} has no description: give it Field(description=…)")
