"""Acting ahead: stretches against enumeration, rolling horizons, prices, and the command."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from provisioning.provisioning_problems import problems
from streamtune.cli.plan import plan as plan_command
from streamtune.errors import StreamTuneError
from streamtune.provisioning import Problem, plan_exact
from streamtune.provisioning.ahead import FixedCapacity, plan_ahead, plan_stretches
from streamtune.provisioning.prices import PriceList, load_prices
from streamtune.provisioning.rolling import perfect_forecasts, roll
from streamtune.provisioning.settings import AheadSettings

app = typer.Typer()
app.command()(plan_command)


def cost_of(counts: np.ndarray, price: float, change: float, current: np.ndarray | None) -> float:
    rows = counts if current is None else np.vstack([current[None, :], counts])
    return float(price * counts.sum() + change * (np.diff(rows, axis=0) != 0).any(axis=1).sum())


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=6),
    st.sampled_from([0.0, 0.5, 2.0, 7.0]),
    st.none() | st.tuples(st.integers(1, 4), st.integers(1, 3)),
)
@settings(max_examples=80, deadline=None)
def test_stretches_are_the_optimum_over_all_partitions(
    rows: list[tuple[int, int]], change: float, current: tuple[int, int] | None
) -> None:
    needed = np.array(rows)
    running = None if current is None else np.array(current)
    found = plan_stretches(needed, 1.0, change, running)
    assert (found >= needed).all()
    best = np.inf
    for cuts in itertools.product([False, True], repeat=len(rows) - 1):
        ends = [k + 1 for k, cut in enumerate(cuts) if cut] + [len(rows)]
        pieces = list(itertools.pairwise([0, *ends]))
        for keeps in (False, True) if running is not None else (False,):
            counts = np.empty_like(needed)
            for begin, end in pieces:
                counts[begin:end] = needed[begin:end].max(axis=0)
            if keeps and running is not None:
                if not (needed[: pieces[0][1]] <= running).all():
                    continue
                counts[: pieces[0][1]] = running
            best = min(best, cost_of(counts, 1.0, change, running))
    assert cost_of(found, 1.0, change, running) == pytest.approx(best)


def test_the_change_comes_before_the_rise() -> None:
    prices = PriceList(per_core_hour=1.0, per_gib_hour=0.0, change=0.1)
    rates = [100.0, 100.0, 100.0, 900.0, 900.0]
    plan = plan_ahead(rates, {"join": FixedCapacity(per_instance=100)}, {"join": 1}, prices, 3600.0)
    assert plan.next_change({"join": 1}) == (3 * 3600.0, {"join": 9})
    # 3 · 1 + 2 · 9 instance-hours at 1, and one change.
    assert plan.cost == pytest.approx(21.1)
    assert (
        plan_ahead([100.0], {"join": FixedCapacity(per_instance=100)}, {"join": 1}, prices, 60.0).next_change(
            {"join": 1}
        )
        is None
    )


def test_dear_changes_are_few_and_limits_are_named() -> None:
    capacity = {"join": FixedCapacity(per_instance=100)}
    rates = [100.0, 500.0] * 6
    dear = PriceList(change=1000.0)
    assert plan_ahead(rates, capacity, {"join": 5}, dear, 900.0).changes == 0
    cut = plan_ahead(rates, capacity, {"join": 1}, dear, 900.0, AheadSettings(largest=3))
    assert cut.short == ("join",)
    assert cut.counts.max() == 3


def test_the_last_rate_anchors_the_plan() -> None:
    capacity, prices = {"join": FixedCapacity(per_instance=100)}, PriceList(change=0.0)
    held = AheadSettings(hold_s=900.0)
    plan = plan_ahead([100.0, 100.0], capacity, {"join": 4}, prices, 900.0, held, last_rate=350.0)
    assert plan.counts.ravel().tolist() == [4, 1]


def test_rates_that_are_none() -> None:
    for rates in ([], [float("nan")], [-1.0]):
        with pytest.raises(StreamTuneError, match="each finite and at least 0"):
            plan_ahead(rates, {"join": FixedCapacity(per_instance=1)}, {"join": 1}, PriceList(), 60.0)


@given(problems(most_sizes=2, most_epochs=6))
@settings(max_examples=25, deadline=None)
def test_rolling_with_a_perfect_forecast_serves_all_and_never_beats_the_optimum(problem: Problem) -> None:
    done = roll(problem, perfect_forecasts(problem.workload, 3))
    assert done.covered == 1.0
    assert done.costs.total >= plan_exact(problem).costs.total - 1e-9
    # Seeing the whole horizon at every step is as good as planning once.
    everything = roll(problem, perfect_forecasts(problem.workload, len(problem.workload)))
    assert everything.costs.total == pytest.approx(plan_exact(problem).costs.total)


def test_price_lists(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("per_core_hour: 0.1\nstart: 0\n")
    assert load_prices(file).per_core_hour == 0.1
    file.write_text("per_core_hour: -1\n")
    with pytest.raises(StreamTuneError, match=r"per_core_hour: Input should be greater than or equal to 0, but got -1"):
        load_prices(file)
    file.write_text("- 1\n")
    with pytest.raises(StreamTuneError, match="must be a mapping"):
        load_prices(file)


def rates_file(folder: Path) -> str:
    steps = np.arange(4 * 96)
    rates = 20_000 + 15_000 * np.sin(2 * np.pi * steps / 96)
    file = folder / "rates.csv"
    file.write_text("time,rate\n" + "\n".join(f"{900 * k},{rate:.1f}" for k, rate in zip(steps, rates, strict=True)))
    return str(file)


def job_file(folder: Path) -> str:
    file = folder / "job.yaml"
    file.write_text(
        "name: small\noperators:\n"
        "  - {id: bids, type: source, rate: 20000}\n"
        "  - {id: keep, type: filter, inputs: [bids]}\n"
        "  - {id: out, type: sink, inputs: [keep]}\n"
    )
    return str(file)


def answer(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


@pytest.mark.slow
def test_a_job_is_planned_ahead_of_its_rate(tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    found = answer(
        job_file(tmp_path),
        *("--forecast", rates_file(tmp_path), "--capacity", "keep=1000,out=4000", "--selectivity", "keep=0.5"),
        *("--horizon", "48", "--current", "20", "--picture", str(picture)),
    )
    assert len(found["plan"]) == 48
    for row, rate in zip(found["plan"], found["rates"], strict=True):
        assert row["keep"] * 1000 >= rate - 1e-6
        assert row["out"] * 4000 >= 0.5 * rate - 1e-6
    assert found["saves"] > 0.1
    assert found["forecast"]["error"]["all"] < 0.1
    assert picture.read_text().startswith("<?xml")
    text = (
        CliRunner()
        .invoke(app, [job_file(tmp_path), "--forecast", rates_file(tmp_path), "--capacity", "keep=1000,out=4000"])
        .stdout
    )
    assert "cheaper than the peak all the time" in text


def steps_file(folder: Path, step_s: float, count: int = 60, begun_s: float = 0.0) -> str:
    file = folder / "steps.csv"
    lines = [f"{begun_s + step_s * k},{100 + 10 * (k % 6)}" for k in range(count) if k != 9]
    file.write_text("time,rate\n" + "\n".join(lines))
    return str(file)


GIVEN = ("--capacity", "keep=1000,out=4000", "--level", "0.9", "--horizon", "4")


@pytest.mark.parametrize(("step_s", "epoch_s"), [(600.0, 1200.0), (59.982, 900.0), (900.0, 900.0), (7200.0, 7200.0)])
def test_epochs_are_a_multiple_of_the_steps_of_the_rates(tmp_path: Path, step_s: float, epoch_s: float) -> None:
    rates = steps_file(tmp_path, step_s)
    asked = [job_file(tmp_path), "--forecast", rates, *GIVEN]
    result = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert (f"the plan's epochs are {epoch_s:g} s" in result.stderr) == (epoch_s != 900.0)
    assert "1 step without an observation keeps the rate before" in result.stdout
    assert answer(*asked)["epoch_s"] == epoch_s


def test_an_epoch_that_was_asked_for_is_a_multiple(tmp_path: Path) -> None:
    asked = [job_file(tmp_path), "--forecast", steps_file(tmp_path, 600.0), *GIVEN, "--epoch", "900"]
    result = CliRunner().invoke(app, asked)
    assert isinstance(result.exception, StreamTuneError)
    assert "--epoch 900: the rates are one per 600 s" in str(result.exception)
    assert "give a multiple of 600" in str(result.exception)


def test_epochs_say_when_they_begin_where_that_is_known(tmp_path: Path) -> None:
    begun = 1.8e9
    asked = [job_file(tmp_path), "--forecast", steps_file(tmp_path, 900.0, begun_s=begun), *GIVEN]
    ends = begun + 60 * 900
    assert [row["start_s"] for row in answer(*asked)["plan"]] == [ends + 900 * k for k in range(4)]
    asked[2] = steps_file(tmp_path, 900.0)
    assert "start_s" not in answer(*asked)["plan"][0]


def test_a_plan_that_cannot_serve_the_rate_says_so(tmp_path: Path) -> None:
    asked = [job_file(tmp_path), "--forecast", steps_file(tmp_path, 900.0), "--capacity", "keep=0.01,out=4000"]
    result = CliRunner().invoke(app, [*asked, *GIVEN[2:]], catch_exceptions=False)
    assert result.exit_code == 1
    assert "the rate is not served in 4 of 4 epochs" in result.stderr
    assert "operator 'keep' needs up to 1" in result.stderr
    assert "cheaper than the peak" not in result.stdout
    told = CliRunner().invoke(app, [*asked, *GIVEN[2:], "--json"], catch_exceptions=False)
    assert told.exit_code == 1
    found = json.loads(told.stdout)
    assert (found["covered"], found["saves"], found["short"]) == (0.0, None, ["keep"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "or --forecast for a plan over time"),
        (["--forecast", "history"], "add --history FOLDER"),
        (["--forecast", "missing.csv"], "missing.csv cannot be read"),
        (["--forecast", "RATES"], "what an instance of 'keep' can do is not known: add --capacity keep="),
        (["--forecast", "RATES", "--capacity", "keep=0,out=1"], "'keep' must be finite and above 0, but got 0"),
        (["--forecast", "RATES", "--capacity", "sift=1"], "no operator 'sift': they are bids, keep, out"),
        (["--forecast", "RATES", "--level", "1"], "--level must be between 0 and 1, but got 1"),
        (["--forecast", "RATES", "--changes", "all"], "--changes must be job or instance"),
        (
            ["--forecast", "RATES", "--capacity", "keep=1000,out=4000", "--picture", "plan.gif"],
            "the suffix says the format, .png, .svg, .pdf",
        ),
    ],
)
def test_bad_arguments_have_one_clear_sentence(tmp_path: Path, arguments: list[str], message: str) -> None:
    rates = rates_file(tmp_path)
    result = CliRunner().invoke(app, [job_file(tmp_path), *(rates if one == "RATES" else one for one in arguments)])
    assert isinstance(result.exception, StreamTuneError), result.output
    assert message in str(result.exception)
