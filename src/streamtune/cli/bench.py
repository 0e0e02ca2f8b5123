"""``streamtune bench``: the experiments of the papers, one command each."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from streamtune.cli.output import err, out, print_json, styled
from streamtune.cli.tune_options import BacklogOption
from streamtune.errors import StreamTuneError
from streamtune.models.names import check_model
from streamtune.outputs import check_folder, check_outputs, write_whole
from streamtune.settings import LARGEST_SEED

if TYPE_CHECKING:
    from streamtune.experiments.paper.findings import Finding, Shown

    Experiments = dict[str, Callable[[], Finding]]

Tell = Callable[[str], None]


def bench(
    names: Annotated[
        list[str],
        typer.Argument(
            help="StreamTune: fig6, fig7a, fig7b, table3, fig9a, fig10, fig11a, clusters, ablation, learning, "
            "learning-poor, sweep-error, sweep-headroom, sweep-quantile, sweep-curve, sweep-jitter, or paper for "
            "all of them. First plans: coldstart, coldstart-certainty, coldstart-limit, coldstart-zerotune. "
            "fig8 runs on a real Timely Dataflow, by itself. ZeroTune: zerotune-structures, -parallelism, -parameters, "
            "-data, -optimiser, -ablation, -speed, -real, or zerotune for all of them. Sundog: sundog-table2, -fig3, "
            "-table4, -table5, -table6, -fig4, -trends, -movietweetings, -spark-commits, or sundog for all of them. "
            "Placement: placement-fig6 to -fig12, -table1, -table2, -curve, -ordinary, -real-flink, -real-timely "
            "(real hosts: as root), or placement for all of them. Auto-configuration: autoconfig-fig4 to -fig7, "
            "-noise, or autoconfig for all of them."
        ),
    ],
    quick: Annotated[bool, typer.Option(help="Tiny sizes: minutes, and figures that mean little.")] = False,
    seeds: Annotated[
        str | None,
        typer.Option(help="Seeds, for instance 0,1,2; each is a platform of its own. ZeroTune and Sundog take one."),
    ] = None,
    changes: Annotated[int | None, typer.Option(help="Changes of rates per workload.", min=1, max=120)] = None,
    runs: Annotated[int | None, typer.Option(help="Runs in each history.", min=100)] = None,
    plans: Annotated[int | None, typer.Option(min=100, help="zerotune: labelled plans to learn from.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="zerotune: networks trained at the same time.")] = None,
    real_runs: Annotated[Path | None, typer.Option(help="zerotune-real: PDSP-Bench's runs.jsonl.gz.")] = None,
    light: Annotated[
        bool,
        typer.Option(
            "--light",
            help="coldstart: past operators alone; no encoders, clusters or ZeroTune.",
        ),
    ] = False,
    cold_jobs: Annotated[
        int | None,
        typer.Option(
            min=4, help="coldstart: jobs of each kind; jobs never seen against the limit are four times as many."
        ),
    ] = None,
    real_data: Annotated[
        Path | None, typer.Option(help="sundog: folder that holds movietweetings and spark-commits.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="fig8: a model bundle made from a Timely history, for StreamTune.")
    ] = None,
    backlog_growth: BacklogOption = None,
    work: Annotated[
        Path | None, typer.Option(help="Keep models and results here; a run that was stopped goes on from it.")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0, help="placement (on real hosts), autoconfig: stop after this; the next run goes on."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report.")] = None,
    results: Annotated[Path | None, typer.Option(help="Write the tables as JSON.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Run experiments of the papers, with the rivals and the oracle.

    Histories are generated, models pre-trained and every tuner run over the paper's pattern of rates.
    `bench paper` takes about an hour on two cores, --quick a few minutes.

    \b
    Examples:
      streamtune bench fig6 fig7a table3 --quick
      streamtune bench paper --work bench --report paper.html
      streamtune bench sweep-error --seeds 0 --json
      streamtune bench coldstart --work bench --report coldstart.html
      streamtune bench fig8 --model timely-model --seeds 0,1 --work fig8 --report fig8.html
      streamtune bench zerotune --work zt --real-runs pdsp/runs.jsonl.gz --results zerotune.json
      streamtune bench sundog --work sd --real-data ../shared/data --report sundog.html
      streamtune bench autoconfig --work ac --minutes 10 --report autoconfig.html
      streamtune bench placement --work pl --minutes 8 --report placement.html --results placement.json
    """
    from streamtune.experiments.names import check_experiments, paper_of

    check_experiments(names, real_runs, real_data)
    family = paper_of(names[0])
    check_outputs((("--report", report), ("--results", results)))
    chosen_seeds = _seeds("0" if seeds is None else seeds)
    if work is not None:
        check_folder(work, "--work")
    if names == ["fig8"]:
        check_model(model)
    _refuse_without_effect(
        "fig8" if "fig8" in names else family,
        quick=quick or None,
        changes=changes,
        runs=runs,
        plans=plans,
        jobs=jobs,
        real_runs=real_runs,
        real_data=real_data,
        model=model,
        backlog_growth=backlog_growth,
        results=results,
        light=light or None,
        cold_jobs=cold_jobs,
        minutes=minutes,
        seeds=seeds,
    )
    if family == "placement":
        _placement(names, quick, work, minutes, report, results, as_json)
        return
    if names == ["fig8"]:
        _fig8(chosen_seeds, backlog_growth, model, work, report, as_json)
        return
    if family not in ("streamtune", "autoconfig") and len(chosen_seeds) > 1:
        raise StreamTuneError(f"--seeds: {_PAPERS[family]}'s experiments take one seed, but got {seeds}")
    with tempfile.TemporaryDirectory(prefix="streamtune-bench-") as scratch, err.status("starting") as status:
        folder = work or Path(scratch)
        if family == "autoconfig":
            wanted = _autoconfig(names, quick, seeds, minutes, folder)
        elif family == "sundog":
            wanted = _sundog(names, quick, chosen_seeds[0], real_data, folder, status.update)
        elif family == "zerotune":
            wanted = _zerotune(names, quick, seeds, plans, jobs, real_runs, folder, status.update)
        else:
            wanted = _streamtune(names, quick, seeds, changes, runs, light, cold_jobs, folder, status.update)
        findings = []
        for name, experiment in wanted.items():
            start = time.perf_counter()
            findings.append(experiment())
            err.print(f"{name}: {time.perf_counter() - start:.0f} s", style="dim")
            if not as_json:
                print_finding(findings[-1])
    records = [finding.to_record() for finding in findings]
    if as_json:
        print_json(records)
    if results is not None:
        write_whole(results, json.dumps(records, indent=1) + "\n")
    if report is not None:
        from streamtune.experiments.paper.report import write_findings

        command = f"streamtune bench {' '.join(names)}{' --quick' if quick else ''}"
        title = f"{_PAPERS[family]}'s evaluation, measured again"
        where = _WHERE.get(family, {})
        write_findings(report, findings, title=title, command=command, **where)
        err.print(f"report: {report}", highlight=False, soft_wrap=True)


