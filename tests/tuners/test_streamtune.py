"""StreamTune's tuner: what was seen binds, what was learnt survives, and odd jobs get sensible plans."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import EmulatedJob, emulated_jobs
from streamtune.control.audit import AuditTrail, read_audit
from streamtune.control.controller import Controller
from streamtune.control.guards import Guards
from streamtune.dataflow import Dataflow, Edge, Job, Observation, Operator, Plan
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.base import Deployment, MeasurementWindow
from streamtune.engines.simulator import Simulator, SimulatorSettings, find_oracle, simulate_once
from streamtune.errors import TuningError
from streamtune.labs.simulator import tune_on_simulator
from streamtune.models.assigned import AssignedModel
from streamtune.models.bundle import ModelBundle
from streamtune.testing import TUNER_LAWS
from streamtune.testing.tuner_contract import TunerLaw
from streamtune.tuners import (
    Memory,
    PaperStreamTune,
    Pretrained,
    StreamTune,
    StreamTuneSettings,
    Tuner,
    load_model,
    make_tuner,
)
from streamtune.workloads import catalogue
from tuners.sightings import chain, metrics, sighting

PAPER = [StreamTuneSettings.paper(kind) for kind in ("svm", "xgboost", "nn")]


def observed(name: str, degree: int, multiple: float = 10) -> tuple[Job, Observation]:
    workload = catalogue.load(name)
    job = workload.spec.job
    plan = job.initial_plan
    plan = plan.replace({key: degree for key in plan if not job.dataflow.operator(key).is_source})
    return job, simulate_once(job, workload.physics, plan, workload.rates_at(multiple))


@pytest.mark.parametrize("degree", [1, 60], ids=["short", "ample"])
@pytest.mark.parametrize("kind", ["streamtune", "streamtune-paper", "ds2-calibrated"])
@pytest.mark.parametrize("law", TUNER_LAWS, ids=lambda law: law.__name__)
def test_the_contract_holds_with_a_model(law: TunerLaw, kind: str, degree: int, small_model: Path) -> None:
    job, seen = observed("nexmark-q5", degree)
    law(lambda made: make_tuner(kind, made, model=small_model), job, seen)


# What was seen binds.


def saturated_at(degree: int, offered: float, capacity: float) -> Observation:
    """source → op1 (a bottleneck that takes ``capacity``)."""
    return sighting(
        {
            "source": metrics(1, capacity, 200, blocked=700),
            "op1": metrics(degree, capacity, 1000, hottest=1000),
        },
        offered=offered,
    )


def fine_at(degree: int, offered: float, busy: float) -> Observation:
    return sighting(
        {"source": metrics(1, offered, 200), "op1": metrics(degree, offered, busy, hottest=busy)}, offered=offered
    )


@given(short=st.integers(1, 60), offered=st.floats(500, 5000), more=st.floats(1.0, 3.0), share=st.floats(0.5, 0.99))
def test_a_bottleneck_is_not_recommended_again_at_the_same_or_a_higher_rate(
    short: int, offered: float, more: float, share: float
) -> None:
    tuner = StreamTune(chain("map"))
    tuner.learn(saturated_at(short, offered, offered * share))
    asked = fine_at(short, offered * more, 900)
    assert tuner.recommend(asked).plan["op1"] > short


@given(enough=st.integers(1, 60), offered=st.floats(500, 5000), less=st.floats(0.1, 1.0), busy=st.floats(100, 990))
def test_what_was_seen_safe_is_not_exceeded_at_the_same_or_a_lower_rate(
    enough: int, offered: float, less: float, busy: float
) -> None:
    tuner = StreamTune(chain("map"))
    tuner.learn(fine_at(enough, offered, busy))
    assert tuner.recommend(fine_at(enough, offered * less, busy)).plan["op1"] <= enough


def test_without_binding_a_wrong_belief_is_free_to_repeat_itself() -> None:
    """The bound, not the estimate, holds the first law: one that never learns would recommend 5 again."""
    seen = saturated_at(5, 1000, 990)
    misled = [fine_at(5, 1000, 300)] * 30
    plans = {}
    for binding in (True, False):
        tuner = StreamTune(chain("map"), StreamTuneSettings(binding=binding))
        for observation in [seen, *misled]:
            tuner.learn(observation)
        plans[binding] = tuner.recommend(misled[0]).plan["op1"]
    assert plans[True] == 6
    assert plans[False] < 6


def test_the_need_follows_from_what_was_read() -> None:
    """One instance at 1,000/s is busy 50 %: it serves 2,000/s. At 9,000/s 4.5 instances are needed in the mean, and
    with close to linear scaling and the flat prior's doubts 5 or 6 make it sure enough."""
    tuner = StreamTune(chain("map"))
    tuner.learn(fine_at(1, 1000, 500))
    wanted = fine_at(1, 9000, 1000)
    assert tuner.recommend(wanted).plan["op1"] in (5, 6)


