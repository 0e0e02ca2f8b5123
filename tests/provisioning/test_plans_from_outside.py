"""``streamtune provision plan`` as a stranger sees it: files in, JSON out, everything in the answer worked out again.

Rates, prices and costs are arbitrary floats here, zeros included; the reference is a mixed-integer programme of its
own.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_matrix
from typer.testing import CliRunner

from streamtune.cli.provision import app

Record = dict[str, Any]


def drawn(seed: int) -> Record:
    """One to three sizes, two to eight epochs; free sizes, idle epochs and useless sizes among them."""
    draw = random.Random(seed)
    sizes = []
    for number in range(draw.randint(1, 3)):
        rate = draw.choice([draw.uniform(0.3, 6), draw.randint(1, 6), 0.1 * draw.randint(1, 30)])
        price = draw.choice([0, draw.uniform(0.1, 3), rate * draw.uniform(0.5, 1.5)])
        sizes.append({"name": f"s{number}", "cpu": 1, "memory_mb": 1, "performance_per_s": rate, "price": price})
    if len(sizes) > 1 and seed % 7 == 0:
        sizes[0]["performance_per_s"] = 0
    workload = [draw.choice([0, draw.uniform(0, 12), draw.uniform(0, 12)]) for _ in range(draw.randint(2, 8))]
    problem: Record = {
        "sizes": sizes,
        "start_cost": draw.choice([0, draw.uniform(0, 6)]),
        "stop_cost": draw.choice([0, draw.random()]),
        "workload": workload,
    }
    if draw.random() < 0.5:
        problem["initial"] = {size["name"]: draw.randint(0, 4) for size in sizes if draw.random() < 0.7}
    return problem


def optimum(problem: Record) -> float:
    """Counts, starts and stops of each size in each epoch, by HiGHS."""
    sizes, epochs = problem["sizes"], len(problem["workload"])
    cells, width = epochs * len(sizes), len(sizes)
    prices = np.tile([size["price"] for size in sizes], epochs)
    cost = np.concatenate([prices, np.full(cells, problem["start_cost"]), np.full(cells, problem["stop_cost"])])
    rows = lil_matrix((epochs + cells, 3 * cells))
    low, high = np.zeros(epochs + cells), np.zeros(epochs + cells)
    for epoch in range(epochs):
        low[epoch], high[epoch] = problem["workload"][epoch] * (1 - 1e-9), np.inf
        for place, size in enumerate(sizes):
            cell = epoch * width + place
            rows[epoch, cell] = size["performance_per_s"]
            row = epochs + cell
            rows[row, cell], rows[row, cells + cell], rows[row, 2 * cells + cell] = 1, -1, 1
            if epoch:
                rows[row, cell - width] = -1
            elif "initial" in problem:
                low[row] = high[row] = problem["initial"].get(size["name"], 0)
            else:
                low[row], high[row] = -np.inf, np.inf
    whole = np.concatenate([np.ones(cells), np.zeros(2 * cells)])
    found = milp(
        cost, constraints=LinearConstraint(rows.tocsr(), low, high), integrality=whole, bounds=Bounds(0, np.inf),
        options={"mip_rel_gap": 0},
    )  # fmt: skip
    return float(found.fun)


def worked_out(problem: Record, plan: list[dict[str, int]]) -> tuple[float, int, int, float]:
    """Running cost, starts, stops and total of a plan that must serve every epoch."""
    before = {size["name"]: problem["initial"].get(size["name"], 0) for size in problem["sizes"]} if (
        "initial" in problem
    ) else plan[0]  # fmt: skip
    running, starts, stops = 0.0, 0, 0
    for wanted, row in zip(problem["workload"], plan, strict=True):
        assert sum(size["performance_per_s"] * row[size["name"]] for size in problem["sizes"]) >= wanted * (1 - 2e-9)
        running += sum(size["price"] * row[size["name"]] for size in problem["sizes"])
        starts += sum(max(0, row[name] - before[name]) for name in row)
        stops += sum(max(0, before[name] - row[name]) for name in row)
        before = row
    return running, starts, stops, running + starts * problem["start_cost"] + stops * problem["stop_cost"]


def answer(folder: Path, problem: Record, *options: str) -> Record:
    file = folder / "problem.json"
    file.write_text(json.dumps(problem))
    result = CliRunner().invoke(app, ["plan", str(file), *options, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found: Record = json.loads(result.stdout)
    return found


@pytest.mark.parametrize("seed", range(24))
def test_the_answer_is_the_optimum_and_adds_up(tmp_path: Path, seed: int) -> None:
    problem = drawn(seed)
    least = optimum(problem)
    rivals = [f"cba:{size['name']}" for size in problem["sizes"] if size["performance_per_s"] > 0]
    for method in ("exact", "qcesa", "peak", *rivals):
        found = answer(tmp_path, problem, "--method", method)
        running, starts, stops, total = worked_out(problem, found["plan"])
        assert found["cost"] == pytest.approx(total)
        assert found["running_cost"] == pytest.approx(running)
        assert (found["starts"], found["stops"]) == (starts, stops)
        assert found["cost"] >= least - 1e-6
        assert found["gap"] >= (1 - least / total if total > 0 else 0) - 1e-6
        if method == "exact":
            assert found["optimal"]
            assert found["cost"] == pytest.approx(least, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", range(40, 48))
def test_dearer_starts_are_never_more_and_the_unit_of_money_does_not_matter(tmp_path: Path, seed: int) -> None:
    problem = drawn(seed)
    starts = [answer(tmp_path, {**problem, "start_cost": cost})["starts"] for cost in (0, 0.3, 1, 3, 10)]
    assert starts == sorted(starts, reverse=True)
    dearer = {
        **problem,
        "sizes": [{**size, "price": 7.3 * size["price"]} for size in problem["sizes"]],
        "start_cost": 7.3 * problem["start_cost"],
        "stop_cost": 7.3 * problem["stop_cost"],
    }
    assert answer(tmp_path, dearer)["cost"] == pytest.approx(7.3 * answer(tmp_path, problem)["cost"], abs=1e-6)
