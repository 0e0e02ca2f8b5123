"""Plain functions of a few knobs, as any program is one: what the choice under noise is scored on beside graphs.

Each seed moves the best place a little, so that no rule can be fitted to where it is. All are cheap, and what they are
truly worth is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamtune.autoconfig.problem import Problem, parse_problem
from streamtune.autoconfig.space import Configuration

_MOVED = 0.08
Units = Mapping[str, float]


@dataclass(frozen=True)
class Function:
    """A function over units in [0, 1], one per number, and the values of its knobs."""

    knobs: dict[str, dict[str, Any]]
    value: Callable[[Units, Configuration], float]
    direction: str = "maximize"

    @property
    def problem(self) -> Problem:
        return parse_problem({"objective": {"direction": self.direction}, "knobs": self.knobs}, "function")

    def true(self, problem: Problem, seed: int) -> Callable[[Configuration], float]:
        """What a configuration is worth; the seed moves the best place."""
        numbers = [name for name, knob in problem.space.knobs.items() if knob.type != "category"]
        moves = np.random.default_rng([seed, 31]).uniform(-_MOVED, _MOVED, len(numbers))

        def value(knobs: Configuration) -> float:
            full = problem.space.filled(knobs)
            units = {
                name: problem.space.knobs[name].to_unit(full[name])[0] - float(move)
                for name, move in zip(numbers, moves, strict=True)
            }
            return self.value(units, full)

        return value


def _number(kind: str, low: float, high: float, *, log: bool = False) -> dict[str, Any]:
    return {"type": kind, "low": low, "high": high, "log": log}


def _category(*choices: str) -> dict[str, Any]:
    return {"type": "category", "choices": list(choices)}


def _two(units: Units, _knobs: Configuration) -> float:
    return 1000.0 * math.exp(-(((units["batch"] - 0.425) / 0.2) ** 2) - ((units["threads"] - 0.53) / 0.375) ** 2)


def _cliff(units: Units, knobs: Configuration) -> float:
    """Too much memory, and most of the throughput is gone: beside the best place."""
    return _two(units, knobs) * (0.3 if float(knobs["batch"]) * float(knobs["threads"]) > 40_000 else 1.0)


def _codec(units: Units, knobs: Configuration) -> float:
    threads = 1.0 + 15.0 * max(0.0, units["threads"])
    factor = {"none": 0.8, "lz4": 1.0, "zstd": 0.9}[str(knobs["codec"])]
    return factor * 1000.0 * math.exp(-(((units["batch"] - 0.575) / 0.25) ** 2)) * threads / (1 + (threads / 7) ** 2)


def _latency(units: Units, knobs: Configuration) -> float:
    factor = {"a": 1.0, "b": 1.3, "c": 1.1, "d": 1.6}[str(knobs["mode"])]
    away = 50 * (units["batch"] - 0.5) ** 2 + 4 * (units["ratio"] - 0.3) ** 2 + 16 * (units["buffer"] - 0.55) ** 2
    return factor * (1.0 + away)


def _six(units: Units, knobs: Configuration) -> float:
    places = {"a": (0.5, 0.24), "b": (0.33, 0.4), "c": (0.7, 0.4), "d": (0.2, 0.5), "e": (0.36, 0.47)}
    away = sum(((units[name] - place) / width) ** 2 for name, (place, width) in places.items())
    return 1000.0 * {"a": 1.0, "b": 0.9, "c": 0.8}[str(knobs["mode"])] * math.exp(-away)


_A = (10, 3, 17, 3.5, 1.7, 8), (0.05, 10, 17, 0.1, 8, 14), (3, 3.5, 1.7, 10, 17, 8), (17, 8, 0.05, 10, 0.1, 14)
_P = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)


def _hartmann(units: Units, _knobs: Configuration) -> float:
    """Hartmann's function of six variables: several hills."""
    x = list(units.values())
    return sum(
        height * math.exp(-sum(a * (one - p) ** 2 for a, one, p in zip(row, x, place, strict=True)))
        for height, row, place in zip((1.0, 1.2, 3.0, 3.2), _A, _P, strict=True)
    )


_BATCH = _number("int", 100, 1_000_000, log=True)
_THREADS = _number("int", 1, 16)
FUNCTIONS = {
    "two knobs": Function({"batch": _BATCH, "threads": _THREADS}, _two),
    "cliff": Function({"batch": _BATCH, "threads": _THREADS}, _cliff),
    "codec": Function({"batch": _BATCH, "threads": _THREADS, "codec": _category("none", "lz4", "zstd")}, _codec),
    "latency": Function(
        {
            "batch": _number("int", 1, 100_000, log=True),
            "ratio": _number("float", 0, 1),
            "buffer": _number("float", 0.1, 1000, log=True),
            "mode": _category("a", "b", "c", "d"),
        },
        _latency,
        "minimize",
    ),
    "six knobs": Function(
        {
            "a": _number("float", 1, 100_000, log=True),
            "b": _number("int", 1, 1000, log=True),
            "c": _number("float", 0, 1),
            "d": _number("float", 0, 1),
            "e": _number("int", 1, 32),
            "mode": _category("a", "b", "c"),
        },
        _six,
    ),
    "hartmann": Function({f"x{place}": _number("float", 0, 1) for place in range(6)}, _hartmann),
}
"""Name → function."""
