"""Fig. 8: workloads that keep their proportions, claims worked out by hand, a resumable run, a report."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamtune.errors import StreamTuneError
from streamtune.experiments.fig8 import OURS, Cell, Fig8Result, Fig8Settings, claims, least_total, run_fig8, table
from streamtune.experiments.fig8_report import write_fig8
from streamtune.workloads import nexmark, timely
from streamtune.workloads.settings import TimelyScale


@pytest.mark.parametrize("name", [*timely.names(), "random-3", "random-17"])
def test_scaled_workloads_fit_the_machine_and_keep_their_proportions(name: str) -> None:
    scale = TimelyScale(records_per_s=1000, workers=5)
    workload = timely.load(name, scale)
    arriving = workload.input_rates_at(10)
    assert sum(arriving.values()) == pytest.approx(1000)
    loads = {key: arriving[key] * truth.service_us / 1e6 for key, truth in workload.physics.items()}
    assert max(loads.values()) == pytest.approx(5)
    if name in timely.names():
        original = nexmark.build(name.removeprefix("nexmark-"))
        factors = {workload.physics[key].service_us / truth.service_us for key, truth in original.physics.items()}
        assert max(factors) == pytest.approx(min(factors))
        assert [op.id for op in original.spec.job.dataflow.operators] == list(workload.spec.job.dataflow.index)
    for operator in workload.spec.job.dataflow.sources:
        capacity = workload.physics[operator.id].capacity_per_s(operator.parallelism or 1)
        assert capacity >= 2 * arriving[operator.id] * (1 - 1e-9)


def cell(tuner: str, total: int, latency_ms: tuple[float, ...]) -> Cell:
    return Cell(
        query="nexmark-q8",
        tuner=tuner,
        seed=0,
        plan={"new_sellers": total},
        total_parallelism=total,
        reconfigurations=(1, 2),
        stop_reason="no_backpressure",
        bottleneck_left=False,
        latency_ms=latency_ms,
        open_epochs=0,
        latency_growth_ms_per_s=0.5,
    )


def result(*cells: Cell) -> Fig8Result:
    return Fig8Result(settings=Fig8Settings(queries=("nexmark-q8",), tuners=(OURS, "ds2")), cells=cells)


def test_claims_say_the_truth_either_way() -> None:
    # 10 against 12 instances; all epochs take 120 against 100 ms, which is within 1.25 times.
    good = claims(result(cell(OURS, 10, (120.0,) * 5), cell("ds2", 12, (100.0,) * 5)))
    assert [claim.holds for claim in good] == [True, True]
    assert good[0].measured == "10 against 12 (+16.7% saved)"
    assert good[1].measured == "120 ms against 100 ms (1.20 ×)"
    bad = claims(result(cell(OURS, 13, (126.0,) * 5), cell("ds2", 12, (100.0,) * 5)))
    assert [claim.holds for claim in bad] == [False, False]


def test_the_report_holds_the_figures(tmp_path: Path) -> None:
    found = result(cell(OURS, 10, (120.0, 80.0)), cell("ds2", 12, (100.0, 90.0)))
    write_fig8(found, tmp_path / "fig8.html", tmp_path / "fig8.png")
    page = (tmp_path / "fig8.html").read_text(encoding="utf-8")
    assert "10 against 12" in page
    assert "83.3 %" in page
    assert "<svg" in page
    assert (tmp_path / "fig8.png").stat().st_size > 10_000


@pytest.mark.realtime
def test_a_run_on_timely_is_saved_and_not_repeated(tmp_path: Path) -> None:
    settings = Fig8Settings(
        tuners=("ds2",),
        queries=("nexmark-q8",),
        multiples=(2.0,),
        settle_s=0.5,
        window_s=2.0,
        latency_windows=1,
        max_reconfigurations=1,
    )
    said: list[str] = []
    file = tmp_path / "fig8.json"
    first = run_fig8(settings, results=file, tell=said.append)
    assert first.is_complete
    assert first.cells[0].plan["new_sellers"] > 1
    assert len(first.cells[0].latency_ms) >= 3
    assert run_fig8(settings, results=file, tell=said.append) == first
    assert len(said) == 1
    with pytest.raises(StreamTuneError, match="other settings"):
        run_fig8(settings.model_copy(update={"seeds": (7,)}), results=file)


def test_the_table_shows_every_seed_beside_the_least_that_serves_the_rate() -> None:
    shown = table(result(cell(OURS, 13, (100.0,) * 5), cell("ds2", 12, (200.0,) * 5)))
    least = str(least_total("nexmark-q8", 10))
    assert shown.rows == (
        ("nexmark-q8, streamtune", "13", least, "100", "100", "0.5"),
        ("nexmark-q8, ds2", "12", least, "200", "200", "0.5"),
    )
    # The heaviest operator needs about eight instances by design, the others one or two each.
    assert 9 <= int(least) <= 14
