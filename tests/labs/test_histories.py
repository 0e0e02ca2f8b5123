"""Generated histories: what the paper's set-up asks for, and the same whoever makes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamtune.history.ingest import ingest
from streamtune.history.store import History
from streamtune.labs.histories import draw, generate, run_of
from streamtune.labs.settings import GenerateSettings
from streamtune.workloads import cycle, names

SETTINGS = GenerateSettings(runs=40, random_jobs=10)


def test_rates_lie_between_the_multiples_that_tuning_is_tested_on() -> None:
    for number in range(200):
        experiment = draw(number, SETTINGS)
        for source, rate in experiment.rates.items():
            multiple = rate / experiment.workload.units[source]
            assert 1 < multiple < 10
            assert min(abs(multiple - tested) for tested in cycle()) > 0.01


def test_random_plans_fill_the_range_and_near_plans_hug_the_need() -> None:
    drawn = [draw(number, SETTINGS) for number in range(400)]
    assert 0.4 < sum(experiment.is_near for experiment in drawn) / 400 < 0.6
    assert {e.workload.template for e in drawn} >= {"nexmark", "random", "pqp-linear", "pqp-2way", "pqp-3way"}
    random_plans = [e for e in drawn if not e.is_near]
    sources = {(e.number, s.id) for e in drawn for s in e.workload.spec.job.dataflow.sources}
    degrees = [p for e in random_plans for p in e.plan.values()]
    assert min(degrees) == 1
    assert max(degrees) == 60
    near = [
        (need, e.plan[key])
        for e in drawn
        if e.is_near
        for key, need in e.needs().items()
        if (e.number, key) not in sources
    ]
    within = sum(abs(p - need) <= max(2, 0.5 * need) for need, p in near)
    assert within / len(near) > 0.95
    short = [p < need for need, p in near if need > 2]  # what needs one or two instances can hardly be short
    assert 0.3 < sum(short) / len(short) < 0.6, "short and ample plans both occur"


def test_a_run_depends_on_its_number_and_seed_alone() -> None:
    assert run_of(7, SETTINGS) == run_of(7, SETTINGS.model_copy(update={"runs": 1000}))
    assert run_of(7, SETTINGS) != run_of(8, SETTINGS)
    assert run_of(7, SETTINGS) != run_of(7, SETTINGS.model_copy(update={"seed": 1}))


def test_all_jobs_of_the_catalogue_can_occur() -> None:
    jobs = {draw(number, GenerateSettings(random_share=0.0)).workload.name for number in range(1500)}
    assert jobs == set(names())


@pytest.mark.spark
def test_partitions_do_not_matter_and_nothing_is_generated_twice(spark: SparkSession, tmp_path: Path) -> None:
    one, many = History(spark, str(tmp_path / "one")), History(spark, str(tmp_path / "many"))
    assert generate(one, SETTINGS, partitions=1) == 40
    assert generate(many, SETTINGS.model_copy(update={"runs": 25}), partitions=7) == 25
    assert generate(many, SETTINGS, partitions=3) == 15, "the first 25 are there already"
    assert generate(many, SETTINGS) == 0
    rows = [sorted(history.runs.read().drop("source_rates").collect()) for history in (one, many)]
    assert rows[0] == rows[1]


@pytest.mark.spark
def test_generated_runs_pass_validation(spark: SparkSession, tmp_path: Path) -> None:
    lines = [run_of(number, SETTINGS).model_dump_json() for number in range(60)]
    (tmp_path / "runs.jsonl").write_text("\n".join(lines))
    history = History(spark, str(tmp_path / "history"))
    report = ingest(history, [str(tmp_path / "runs.jsonl")])
    why = [row.reasons for row in history.rejected.read().collect()]
    assert (report.valid, why) == (60, [])