def test_surer_costs_more() -> None:
    plans = []
    for quantile in (0.6, 0.9, 0.99):
        tuner = StreamTune(chain("map"), StreamTuneSettings(quantile=quantile))
        tuner.learn(fine_at(1, 1000, 500))
        plans.append(tuner.recommend(fine_at(1, 40_000, 1000)).plan["op1"])
    assert plans[0] < plans[1] < plans[2]


def test_even_odds_are_enough_where_the_rule_forgives_fifteen_per_cent() -> None:
    """1,000/s keep 10 instances half busy: 200/s each, so 2,000/s need 10. On Flink some certainty comes on top; an
    engine without backpressure gets what is as likely as not to serve the whole rate."""
    found = {}
    for engine in ("flink", "timely"):
        tuner = StreamTune(chain("map"))
        tells = {"reports_backpressure": engine == "flink"}
        tuner.learn(fine_at(10, 1000, 500).model_copy(update=tells))
        found[engine] = tuner.verdicts(fine_at(10, 2000, 1000).model_copy(update=tells))["op1"]
    assert found["flink"].degree > found["timely"].degree
    assert found["timely"].degree == pytest.approx(10, abs=1)
    assert found["timely"].safe[found["timely"].degree - 1] >= 0.5 > found["timely"].safe[found["timely"].degree - 2]


def test_a_bottleneck_that_the_engine_names_binds_although_the_rule_passes_it() -> None:
    """980 of 1,000 records/s pass the 85 % rule; an engine that watches queues names the operator: 5 are too few."""
    operators = {"source": metrics(1, 1000, 200), "op1": metrics(5, 980, 1000, hottest=1000)}
    plans = {}
    for named in ((), ("op1",)):
        tuner = StreamTune(chain("map"))
        seen = sighting(operators).model_copy(update={"bottlenecks": named, "reports_backpressure": False})
        tuner.learn(seen)
        plans[named] = tuner.recommend(seen).plan["op1"]
    assert plans == {(): 5, ("op1",): 6}


def test_hidden_bottlenecks_are_projected_so_one_round_is_enough() -> None:
    """Three operators, all too small; only the first shows as a bottleneck. All are raised at once."""
    job = chain("map", "map", "sink")
    seen = sighting(
        {
            "source": metrics(1, 1000, 100, blocked=880),
            "op1": metrics(1, 1000, 1000, hottest=1000),
            "op2": metrics(1, 1000, 500, hottest=500),
            "op3": metrics(1, 1000, 400, hottest=400),
        },
        offered=8000,
    )
    tuner = StreamTune(job)
    tuner.learn(seen)
    plan = tuner.recommend(seen).plan
    assert plan["op1"] >= 8
    assert plan["op2"] >= 4
    assert plan["op3"] >= 4


def test_a_small_saving_is_not_worth_a_restart() -> None:
    tuner = StreamTune(chain("map"))
    seen = fine_at(5, 1000, 850)
    tuner.learn(seen)
    tuner.learn(fine_at(5, 900, 765))
    assert tuner.recommend(fine_at(5, 900, 765)).plan["op1"] == 5


