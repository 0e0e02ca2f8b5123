"""Books of a Flink job, by looks that were made up second by second."""

from __future__ import annotations

from typing import Any

import pytest

from streamtune.engines.flink.responses import JobDetails
from streamtune.experiments.provisioning.flink_books import FlinkBooks


def look(clock_ms: float, blocked_ms: float, instances: int = 2, running: int | None = None) -> JobDetails:
    """A source that was blocked for so long since it started, and what it feeds, with so many instances."""

    def vertex(name: str, parallelism: int, blocked: float) -> dict[str, Any]:
        times = {"busy": 0.0, "idle": parallelism * clock_ms - blocked, "backpressured": blocked}
        return {
            "id": name,
            "name": name,
            "parallelism": parallelism,
            "status": "RUNNING",
            "tasks": {"RUNNING": parallelism if running is None else running},
            "metrics": {f"accumulated-{kind}-time": ms for kind, ms in times.items()},
        }

    vertices = [vertex("source", 1, blocked_ms), vertex("work", instances, 0.0)]
    return JobDetails.model_validate({"jid": "1", "name": "job", "state": "RUNNING", "vertices": vertices})


def books_of(*looks: JobDetails) -> FlinkBooks:
    books = FlinkBooks(frozenset({"work"}))
    for second, one in enumerate(looks):
        books.take(one, float(second))
    return books


def test_only_seconds_with_much_backpressure_count() -> None:
    # 500, 50 and 0 ms of a second blocked: only the first is above a tenth.
    books = books_of(look(5000, 0), look(6000, 500), look(7000, 550), look(8000, 550))
    assert books.backpressured_s == 1.0
    assert (books.seconds, books.down_s, books.changes) == (3.0, 0.0, 0)


def test_an_answer_without_news_is_judged_by_the_next() -> None:
    assert books_of(look(5000, 0), look(5000, 0), look(7000, 900)).backpressured_s == 2.0


def test_a_rescale_counts_as_down_until_all_run_and_its_counters_start_anew() -> None:
    # Down for one second; the next has no difference yet, and the last says that both were blocked.
    looks = (look(5000, 0), look(0, 0, running=0), look(100, 0, 3), look(1100, 400, 3))
    books = books_of(*looks)
    assert (books.down_s, books.backpressured_s, books.changes) == (1.0, 2.0, 1)


def test_counters_that_go_back_are_no_difference() -> None:
    assert books_of(look(5000, 3000), look(100, 0), look(1100, 0)).backpressured_s == 0.0


@pytest.mark.parametrize(("before", "after", "expected"), [(2, 2, 6.0), (2, 4, 8.0)])
def test_instances_count_from_the_look_that_sees_them(before: int, after: int, expected: float) -> None:
    # 2 instances for two seconds, then those of the last second; sources do not count.
    looks = (look(5000, 0, before), look(6000, 0, before), look(7000, 0, after), look(8000, 0, after))
    assert books_of(*looks).instance_s == expected
