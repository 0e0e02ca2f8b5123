"""The source-rate pattern of Section V-A of the StreamTune paper, in multiples of the unit W_u."""

from __future__ import annotations

from streamtune.workloads.physics_model import generator

_CYCLE = (3, 7, 4, 2, 1, 10, 8, 5, 6, 9)
_REPEATS = 2
_PERMUTATIONS = 6
_STREAM = 4  # keeps the draws of rate patterns apart from those of the job generators


def cycle() -> tuple[int, ...]:
    """The basic cycle of ten multiples, in the order the paper prints.

    >>> cycle()
    (3, 7, 4, 2, 1, 10, 8, 5, 6, 9)
    """
    return _CYCLE


def pattern(seed: int = 0) -> tuple[int, ...]:
    """120 multiples: the cycle doubled to 20, in six permutations one after the other.

    The first permutation is the printed order itself, the others are drawn from ``seed``. Since every multiple occurs
    twice among the 20, equal neighbours happen, inside a permutation and where two meet. They stay and count among
    the 120, because the paper counts 20 × 6 changes per query.

    >>> pattern()[:20] == cycle() * 2, len(pattern())
    (True, 120)
    """
    doubled = _CYCLE * _REPEATS
    rng = generator(seed, _STREAM)
    shuffled = [tuple(int(value) for value in rng.permutation(doubled)) for _ in range(_PERMUTATIONS - 1)]
    return tuple(multiple for part in (doubled, *shuffled) for multiple in part)
