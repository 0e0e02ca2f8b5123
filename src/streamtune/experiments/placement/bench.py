"""``streamtune bench placement``: Fischer's first study on the model of hosts and on real ones, with a report.

Everything is kept in the work folder as soon as it is there: tables of the model one by one, runs on real hosts one by
one. A study that was stopped, or whose minutes were up, goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

from streamtune.experiments.names import PLACEMENT, PLACEMENT_REAL
from streamtune.experiments.placement.arena import QUICK, PlacementStudy
from streamtune.experiments.placement.findings import Table
from streamtune.experiments.placement.journal import Journal, OutOfTimeError
from streamtune.experiments.placement.real_design import QUICK_REAL, RealPlacementStudy
from streamtune.experiments.placement.real_hosts import Cell, Engine, RealLab, byte_cells, curve_cells, measure
from streamtune.experiments.placement.study import EXPERIMENTS
from streamtune.labs.hosts.network import HostsUnavailableError, check_allowed
from streamtune.outputs import write_whole
from streamtune.placement import prepare

Tell = Callable[[str], None]
_PREFIX = "placement-"
# Flink's model was made anew after its first blind check, which is shown but not run again.
BLIND_KINDS: dict[Engine, tuple[str, ...]] = {"timely": ("blind",), "flink": ("blind", "blind-again")}


def run_study(
    names: Sequence[str],
    *,
    quick: bool = False,
    work: Path | None = None,
    minutes: float | None = None,
    tell: Tell = lambda _: None,
) -> list[Table]:
    """The tables of the named experiments; ``placement`` stands for all of them.

    Where namespaces are not allowed, ``placement`` says so and leaves out what needs them.
    """
    wanted = [*PLACEMENT, *PLACEMENT_REAL] if "placement" in names else list(dict.fromkeys(names))
    prepare()
    tables: list[Table] = []
    for name in wanted:
        if name not in PLACEMENT_REAL:
            tables.append(_on_the_model(name, QUICK if quick else PlacementStudy(), work, tell))
            continue
        try:
            tables.extend(_on_real_hosts(name, QUICK_REAL if quick else RealPlacementStudy(), work, minutes, tell))
        except HostsUnavailableError as error:
            if "placement" not in names:
                raise
            tell(f"{name} is left out: {error}")
    return tables


def _on_the_model(name: str, scale: PlacementStudy, work: Path | None, tell: Tell) -> Table:
    kept = None if work is None else work / f"{name}.json"
    settings = scale.model_dump(mode="json")
    if kept is not None and kept.is_file():
        record = json.loads(kept.read_text(encoding="utf-8"))
        if record.get("scale") == settings:
            return Table.from_record(record["table"])
    tell(name)
    table = EXPERIMENTS[name.removeprefix(_PREFIX)](scale)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, json.dumps({"scale": settings, "table": table.to_record()}) + "\n")
    return table


def _on_real_hosts(
    name: str, scale: RealPlacementStudy, work: Path | None, minutes: float | None, tell: Tell
) -> list[Table]:
    from streamtune.experiments.placement.real_tables import blind_table, bytes_table, calibration_table, speed_table

    engine = next(one for one in get_args(Engine) if name.endswith(one))
    journal = Journal(None if work is None else work / "placement-real.jsonl", minutes)
    try:
        for lab, cells in _labs(engine, scale, journal, tell):
            if any(journal.get(cell[0]) is None for cell in cells):
                check_allowed()
            measure(lab, cells)
    except OutOfTimeError as error:
        tell(f"{name}: {error}")
    blind = [blind_table(journal, engine, kind) for kind in BLIND_KINDS[engine]]
    tables = [calibration_table(journal, engine), *blind, bytes_table(journal, engine)]
    return [*tables, speed_table(journal, engine)] if engine == "flink" else tables


def _labs(engine: Engine, scale: RealPlacementStudy, journal: Journal, tell: Tell) -> list[tuple[RealLab, list[Cell]]]:
    """Labs with what is to be measured on them, in this order."""

    def cells(hosts: int) -> tuple[RealLab, list[Cell]]:
        lab = RealLab(engine, hosts, scale, journal, tell)
        calibrated = byte_cells(lab, "calibration") if hosts == scale.calibrate_on else []
        blind = byte_cells(lab, BLIND_KINDS[engine][-1]) if hosts == scale.blind_on else []
        return lab, [*calibrated, *blind, *(byte_cells(lab, "thesis") if hosts in checked else [])]

    checked = scale.hosts_for(engine)
    found = [cells(hosts) for hosts in dict.fromkeys((scale.calibrate_on, scale.blind_on, *checked))]
    # Timely has no flow control within an epoch: what it can take cannot be measured by flooding it.
    return found + [(lab, curve_cells(lab)) for lab, _ in found if engine == "flink" and lab.hosts in checked]
