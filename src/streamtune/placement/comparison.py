"""What each scheduler would do with one problem, side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from streamtune.placement.flink import SECONDS_PER_MONTH
from streamtune.placement.graph import PlacementError
from streamtune.placement.problem import Placement, Problem
from streamtune.placement.registry import scheduler

# exact is for tests, the METIS variants for the study.
COMPARED = ("even", "even-random", "greedy", "metis", "ours", "ours-link")


@dataclass(frozen=True)
class Row:
    """One scheduler's answer against what runs today (or the even schedule where nothing runs)."""

    placed: Placement
    saves_bytes_per_s: float
    price_per_month: float | None

    def to_record(self) -> dict[str, Any]:
        record = {key: value for key, value in self.placed.to_record().items() if key != "assignment"}
        record["remote_share"] = self.placed.remote_share
        record["saves_bytes_per_s"] = self.saves_bytes_per_s
        if self.price_per_month is not None:
            record["price_per_month"] = self.price_per_month
        record["moved_tasks"] = len(self.placed.moves)
        return record


def price_per_month(placed: Placement, price_per_gb: float | None) -> float | None:
    """Bytes between zones at their prices; without zones, all bytes between hosts at the given one. 30 days."""
    if len(placed.problem.hosts.zone_names) > 1:
        return placed.price_per_s * SECONDS_PER_MONTH
    if price_per_gb is None:
        return None
    return placed.remote_bytes_per_s / 1e9 * price_per_gb * SECONDS_PER_MONTH


def today(problem: Problem) -> Placement | None:
    """What runs today, where all of it runs on hosts that are there."""
    if problem.current is None or (problem.home < 0).any():
        return None
    return problem.place(problem.home, "today", 0.0)


def compare(problem: Problem, names: Iterable[str], price_per_gb: float | None = None) -> list[Row]:
    """One row per scheduler that can answer, first what runs today where that is known."""
    running = today(problem)
    placements = [] if running is None else [running]
    for name in names:
        try:
            placements.append(scheduler(name).place(problem))
        except PlacementError:
            if name.startswith("ours"):
                raise
    base = placements[0].remote_bytes_per_s
    return [
        Row(placed, base - placed.remote_bytes_per_s, price_per_month(placed, price_per_gb)) for placed in placements
    ]
