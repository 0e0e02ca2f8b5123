"""Reading a session back: what ``show`` and ``resume`` need, and the lines for the engine's config file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from streamtune.autoconfig.budget import Budget
from streamtune.autoconfig.journal import Journal, StoreError
from streamtune.autoconfig.problem import Problem, written
from streamtune.autoconfig.space import Value, key_of
from streamtune.autoconfig.trial import Trial


@dataclass(frozen=True)
class Session:
    """A session as the journal has it."""

    problem: Problem
    strategy: str
    seed: int
    budget: Budget
    trials: tuple[Trial, ...]


def read_session(store: Path) -> Session:
    """:raises StoreError: when there is no session in ``store``."""
    journal = Journal(store)
    if journal.header is None:
        raise StoreError(f"{store} holds no session: 'streamtune autoconfig run SPACE.yaml --store {store}' begins one")
    header = journal.header
    budget = journal.budget or Budget(steps=header.steps)
    problem = Problem.model_validate(header.problem)
    return Session(problem, header.strategy, header.seed, budget, tuple(journal.trials))


def defaults_are_missing(session: Session) -> bool:
    """Whether there are defaults that no trial has measured: some strategies do not begin with them."""
    space = session.problem.space
    if not space.has_defaults:
        return False
    return key_of(space.repair(space.defaults)) not in {key_of(trial.knobs) for trial in session.trials}


def config_file(problem: Problem, knobs: Mapping[str, Value]) -> str:
    """What to put into the config file: Spark's ``key value``, Flink's YAML, else plain YAML.

    Knobs without a ``key`` are not settings of the engine (a batch size of the application, for instance): they come
    as comments, so that the text can be pasted as it is.
    """
    lines = []
    for name, value in knobs.items():
        knob = problem.space.knobs[name]
        text = f"{written(value)}{knob.unit}"
        key = knob.key or name
        line = f"{key} {text}" if problem.engine == "spark" else f"{key}: {text}"
        lines.append(line if knob.key or problem.engine is None else f"# {line}")
    return "\n".join(lines)
