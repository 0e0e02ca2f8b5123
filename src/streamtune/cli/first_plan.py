"""``streamtune plan`` for given rates: before a job ran, after a short try, or for one that runs now."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamtune.cli.options import resolved
from streamtune.cli.output import err, operator_table, out, plain, print_json
from streamtune.errors import StreamTuneError
from streamtune.models.names import check_model

if TYPE_CHECKING:
    from streamtune.clock import Clock
    from streamtune.dataflow import Job, Observation
    from streamtune.dataflow.spec import JobSpec
    from streamtune.tuners.streamtune import StreamTune
    from streamtune.tuners.streamtune.foresight import Foreseen

# Beyond so many times the highest rate an operator was seen at, its scaling is a guess, not a reading. Without any past
# plans take a quarter too much at 20 times and more than half too much at 50 (benchmarks/extrapolation.py).
_FAR = 20.0


@dataclass(frozen=True)
class PlanQuestion:
    """What is asked: a job, rates, and where knowledge of it comes from."""

    job: str
    rate: str | None
    model: Path | None
    observe: str | None
    certainty: float | None
    engine: str | None
    url: str | None
    job_id: str | None
    seed: int
    overrides: Path | None = None


@dataclass(frozen=True)
class _Asked:
    """The rates that a plan is for, and how those are known that are not given as numbers."""

    rates: dict[str, float]
    origins: Mapping[str, str] = field(default_factory=dict)
    sds: Mapping[str, float] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """Which rates are guesses, in words; nothing where none is.

        >>> _Asked({"bids": 120.0, "users": 9.0}, {"bids": "estimated", "users": "lag"}, {"bids": 0.4}).told
        '; what bids is offered now is a guess (± 40%): give a number with --rate'
        """
        guessed = [key for key, origin in self.origins.items() if origin == "estimated"]
        words = [f"{key} is offered now is a guess ({_spread(self.sds.get(key, 0.0))})" for key in guessed]
        return f"; what {', what '.join(words)}: give a number with --rate" if words else ""


def _spread(sd: float) -> str:
    return f"± {sd:.0%}" if sd > 0 else "at least what it takes"


def answer_plan(question: PlanQuestion, as_json: bool, clock: Clock | None = None) -> None:
    """Answer, as a table or as JSON."""
    check_model(question.model)
    if question.certainty is not None and not 0 < question.certainty < 1:
        raise StreamTuneError(f"--certainty must be between 0 and 1, but got {question.certainty:g}")
    record = _of_running(question, clock) if question.engine is not None else _of_spec(question)
    if as_json:
        print_json(record)
    else:
        _print(record)


def _of_spec(question: PlanQuestion) -> dict[str, Any]:
    from streamtune.cli.arguments import find_job, parse_rates

    spec = find_job(question.job)
    rates = parse_rates(question.rate, spec.job)
    if question.model is None and question.observe is None:
        raise StreamTuneError(
            f"nothing is known of '{spec.job.name}': give --model (what past jobs taught), --observe (a short try), "
            "or --forecast for a plan over time"
        )
    seen = None if question.observe is None else _pilot(spec, question)
    tuner = _tuner(spec.job, question.model)
    if seen is not None:
        tuner.learn(seen)
    return _record(spec.job, _Asked(rates), tuner, seen, question.certainty, dict(spec.job.initial_plan))


def _of_running(question: PlanQuestion, clock: Clock | None) -> dict[str, Any]:
    """Look at a running job once; nothing about it is changed."""
    from streamtune.dataflow import Observation, Plan
    from streamtune.engines.flink.overrides import Overrides, load_overrides
    from streamtune.engines.flink.settings import FlinkSettings, FlinkWindow

    if question.engine != "flink":
        raise StreamTuneError(f"--engine must be flink, but got '{question.engine}': other engines have no jobs to ask")
    if question.job or question.observe:
        given = f"'{question.job}'" if question.job else "--observe"
        raise StreamTuneError(f"a running job is looked at as it is, but got {given}: leave it out with --engine flink")
    from streamtune.cli.flink import flink_client, flink_url

    address = flink_url(question.url)
    known = load_overrides(question.overrides) if question.overrides else Overrides()
    from streamtune.engines.flink import FlinkEngine

    with flink_client(address) as client:
        engine = FlinkEngine(client, overrides=known, settings=resolved(FlinkSettings), clock=clock)
        deployment = engine.attach(question.job_id)
        err.print(f"looking at {plain(deployment.job.name)}", highlight=False)
        seen = engine.observe(deployment, resolved(FlinkWindow))
        if not isinstance(seen, Observation):
            said = f"'{deployment.job.name}' gave no usable metrics: {seen.reason}"
            raise StreamTuneError(f"{said}. Ask again in a while")
        asked = _asked(question.rate, seen)
        tuner = _tuner(deployment.job, question.model)
        tuner.learn(seen)
        kept = engine.excluded(deployment)
        record = _record(deployment.job, asked, tuner, seen, question.certainty, dict(seen.plan), kept)
        needed, in_reach = engine.slots_needed(deployment, Plan(record["plan"])), engine.slots_in_reach(deployment)
    return {**record, "slots": {"needed": needed, "in_reach": in_reach}}


def _asked(text: str | None, seen: Observation) -> _Asked:
    """What is asked of a job that runs: a guess stays one, whatever it is multiplied by, until a number is given."""
    from streamtune.cli.arguments import parse_numbers, parse_times

    rates = _scaled(text, seen.source_rates)
    is_number = text is not None and parse_times(text) is None
    named = set(parse_numbers(text, seen.source_rates, "--rate")) if text is not None and is_number else set()
    origins = {key: origin for key, origin in seen.rate_origins.items() if key not in named}
    return _Asked(rates, origins, {key: sd for key, sd in seen.rate_sds.items() if key not in named})


def _scaled(text: str | None, now: Mapping[str, float]) -> dict[str, float]:
    """``10x`` of what the sources are offered now, one number for all, or source=rate,…"""
    from streamtune.cli.arguments import parse_numbers, parse_times

    if text is None:
        return dict(now)
    times = parse_times(text)
    if times is not None:
        return {key: rate * times for key, rate in now.items()}
    given = parse_numbers(text, now, "--rate")
    unknown = sorted(set(given) - set(now))
    if unknown:
        raise StreamTuneError(f"--rate: no source '{unknown[0]}': they are {', '.join(now)}")
    negative = [key for key, rate in given.items() if rate < 0]
    if negative:
        raise StreamTuneError(f"--rate: '{negative[0]}' must be at least 0, but got {given[negative[0]]:g}")
    return {**now, **given}


def _pilot(spec: JobSpec, question: PlanQuestion) -> Observation:
    """A short run at a small rate with what the spec starts with, on the simulator."""
    from streamtune.cli.arguments import parse_rates, simulator_settings
    from streamtune.engines.simulator.settings import SimulatorWindow

    if spec.physics is None:
        raise StreamTuneError(
            f"job '{spec.job.name}' has no physics, so the simulator cannot try it: leave --observe out, or start the "
            "job on Flink at a small rate and ask with --engine flink"
        )
    rates = parse_rates(question.observe, spec.job)
    from streamtune.engines.simulator import simulate_once

    return simulate_once(
        spec.job,
        spec.physics,
        spec.job.initial_plan,
        rates,
        window=resolved(SimulatorWindow),
        settings=simulator_settings(None, None),
        seed=question.seed,
    )


def _tuner(job: Job, model: Path | None) -> StreamTune:
    from streamtune.tuners import StreamTune, load_model
    from streamtune.tuners.streamtune.settings import StreamTuneSettings

    return StreamTune(job, resolved(StreamTuneSettings), model=None if model is None else load_model(model, job))


def _record(
    job: Job,
    asked: _Asked,
    tuner: StreamTune,
    seen: Observation | None,
    certainty: float | None,
    now: dict[str, int],
    kept: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    found = tuner.first_plan(asked.rates, certainty, asked.sds)
    if found is None:
        raise StreamTuneError("a plan needs the posterior estimator: set tuners.streamtune.estimator to posterior")
    plan = {key: now[key] if key in kept else _degree(key, found, now) for key in job.dataflow.index}
    reach = {key: _reach(key, found, tuner, seen) for key in found.degrees}
    known = {key: times for key, times in reach.items() if times is not None}
    worst = max(known.values(), default=None)
    lent = tuner.prior
    operators = {}
    for key in job.dataflow.index:
        low, high = found.demand[key]
        verdict = found.verdicts.get(key)
        operators[key] = {
            "parallelism": plan[key],
            "why": "excluded, or it has done its work: kept as it is" if key in kept else _why(key, found, job),
            "demand_per_s": [low, high],
            "keeps_up": None if verdict is None else round(float(verdict.safe[plan[key] - 1]), 4),
            "learnt_from": [origin.to_record() for origin in lent[key].origins] if key in lent else [],
            "times_highest_seen": reach.get(key),
        }
    return {
        "job": job.name,
        "rates": asked.rates,
        "rate_origins": dict(asked.origins),
        "rate_sds": {key: round(sd, 4) for key, sd in asked.sds.items()},
        "plan": plan,
        "total_parallelism": sum(plan.values()),
        "certainty": {"asked": certainty or tuner.settings.first_certainty, "reached": round(_reached(found, plan), 4)},
        "out_of_reach": list(found.out_of_reach),
        "extrapolation": {"times_highest_seen": worst, "verdict": _verdict(worst, found) + asked.told},
        "operators": operators,
    }


def _reached(found: Foreseen, plan: Mapping[str, int]) -> float:
    """How sure the plan is; at most as sure as of an operator that is not to get what it needs."""
    short = [key for key, degree in found.degrees.items() if plan[key] < degree and key in found.verdicts]
    return min([found.certainty, *(float(found.verdicts[key].safe[plan[key] - 1]) for key in short)])


def _degree(key: str, found: Foreseen, now: Mapping[str, int]) -> int:
    """A source, and an operator of which nothing is known, keep what they have."""
    return now[key] if key not in found.degrees or key in found.unknown else found.degrees[key]


def _why(key: str, found: Foreseen, job: Job) -> str:
    if job.dataflow.operator(key).is_source:
        return "a source keeps its parallelism"
    return found.verdicts[key].told or "nothing is known of it: kept as it is"


def _reach(key: str, found: Foreseen, tuner: StreamTune, seen: Observation | None) -> float | None:
    """How many times the highest rate at which it, or what it was learnt from, was seen; None where nothing was."""
    highest = tuner.prior[key].seen_rate if key in tuner.prior else 0.0
    if seen is not None and key in seen.operators:
        taken = seen.operators[key].records_in_per_s
        highest = max(highest, taken if math.isfinite(taken) else 0.0)
    return None if highest <= 0 else round(found.demand[key][1] / highest, 3)


def _times(worst: float) -> str:
    return f"{worst:,.0f}" if worst < 1e6 else f"{worst:.1g}"


def _verdict(worst: float | None, found: Foreseen) -> str:
    if found.out_of_reach:
        return (
            f"more than {', '.join(found.out_of_reach)} can serve with all instances allowed: raise max_parallelism, "
            "or plan for a smaller rate"
        )
    if found.unknown:
        return f"nothing is known of {', '.join(found.unknown)}: try the job at a small rate first"
    if worst is None:
        return "no such operator was seen at any rate: features alone speak"
    if worst > _FAR:
        return f"up to {_times(worst)} times the highest rate seen: a guess; try a rate in between first"
    if worst > 1:
        return f"up to {worst:.1f} times the highest rate seen: scaling curves are extended"
    return "within rates that were seen"


def _print(record: dict[str, Any]) -> None:
    table = operator_table(f"first plan of {record['job']}: nothing is deployed", "p", "records/s", "sure", "why")
    for key, one in record["operators"].items():
        low, high = one["demand_per_s"]
        rate = f"{low:,.0f}" if high <= 1.02 * low else f"{low:,.0f} … {high:,.0f}"
        sure = "" if one["keeps_up"] is None else f"{one['keeps_up']:.0%}"
        table.add_row(key, str(one["parallelism"]), rate, sure, one["why"])
    out.print(table)
    reached = record["certainty"]["reached"]
    out.print(
        f"total parallelism {record['total_parallelism']}; all operators together keep up with {reached:.0%}; "
        f"{record['extrapolation']['verdict']}",
        highlight=False,
        soft_wrap=True,
        markup=False,
    )
    slots = record.get("slots")
    if slots is not None and slots["needed"] > slots["in_reach"]:
        said = f"it takes {slots['needed']} slots, {slots['in_reach']} are in reach: start more TaskManagers first"
        out.print(said, style="yellow", highlight=False, soft_wrap=True)
