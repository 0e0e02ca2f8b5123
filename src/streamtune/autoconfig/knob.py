"""``Knob``: one setting, and its place in the cube of reals on which strategies work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from streamtune.frozen import Frozen

Value = int | float | str | bool
Vector = NDArray[np.float64]


class Knob(Frozen):
    """One setting: its type, its range or choices, and what is known about it."""

    type: Literal["int", "float", "category"]
    low: float | None = Field(default=None, allow_inf_nan=False, description="Smallest value of a number.")
    high: float | None = Field(default=None, allow_inf_nan=False, description="Largest value of a number.")
    log: bool = Field(default=False, description="Search on a logarithmic scale: for ranges over several magnitudes.")
    choices: tuple[bool | int | float | str, ...] = Field(default=(), description="Values of a category.")
    default: bool | int | float | str | None = Field(default=None, description="What runs when nobody tunes.")
    when: str | None = Field(default=None, description="The knob exists only where this expression holds.")
    description: str = Field(default="", description="What it does.")
    key: str | None = Field(default=None, description="Its name in the engine's config file.")
    unit: str = Field(default="", description="Appended to the value in the config file, for instance ms or mb.")
    operator: str | None = Field(default=None, description="The operator whose parallelism it sets.")
    weight: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Base parallelism weight of the operator (ipla, ibo)."
    )

    @field_validator("choices", mode="before")
    @classmethod
    def _plain_choices(cls, value: object) -> object:
        for choice in value if isinstance(value, list | tuple) else ():
            _check_plain(choice, "a choice")
        return tuple(value) if isinstance(value, list) else value

    @field_validator("default", mode="before")
    @classmethod
    def _plain_default(cls, value: object) -> object:
        if value is not None:
            _check_plain(value, "the default")
        return value

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.type == "category":
            self._check_category()
        else:
            self._check_number()
        if self.default is not None and not self.allows(self.default):
            raise ValueError(f"the default {self.default!r} is not {self.range}")
        return self

    def _check_category(self) -> None:
        if not self.choices:
            raise ValueError("a category needs choices, for instance choices: [snappy, zstd]")
        if len({(type(choice), choice) for choice in self.choices}) < len(self.choices):
            raise ValueError(f"the choices must differ, but got {list(self.choices)}")
        if self.low is not None or self.high is not None or self.log:
            raise ValueError("a category has choices, not low, high or log")

    def _check_number(self) -> None:
        if self.choices:
            raise ValueError(f"{'an' if self.type == 'int' else 'a'} {self.type} has low and high, not choices")
        if self.low is None or self.high is None:
            raise ValueError(f"{'an' if self.type == 'int' else 'a'} {self.type} needs low and high")
        if self.low > self.high:
            raise ValueError(f"low {self.low:g} is above high {self.high:g}")
        if self.log and self.low <= 0:
            raise ValueError(f"a logarithmic range must be above 0, but low is {self.low:g}")
        if self.type == "int" and not (self.low.is_integer() and self.high.is_integer()):
            raise ValueError(f"the bounds of an int must be whole numbers, but got {self.low:g} and {self.high:g}")

    @property
    def range(self) -> str:
        """The allowed values in words."""
        if self.type == "category":
            return f"one of {', '.join(str(choice) for choice in self.choices)}"
        return f"{'a whole number' if self.type == 'int' else 'a number'} in [{self.low:g}, {self.high:g}]"

    def allows(self, value: object) -> bool:
        if self.type == "category":
            return any(
                value == choice and isinstance(value, bool) == isinstance(choice, bool) for choice in self.choices
            )
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        if self.type == "int" and not float(value).is_integer():
            return False
        return self.bounds[0] <= value <= self.bounds[1]

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """Low and high; those of the unit interval for a category."""
        return 0.0 if self.low is None else self.low, 1.0 if self.high is None else self.high

    @property
    def dimensions(self) -> int:
        """Coordinates in the cube: one, but one per choice for three choices and more."""
        return len(self.choices) if len(self.choices) > 2 else 1

    @property
    def start(self) -> Value:
        """The default, or else the middle of the range."""
        if self.default is not None:
            return {"int": int, "float": float}[self.type](self.default) if self.type != "category" else self.default
        return self.choices[0] if self.type == "category" else self.from_unit(np.array([0.5]))

    def to_unit(self, value: Value) -> list[float]:
        if self.type == "category":
            place = self.position(value)
            if len(self.choices) <= 2:
                return [float(place)]
            return [float(place == index) for index in range(len(self.choices))]
        (low, high), number = self.bounds, float(value)
        if self.type == "int" and not self.log:
            return [(number - low + 0.5) / (high - low + 1.0)]  # the middle of its share
        if self.log:
            low, high, number = math.log(low), math.log(high), math.log(number)
        return [0.0 if high == low else (number - low) / (high - low)]

    def position(self, value: Value) -> int:
        """Among the choices; ``True`` and ``1`` are two."""
        same = [index for index, choice in enumerate(self.choices) if choice == value]
        typed = [index for index in same if isinstance(self.choices[index], bool) == isinstance(value, bool)]
        return (typed or same)[0]

    def from_unit(self, part: Vector | Sequence[float]) -> Value:
        """The nearest value; every value of an int has an equal share of [0, 1] unless the scale is logarithmic."""
        if self.type == "category":
            if len(self.choices) > 2:
                return self.choices[int(np.argmax(part))]
            return self.choices[min(int(part[0] >= 0.5), len(self.choices) - 1)]
        unit = float(min(1.0, max(0.0, part[0])))
        low, high = self.bounds
        if self.type == "int" and not self.log:
            return int(min(high, low + math.floor(unit * (high - low + 1.0))))
        if self.log:
            number = math.exp(math.log(low) + unit * (math.log(high) - math.log(low)))
        else:
            number = low + unit * (high - low)
        number = min(high, max(low, number))
        return round(number) if self.type == "int" else number


def _check_plain(value: object, what: str) -> None:
    if not isinstance(value, bool | int | float | str):
        got = "null" if value is None else repr(value)
        raise ValueError(f"{what} must be a text, a number, true or false: put it in quotes, but got {got}")
