"""The synthetic topologies, the fluid cluster, and the studies on them at the smallest size."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamtune.autoconfig.problem import parse_problem
from streamtune.autoconfig.session import replay
from streamtune.autoconfig.strategies import make_strategy
from streamtune.autoconfig.trial import Measurement
from streamtune.errors import StreamTuneError
from streamtune.experiments.autoconfig.figure8 import Figure8Study, figure_8_finding, run_figure_8
from streamtune.experiments.autoconfig.fluid import Bench, Cluster, FluidCluster, best_known
from streamtune.experiments.autoconfig.functions import FUNCTIONS
from streamtune.experiments.autoconfig.noise import NoiseStudy, run_session_at
from streamtune.experiments.autoconfig.study import AutoconfigStudy, Run, read_runs, run_study
from streamtune.experiments.autoconfig.tables import checks, loess, markdown, report
from streamtune.workloads.layered_topologies import TABLE_2, Topology, layered


@settings(max_examples=12)
@given(
    st.sampled_from(list(TABLE_2)), st.integers(0, 10_000), st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 0.25])
)
def test_every_graph_has_the_numbers_of_table_2(size: str, seed: int, imbalance: float, contention: float) -> None:
    one, shape = layered(size, seed=seed, imbalance=imbalance, contention=contention), TABLE_2[size]
    assert (one.size, one.edges) == (shape.vertices, shape.edges)
    assert (len(one.sources), len(one.sinks), len(set(one.layer))) == (shape.sources, shape.sinks, shape.layers)
    assert all(one.layer[parent] < one.layer[v] for v, parents in enumerate(one.parents) for parent in parents)
    assert sum(one.units) == pytest.approx(20.0 * shape.vertices)
    flagged = sum(units for units, flag in zip(one.units, one.contentious, strict=True) if flag)
    assert contention * 20 * shape.vertices <= flagged + 1e-6 <= contention * 20 * shape.vertices + 80
    assert one == layered(size, seed=seed, imbalance=imbalance, contention=contention)
    assert len(one.dataflow.operators) == shape.vertices


def test_an_unknown_size_is_refused() -> None:
    with pytest.raises(StreamTuneError, match="no topology size 'huge'"):
        layered("huge", seed=0)
    with pytest.raises(StreamTuneError, match="imbalance must be in"):
        layered("small", seed=0, imbalance=2)


CHAIN = Topology("chain", ((), (0,)), (0, 1), (20.0, 40.0), (False, False))


def test_golden_throughput() -> None:
    # One instance each: 40 ms per tuple bound it to 25/s. Two of the second: 20 ms each way, 50/s.
    fluid = FluidCluster(CHAIN, Cluster(hosts=2, cores=4))
    assert fluid.throughput(np.array([1, 1])) == pytest.approx(25.0)
    assert fluid.throughput(np.array([1, 2])) == pytest.approx(50.0)
    # One host, one core: 20 + 40 ms per tuple: 16.7/s. Three tasks: 1 / (1 + 0.02 · 2) of it.
    one_core = FluidCluster(CHAIN, Cluster(hosts=1, cores=1))
    assert one_core.throughput(np.array([1, 2])) == pytest.approx(1 / 0.06 / 1.04)
    assert FluidCluster(CHAIN, Cluster(hosts=1, tasks_per_host=2)).throughput(np.array([1, 2])) == 0.0


def test_more_instances_do_not_help_a_contentious_vertex() -> None:
    topology = Topology("lock", ((), (0,)), (0, 1), (1.0, 40.0), (False, True))
    fluid = FluidCluster(topology)
    assert fluid.throughput(np.array([1, 1])) == pytest.approx(25.0)
    assert fluid.throughput(np.array([1, 9])) == pytest.approx(25.0)


def test_base_weights() -> None:
    topology = Topology("diamond", ((), (0,), (0,), (1, 2)), (0, 1, 1, 2), (1.0,) * 4, (False,) * 4)
    assert topology.weights == (1.0, 1.0, 1.0, 2.0)  # the last gets both copies


@settings(max_examples=15)
@given(st.integers(0, 1000), st.integers(0, 1000))
def test_nothing_beats_the_best_known(seed: int, point: int) -> None:
    fluid = FluidCluster(layered("small", seed=seed % 5, imbalance=1.0))
    top, _ = best_known(fluid, steps=200)
    problem = fluid.problem(normalised=True)
    knobs = problem.space.sample(np.random.default_rng(point))
    assert fluid.throughput(fluid.degrees(knobs)) <= top * 1.02


def test_a_job_that_speaks_is_tuned_in_a_few_steps() -> None:
    """90 % of the best known within 5 steps on graphs of seeds from 300 on, which nothing was chosen on."""
    for size, seed in (("medium", 300), ("small", 302), ("large", 303)):
        fluid = FluidCluster(layered(size, seed=seed, imbalance=1.0))
        top, _ = best_known(fluid, steps=500)
        problem = fluid.problem(normalised=False)
        trials = replay(problem, make_strategy("ours", problem, seed=0), Bench(fluid, 0, True), 5)
        assert max(fluid.throughput(fluid.degrees(trial.knobs)) for trial in trials) >= 0.9 * top


def test_hosts_are_filled_evenly() -> None:
    """Equal operators on 80 hosts: about 330 instances would leave ten hosts with one more than the others."""
    from streamtune.autoconfig.strategies.reduced import Reduced

    space = FluidCluster(layered("small", seed=300)).problem(normalised=False).space
    equal = dict.fromkeys(space.knobs, 1.0)
    assert sum(Reduced.of(space).hints_for(330, equal).values()) == 330  # type: ignore[arg-type]
    assert sum(Reduced.of(space, 80).hints_for(330, equal).values()) == 320  # type: ignore[arg-type]


def test_a_contentious_operator_is_found_and_left_alone() -> None:
    from streamtune.autoconfig.strategies.beliefs import believe
    from streamtune.autoconfig.strategies.reduced import Reduced

    fluid = FluidCluster(layered("small", seed=301, contention=0.25), Cluster(reading_noise=0.02))
    problem = fluid.problem(normalised=False)
    trials = replay(problem, make_strategy("ours", problem, seed=0), Bench(fluid, 0, True), 6)
    beliefs = believe(problem.space, Reduced.of(problem.space).hints, trials, dict.fromkeys(problem.space.knobs, 1.0))
    truly = {f"h{vertex}" for vertex, flag in enumerate(fluid.topology.contentious) if flag}
    assert beliefs.observed
    assert beliefs.contentious <= truly  # none is accused wrongly
    assert beliefs.contentious


@pytest.mark.slow
def test_a_study_is_resumable_and_reports(tmp_path: Path) -> None:
    scale = AutoconfigStudy(
        sizes=("small",), imbalances=(1.0,), contentions=(0.0,),
        contestants=("pla", "ipla", "random", "ours", "ours-warm"), steps=6, seeds=(0,), passes=1, repeats=3,
    )  # fmt: skip
    told: list[str] = []
    runs = run_study(scale, tmp_path, told.append)
    assert len(runs) == len(told) == 5
    (tmp_path / "runs.jsonl").open("a").write('{"torn')
    again = run_study(scale, tmp_path, told.append)
    assert [run.key for run in again] == [run.key for run in runs]
    assert len(told) == 5
    assert len(read_runs(tmp_path / "runs.jsonl")) == 5
    assert {one["target"].split(":")[0] for one in checks(runs)} >= {"Fig. 4", "ours"}
    assert "Fig. 7" in markdown(runs)
    assert set(report(runs)) == {"tables", "figure_6", "checks", "thesis_bo180"}


def test_the_bench_writes_a_report(tmp_path: Path) -> None:
    from streamtune.experiments.autoconfig.bench import QUICK_NOISE, noise_finding, run_autoconfig
    from streamtune.experiments.autoconfig.noise import run_noise
    from streamtune.experiments.paper.report import write_findings

    small = QUICK_NOISE.model_copy(update={"graphs": {"small": 1}, "imbalances": (1.0,), "steps": 6})
    runs = run_noise(small, tmp_path)
    assert [run.key for run in run_noise(small, tmp_path)] == [run.key for run in runs]
    assert all(0.0 <= run.regret <= 1.0 for run in runs)
    finding = noise_finding(runs, small)
    write_findings(tmp_path / "page.html", [finding], title="t", command="c")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "ours, small" in page
    assert "ours, two knobs" in page
    none = run_autoconfig(["autoconfig-fig4"], quick=True, seeds=None, work=tmp_path, minutes=0.0, tell=print)
    assert none == []  # no time, no runs, no figure


def _pass(contestant: str, seed: int, chosen: float) -> Run:
    return Run(
        size="small", imbalance=0.0, contention=0.0, contestant=contestant, seed=seed, turn=0, best_known=100.0,
        chosen=chosen, measured=(chosen, chosen), first_best=2, to_95=None, regret=0.0, values=(1.0, chosen, chosen),
        seconds_per_step=0.1,
    )  # fmt: skip


def test_the_page_counts_complete_graphs_alone(tmp_path: Path) -> None:
    from streamtune.experiments.autoconfig.page import complete_cells, pictures, study_text, write_between

    scale = AutoconfigStudy(contestants=("bo", "ours"), seeds=(2, 3))
    runs = [_pass("bo", 2, 50.0), _pass("ours", 2, 90.0), _pass("bo", 3, 80.0)]
    assert [run.seed for run in complete_cells(runs, scale.contestants)] == [2, 2]  # seed 3 lacks ours
    text = study_text(runs, scale)
    assert "2 of 96 passes" in text  # 12 settings, 2 graphs, 2 strategies, both passes
    assert "1 of 2 graphs in 1 settings, none in 11 settings" in text
    assert "0.90 (0.90–0.90)" in text
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- study: written by benchmarks/autoconfig.py --page -->\nold\n<!-- end of study -->\nz\n")
    write_between(page, "study", text)
    assert "old" not in page.read_text()
    assert page.read_text().endswith("<!-- end of study -->\nz\n")
    with pytest.raises(StreamTuneError, match="to write between"):
        write_between(page, "noise", text)
    drawn = pictures(runs, scale, tmp_path)
    assert [path.read_text()[:4] for path in drawn] == ["<svg", "<svg"]
    assert all(f"(../images/{path.name})" in text for path in drawn)


def test_a_strategy_run_beside_the_others_is_shown_where_it_saw_the_same_graphs() -> None:
    from streamtune.experiments.autoconfig.bench import figure_4_finding, figure_6_finding
    from streamtune.experiments.autoconfig.page import complete_cells, study_text

    scale = AutoconfigStudy(contestants=("bo", "ours"), seeds=(2, 3))
    runs = [_pass(name, seed, 50.0) for name in ("bo", "ours") for seed in (2, 3)]
    long = _pass("bo180", 2, 80.0).model_copy(update={"values": tuple(np.linspace(1.0, 80.0, 9))})
    kept = complete_cells([*runs, long, _pass("tpe", 2, 9.0), _pass("tpe", 3, 9.0)], scale.contestants)
    assert {run.contestant for run in kept} == {"bo", "ours", "tpe"}  # bo180 saw one of the two graphs alone
    text = study_text([*runs, _pass("tpe", 2, 9.0), _pass("tpe", 3, 9.0)], scale)
    assert "4 of 96 passes" in text
    assert "Beside them passes of tpe (2)" in text
    assert "bo180" in figure_4_finding([*runs, long], "").pictures[0]
    trends = figure_6_finding([*runs, long, _pass("bo180", 3, 80.0)], "").figures["trends"]
    assert {name.partition(",")[0]: len(values) for name, values in trends.items()} == {"bo": 3, "ours": 3, "bo180": 9}


def test_flat_graphs_are_counted_apart_and_a_warm_start_must_be_faster() -> None:
    from streamtune.experiments.autoconfig.tables import step_checks, steps_table

    steep = [_pass(name, 2, 90.0).model_copy(update={"to_95": step}) for name, step in
             (("bo", 40), ("ours", 20), ("ours-warm", 20))]  # fmt: skip
    flat = [run.model_copy(update={"contention": 0.25, "to_95": 1}) for run in steep]
    found = {one["target"]: one["met"] for one in step_checks([*steep, *flat])}
    assert found["steps to 95 %, without contention: ours at most 0.25 × bo"] is False
    assert found["steps to 95 %, without contention: ours-warm fewer than ours"] is False  # as many is not fewer
    assert found["steps to 95 %, 25 % contentious: ours at most 0.25 × bo"] is True  # one step is the least
    assert {target.split(": ")[0] for target in found} == {
        "steps to 95 %, without contention", "steps to 95 %, 25 % contentious",
    }  # fmt: skip
    assert [row[0] for row in steps_table([*steep, *flat])[1]] == [
        "small, without contention", "all sizes, without contention",
        "small, 25 % contentious", "all sizes, 25 % contentious",
    ]  # fmt: skip


def test_scored_graphs_are_none_that_were_looked_at() -> None:
    from streamtune.experiments.autoconfig.noise import NoiseStudy

    assert min(AutoconfigStudy().seeds) > 6
    assert NoiseStudy().first_seed > 6
    assert NoiseStudy().first_seed + max(NoiseStudy().graphs.values()) <= 100


def test_noise_is_judged_for_every_contestant() -> None:
    from streamtune.experiments.autoconfig.noise import NoiseRun, noise_checks

    common = {"size": "small", "imbalance": 0.0, "contention": 0.0, "seed": 7, "luckiest": 0.0, "overstated": 0.0}
    runs = [NoiseRun(contestant=name, regret=regret, **common)  # type: ignore[arg-type]
            for name, regret in (("ours", 0.01), ("ours-blind", 0.2))]  # fmt: skip
    runs.append(runs[0].model_copy(update={"size": "cliff", "regret": 0.06}))
    assert [one["met"] for one in noise_checks(runs)] == [True, False, False]
    assert noise_checks(runs)[2]["target"] == (
        "10 % noise, ours, plain functions: the choice is within 5 % of the best tried, in 95 % of the sessions"
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_plain_function_is_scored_by_what_is_truly_the_best(name: str) -> None:
    function = FUNCTIONS[name]
    problem = function.problem
    generator = np.random.default_rng(0)
    points = [problem.space.sample(generator) for _ in range(50)]
    one, other = function.true(problem, 7), function.true(problem, 8)
    assert [one(point) for point in points] != [other(point) for point in points]  # each seed has its own best place
    assert all(one(point) > 0 for point in points)
    study = NoiseStudy(steps=10, cluster=Cluster(noise=0.0))
    found = run_session_at(study, (name, 0.0, 0.0, "ours", 7))
    assert (found.regret, found.luckiest, found.overstated) == pytest.approx((0.0, 0.0, 0.0))  # nothing lies


def test_ibo_reaches_what_ipla_reaches() -> None:
    """Equal multipliers of any size give hints in proportion to the base weights, scaled to max-tasks."""
    fluid = FluidCluster(layered("small", seed=300))
    problem = fluid.problem(normalised=True, informed=True)
    weights = {f"h{vertex}": weight for vertex, weight in enumerate(fluid.topology.weights)}
    for multiplier in (20, 60):
        hints = {name: int(multiplier * weight) for name, weight in weights.items()}
        degrees = fluid.degrees({**hints, "max_tasks": 320})
        problem.space.check({**hints, "max_tasks": 320})
        assert fluid.throughput(degrees) >= 0.9 * best_known(fluid, steps=200)[0]


def test_loess_keeps_a_straight_line() -> None:
    line = np.linspace(1.0, 5.0, 30)
    assert loess(line) == pytest.approx(line)


def test_figure_8_compares_three_searches_with_defaults_and_hand_tuning(tmp_path: Path) -> None:
    problem = parse_problem(
        {
            "knobs": {
                "p": {"type": "int", "low": 1, "high": 200, "log": True, "default": 200},
                "b": {"type": "int", "low": 1, "high": 64, "log": True, "default": 1},
                "c": {"type": "category", "choices": [True, False], "default": True},
            }
        },
        "toy",
    )

    class Toy:
        calls = 0

        def measure(self, number: int, repeat: int, knobs: dict[str, int | float | str | bool]) -> Measurement:
            Toy.calls += 1
            noise = 1.0 + 0.02 * float(np.random.default_rng([number, repeat]).standard_normal())
            overhead = 1.0 + float(knobs["p"]) / 20 + 20.0 / float(knobs["b"])
            return Measurement(value=100.0 / overhead * noise * (1.0 if knobs["c"] else 0.8), seconds=1.0)

        def restore(self, knobs: dict[str, int | float | str | bool]) -> None:
            pass

    scale = Figure8Study(
        sets={"h": ("p",), "h bs": ("p", "b"), "bs cc": ("b", "c")}, after={"bs cc": "h"},
        hand_tuned={"p": 2, "b": 8}, beside={"no limit": {"b": 64}}, steps=12, repeats=5, without_repeats=3,
    )  # fmt: skip
    found = run_figure_8(problem, Toy(), tmp_path, scale)
    ratio = {(one["configuration"], one["against"]): one for one in found["tests"]}
    assert ratio["h bs", "defaults"]["ratio"] > ratio["h", "defaults"]["ratio"] > 1.0
    assert ratio["h bs", "defaults"]["significant"]
    assert {len(values) for name, values in found["runs"].items() if "at its default" not in name} == {5}
    assert found["top"] in ("h bs", "bs cc")
    back = {one["configuration"]: one["ratio"] for one in found["which knob"]}
    assert back[f"{found['top']}, b at its default"] < 0.7  # 20 / b is most of the overhead
    assert len(found["runs"][f"{found['top']}, b at its default"]) == 3
    assert {(one["configuration"], one["against"]) for one in found["between"]} == {
        ("h", "h bs"), ("h", "bs cc"), ("h bs", "bs cc"),
    }  # fmt: skip
    page = figure_8_finding(found, scale)
    targets = {check.target: check.met for check in page.checks}
    assert f"best ({found['top']}) ≥ 2.8 × no limit" in targets
    assert targets[f"best ({found['top']}) not significantly worse than hand-tuned"]
    before = Toy.calls
    assert run_figure_8(problem, Toy(), tmp_path, scale) == found  # finished: nothing is run again
    assert Toy.calls == before
    (tmp_path / "finals.jsonl").unlink()
    again = run_figure_8(problem, Toy(), tmp_path, scale, final=lambda knobs: 5.0 if knobs["p"] == 200 else 9.0)
    assert Toy.calls == before  # the final runs alone, by a measurement of their own
    assert set(again["runs"]["defaults"]) == {5.0}
    longer = scale.model_copy(update={"steps": 30})
    path = tmp_path / "finals.jsonl"
    path.write_text("".join(json.dumps({**json.loads(line), "knobs": {"p": 77}} if '"h bs"' in line else
                                       json.loads(line)) + "\n" for line in path.read_text().splitlines()))  # fmt: skip
    more = run_figure_8(problem, Toy(), tmp_path, longer, final=lambda _knobs: 11.0)
    assert set(more["runs"]["h bs"]) == {11.0}  # what was run with other knobs under this name does not count
    assert set(more["runs"]["defaults"]) == {5.0}