def test_backpressure_that_nobody_can_be_blamed_for_still_ends() -> None:
    """op1 is idle half the time (bursts), so Algorithm 1 blames nobody; the safe rule raises it."""
    seen = sighting(
        {"source": metrics(1, 900, 100, blocked=300), "op1": metrics(10, 900, 500, hottest=500)}, offered=1000
    )
    tuner = StreamTune(chain("map"))
    tuner.learn(seen)
    found = tuner.recommend(seen)
    assert found.plan["op1"] == 11
    assert "no other reason" in found.why["op1"]


# Odd jobs.


def tuned_once(spec: JobSpec, make: type[Tuner] | None = None, model: Pretrained | None = None) -> Observation:
    story = tune_on_simulator(
        spec, make or (lambda job: StreamTune(job, model=model)), [spec.job.source_rates], with_oracle=False
    )
    return story.steps[-1].observation


def line_of(types: list[str], rate: float = 10_000.0, service_us: float = 500.0, limit: int = 100) -> JobSpec:
    operators = [Operator(id="s", type="source", rate=rate, parallelism=10)]
    operators += [Operator(id=f"o{number}", type=kind) for number, kind in enumerate(types)]
    edges = tuple(Edge(a.id, b.id, b.default_partitioning) for a, b in pairwise(operators))
    physics = {operator.id: OperatorPhysics(service_us=service_us) for operator in operators}
    return JobSpec(Job("line", Dataflow(tuple(operators), edges), max_parallelism=limit), physics)


def test_an_operator_type_never_seen(small_model: Path) -> None:
    spec = line_of(["map", "quantum_sort", "sink"])
    model = load_model(small_model, spec.job)
    tuner = StreamTune(spec.job, model=model)
    seen = simulate_once(spec.job, spec.physics or {}, spec.job.initial_plan, spec.job.source_rates)
    tuner.learn(seen)
    assert "never seen a 'quantum_sort'" in tuner.recommend(seen).why["o1"]
    assert not tuned_once(spec, model=model).has_backpressure


def test_a_single_operator() -> None:
    spec = line_of(["sink"])
    seen = tuned_once(spec)
    assert not seen.has_backpressure
    assert seen.plan["o0"] in (5, 6), "10,000/s at 500 µs is 5 instances"


def test_sixty_operators(small_model: Path) -> None:
    spec = line_of(["map"] * 58 + ["sink"], service_us=180.0)
    seen = tuned_once(spec, model=load_model(small_model, spec.job))
    assert not seen.has_backpressure
    assert seen.plan.total <= 1.3 * 59 * 2 + 10, "10,000/s at 180 µs is 1.8 instances each"


