"""Plans where an hour of being short has a price: exact, and a curve that a user can walk along."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from streamtune.provisioning.prices import PriceList
from streamtune.provisioning.problem import ProvisioningError
from streamtune.provisioning.settings import AheadSettings
from streamtune.provisioning.shortage import cheapest_stretches, plan_weighed
from streamtune.readings.curves import CapacityCurve


def cost_of(plan: tuple[int, ...], risk: np.ndarray, price: float, short_price: float, change: float) -> float:
    total, before = 0.0, 1
    for epoch, degree in enumerate(plan):
        total += price * degree + short_price * risk[epoch, degree - 1] + change * (degree != before)
        before = degree
    return total


@pytest.mark.parametrize("seed", range(8))
def test_no_other_plan_of_one_operator_is_cheaper(seed: int) -> None:
    generator = np.random.default_rng(seed)
    risk = np.sort(generator.uniform(size=(4, 3)), axis=1)[:, ::-1]
    price, short_price, change = generator.uniform(0.1, 2), generator.uniform(0.5, 9), generator.uniform(0, 3)
    counts = cheapest_stretches([risk], price, short_price, change, [1])
    ours = cost_of(tuple(counts[:, 0]), risk, price, short_price, change)
    every = itertools.product((1, 2, 3), repeat=4)
    assert ours == pytest.approx(min(cost_of(one, risk, price, short_price, change) for one in every))


def planned(short_hour: float, largest: int | None = None) -> np.ndarray:
    curve = CapacityCurve(np.log(100.0 * np.arange(1, 41)), np.full(40, 0.1))
    rates, spread = np.array([300.0, 800.0, 2000.0, 500.0]), np.full(4, 0.15)
    prices = PriceList(short_hour=short_hour, change=0.001)
    settings = AheadSettings(largest=largest)
    return plan_weighed(rates, spread, {"join": curve}, {"join": 3}, prices, 900.0, settings).counts[:, 0]


def test_the_dearer_being_short_the_more_instances_and_never_fewer_than_the_median_needs() -> None:
    plans = [planned(price) for price in (0.01, 0.1, 1.0, 10.0)]
    assert all((cheap <= dear).all() for cheap, dear in itertools.pairwise(plans))
    assert (plans[0] >= [3, 8, 20, 5]).all()
    assert plans[0].sum() < plans[-1].sum()


def test_an_instance_buys_more_safety_at_a_low_rate() -> None:
    plan = planned(0.5)
    assert plan[0] / 3 > plan[2] / 20


def test_what_a_change_lets_wait_is_charged_where_it_is_worked_off() -> None:
    curve = CapacityCurve(np.log(100.0 * np.arange(1, 41)), np.full(40, 0.02))
    rates, spread = np.array([280.0, 380.0, 280.0, 380.0]), np.full(4, 0.02)
    prices = PriceList(short_hour=1.0, change=0.0)

    def changes(downtime_s: float) -> int:
        settings = AheadSettings(downtime_s=downtime_s, within_step_sd=0.0)
        return plan_weighed(rates, spread, {"join": curve}, {"join": 3}, prices, 300.0, settings).changes

    # Without a price of their own, changes follow the rate; a minute's input to be worked off after each is dearer.
    assert changes(60.0) < changes(0.0)


def test_falling_behind_is_planned_only_where_it_has_a_price() -> None:
    curve = CapacityCurve(np.log(100.0 * np.arange(1, 41)), np.full(40, 0.02))
    rates, spread = np.array([250.0, 250.0, 1000.0, 250.0]), np.full(4, 0.02)
    prices = PriceList(short_hour=0.005, change=1.0)  # seven instances more for a quarter of an hour cost 0.08

    def plan(behind_epochs: float | None) -> list[int]:
        settings = AheadSettings(behind_epochs=behind_epochs)
        return plan_weighed(rates, spread, {"join": curve}, {"join": 3}, prices, 900.0, settings).counts[:, 0].tolist()

    assert plan(None)[2] >= 10
    assert plan(12.0) == [3, 3, 3, 3]


def test_a_limit_is_kept_and_what_it_cuts_is_said() -> None:
    assert planned(10.0, largest=4).max() == 4


def test_without_the_price_there_is_nothing_to_weigh() -> None:
    with pytest.raises(ProvisioningError, match="short_hour"):
        plan_weighed(np.ones(1), np.zeros(1), {}, {}, PriceList(), 60.0, AheadSettings())
