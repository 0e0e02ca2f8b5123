"""``streamtune bench placement``: all experiments of the study, or some, with a report."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from streamtune.errors import StreamTuneError
from streamtune.experiments.placement.arena import QUICK, PlacementStudy
from streamtune.experiments.placement.findings import Table, write_report
from streamtune.experiments.placement.study import EXPERIMENTS
from streamtune.placement import prepare

Tell = Callable[[str], None]


def run_study(
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    report: Path | None = None,
    results: Path | None = None,
    tell: Tell = lambda _: None,
) -> list[Table]:
    """Run the named experiments (all of them if none is named) and write what is asked for."""
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        raise StreamTuneError(f"no experiment '{unknown[0]}' of placement: choose from {', '.join(EXPERIMENTS)}")
    prepare()
    tables = []
    for name in names or EXPERIMENTS:
        tell(f"placement: {name}")
        tables.append(EXPERIMENTS[name](QUICK if quick else PlacementStudy()))
    command = f"streamtune bench placement{' --quick' if quick else ''}"
    if report is not None:
        write_report(report, tables, command)
    if results is not None:
        results.write_text(json.dumps([table.to_record() for table in tables], indent=1) + "\n", encoding="utf-8")
    return tables
