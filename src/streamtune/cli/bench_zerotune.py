"""``streamtune bench-zerotune``: the experiments of the ZeroTune paper."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from streamtune.cli.output import err, print_json


def bench_zerotune(
    names: Annotated[
        list[str],
        typer.Argument(
            help="zerotune-structures, -parallelism, -parameters, -data, -optimiser, -ablation, -speed, -real, "
            "or zerotune for all of them."
        ),
    ],
    quick: Annotated[bool, typer.Option(help="Tiny sizes: a few minutes, and figures that mean little.")] = False,
    plans: Annotated[int | None, typer.Option(min=100, help="Labelled plans to learn from.")] = None,
    members: Annotated[int | None, typer.Option(min=1, help="Networks of the ensemble.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the plans at most.")] = None,
    queries: Annotated[int | None, typer.Option(min=1, help="Queries of zerotune-optimiser.")] = None,
    folds: Annotated[int | None, typer.Option(min=2, help="Random folds of zerotune-real.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Networks trained at the same time.")] = 2,
    work: Annotated[
        Path | None, typer.Option(help="Keep plans and models here; a run that was stopped goes on from it.")
    ] = None,
    real_runs: Annotated[Path | None, typer.Option(help="PDSP-Bench runs (runs.jsonl.gz), for zerotune-real.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report.")] = None,
    results: Annotated[Path | None, typer.Option(help="Write the tables as JSON.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Run experiments of the ZeroTune paper on simulated hosts, and on real runs where there are any.

    \b
    Examples:
      streamtune bench-zerotune zerotune-structures --quick
      streamtune bench-zerotune zerotune --work zt --real-runs pdsp/runs.jsonl.gz --results zerotune.json
    """
    from streamtune.benchmark.paper.report import write_findings
    from streamtune.benchmark.zerotune.arena import ZeroTuneArena, ZeroTuneScale
    from streamtune.benchmark.zerotune.experiments import chosen
    from streamtune.cli.arguments import make_folder_of
    from streamtune.cli.bench import print_finding

    wanted = chosen(names, real_runs)
    usual = ZeroTuneScale.quick() if quick else ZeroTuneScale()
    scale = replace(
        usual,
        plans=plans or usual.plans,
        members=members or usual.members,
        epochs=epochs or usual.epochs,
        queries=queries or usual.queries,
        folds=folds or usual.folds,
        seed=seed,
        jobs=jobs,
    )
    for file in (report, results):
        if file is not None:
            make_folder_of(file)
    findings = []
    with tempfile.TemporaryDirectory(prefix="streamtune-bench-") as scratch, err.status("starting") as status:
        arena = ZeroTuneArena(scale, work or Path(scratch), lambda text: status.update(text))
        for name, experiment in wanted.items():
            start = time.perf_counter()
            findings.append(experiment(arena))
            err.print(f"{name}: {time.perf_counter() - start:.0f} s", style="dim")
            if not as_json:
                print_finding(findings[-1])
    records = [finding.to_record() for finding in findings]
    if as_json:
        print_json(records)
    if results is not None:
        results.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    if report is not None:
        command = f"streamtune bench-zerotune {' '.join(names)}{' --quick' if quick else ''}"
        write_findings(report, findings, title="ZeroTune's evaluation, measured again", command=command)
        err.print(f"report: {report}", highlight=False, soft_wrap=True)
