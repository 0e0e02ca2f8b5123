"""Learning from what a service observed: two rounds, one broken off and gone on with, compared with each other."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from streamtune.dataflow import Plan, Run
from streamtune.dataflow.run_files import RunFiles
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.simulator import Simulator
from streamtune.errors import StreamTuneError
from streamtune.history.settings import FeaturiseSettings
from streamtune.models.encoder.settings import NetworkSettings, TrainingSettings
from streamtune.outputs import OutputError
from streamtune.readings.settings import LabelSettings
from streamtune.service.errors import RequestError, ServiceError
from streamtune.service.learn.pipeline import Learner
from streamtune.service.learn.replay import Scores
from streamtune.service.learn.rounds import Rounds
from streamtune.service.recording import HistoryReader
from streamtune.service.settings import LearnSettings
from streamtune.service.store import Store
from streamtune.service.store.models import ModelRow
from streamtune.signatures import SignatureError
from streamtune.similarity.settings import KMeansSettings
from streamtune.spark.settings import SparkSettings
from streamtune.training.settings import PretrainSettings
from streamtune.workloads import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOBS = ("nexmark-q1", "nexmark-q2", "pqp-linear-0")
DAY = datetime(2026, 3, 2, tzinfo=UTC)


def write_days(folder: Path, first: int, days: int, files_per_day: int = 6, window_s: float = 30.0) -> int:
    """Files as a service leaves them: some runs of every job each."""
    engine = Simulator.of(*(load(name).spec for name in JOBS), seed=first)
    chosen = np.random.default_rng(first)
    window = MeasurementWindow(30.0, window_s)
    deployments = {name: engine.deploy(load(name).spec.job, load(name).spec.job.initial_plan) for name in JOBS}
    number = 0
    for day in range(first, first + days):
        for hour in range(files_per_day):
            runs = []
            for name in JOBS:
                workload = load(name)
                job = workload.spec.job
                needs = workload.needs_at(6.0)
                plan = Plan(
                    {key: max(1, round((needs[key] or 1) * chosen.uniform(0.5, 1.8))) for key in job.dataflow.index}
                )
                deployments[name] = engine.rescale(deployments[name], plan)
                engine.set_source_rates(deployments[name], workload.rates_at(float(chosen.uniform(3, 9))))
                seen = engine.observe(deployments[name], window)
                moment = DAY + timedelta(days=day, hours=hour)
                number += 1
                runs.append(
                    Run.of(f"t-{day}-{number}", job, "simulator", seen.model_copy(update={"observed_at": moment}))
                )
            RunFiles(folder / "runs").write(runs)
    return number


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(f"sqlite:///{tmp_path}/service.db")
    yield opened
    opened.close()


def learner(data: Path, store: Store, **changes: object) -> Learner:
    quick = TrainingSettings(network=NetworkSettings(width=8, iterations=1), epochs=2)
    return Learner(
        data=data,
        store=store,
        settings=LearnSettings(min_runs=30, tolerance=0.9).replace(**changes),
        spark=SparkSettings(),
        label=LabelSettings(),
        featurise=FeaturiseSettings(),
        cluster=KMeansSettings(),
        pretrain=PretrainSettings(training=quick, min_runs_to_cluster=10, min_cluster_runs=20, warmup_runs=20),
    )


def test_too_little_is_said(tmp_path: Path, store: Store) -> None:
    with pytest.raises(ServiceError, match=r"0 new runs in .* are fewer than 30"):
        learner(tmp_path, store).learn()


def test_a_second_process_is_refused(tmp_path: Path, store: Store) -> None:
    with Rounds(tmp_path).alone(), pytest.raises(ServiceError, match="another round of learning is under way"):
        learner(tmp_path, store).learn()


@pytest.mark.parametrize(
    ("candidate", "promoted"),
    [(Scores(0.2, 0.0, 1.0, 9), True), (Scores(0.215, 0.015, 1.015, 9), True), (Scores(0.23, 0.0, 1.0, 9), False),
     (Scores(0.2, 0.03, 1.0, 9), False), (Scores(0.2, 0.0, 1.03, 9), False)],
)  # fmt: skip
def test_a_worse_model_is_not_promoted(tmp_path: Path, store: Store, candidate: Scores, promoted: bool) -> None:
    found, reason = learner(tmp_path, store, tolerance=0.02)._verdict(candidate, Scores(0.2, 0.0, 1.0, 9))
    assert found is promoted
    assert ("not worse" in reason) is promoted


def test_a_round_whose_data_teach_nothing_does_not_bar_the_next(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that the machine broke off is gone on with, one that cannot succeed is not."""
    write_days(tmp_path, 0, 2)
    errors = (ServiceError("Spark stopped"), OutputError("no space left"), SignatureError("not signed"))
    for error, goes_on in (*((one, True) for one in errors), (StreamTuneError("no bottleneck"), False)):
        one = learner(tmp_path, store)
        monkeypatch.setattr(one, "_history", lambda error=error: _raise(error))
        with pytest.raises(type(error), match=str(error)):
            one.learn()
        assert (Rounds(tmp_path).current() is not None) is goes_on