_PAPERS = {
    "streamtune": "StreamTune",
    "zerotune": "ZeroTune",
    "sundog": "Sundog",
    "placement": "placement",
    "autoconfig": "Machines Tuning Machines",
}
_WHERE = {
    "sundog": {"where": "generated search logs on Spark"},
    "autoconfig": {"where": "layered topologies on a fluid model of the thesis' cluster"},
}
# Which options mean something to which experiments; the others of these are refused.
_MEANT_FOR = {
    "streamtune": {"quick", "changes", "runs", "results", "seeds", "light", "cold_jobs"},
    "zerotune": {"quick", "plans", "jobs", "real_runs", "results", "seeds"},
    "sundog": {"quick", "real_data", "results", "seeds"},
    "fig8": {"model", "backlog_growth", "seeds"},
    "placement": {"quick", "results", "minutes"},
    "autoconfig": {"quick", "results", "seeds", "minutes"},
}


def _refuse_without_effect(kind: str, **options: object) -> None:
    for name, value in options.items():
        if value is not None and name not in _MEANT_FOR[kind]:
            raise StreamTuneError(
                f"--{name.replace('_', '-')} has no effect on the experiments of {kind}, but got {value}: leave it out"
            )


def _placement(
    names: list[str],
    quick: bool,
    work: Path | None,
    minutes: float | None,
    report: Path | None,
    results: Path | None,
    as_json: bool,
) -> None:
    from streamtune.experiments.placement.bench import run_study
    from streamtune.experiments.placement.findings import write_report

    def tell(text: str) -> None:
        err.print(text, highlight=False, soft_wrap=True)

    tables = run_study(names, quick=quick, work=work, minutes=minutes, tell=tell)
    records = [table.to_record() for table in tables]
    if as_json:
        print_json(records)
    else:
        for table in tables:
            out.print(table.to_markdown(), highlight=False, soft_wrap=True, markup=False)
    if results is not None:
        write_whole(results, json.dumps(records, indent=1) + "\n")
    if report is not None:
        write_report(report, tables, f"streamtune bench {' '.join(names)}{' --quick' if quick else ''}")
        err.print(f"report: {report}", highlight=False, soft_wrap=True)


