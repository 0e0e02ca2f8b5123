"""Small planning problems, and two independent ways to solve them."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import LinearConstraint, milp

from streamtune.provisioning.plans import costs_of, uncovered
from streamtune.provisioning.problem import Problem, Size

quarters = st.integers(0, 24).map(lambda k: k / 4)


@st.composite
def problems(draw: st.DrawFn, most_sizes: int = 3, most_epochs: int = 7, most_instances: int = 4) -> Problem:
    """Problems whose optimum is within reach of enumeration: prices and costs in quarters, so that ties occur."""
    rates = draw(st.lists(st.integers(1, 12), min_size=1, max_size=most_sizes))
    sizes = tuple(
        Size(name=f"s{k}", cpu=1, memory_mb=64, performance_per_s=rate, price=draw(quarters))
        for k, rate in enumerate(rates)
    )
    peak = min(rates) * most_instances
    workload = tuple(draw(st.lists(st.integers(0, peak), min_size=1, max_size=most_epochs)))
    initial = draw(st.none() | st.fixed_dictionaries({size.name: st.integers(0, 3) for size in sizes}))
    return Problem(sizes=sizes, start_cost=draw(quarters), stop_cost=draw(quarters), workload=workload, initial=initial)


def by_enumeration(problem: Problem) -> float:
    """The optimum over all count vectors, epoch by epoch, pair by pair: slow, and plain."""
    most = [
        max(int(np.ceil(max(problem.workload) / s.performance_per_s)), (problem.initial or {}).get(s.name, 0))
        for s in problem.sizes
    ]
    states = np.array(list(itertools.product(*(range(m + 1) for m in most))))
    rate = states @ np.array([s.performance_per_s for s in problem.sizes])
    price = states @ np.array([s.price for s in problem.sizes])
    change = states[None, :, :] - states[:, None, :]
    turn = problem.start_cost * np.maximum(change, 0).sum(2) + problem.stop_cost * np.maximum(-change, 0).sum(2)
    value = np.zeros(len(states))
    if problem.initial is not None:
        first = states - np.array([problem.initial.get(s.name, 0) for s in problem.sizes])
        value = problem.start_cost * np.maximum(first, 0).sum(1) + problem.stop_cost * np.maximum(-first, 0).sum(1)
    for epoch, wanted in enumerate(problem.workload):
        if epoch:
            value = (value[:, None] + turn).min(axis=0)
        value = np.where(rate >= wanted, value + price, np.inf)
    return float(value.min())


def by_milp(problem: Problem) -> float:
    """The optimum by HiGHS. Variables: counts, starts, stops; each epochs × sizes."""
    epochs, sizes = problem.epochs, len(problem.sizes)
    cells = epochs * sizes
    price = np.tile([s.price for s in problem.sizes], epochs)
    first_is_free = problem.initial is None
    turning = np.ones(cells)
    turning[:sizes] = 0.0 if first_is_free else 1.0
    cost = np.concatenate([price, problem.start_cost * turning, problem.stop_cost * turning])
    before = np.zeros(cells)
    if problem.initial is not None:
        before[:sizes] = [problem.initial.get(s.name, 0) for s in problem.sizes]
    one = sparse.eye_array(cells)
    changed = sparse.hstack([one - sparse.eye_array(cells, k=-sizes), -one, one])
    rates = np.array([[s.performance_per_s for s in problem.sizes]])
    served = sparse.hstack([sparse.kron(sparse.eye_array(epochs), rates), sparse.csr_array((epochs, 2 * cells))])
    found = milp(
        cost,
        integrality=np.ones(3 * cells),
        constraints=[
            LinearConstraint(sparse.csr_array(changed), before, before),
            LinearConstraint(sparse.csr_array(served), problem.workload, np.inf),
        ],
        options={"mip_rel_gap": 0.0},
    )
    assert found.status == 0, found.message
    return float(found.fun)


def is_served(problem: Problem, counts: np.ndarray) -> bool:
    return len(uncovered(problem, counts)) == 0 and costs_of(problem, counts).total >= 0
