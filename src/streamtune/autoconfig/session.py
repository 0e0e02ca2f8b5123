"""The loop: ask, measure, tell; until the steps, the time or the money are spent.

A strategy is a pure function of the trials so far (not even of how many are still to come), and every trial is in the
journal before the next is asked for. Hence the law: a session that was killed and resumed, or extended, has the same
trials as one that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamtune.autoconfig.budget import Budget
from streamtune.autoconfig.choice import Best, choose
from streamtune.autoconfig.journal import Header, Journal
from streamtune.autoconfig.neighbours import conclude
from streamtune.autoconfig.objective import Objective
from streamtune.autoconfig.problem import Problem
from streamtune.autoconfig.strategies import make_strategy
from streamtune.autoconfig.strategies.base import Strategy
from streamtune.autoconfig.trial import Measurement, Suggestion, Trial

Tell = Callable[[Trial, Best | None], None]


@dataclass(frozen=True)
class Outcome:
    """What a session came to."""

    best: Best | None
    trials: tuple[Trial, ...]
    stopped: str


@dataclass(frozen=True)
class Plan:
    """How a session searches."""

    strategy: str = "ours"
    seed: int = 0
    budget: Budget = field(default_factory=Budget)


def run_session(
    problem: Problem,
    plan: Plan,
    objective: Objective,
    store: Path,
    *,
    tell: Tell | None = None,
    warm: Sequence[dict[str, Any]] = (),
) -> Outcome:
    """Run or go on with the session in ``store``."""
    journal = Journal(store)
    with journal.locked():
        journal.begin(
            Header(
                strategy=plan.strategy,
                seed=plan.seed,
                steps=plan.budget.steps,
                budget=plan.budget,
                fingerprint=problem.fingerprint,
                problem=problem.model_dump(mode="json"),
                warm=list(warm),
            )
        )
        assert journal.header is not None
        header = journal.header
        problem = problem.in_order(header.problem["space"]["knobs"])  # strategies heed the order, fingerprints do not
        strategy = make_strategy(header.strategy, problem, seed=header.seed, warm=header.warm)
        stopped = _loop(problem, plan.budget, strategy, objective, journal, tell)
    return Outcome(conclude(journal.trials, problem), tuple(journal.trials), stopped)


def _loop(
    problem: Problem, budget: Budget, strategy: Strategy, objective: Objective, journal: Journal, tell: Tell | None
) -> str:
    while True:
        if journal.owes_restore:  # also where a crash came between the failed trial and this
            best = choose(journal.trials, problem)
            objective.restore(best.knobs if best else problem.space.anchor)
            journal.restored()
        if journal.pending is None:
            reason = budget.spent(journal.trials)
            if reason is not None:
                return reason
            suggestion = strategy.ask(journal.trials)
            if suggestion is None:
                return f"{strategy.name} has nothing more to try"
            problem.space.check(suggestion.knobs)
            journal.asked(len(journal.trials), suggestion)
        trial = _finish(problem, objective, journal)
        if tell is not None:
            tell(trial, choose(journal.trials, problem))


def _finish(problem: Problem, objective: Objective, journal: Journal) -> Trial:
    """Run the pending trial's missing repeats."""
    spec = problem.objective
    pending = journal.pending
    assert pending is not None
    while len(pending.measurements) < spec.repeats:
        if pending.measurements and (
            pending.measurements[-1].failed or _is_hopeless(pending.measurements, problem, journal)
        ):
            break
        knobs = pending.suggestion.knobs
        journal.measured(objective.measure(pending.number, len(pending.measurements), knobs))
    return journal.told()


def _is_hopeless(measured: Sequence[Measurement], problem: Problem, journal: Journal) -> bool:
    """Whether repeats would be wasted: the first is far below the best so far."""
    spec = problem.objective
    best = choose(journal.trials, problem)
    first = measured[0].value
    if spec.hopeless is None or best is None or first is None:
        return False
    sign = 1.0 if spec.maximise else -1.0
    reached, top = sign * first, sign * best.value
    # A share of a loss is a smaller loss: where less than nothing is the best, a multiple of it is hopeless.
    return bool(top) and reached < (spec.hopeless * top if top > 0 else top / spec.hopeless)


def replay(
    problem: Problem, strategy: Strategy, measure: Callable[[int, Suggestion], Trial], steps: int
) -> list[Trial]:
    """The same loop without a store: for studies, where a trial is a function call."""
    trials: list[Trial] = []
    while len(trials) < steps:
        suggestion = strategy.ask(trials)
        if suggestion is None:
            break
        problem.space.check(suggestion.knobs)
        trials.append(measure(len(trials), suggestion))
    return trials