def _streamtune(
    names: list[str],
    quick: bool,
    seeds: str | None,
    changes: int | None,
    runs: int | None,
    light: bool,
    cold_jobs: int | None,
    work: Path,
    tell: Tell,
) -> Experiments:
    from streamtune.experiments.paper.contest import Arena, Scale
    from streamtune.experiments.paper.experiments import BEYOND, EXPERIMENTS, chosen

    wanted = chosen(names)
    scale = Scale.quick() if quick else Scale()
    if seeds is not None:
        scale = scale.replace(seeds=_seeds(seeds))
    if changes is not None:
        scale = scale.replace(changes=changes, sweep_changes=min(changes, scale.sweep_changes))
    if runs is not None:
        scale = scale.replace(runs=runs, cold_runs=runs, sweep_runs=min(runs, scale.sweep_runs))
    if light:
        scale = scale.replace(cold_trained=False)
    if cold_jobs is not None:
        scale = scale.replace(cold_jobs=cold_jobs, cold_unseen=4 * cold_jobs)
    arena = Arena(scale, work, tell)
    known = EXPERIMENTS | BEYOND
    return {name: partial(known[name], arena) for name in wanted}


def _zerotune(
    names: list[str],
    quick: bool,
    seeds: str | None,
    plans: int | None,
    jobs: int | None,
    real_runs: Path | None,
    work: Path,
    tell: Tell,
) -> Experiments:
    from streamtune.experiments.zerotune.arena import ZeroTuneArena, ZeroTuneScale
    from streamtune.experiments.zerotune.experiments import chosen

    wanted = chosen(names, real_runs)
    (seed,) = _seeds(seeds or "0")
    scale = ZeroTuneScale.quick() if quick else ZeroTuneScale()
    arena = ZeroTuneArena(scale.replace(plans=plans or scale.plans, seed=seed, jobs=jobs or scale.jobs), work, tell)
    return {name: partial(experiment, arena) for name, experiment in wanted.items()}


def _sundog(names: list[str], quick: bool, seed: int, real_data: Path | None, work: Path, tell: Tell) -> Experiments:
    from streamtune.experiments.sundog.arena import SundogArena, SundogStudy
    from streamtune.experiments.sundog.experiments import chosen
    from streamtune.spark.session import build_session
    from streamtune.spark.settings import SparkSettings

    scale = SundogStudy.quick() if quick else SundogStudy()
    spark = build_session(SparkSettings(app_name="bench-sundog"))
    return chosen(names, SundogArena(spark, replace(scale, seed=seed), work, tell), real_data)


def _autoconfig(names: list[str], quick: bool, seeds: str | None, minutes: float | None, work: Path) -> Experiments:
    from streamtune.experiments.autoconfig.bench import run_autoconfig

    found = run_autoconfig(
        names,
        quick=quick,
        seeds=None if seeds is None else _seeds(seeds),
        work=work,
        minutes=minutes,
        tell=lambda text: err.print(text, highlight=False, soft_wrap=True),
    )
    return {finding.name: partial(_as_it_is, finding) for finding in found}


def _as_it_is(finding: Finding) -> Finding:
    return finding


def _seeds(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) <= 10 and int(part) <= LARGEST_SEED for part in parts):
        raise StreamTuneError(f"--seeds: expected whole numbers up to {LARGEST_SEED} such as 0,1,2, but got {text!r}")
    return tuple(int(part) for part in parts)


def _fig8(
    seeds: tuple[int, ...],
    backlog_growth: float | None,
    model: Path | None,
    work: Path | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Real time passes here: about a quarter of an hour per seed."""
    from streamtune.dataflow import Job
    from streamtune.experiments.fig8 import Fig8Settings, claims, run_fig8, table
    from streamtune.experiments.fig8_report import write_fig8
    from streamtune.tuners import Tuner, make_tuner

    def make(name: str, job: Job) -> Tuner:
        return make_tuner(name, job, model=model)

    result = run_fig8(
        Fig8Settings(seeds=seeds, backlog_growth_share=backlog_growth or None),
        make=make,
        results=None if work is None else work / "fig8.json",
        tell=lambda text: err.print(text, highlight=False),
    )
    if report is not None:
        write_fig8(result, report)
    if as_json:
        print_json(result.model_dump(mode="json"))
        return
    _print_table(table(result))
    for claim in claims(result):
        verdict = ("holds", "green") if claim.holds else ("does not hold", "red")
        text = f": {claim.query} against {claim.rival}: {claim.text}: {claim.measured}"
        out.print(styled(verdict, text), highlight=False)


def print_finding(finding: Finding) -> None:
    out.rule(finding.title, align="left")
    out.print(finding.setting, style="dim", highlight=False)
    if finding.paper:
        out.print(f"The paper: {finding.paper}", style="dim", highlight=False)
    for shown in finding.tables:
        _print_table(shown)
    for check in finding.checks:
        verdict = ("met", "green") if check.met else ("missed", "red")
        out.print(styled(verdict, f": {check.target}: {check.measured}"), highlight=False, soft_wrap=True)


def _print_table(shown: Shown) -> None:
    table = Table(title=shown.title or None, title_justify="left")
    for number, heading in enumerate(shown.headings):
        table.add_column(heading, justify="left" if number == 0 else "right")
    for row in shown.rows:
        table.add_row(*row)
    out.print(table)