def test_a_clock_that_is_put_back_gives_no_name_twice(tmp_path: Path, store: Store) -> None:
    one, now = learner(tmp_path, store), datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
    first = one._new_version(now)
    (tmp_path / "models" / first).mkdir(parents=True)
    second = one._new_version(now)
    store.models.register(ModelRow(second, now, tmp_path, {}, {}, "candidate", None, ""))
    assert [first, second, one._new_version(now)] == [first, f"{first}-2", f"{first}-3"]


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.slow
def test_two_rounds_are_compared_promoted_and_rolled_back(
    tmp_path: Path, store: Store, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark is not None
    made = write_days(tmp_path, 0, 3)
    first = learner(tmp_path, store).learn()
    assert (first.promoted, first.reason, first.compared_with) == (True, "the first model", None)
    (running,) = store.models.all()
    assert running.status == "running"
    assert (running.path / "manifest.json").exists()
    shown = HistoryReader(tmp_path).view()
    assert sum(day.runs for day in shown.days) == made  # ingested or waiting, each counted once
    assert len(shown.days) == 3

    # The second is broken off after two steps, as by a power cut, and goes on where it stopped.
    write_days(tmp_path, 3, 2)
    broken = learner(tmp_path, store)
    with monkeypatch.context() as patch:
        patch.setattr("streamtune.history.featurise.featurise", _fail)
        with pytest.raises(RuntimeError, match="power cut"):
            broken.learn()
    told: list[str] = []
    again = learner(tmp_path, store)
    again.tell = lambda step, text: told.append(f"{step}: {text}")
    second = again.learn()
    assert told[0].endswith("goes on after 'label'")
    assert not any(one.startswith(("ingest", "label")) for one in told)
    assert second.promoted
    assert second.compared_with == first.version
    assert second.reason.startswith("not worse: threshold error ")
    assert store.models.running() is not None
    assert store.models.running().version == second.version  # type: ignore[union-attr]
    before, now = store.models.get(first.version), store.models.get(second.version)
    assert before is not None
    assert now is not None
    assert before.status == "retired"
    assert now.data["from"] <= now.data["until"]
    assert set(now.scores) == {"threshold_error", "backpressure", "parallelism", "operators"}

    assert store.models.roll_back(datetime.now(UTC)) == first.version
    with pytest.raises(RequestError, match="no model ran before"):
        store.models.roll_back(datetime.now(UTC))
    assert {one.what for one in store.audit.newest(9)} == {"model_promoted"}


def test_where_all_is_in_quarantine_that_is_said(tmp_path: Path, store: Store, spark: SparkSession) -> None:
    assert spark is not None
    made = write_days(tmp_path, 0, 2, window_s=5.0)
    with pytest.raises(StreamTuneError, match=r"all \d+ runs were put into quarantine"):
        learner(tmp_path, store).learn()
    (reason,) = HistoryReader(tmp_path).view().quarantine.reasons
    assert reason.reason == "window_too_short"
    assert 0 < reason.count < made, "the newest runs were kept to judge by"
    with pytest.raises(ServiceError, match="fewer than 30"):  # a new round, not the same again
        learner(tmp_path, store).learn()


def _fail(*_: object, **__: object) -> None:
    raise RuntimeError("power cut")