def test_a_recommendation_takes_time_in_proportion_to_the_operators(small_model: Path) -> None:
    """CPU time of the best of five, with much room for noise: tuner and first recommendation of a chain."""

    bundle = ModelBundle.load(small_model)

    def best_s(size: int) -> float:
        spec = line_of(["map", "filter"] * (size // 2 - 1) + ["map", "sink"], service_us=180.0)
        nothing = Observation(
            observed_at=datetime(2026, 1, 1, tzinfo=UTC), window_s=1.0, source_rates=spec.job.source_rates, operators={}
        )
        took = []
        for _ in range(5):
            start = time.process_time()
            StreamTune(spec.job, model=AssignedModel.of(bundle, spec.job)).recommend(nothing)
            took.append(time.process_time() - start)
        return min(took)

    best_s(6)  # what a process does once
    assert best_s(60) < 6 * best_s(20)  # quadratic would be 9 times, and the distances of all pairs 27 times


def test_a_rate_of_zero() -> None:
    spec = line_of(["map", "sink"])
    engine = Simulator.of(spec)
    tuner = StreamTune(spec.job)
    deployment = engine.deploy(spec.job, spec.job.initial_plan)
    outcomes = list(Controller(engine, tuner).tune_over(deployment, [{"s": 10_000.0}, {"s": 0.0}, {"s": 10_000.0}]))
    assert outcomes[1].deployment.plan["o0"] == 1, "nothing reaches it"
    assert not outcomes[2].backpressure
    assert outcomes[2].reconfigurations == 1, "what was learnt before the silence still counts"


def test_a_job_that_can_never_keep_up_gets_the_limit_and_hears_why() -> None:
    spec = line_of(["map", "sink"], rate=100_000.0, limit=20)  # needs 50
    engine = Simulator.of(spec)
    tuner = StreamTune(spec.job)
    controller = Controller(engine, tuner)
    outcome = controller.tune(engine.deploy(spec.job, spec.job.initial_plan))
    assert find_oracle(spec.job, spec.physics or {}, spec.job.source_rates).unreachable
    assert outcome.deployment.plan["o0"] == 20
    assert outcome.reconfigurations <= 3, "it does not go on trying"
    assert "even the limit of 20" in tuner.recommend(outcome.observation).why["o0"]


def test_lost_metrics_leave_an_operator_as_it_is() -> None:
    job = chain("map", "sink")
    tuner = StreamTune(job)
    seen = sighting({"source": metrics(1, 1000, 100), "op1": metrics(7, 1000, 900, hottest=900)})
    blank = {"busy_ms_per_s": math.nan, "records_in_per_s": math.nan, "records_out_per_s": math.nan}
    lost = seen.model_copy(
        update={"operators": {**seen.operators, "op1": seen.operators["op1"].model_copy(update=blank)}}
    )
    tuner.learn(lost)
    found = tuner.recommend(lost)
    assert found.plan["op1"] == 7
    assert found.plan["op2"] == 1, "an operator that is missing altogether runs as it was started"


@settings(max_examples=25)
@given(emulated_jobs())
def test_random_jobs_end_without_backpressure_or_at_a_limit(emulated: EmulatedJob) -> None:
    spec = JobSpec(emulated.job, emulated.physics)
    best = find_oracle(spec.job, emulated.physics, spec.job.source_rates)
    engine = Simulator.of(spec, settings=SimulatorSettings())
    outcome = Controller(engine, StreamTune(spec.job), Guards(tune_sources=False)).tune(
        engine.deploy(spec.job, spec.job.initial_plan)
    )
    if not best.unreachable:
        fixed = {source.id: spec.job.initial_plan[source.id] for source in spec.job.dataflow.sources}
        starved = any(best.plan[key] > degree for key, degree in fixed.items())
        assert starved or not outcome.backpressure


# Algorithm 2 as printed.


@pytest.mark.parametrize("chosen", PAPER, ids=lambda settings: settings.classifier)
def test_algorithm_2_runs_and_appends_its_feedback(chosen: StreamTuneSettings, small_model: Path) -> None:
    workload = catalogue.load("nexmark-q1")
    model = load_model(small_model, workload.spec.job)
    story = tune_on_simulator(
        workload.spec,
        lambda job: PaperStreamTune(job, chosen, model=model),
        [workload.rates_at(3), workload.rates_at(7)],
        with_oracle=False,
    )
    assert len(story.changes) == 2


def test_algorithm_2_needs_a_model() -> None:
    with pytest.raises(TuningError, match="needs a model"):
        PaperStreamTune(chain("map"))
    with pytest.raises(TuningError, match="needs a model: give --model"):
        make_tuner("streamtune-paper", chain("map"))


def test_the_nearest_cluster_is_chosen_and_a_stranger_gets_the_global_encoder(small_model: Path) -> None:
    from streamtune.models.assigned import AssignedModel
    from streamtune.models.bundle import ModelBundle

    bundle = ModelBundle.load(small_model)
    centre = bundle.clusters[0].centre
    assert centre is not None
    sourced = tuple(o.model_copy(update={"rate": 1.0}) if o.is_source else o for o in centre.operators)
    same = AssignedModel.of(bundle, Job("same", Dataflow(sourced, centre.edges)))
    far = AssignedModel.of(bundle, line_of(["map"] * 40).job)
    assert (same.cluster, same.distance) == ("cluster-0", 0)
    assert far.cluster == "global"
    assert far.distance is not None
    assert far.distance > 8


# Memory.


def test_what_was_learnt_is_kept_for_the_next_process(tmp_path: Path) -> None:
    job, file = chain("map"), tmp_path / "state.db"
    tuner = StreamTune(job, memory=Memory(file, job))
    tuner.learn(saturated_at(5, 2000, 1600))
    tuner.learn(fine_at(9, 2000, 700))
    wanted = fine_at(9, 3000, 1000)
    expected = tuner.recommend(wanted)
    again = StreamTune(job, memory=Memory(file, job)).recommend(wanted)
    assert again.plan == expected.plan
    assert again.figures == expected.figures
    assert StreamTune(job).recommend(wanted).plan["op1"] == 9, "without the memory nothing is known"


def test_another_job_or_another_shape_starts_anew(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    job = chain("map")
    Memory(file, job).add(fine_at(3, 1000, 500))
    other = replace(job, name="other")
    assert Memory(file, other).load() == []
    assert Memory(file, chain("filter")).load() == []
    assert len(Memory(file, job).load()) == 1


def test_old_observations_go_and_a_broken_one_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    import streamtune.tuners.streamtune.memory as memory

    monkeypatch.setattr(memory, "KEPT_OBSERVATIONS", 5)
    job, file = chain("map"), tmp_path / "state.db"
    kept = Memory(file, job)
    for number in range(9):
        kept.add(fine_at(number + 1, 1000, 500))
    assert [seen.plan["op1"] for seen in kept.load()] == [5, 6, 7, 8, 9]
    with sqlite3.connect(file) as connection:
        connection.execute("update observations set observation = '{' where number = 9")
    assert [seen.plan["op1"] for seen in kept.load()] == [5, 6, 7, 8]


def test_a_foreign_state_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    file.write_text("this is no database, but text that is long enough to be looked at as one " * 20)
    with pytest.raises(TuningError, match="cannot be used"):
        Memory(file, chain("map"))


class Killed(BaseException):
    """What ends a process from outside."""


class SurvivingEngine(Simulator):
    """Keeps running when its tuner dies, and counts deployments."""

    rescaled: tuple[Plan, ...] = ()
    die_after_rescale = False

    def rescale(self, deployment: Deployment, plan: Plan) -> Deployment:
        self.rescaled += (plan,)
        return super().rescale(deployment, plan)

    def observe(self, deployment: Deployment, window: MeasurementWindow) -> Observation:
        if self.die_after_rescale and self.rescaled:
            self.die_after_rescale = False
            raise Killed
        return super().observe(deployment, window)


def test_killed_between_deploy_and_observe_it_goes_on_and_does_not_deploy_twice(tmp_path: Path) -> None:
    workload = catalogue.load("nexmark-q5")
    spec, file = workload.spec, tmp_path / "state.db"
    engine = SurvivingEngine({spec.job.name: workload.physics}, seed=1)
    deployment = engine.deploy(spec.job, spec.job.initial_plan)
    engine.set_source_rates(deployment, workload.rates_at(7))
    engine.die_after_rescale = True
    trail = AuditTrail(tmp_path / "audit.jsonl")
    with pytest.raises(Killed):
        Controller(engine, StreamTune(spec.job, memory=Memory(file, spec.job)), audit=trail).tune(deployment)
    assert len(engine.rescaled) == 1
    assert len(Memory(file, spec.job).load()) == 1, "the observation before the deployment is kept"
    assert [event["event"] for event in read_audit(tmp_path / "audit.jsonl")][-1] == "deployed"

    running = replace(deployment, plan=engine.rescaled[0])
    outcome = Controller(engine, StreamTune(spec.job, memory=Memory(file, spec.job)), audit=trail).tune(running)
    assert not outcome.backpressure
    assert outcome.reconfigurations == 0, "the plan of the dead process is judged, not deployed again"
    assert len(engine.rescaled) == 1
    assert len(Memory(file, spec.job).load()) == 2
