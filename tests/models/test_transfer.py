"""What past operators lend: planted effects are found, relatives are mapped, and nothing is surer than it may be."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtune.dataflow import Dataflow, Edge, Job, Operator
from streamtune.dataflow.features import table_one
from streamtune.models.capacity.belief import LEVEL, reading_basis
from streamtune.models.capacity.prior import CurveSums
from streamtune.models.transfer.fitting import fit_transfer
from streamtune.models.transfer.kinship import find_kin
from streamtune.models.transfer.lending import Lender, lend
from streamtune.models.transfer.model import Hyperparameters, Levels, TransferModel
from streamtune.models.transfer.past import XX, XY, PastOperators, past_rows, signature
from streamtune.models.transfer.settings import KinSettings, PastSettings

WIDTH_EFFECT, STRING_EFFECT, RESIDUAL = -0.4, -0.9, 0.2


def chain(name: str, types: list[str], **features: object) -> Job:
    """A source, some operators, a sink."""
    kinds = ["source", *types, "sink"]
    operators = tuple(
        Operator(id=f"{kind}_{place}", type=kind, rate=1000.0 if kind == "source" else None, **features)  # type: ignore[arg-type]
        for place, kind in enumerate(kinds)
    )
    edges = tuple(Edge(a.id, b.id) for a, b in pairwise(operators))
    return Job(name, Dataflow(operators, edges))


def rows_of(job: Job, level_of: dict[str, float], readings: int = 6, seed: int = 0) -> list[dict[str, object]]:
    """Past rows of a job whose operators have these log capacities of one instance, read with 2 % of noise."""
    rng = np.random.default_rng(seed)
    made = []
    for place, operator in enumerate(job.dataflow.operators):
        count = 0 if operator.is_source else readings
        degrees = rng.integers(1, 40, max(count, 1))
        basis = reading_basis(degrees, np.zeros(len(degrees), dtype=bool))[:count]
        values = level_of.get(operator.id, 0.0) + np.log(degrees[:count]) + rng.normal(0, 0.02, count)
        sums = CurveSums.of(np.zeros(count), basis, values)
        filled = {name: float(sums.xx[0, int(name[2]), int(name[3])]) if count else 0.0 for name in XX}
        filled |= {name: float(sums.xy[0, int(name[2])]) if count else 0.0 for name in XY}
        described = {"features": table_one(operator), "inputs": list(job.dataflow.predecessors(operator.id))}
        made.append(
            {
                "job": job.name,
                "version": "v",
                "operator": operator.id,
                "type": operator.type,
                "signature": signature(described["features"]),  # type: ignore[arg-type]
                "described": json.dumps(described),
                "position": place,
                "trains": True,
                **filled,
                "yy": float(values @ values),
                "count": float(count),
                "ratio": 0.0,
                "ratio_sq": 0.0,
                "ratio_count": float(readings),
                "runs": float(readings),
                "most_rate": 500.0,
                "most_parallelism": 40.0,
            }
        )
    return made


def planted(jobs: int = 120) -> tuple[PastOperators, dict[tuple[str, str], float]]:
    """Jobs whose operators cost what their features say, times a residual."""
    rng = np.random.default_rng(1)
    rows: list[dict[str, object]] = []
    residuals = {}
    for number in range(jobs):
        kinds = list(rng.choice(["map", "filter", "flat_map"], int(rng.integers(1, 4))))
        width, kind = float(rng.integers(1, 12)), str(rng.choice(["long", "string"]))
        job = chain(f"job-{number}", kinds, tuple_width_in=width, tuple_type=kind)
        levels = {}
        for operator in job.dataflow.operators:
            residuals[job.name, operator.id] = rest = float(rng.normal(0, RESIDUAL))
            levels[operator.id] = 7 + WIDTH_EFFECT * math.log(width) + STRING_EFFECT * (kind == "string") + rest
        rows += rows_of(job, levels, seed=number)
    return past_rows(rows), residuals


@pytest.fixture(scope="module")
def model() -> TransferModel:
    past, _ = planted()
    return TransferModel(fit_transfer(past, settings=PastSettings(kin_sample=30)), past)


def test_planted_effects_are_found(model: TransferModel) -> None:
    narrow = model.prior(chain("new", ["map"], tuple_width_in=1.0, tuple_type="long"), "global")["map_1"].belief
    wide = model.prior(chain("new", ["map"], tuple_width_in=10.0, tuple_type="string"), "global")["map_1"].belief
    expected = WIDTH_EFFECT * math.log(10) + STRING_EFFECT
    assert wide.mean[LEVEL] - narrow.mean[LEVEL] == pytest.approx(expected, abs=0.15)
    assert math.sqrt(narrow.covariance[LEVEL, LEVEL]) == pytest.approx(RESIDUAL, abs=0.08)


def test_what_is_unknown_widens_the_answer(model: TransferModel) -> None:
    known = model.prior(chain("new", ["map"], tuple_width_in=3.0, tuple_type="long"), "global")["map_1"]
    odd = model.prior(chain("new", ["map"], tuple_width_in=3.0, tuple_type="blob"), "global")["map_1"]
    never = model.prior(chain("new", ["enrich"], tuple_width_in=3.0, tuple_type="long"), "global")["enrich_1"]
    assert odd.belief.covariance[LEVEL, LEVEL] > 4 * known.belief.covariance[LEVEL, LEVEL]
    assert not never.is_known


def test_own_past_tells_what_features_cannot() -> None:
    past, residuals = planted()
    model = TransferModel(fit_transfer(past, settings=PastSettings(kin_sample=30)), past)
    job = past.job(past.by_name["job-7"][0])
    asked = Job(
        "job-7",
        Dataflow(
            (job.dataflow.operators[0].model_copy(update={"rate": 1.0}), *job.dataflow.operators[1:]),
            job.dataflow.edges,
        ),
    )
    key = job.dataflow.operators[1].id
    own = model.prior(asked, "global")[key]
    alone = model.prior(asked, "global", Levels(own_past=False, relatives=False))[key]
    assert own.belief.mean[LEVEL] - alone.belief.mean[LEVEL] == pytest.approx(residuals["job-7", key], abs=0.12)
    assert own.belief.covariance[LEVEL, LEVEL] < alone.belief.covariance[LEVEL, LEVEL] / 5
    assert own.origins[0].is_own
    assert own.origins[0].operator == key


def test_of_many_versions_of_its_own_the_latest_lend() -> None:
    """Twelve versions whose names say nothing of when they ran; each cost twice what the one before did."""
    days = {f"{(7 * number) % 12:02d}": f"2026-01-{number + 1:02d}" for number in range(12)}
    rows = []
    for version, day in days.items():
        job = chain("often changed", ["map"], tuple_type="long", tuple_width_in=float(int(version) + 1))
        rows += [row | {"version": version, "day": day} for row in rows_of(job, {})]
    past = past_rows(rows)
    asked = chain("often changed", ["map"], tuple_type="long", tuple_width_in=50.0)
    kin = find_kin(past, asked.name, asked.dataflow, KinSettings())[1]
    assert [past.days[one.row] for one in kin] == sorted(days.values(), reverse=True)
    model = TransferModel(fit_transfer(past, settings=PastSettings(kin_sample=0)), past)
    lent = model._chosen(kin, KinSettings())
    assert {past.days[one.row] for one, _, _ in lent} == set(sorted(days.values())[-8:])


def test_a_past_that_does_not_say_when_it_was_is_read() -> None:
    """Bundles of earlier releases."""
    past = past_rows(rows_of(chain("old", ["map"]), {}))
    old = PastOperators(past.table.drop_columns(["day"]))
    assert old.names == past.names
    assert set(old.days) == {""}
    assert PastOperators.from_parquet(old.to_parquet()).days == old.days


def test_an_inserted_operator_does_not_hide_the_others() -> None:
    old = chain("old", ["map", "filter", "flat_map"], tuple_type="long")
    past = past_rows([*rows_of(old, {}), *rows_of(chain("else", ["join", "join"], tuple_type="row"), {})])
    new = chain("new", ["map", "map", "filter", "flat_map"], tuple_type="long")
    kin = find_kin(past, "new", new.dataflow, KinSettings())
    mapped = {new.dataflow.operators[place].id: [one.operator for one in some] for place, some in enumerate(kin)}
    assert mapped["filter_3"] == ["filter_2"]
    assert mapped["flat_map_4"] == ["flat_map_3"]
    assert sorted(mapped["map_1"] + mapped["map_2"]) == ["map_1"]


def test_unrelated_jobs_lend_nothing(model: TransferModel) -> None:
    """The planted jobs have nothing in common but their features, and the fit finds that out."""
    assert all(rho < 0.35 for rho in model.hyper.kin.values())


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.floats(1, 1e4), st.floats(-1, 1))
def test_a_closer_relative_makes_surer_and_never_surer_than_its_correlation(
    one: float, other: float, precision: float, apart: float
) -> None:
    low, high = sorted((one, other))
    spreads = []
    for rho in (low, high):
        lender = Lender(rho, np.array([[precision]]), np.array([precision * apart]))
        mean, spread = lend(np.zeros(1), np.array([[0.09]]), [lender])
        assert abs(mean[0]) <= abs(apart) + 1e-9
        assert 0.09 * (1 - rho**2) - 1e-9 <= spread[0, 0] <= 0.09 + 1e-9
        spreads.append(float(spread[0, 0]))
    assert spreads[1] <= spreads[0] + 1e-9


def test_past_and_parameters_survive_being_written(model: TransferModel) -> None:
    again = PastOperators.from_parquet(model.past.to_parquet())
    hyper = Hyperparameters.from_json(model.hyper.model_dump_json())
    job = chain("new", ["map", "filter"], tuple_width_in=3.0, tuple_type="long")
    before, after = model.prior(job, "global"), TransferModel(hyper, again).prior(job, "global")
    for key, one in before.items():
        assert np.allclose(one.belief.mean, after[key].belief.mean)


def test_a_signature_leaves_out_widths_alone() -> None:
    first = table_one(Operator(id="a", type="map", tuple_type="long", tuple_width_in=2))
    assert signature(first) == signature({**first, "tuple_width_in": 9.0})
    assert signature(first) != signature({**first, "tuple_type": "row"})
