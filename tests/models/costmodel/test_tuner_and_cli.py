"""ZeroTune as a tuner, and on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamtune.cli import main
from streamtune.dataflow import Job
from streamtune.engines.simulator import simulate_once
from streamtune.errors import TuningError
from streamtune.models.costmodel.model import CostModel
from streamtune.models.costmodel.settings import AdviceSettings
from streamtune.testing import TUNER_LAWS
from streamtune.testing.tuner_contract import TunerLaw
from streamtune.tuners.zerotune import ZeroTune
from streamtune.workloads import catalogue


@pytest.mark.parametrize("name", ["nexmark-q5", "pqp-3way-0"])
@pytest.mark.parametrize("law", TUNER_LAWS, ids=lambda law: law.__name__)
def test_the_law_of_tuners(model: CostModel, law: TunerLaw, name: str) -> None:
    workload = catalogue.load(name)
    job = workload.spec.job
    seen = simulate_once(job, workload.physics, job.initial_plan, workload.rates_at(5))

    def make(job: Job) -> ZeroTune:
        return ZeroTune(job, model, settings=AdviceSettings(candidates=100))

    law(make, job, seen)


def test_fewer_than_a_hundred_plans_are_refused(model: CostModel) -> None:
    job = catalogue.load("nexmark-q1").spec.job
    with pytest.raises(TuningError, match="at least 100 plans, but got 10"):
        ZeroTune(job, model, settings=AdviceSettings(candidates=10))


@pytest.fixture(scope="module")
def folder(model: CostModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cost") / "model"
    model.save(path)
    return path


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["streamtune", *arguments])
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_predict_and_advise(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = ("--cost-model", str(folder), "--hosts", "4xm510", "--json")
    code, text, _ = run(monkeypatch, capsys, "predict", "pqp-linear-0", "--plan", "4", "--plan", "filter_1=9", *shared)
    told = json.loads(text)
    assert code == 0
    assert [plan["plan"]["filter_1"] for plan in told["plans"]] == [4, 9]
    assert all(plan["latency_ms"] > 0 and plan["latency_spread"] >= 1 for plan in told["plans"])

    picture = tmp_path / "trade-off.png"
    code, text, _ = run(monkeypatch, capsys, "advise", "pqp-2way-0", "--plot", str(picture), *shared)
    told = json.loads(text)
    assert code == 0
    assert max(told["plan"].values()) <= 32
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("predict", "pqp-linear-0", "--plan", "40"), "the 4 hosts have 32 cores: lower it or add hosts"),
        (("predict", "pqp-linear-0", "--selectivity", "nobody=0.5"), "no operator 'nobody'"),
        (("advise", "pqp-linear-0", "--rate", "oops"), "expected name=number"),
    ],
)
def test_what_cannot_be_is_refused(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    code, _, told = run(monkeypatch, capsys, *arguments, "--cost-model", str(folder), "--hosts", "4xm510")
    assert code == 2
    assert message in told.replace("\n", " ")


def test_zerotune_tunes_by_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--tuners", "zerotune,ds2", "--cost-model", str(folder), "--changes", "2", "--json")
    code, text, _ = run(monkeypatch, capsys, "compare", "pqp-linear-0", *arguments)
    assert code == 0
    stories = {story["tuner"]: story for story in json.loads(text)}
    assert set(stories) == {"zerotune", "ds2"}
    assert all(change["reconfigurations"] >= 1 for change in stories["zerotune"]["changes"][:1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tuner", "zerotune"), "needs a cost model: give --cost-model"),
        (("--engine", "timely", "--start-from", "anything"), "has no effect with --engine timely, only with simulator"),
    ],
)
def test_what_tune_cannot_do_with_a_cost_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    code, _, told = run(monkeypatch, capsys, "tune", "nexmark-q1", *arguments)
    assert code == 2
    assert message in told


@pytest.mark.parametrize("hosts", ["m510", "0xm510", "2xnothing"])
def test_bad_hosts_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], hosts: str
) -> None:
    code, _, told = run(monkeypatch, capsys, "predict", "pqp-linear-0", "--cost-model", str(folder), "--hosts", hosts)
    assert code == 2
    assert "--hosts" in told
