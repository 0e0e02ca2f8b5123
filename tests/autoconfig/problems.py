"""Small problems that the tests of auto-configuration share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from streamtune.autoconfig.problem import Problem, parse_problem
from streamtune.autoconfig.space import Configuration
from streamtune.autoconfig.trial import Measurement, Suggestion, Trial

MIXED: dict[str, Any] = {
    "objective": {"command": ["true"], "direction": "maximize"},
    "knobs": {
        "threads": {"type": "int", "low": 1, "high": 16, "default": 4},
        "batch": {"type": "int", "low": 1, "high": 100000, "log": True},
        "ratio": {"type": "float", "low": 0.0, "high": 1.0},
        "codec": {"type": "category", "choices": ["none", "lz4", "zstd"]},
        "level": {"type": "int", "low": 1, "high": 9, "when": "codec == 'zstd'"},
        "cache": {"type": "category", "choices": [True, False]},
    },
    "constraints": ["threads * ratio <= 8", "batch >= 10 * threads or cache"],
}

HINTS: dict[str, Any] = {
    "knobs": {
        f"h{place}": {"type": "int", "low": 1, "high": 60, "operator": f"v{place}", "weight": float(1 + place % 4)}
        for place in range(12)
    },
    "constraints": [" + ".join(f"h{place}" for place in range(12)) + " <= 200"],
}


def mixed() -> Problem:
    return parse_problem(MIXED, "mixed")


def hints() -> Problem:
    return parse_problem(HINTS, "hints")


def mixed_value(knobs: Configuration) -> float:
    """Smooth, with one best place: about 4 threads, a batch of 1,000, half a ratio, zstd 3, cached."""
    value = 100.0 - 2.0 * abs(float(knobs["threads"]) - 4.0) - 5.0 * abs(np.log10(float(knobs["batch"])) - 3.0)
    value -= 20.0 * abs(float(knobs["ratio"]) - 0.5)
    value -= {"none": 8.0, "lz4": 3.0, "zstd": 0.0}[str(knobs["codec"])]
    value -= abs(float(knobs.get("level", 3)) - 3.0) + (0.0 if knobs["cache"] else 5.0)
    return float(value)


def hints_value(knobs: Configuration) -> float:
    """The scarcest operator limits; instances cost a little."""
    needs = [1.0 + place % 3 for place in range(12)]
    rates = [float(knobs[f"h{place}"]) / need for place, need in enumerate(needs)]
    return float(10.0 * min(rates) - 0.05 * sum(float(value) for value in knobs.values()) + 20.0)


def measured(function: Callable[[Configuration], float], noise: float = 0.0, seed: int = 0) -> Any:
    """A measuring function for ``replay``: multiplicative noise, drawn from the trial's number."""

    def measure(number: int, suggestion: Suggestion) -> Trial:
        factor = 1.0 + noise * float(np.random.default_rng([seed, number, 77]).standard_normal())
        value = function(suggestion.knobs) * factor
        return Trial(
            number=number, knobs=suggestion.knobs, why=suggestion.why, measurements=(Measurement(value=value),)
        )

    return measure
