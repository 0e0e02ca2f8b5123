"""The choice among noisy measurements, and what counts as hopeless, whatever the sign of the values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from streamtune.autoconfig.budget import Budget
from streamtune.autoconfig.choice import candidates, choose, noise_of
from streamtune.autoconfig.problem import Problem, parse_problem
from streamtune.autoconfig.session import Plan, replay, run_session
from streamtune.autoconfig.space import Configuration
from streamtune.autoconfig.strategies import make_strategy
from streamtune.autoconfig.strategies.ours import Ours
from streamtune.autoconfig.trial import Measurement, Suggestion, Trial


def line(direction: str, **objective: object) -> Problem:
    knobs = {"x": {"type": "float", "low": 0, "high": 1}}
    return parse_problem({"knobs": knobs, "objective": {"direction": direction, **objective}}, "line")


def trials(measurements: Sequence[tuple[float, float]]) -> list[Trial]:
    return [
        Trial(number=number, knobs={"x": x}, measurements=(Measurement(value=value),))
        for number, (x, value) in enumerate(measurements)
    ]


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("seed", range(6))
def test_values_on_both_sides_of_zero_are_compared_by_one_absolute_noise(sign: float, seed: int) -> None:
    """20 · x − 10, noise 0.05; the one near 0 was measured four times: relative to its mean, chaos."""
    generator = np.random.default_rng(seed)
    places = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
    found = trials([(x, sign * (20 * x - 10 + 0.05 * float(generator.standard_normal()))) for x in places])
    best = choose(found, line("maximize" if sign > 0 else "minimize"))
    assert best is not None
    assert best.knobs == {"x": 0.95}
    assert best.estimate == pytest.approx(9.0 * sign, abs=0.3)
    noise = noise_of(candidates(found))
    assert noise is not None
    assert not noise.relative
    assert noise.sd == pytest.approx(0.05, rel=1.0)


@pytest.mark.parametrize(("failures", "kept"), [(1, True), (2, True), (3, False)])
def test_one_failure_does_not_remove_what_mostly_works(failures: int, kept: bool) -> None:
    good = trials([(0.9, 10.0), (0.9, 11.0), (0.9, 12.0), (0.2, 1.0)])
    bad = [Trial(number=4 + n, knobs={"x": 0.9}, measurements=(Measurement(failed=True),)) for n in range(failures)]
    best = choose([*bad[:1], *good, *bad[1:]], line("maximize"))
    assert best is not None
    assert (best.knobs, best.measurements) == (({"x": 0.9}, 3) if kept else ({"x": 0.2}, 1))


def test_values_away_from_zero_are_compared_relatively() -> None:
    found = trials([(0.1, 9.0), (0.1, 11.0), (0.2, 90.0), (0.2, 110.0), (0.3, 950.0), (0.3, 1050.0), (0.4, 0.0)])
    noise = noise_of(candidates(found))
    assert noise is not None
    assert noise.relative  # a throughput of nothing does not change the sign of the others
    # Squares around the means over the means: 0.1² four times, 0.05² twice, 3 degrees of freedom.
    assert noise.sd == pytest.approx(((4 * 0.01 + 2 * 0.0025) / 3) ** 0.5)


def test_small_values_drowned_in_noise_are_not_relative() -> None:
    """All above 0, but those measured often are within three deviations of it."""
    found = trials([(0.1, 0.02), (0.1, 0.11), (0.1, 0.05), (0.1, 0.07), (0.9, 9.0), (0.5, 4.0)])
    noise = noise_of(candidates(found))
    assert noise is not None
    assert not noise.relative
    best = choose(found, line("maximize"))
    assert best is not None
    assert best.knobs == {"x": 0.9}


@pytest.mark.parametrize(
    ("direction", "best", "first", "hopeless"),
    [
        ("maximize", 10.0, 4.0, True),
        ("maximize", 10.0, 6.0, False),
        ("maximize", -10.0, -8.0, False),  # better than the best
        ("maximize", -10.0, -15.0, False),
        ("maximize", -10.0, -25.0, True),
        ("minimize", 10.0, 15.0, False),
        ("minimize", 10.0, 25.0, True),
        ("minimize", -10.0, -12.0, False),  # better than the best
        ("minimize", -10.0, -4.0, True),
        ("minimize", 0.0, 5.0, False),  # no share of nothing
    ],
)
def test_hopeless_is_a_share_of_the_best_in_both_directions(
    tmp_path: Path, direction: str, best: float, first: float, hopeless: bool
) -> None:
    class Given:
        def measure(self, number: int, _repeat: int, _knobs: Configuration) -> Measurement:
            return Measurement(value=best if number == 0 else first)

        def restore(self, knobs: Configuration) -> None:
            pass

    problem = line(direction, repeats=3, hopeless=0.5)
    outcome = run_session(problem, Plan("random", 0, Budget(steps=2)), Given(), tmp_path)
    assert [len(trial.measurements) for trial in outcome.trials] == [3, 1 if hopeless else 3]


def test_ours_searches_small_values_as_it_searches_large_ones() -> None:
    """Seconds of 1 to 4: the reciprocal of a throughput is the same search, step by step, on the same scale."""

    def rate(knobs: Configuration) -> float:
        return 1.0 / (1.0 + 3.0 * abs(float(knobs["x"]) - 0.3))

    def run(direction: str, power: float) -> list[Configuration]:
        problem = line(direction)

        def measure(number: int, suggestion: Suggestion) -> Trial:
            value = rate(suggestion.knobs) ** power
            return Trial(number=number, knobs=suggestion.knobs, measurements=(Measurement(value=value),))

        return [trial.knobs for trial in replay(problem, make_strategy("ours", problem, seed=0), measure, 12)]

    for up, down in zip(run("maximize", 1.0), run("minimize", -1.0), strict=True):
        assert up["x"] == pytest.approx(down["x"], abs=1e-6)


def test_ours_takes_no_logarithm_of_what_comes_near_zero() -> None:
    def is_logarithmic(direction: str, *means: float) -> bool:
        return Ours(line(direction), seed=0)._is_logarithmic(np.array(means))

    assert is_logarithmic("maximize", 0.001, 1.0, 2.0)
    assert is_logarithmic("minimize", 0.5, 1.0, 2.0)
    assert not is_logarithmic("minimize", 0.001, 1.0, 2.0)  # the best would dwarf all others
    assert is_logarithmic("maximize", -0.5, -1.0, -2.0)
    assert not is_logarithmic("maximize", -1.0, 1.0, 2.0)
