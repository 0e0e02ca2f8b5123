"""``Space``: which knobs there are, what values they may take, and which combinations are allowed.

Strategies work on a cube of reals: every numeric knob is one coordinate in [0, 1] (logarithmic where the knob is),
every category one coordinate per choice (one for two choices). ``decode`` turns *any* real vector into a
configuration that keeps all bounds, conditions and constraints: that is the law that every strategy inherits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from keyword import iskeyword
from typing import Any, Self

import numpy as np
from pydantic import Field, PrivateAttr, field_validator, model_validator

from streamtune.autoconfig.expressions import Expression, ExpressionError
from streamtune.autoconfig.knob import Knob, Value, Vector
from streamtune.errors import StreamTuneError
from streamtune.frozen import Frozen

Configuration = dict[str, Value]

_BISECTIONS = 16
_SEARCHED_FOR_ONE_FEASIBLE = 20_000
_ANCHORS, _ANCHOR_DRAWS, _ANCHOR_STEPS = 64, 4_000, 4_000
_STEP_SIZES = 0.02, 0.1, 0.3
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


class SpaceError(StreamTuneError):
    """A space that cannot be, or a configuration outside it."""


class Space(Frozen):
    """All knobs and the constraints over them.

    >>> space = Space(knobs={"a": {"type": "int", "low": 1, "high": 9}, "b": {"type": "int", "low": 1, "high": 9}},
    ...               constraints=["a + b <= 10"])
    >>> space.decode(np.array([1.0, 1.0]))  # pulled back until it is allowed
    {'a': 5, 'b': 5}
    """

    knobs: dict[str, Knob] = Field(min_length=1, description="Name → knob.")
    constraints: tuple[str, ...] = Field(default=(), description="Expressions over knobs that must all hold.")

    _parsed: tuple[Expression, ...] = PrivateAttr(default=())
    _conditions: dict[str, Expression] = PrivateAttr(default_factory=dict)

    @field_validator("constraints", mode="before")
    @classmethod
    def _plain(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        earlier: set[str] = set()
        conditions: dict[str, Expression] = {}
        for name, knob in self.knobs.items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"knob {name!r}: a name begins with a letter and has letters, digits, _, . and - only")
            if knob.when is not None:
                conditions[name] = self._expression(knob.when)
                unknown = sorted(conditions[name].names - {alias(other) for other in earlier})
                if unknown:
                    told = self._meant(knob.when, unknown) or "only knobs above it may be used"
                    raise ValueError(f"knob '{name}': when uses {', '.join(unknown)}: {told}")
            earlier.add(name)
        if len({alias(name) for name in self.knobs}) < len(self.knobs):
            raise ValueError("two knobs differ in punctuation alone: expressions could not tell them apart")
        parsed = tuple(self._expression(text) for text in self.constraints)
        for expression in parsed:
            unknown = sorted(expression.names - {alias(name) for name in self.knobs})
            if unknown:
                told = self._meant(expression.text, unknown) or f"the knobs are {', '.join(self.knobs)}"
                raise ValueError(f"constraint {expression.text!r} uses {', '.join(unknown)}: {told}")
        self._parsed, self._conditions = parsed, conditions
        return self

    def _expression(self, text: str) -> Expression:
        """Parsed; where that fails because a knob has the name of a reserved word, that is said."""
        try:
            return Expression.parse(text)
        except ExpressionError as error:
            reserved = [name for name in self.knobs if iskeyword(alias(name)) and _has_word(text, alias(name))]
            if not reserved:
                raise
            told = f"'{reserved[0]}' is a reserved word of expressions: give the knob another name"
            raise ValueError(f"{text!r} cannot be read: {told}") from error

    def _meant(self, text: str, unknown: Sequence[str]) -> str:
        """What was probably meant by unknown names: a choice without quotes, or a knob with punctuation."""
        choices = {choice for knob in self.knobs.values() for choice in knob.choices}
        for name in unknown:
            if name in choices:
                return f"quote it: {re.sub(rf'(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])', repr(name), text)}"
        spelt = next((name for name in self.knobs if name != alias(name) and _has_word(text, name)), None)
        return "" if spelt is None else f"in expressions '{spelt}' is spelt {alias(spelt)}"

    # -- what is allowed --------------------------------------------------------------------------------------------

    @cached_property
    def defaults(self) -> Configuration:
        """Every knob at its start, whether or not it is active and allowed."""
        return {name: knob.start for name, knob in self.knobs.items()}

    @cached_property
    def has_defaults(self) -> bool:
        """Whether somebody said what runs today, and that it is allowed."""
        return any(knob.default is not None for knob in self.knobs.values()) and self.is_allowed(self.defaults)

    def filled(self, knobs: Mapping[str, Value]) -> Configuration:
        """All knobs: inactive ones at their defaults, as a command's placeholders need them."""
        return {name: knobs.get(name, start) for name, start in self.defaults.items()}

    def active(self, full: Mapping[str, Value]) -> Configuration:
        """Only the knobs that exist: an inactive one counts as its default for those below it."""
        conditions = self._conditions
        if not conditions:
            return {name: full[name] for name in self.defaults}
        seen = dict(self.defaults)
        kept: Configuration = {}
        for name in self.knobs:
            condition = conditions.get(name)
            if condition is None or condition.holds(_aliased(seen)):
                seen[name] = kept[name] = full[name]
        return kept

    def is_allowed(self, knobs: Mapping[str, Value]) -> bool:
        parsed = self._parsed
        if not parsed:
            return True
        full = _aliased(self.filled(knobs))
        return all(expression.holds(full) for expression in parsed)

    def check(self, knobs: Mapping[str, Value]) -> None:
        """:raises SpaceError: for an unknown knob, a value outside its range or a broken constraint."""
        for name, value in knobs.items():
            if name not in self.knobs:
                raise SpaceError(f"no knob '{name}': the knobs are {', '.join(self.knobs)}")
            if not self.knobs[name].allows(value):
                raise SpaceError(f"knob '{name}' must be {self.knobs[name].range}, but got {value!r}")
        full = _aliased(self.filled(knobs))
        for expression in self._parsed:
            if not expression.holds(full):
                raise SpaceError(f"the constraint {expression.text!r} does not hold for {dict(knobs)}")

    # -- the cube ---------------------------------------------------------------------------------------------------

    @cached_property
    def dimensions(self) -> int:
        return sum(knob.dimensions for knob in self.knobs.values())

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Knob → its coordinates."""
        places, start = {}, 0
        for name, knob in self.knobs.items():
            places[name] = slice(start, start + knob.dimensions)
            start += knob.dimensions
        return places

    def encode(self, knobs: Mapping[str, Value]) -> Vector:
        full = self.filled(knobs)
        return np.array([unit for name, knob in self.knobs.items() for unit in knob.to_unit(full[name])], dtype=float)

    def _raw(self, vector: Vector) -> Configuration:
        slices, units = self.slices, vector.tolist()  # plain floats: reading them one by one is several times faster
        return {name: knob.from_unit(units[slices[name]]) for name, knob in self.knobs.items()}

    def decode(self, vector: Vector) -> Configuration:
        """The allowed configuration at, or nearest on the way from, ``vector`` to one that is allowed."""
        vector = np.nan_to_num(np.asarray(vector, dtype=float), nan=0.5)
        wanted = self.active(self._raw(vector))
        return wanted if not self._parsed or self.is_allowed(wanted) else self._pulled_back(vector)

    def repair(self, knobs: Mapping[str, Value]) -> Configuration:
        """``knobs`` itself where it is allowed, else the nearest on the way to an allowed one."""
        wanted = self.active(self.filled(knobs))
        return wanted if self.is_allowed(wanted) else self._pulled_back(self.encode(knobs))

    @cached_property
    def _anchor_vector(self) -> Vector:
        return self.encode(self.anchor)

    def _pulled_back(self, vector: Vector) -> Configuration:
        """Bisect towards the anchor: it is allowed, so that there is always an answer.

        Where constraints are narrow (``a + b == 30``) nothing else on that way is: then towards the nearest of others.
        """
        found = self._towards(self._anchor_vector, vector, self.anchor)
        if found != self.anchor:
            return found
        others, vectors = self._anchors
        nearest = int(np.argmin(np.sum((vectors - np.clip(vector, 0.0, 1.0)) ** 2, axis=1)))
        return self._towards(vectors[nearest], vector, others[nearest])

    def _towards(self, anchor: Vector, vector: Vector, best: Configuration) -> Configuration:
        """The last allowed configuration on the way from an anchor, ``best``, to ``vector``."""
        near, far = 0.0, 1.0
        for _ in range(_BISECTIONS):
            middle = (near + far) / 2
            tried = self.active(self._raw(anchor + middle * (vector - anchor)))
            if self.is_allowed(tried):
                best, near = tried, middle
            else:
                far = middle
        return best

    @cached_property
    def _anchors(self) -> tuple[list[Configuration], Vector]:
        """Allowed configurations far and wide, and their places: random ones, and random steps away from those."""
        generator = np.random.default_rng(1)
        found = [self.anchor]
        seen = {key_of(self.anchor)}
        places = [self._anchor_vector]

        def keep(vector: Vector) -> None:
            tried = self.active(self._raw(vector))
            if self.is_allowed(tried) and key_of(tried) not in seen:
                seen.add(key_of(tried))
                found.append(tried)
                places.append(self.encode(tried))

        for _ in range(_ANCHOR_DRAWS):
            if len(found) < _ANCHORS:
                keep(generator.random(self.dimensions))
        for _ in range(_ANCHOR_STEPS):
            if len(found) < _ANCHORS:
                moved = places[int(generator.integers(len(places)))].copy()
                some = generator.choice(self.dimensions, size=min(2, self.dimensions), replace=False)
                moved[some] += generator.normal(0.0, generator.choice(_STEP_SIZES), len(some))
                keep(np.clip(moved, 0.0, 1.0))
        return found, np.array(places)

    @cached_property
    def anchor(self) -> Configuration:
        """A configuration that is allowed: the defaults, a corner, or the first of many random ones.

        :raises SpaceError: when there is none among them.
        """
        generator = np.random.default_rng(0)
        corners = [np.zeros(self.dimensions), np.full(self.dimensions, 0.5), np.ones(self.dimensions)]
        for full in [self.defaults, *(self._raw(corner) for corner in corners)]:
            if self.is_allowed(self.active(full)):
                return self.active(full)
        for _ in range(_SEARCHED_FOR_ONE_FEASIBLE):
            tried = self.active(self._raw(generator.random(self.dimensions)))
            if self.is_allowed(tried):
                return tried
        raise SpaceError(
            f"no allowed configuration among {_SEARCHED_FOR_ONE_FEASIBLE:,} random ones: relax the constraints "
            f"({'; '.join(self.constraints)}) or give the knobs defaults that keep them"
        )

    def sample(self, generator: np.random.Generator, tries: int = 40) -> Configuration:
        """A random allowed one: uniform in the cube while rejection works, else from a random allowed place."""
        vector = generator.random(self.dimensions)
        for _ in range(tries if self._parsed else 0):
            if self.is_allowed(tried := self.active(self._raw(vector))):
                return tried
            vector = generator.random(self.dimensions)
        if not self._parsed:
            return self.decode(vector)
        others, vectors = self._anchors
        place = int(generator.integers(len(others)))
        return self._towards(vectors[place], vector, others[place])

    def subset(self, names: Iterable[str]) -> Space:
        """The same space with some knobs alone; constraints and conditions that name others are left out."""
        wanted = set(names)
        kept = [name for name in self.knobs if name in wanted]
        aliases = {alias(name) for name in kept}
        knobs = {
            name: self.knobs[name]
            if name not in self._conditions or self._conditions[name].names <= aliases
            else self.knobs[name].model_copy(update={"when": None})
            for name in kept
        }
        constraints = tuple(expression.text for expression in self._parsed if expression.names <= aliases)
        return Space(knobs=knobs, constraints=constraints)


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])", text) is not None


@cache
def alias(name: str) -> str:
    """How expressions spell a knob: ``batch-size`` is ``batch_size`` there."""
    return name.replace(".", "_").replace("-", "_")


def _aliased(knobs: Mapping[str, Value]) -> dict[str, Value]:
    return {alias(name): value for name, value in knobs.items()}


def key_of(knobs: Mapping[str, Value]) -> tuple[tuple[str, Any], ...]:
    """What two equal configurations share."""
    return tuple(sorted((name, repr(value)) for name, value in knobs.items()))


def encode_all(space: Space, configurations: Sequence[Mapping[str, Value]]) -> Vector:
    """Configurations as rows of a matrix."""
    return np.array([space.encode(knobs) for knobs in configurations]).reshape(len(configurations), space.dimensions)


__all__ = ["Configuration", "Knob", "Space", "SpaceError", "Value", "Vector", "alias", "encode_all", "key_of"]
