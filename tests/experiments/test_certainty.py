"""The rule for how sure to be: what a quantile costs, and when the default has to move."""

from __future__ import annotations

import pytest

from streamtune.experiments.paper.certainty import Certainty, cost
from streamtune.experiments.paper.contest import Judged, Score


def change(job: str, total: int, *, seen: int = 0, left: bool = False, restarts: int = 0) -> Judged:
    return Judged(
        workload=job,
        seed=0,
        multiple=5.0,
        reconfigurations=restarts,
        backpressure=left,
        backpressure_on_the_way=seen,
        total=total,
        oracle=10,
        sources=1,
    )


def test_what_a_quantile_costs() -> None:
    """22 / 20 − 1, one of two changes left short, one step short on the way, three restarts in all."""
    some = [change("a", 11, left=True, restarts=1), change("b", 11, seen=1, restarts=2)]
    assert cost(Score.of(some)) == pytest.approx(0.1 + 0.5 + 0.5 + 1.5 / 60)


def test_the_default_stays_where_jobs_disagree_and_moves_where_all_say_the_same() -> None:
    jobs = [f"job-{number}" for number in range(20)]
    default = [change(job, 12) for job in jobs]
    cheaper = [change(job, 11) for job in jobs]
    found = Certainty.chosen((0.8, 0.9), (cheaper, default), 0.9)
    assert (found.best, found.keeps_default) == (0.8, False)
    assert found.behind == (pytest.approx(-0.1), pytest.approx(-0.1))
    mixed = [change(job, 11 if number % 2 else 13, seen=0) for number, job in enumerate(jobs[:-1])]
    found = Certainty.chosen((0.8, 0.9), ([*mixed, change(jobs[-1], 11)], default), 0.9)
    assert found.keeps_default
    low, high = found.behind
    assert low < 0 < high


def test_a_default_that_costs_least_stays() -> None:
    some = [change("a", 10), change("b", 10)]
    assert Certainty.chosen((0.8, 0.9), ([change("a", 12), change("b", 12)], some), 0.9).keeps_default
