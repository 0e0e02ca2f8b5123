"""The level to plan for, learnt from a job's own past, and where the past's rates come from."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from streamtune.cli.plan import plan as plan_command
from streamtune.forecasts.naive import Naive
from streamtune.forecasts.series import RateSeries
from streamtune.provisioning.ahead import FixedCapacity
from streamtune.provisioning.prices import PriceList
from streamtune.provisioning.safety import USUAL, learnt_level
from streamtune.provisioning.settings import AheadSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

app = typer.Typer()
app.command()(plan_command)
CAPACITY = {"join": FixedCapacity(per_instance=10)}


def walk(spread: float, steps: int = 400) -> RateSeries:
    """A rate about 1,000 whose next value nobody knows."""
    return RateSeries(1000 + spread * np.random.default_rng(1).standard_normal(steps), 900.0)


def test_the_cheapest_level_that_covers_enough_is_learnt() -> None:
    settings = AheadSettings(hold_s=0.0, cover=0.95)
    found = learnt_level(walk(100.0), Naive(), CAPACITY, PriceList(change=0.0), settings)
    assert [test.level for test in found.tests] == list(settings.levels)
    covered = [test.covered for test in found.tests]
    assert covered == sorted(covered)
    cheapest = min((test for test in found.tests if test.covered >= 0.95), key=lambda test: test.cost)
    assert found.level == cheapest.level
    assert 0.5 < found.level < 0.995
    assert f"level {found.level:g}: the cheapest that covered 95 %" in found.told()
    # Asked for less, it plans for less; a rate that never moves needs no safety at all.
    less = learnt_level(walk(100.0), Naive(), CAPACITY, PriceList(change=0.0), settings.replace(cover=0.4))
    assert less.level < found.level
    assert learnt_level(walk(0.0), Naive(), CAPACITY, PriceList(), settings).level == 0.5


def test_where_no_level_covers_enough_the_one_that_covered_most_is_taken() -> None:
    rising = RateSeries(np.concatenate([np.full(300, 100.0), np.linspace(100, 9000, 100)]), 900.0)
    found = learnt_level(rising, Naive(), CAPACITY, PriceList(), AheadSettings())
    assert found.covered is not None
    assert found.covered < 0.99
    assert "it covered most" in found.told()


def test_with_too_little_past_nothing_is_learnt() -> None:
    found = learnt_level(walk(100.0, 20), Naive(), CAPACITY, PriceList(), AheadSettings())
    assert (found.level, found.tests, found.covered) == (USUAL, (), None)
    assert "too little past" in found.told()


def files(folder: Path) -> tuple[str, str]:
    """A job and three hours of rates, one a minute."""
    job, rates = folder / "job.yaml", folder / "rates.csv"
    job.write_text(
        "name: small\noperators:\n"
        "  - {id: bids, type: source, rate: 20000}\n"
        "  - {id: out, type: sink, inputs: [bids]}\n"
    )
    values = 1000 + 100 * np.random.default_rng(2).standard_normal(180)
    rates.write_text("time,rate\n" + "\n".join(f"{60 * k},{rate:.1f}" for k, rate in enumerate(values)))
    return str(job), str(rates)


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(app, [*arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.slow
def test_the_command_says_what_it_learnt_and_a_level_overrides_it(tmp_path: Path) -> None:
    job, rates = files(tmp_path)
    asked = (job, "--forecast", rates, "--capacity", "out=100", "--horizon", "4", "--epoch", "60")
    said = run(*asked).stdout
    assert "planned for level 0." in said
    assert "of the last 45 epochs" in said  # a quarter of 180
    given = json.loads(run(*asked, "--level", "0.7", "--json").stdout)
    assert (given["level"], given["learnt_level"]) == (0.7, None)


def test_an_epoch_shorter_than_a_step_of_the_rates_is_told_of(tmp_path: Path) -> None:
    job, rates = files(tmp_path)
    asked = (job, "--forecast", rates, "--capacity", "out=100", "--level", "0.9", "--horizon", "4", "--json")
    assert "--epoch 20 is shorter" in run(*asked, "--epoch", "20").stderr
    told = run(*asked, "--epoch", "60")
    assert "shorter" not in told.stderr
    assert json.loads(told.stdout)["epoch_s"] == 60


class _Slow(Naive):
    """Counts its forecasts."""

    name = "mstl"
    asked = 0

    def predict(self, series: RateSeries, horizon: int) -> Any:
        self.asked += 1
        return super().predict(series, horizon)


def test_a_slow_forecast_is_used_for_six_epochs() -> None:
    slow = _Slow()
    found = learnt_level(walk(100.0), slow, CAPACITY, PriceList(change=0.0), AheadSettings())
    assert slow.asked == -(-found.epochs // 6)
    assert len(found.tests) == 5
    # A rate that never moves is foreseen as well by an old forecast: nothing is lost.
    still = [learnt_level(walk(0.0), one, CAPACITY, PriceList(), AheadSettings()) for one in (_Slow(), Naive())]
    assert still[0] == still[1]


@pytest.mark.spark
def test_rates_come_from_the_runs_of_a_history_in_steps_of_an_epoch(
    spark: SparkSession, tmp_path: Path, good_run: Callable[..., dict[str, Any]], write_lines: Callable[..., Path]
) -> None:
    from streamtune.history.ingest import ingest
    from streamtune.history.store import History

    begun = datetime(2026, 11, 1, tzinfo=UTC)
    source = next(iter(good_run()["source_rates"]))
    runs = [
        good_run(
            run_id=f"run-{k}",
            job="small",
            observed_at=(begun + timedelta(minutes=10 * k)).isoformat(),
            source_rates={source: 1000.0 + k},
        )
        for k in range(48)
    ]
    assert ingest(History(spark, str(tmp_path / "history")), [str(write_lines("in/a.jsonl", runs))]).valid == 48
    job, _ = files(tmp_path)
    asked = (job, "--forecast", "history", "--history", str(tmp_path / "history"), "--capacity", "out=100", "--json")
    found = json.loads(run(*asked, "--epoch", "1200", "--horizon", "3").stdout)
    assert found["epoch_s"] == 1200.0
    assert found["learnt_level"]["epochs"] == 0  # 24 epochs: a quarter of them are too few
    assert len(found["plan"]) == 3
    assert found["plan"][0]["out"] >= 11
