"""The final answer hears what was measured nearby, and does not believe it where it misleads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autoconfig.problems import hints
from streamtune.autoconfig.choice import choose
from streamtune.autoconfig.neighbours import conclude
from streamtune.autoconfig.problem import Problem, parse_problem
from streamtune.autoconfig.process import fit, left_out
from streamtune.autoconfig.trial import Measurement, Trial

NOISE = 0.1


def line(direction: str = "maximize") -> Problem:
    knobs = {"x": {"type": "float", "low": 0, "high": 1}}
    return parse_problem({"knobs": knobs, "objective": {"direction": direction}}, "line")


def noisy(value: Callable[[float], float], seed: int, noise: float = NOISE) -> list[Trial]:
    """Forty places measured once and three of them three times more."""
    generator = np.random.default_rng(seed)
    places = [*np.linspace(0.0, 1.0, 40), *[0.0, 0.5, 1.0] * 3]
    return [
        Trial(
            number=number, knobs={"x": round(float(x), 6)},
            measurements=(Measurement(value=value(float(x)) * (1.0 + noise * float(generator.standard_normal()))),),
        )
        for number, x in enumerate(places)
    ]  # fmt: skip


def hill(x: float) -> float:
    return 100.0 * float(np.exp(-(((x - 0.3) / 0.25) ** 2)))


def test_left_out_values_are_those_of_a_fit_without_them() -> None:
    """Rasmussen & Williams (5.12) against solving again without each value, with the same hyper-parameters."""
    from streamtune.autoconfig.process import _kernel

    generator = np.random.default_rng(1)
    x = generator.random((9, 2))
    y = np.sin(4 * x[:, 0]) + x[:, 1] + 0.1 * generator.standard_normal(9)
    process = fit(x, y)
    told, variance = left_out(process, y)
    for place in range(9):
        rest = np.arange(9) != place
        kernel = _kernel(x[rest], x[rest], process.lengths) + (process.noise + 1e-8) * np.eye(8)
        across = _kernel(x[[place]], x[rest], process.lengths)
        mean = process.mean + process.scale * float((across @ np.linalg.solve(kernel, (y[rest] - process.mean)))[0])
        assert told[place] == pytest.approx(process.mean + (mean - process.mean) / process.scale, abs=1e-6)
        left = 1.0 + process.noise - float((across @ np.linalg.solve(kernel, across.T))[0, 0])
        assert variance[place] == pytest.approx(process.scale**2 * left, rel=1e-4)


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_on_a_hill_neighbours_beat_luck(direction: str) -> None:
    """Each place was measured once: luck picks one ten per cent down, neighbours the top, whichever way is up."""
    lost: dict[str, list[float]] = {"alone": [], "together": []}
    for seed in range(12):
        trials = noisy(hill if direction == "maximize" else lambda x: 1e4 / hill(x), seed)
        for name, rule in (("alone", choose), ("together", conclude)):
            best = rule(trials, line(direction))
            assert best is not None
            lost[name].append(1.0 - hill(float(best.knobs["x"])) / 100.0)
    assert np.mean(lost["together"]) < 0.67 * np.mean(lost["alone"])


def test_the_estimate_is_in_the_values_unit() -> None:
    best = conclude(noisy(hill, 3), line())
    assert best is not None
    assert best.estimate == pytest.approx(hill(float(best.knobs["x"])), rel=0.1)
    assert best.noise == pytest.approx(NOISE, rel=0.6)


def test_beside_a_cliff_measurements_speak_for_themselves() -> None:
    """Best just before most is lost: a process that smooths over it would stay far away."""

    def cliff(x: float) -> float:
        return 50.0 + 100.0 * x if x < 0.6 else 20.0

    reached = []
    for seed in range(12):
        best = conclude(noisy(cliff, seed, 0.03), line())
        assert best is not None
        reached.append(cliff(float(best.knobs["x"])) / cliff(0.5999))
    assert np.mean(reached) > 0.94
    assert min(reached) > 0.85


def test_without_noise_few_trials_or_many_hints_nothing_changes() -> None:
    exact = noisy(hill, 0, 0.0)
    assert conclude(exact, line()) == choose(exact, line())
    few = noisy(hill, 0)[:6]
    assert conclude(few, line()) == choose(few, line())
    generator = np.random.default_rng(0)
    many = [
        Trial(number=number, knobs={f"h{place}": 1 + number % 10 for place in range(12)},
              measurements=(Measurement(value=float(generator.normal(100, 10))),))
        for number in range(30)
    ]  # fmt: skip
    assert conclude(many, hints()) == choose(many, hints())
    assert conclude([], line()) is None


def test_a_throughput_of_nothing_does_not_end_it() -> None:
    trials = noisy(hill, 1)
    nothing = Trial(number=60, knobs={"x": 0.123}, measurements=(Measurement(value=0.0),))
    assert conclude([*trials, nothing], line()) == conclude(trials, line())
