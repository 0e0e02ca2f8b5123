"""The contract of tuners: every ``Tuner`` passes every function in ``TUNER_LAWS``."""

from __future__ import annotations

import math
from collections.abc import Callable

from streamtune.dataflow import Job, Observation
from streamtune.tuners.base import Tuner

MakeTuner = Callable[[Job], Tuner]
TunerLaw = Callable[[MakeTuner, Job, Observation], None]


def plan_fits_the_job(make: MakeTuner, job: Job, seen: Observation) -> None:
    tuner = make(job)
    tuner.learn(seen)
    plan = tuner.recommend(seen).plan
    job.check_plan(plan)
    assert set(plan) == set(job.dataflow.index)


def same_observations_same_plan(make: MakeTuner, job: Job, seen: Observation) -> None:
    plans = []
    for _ in range(2):
        tuner = make(job)
        tuner.learn(seen)
        plans.append(tuner.recommend(seen).plan)
    assert plans[0] == plans[1]


def reasons_are_given(make: MakeTuner, job: Job, seen: Observation) -> None:
    tuner = make(job)
    tuner.learn(seen)
    recommendation = tuner.recommend(seen)
    assert set(recommendation.why) == set(job.dataflow.index)
    assert all(recommendation.why.values())


def missing_values_do_not_crash_it(make: MakeTuner, job: Job, seen: Observation) -> None:
    blank = {"busy_ms_per_s": math.nan, "records_in_per_s": math.nan, "records_out_per_s": math.nan}
    for key in seen.operators:
        operators = {**seen.operators, key: seen.operators[key].model_copy(update=blank)}
        plan_fits_the_job(make, job, seen.model_copy(update={"operators": operators}))


def silence_does_not_crash_it(make: MakeTuner, job: Job, seen: Observation) -> None:
    nothing = {
        "records_in_per_s": 0.0,
        "records_out_per_s": 0.0,
        "busy_ms_per_s": 0.0,
        "idle_ms_per_s": 1000.0,
        "backpressured_ms_per_s": 0.0,
    }
    silent = seen.model_copy(
        update={
            "source_rates": dict.fromkeys(seen.source_rates, 0.0),
            "operators": {key: m.model_copy(update=nothing) for key, m in seen.operators.items()},
        }
    )
    plan_fits_the_job(make, job, silent)


TUNER_LAWS: tuple[TunerLaw, ...] = (
    plan_fits_the_job,
    same_observations_same_plan,
    reasons_are_given,
    missing_values_do_not_crash_it,
    silence_does_not_crash_it,
)
