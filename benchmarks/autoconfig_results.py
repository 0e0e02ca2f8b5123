"""What the benchmarks on real targets have in common: their results as JSON, as a report, and in a page of the docs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from streamtune.errors import StreamTuneError
from streamtune.experiments.autoconfig.figure8 import SIGNIFICANCE, Figure8Study
from streamtune.experiments.paper.findings import Finding
from streamtune.experiments.paper.report import write_findings

_KEPT = ("runs", "best", "top", "curves", "importance", "tests", "between", "which knob")
PAGE = Path(__file__).parents[1] / "docs" / "results" / "autoconfig.md"


def write_json(path: Path, finding: Finding, found: Mapping[str, Any]) -> None:
    """Everything that was measured, and the checks."""
    kept = {
        key: found[key] for key in ("runs", "best", "top", "curves", "importance", "tests", "between", "which knob")
    }
    record = {**finding.to_record(), **kept}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_report(path: Path, finding: Finding, command: str, where: str) -> None:
    title = "Machines Tuning Machines: Fig. 8 on a real target"
    write_findings(path, [finding], title=title, command=command, where=where)


def write_page(page: Path, name: str, text: str) -> None:
    """Replace what stands between the page's markers of this name."""
    begin, end = f"<!-- {name}: written by its benchmark with --page -->", f"<!-- end of {name} -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise StreamTuneError(f"{page} has no '{begin}' … '{end}' to write between: add the two lines")
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def markdown(finding: Finding, found: Mapping[str, Any], study: Figure8Study, unit: str, thesis: bool = False) -> str:
    """What a page shows: the runs, the knobs, which knob did it, the targets."""
    runs, top = found["runs"], found["top"]
    against = ["defaults", "hand-tuned", *study.beside]
    lesser = [one["configuration"] for one in found["which knob"] if one["configuration"] not in study.sets]
    shown = [name for name in runs if name not in lesser]
    tests = {(one["configuration"], one["against"]): one for one in found["tests"]}
    rows = [
        (name, _spread(runs[name]), str(len(runs[name])), *(_told(tests.get((name, other))) for other in against))
        for name in shown
    ]
    parts = [
        f"{study.steps} steps of `{study.strategy}` per set of knobs; {unit}; p of Welch's two-sided t-test.",
        _table(("configuration", "mean (least to most)", "runs", *(f"against {other}" for other in against)), rows),
        _table(("configuration", "knobs"), _knobs(found, study)),
        f"The best ({top}) with one knob back at its default:",
        _table(("configuration", f"against {top}"), _back(found)),
    ]
    if len(study.sets) > 1:
        between = [(one["configuration"], one["against"], _told(one), _yes(one)) for one in found["between"]]
        parts += ["Between the sets:", _table(("set", "against", "ratio", "differ"), between)]
    if thesis:
        parts.append(f"Thesis: {finding.paper}.")
    checks = [(check.target, check.measured, "met" if check.met else "**missed**") for check in finding.checks]
    return "\n\n".join([*parts, _table(("target", "measured", ""), checks)])


def _knobs(found: Mapping[str, Any], study: Figure8Study) -> list[tuple[str, str]]:
    written = {"hand-tuned": study.hand_tuned, **study.beside, **found["best"]}
    return [(name, ", ".join(f"{key} {value}" for key, value in knobs.items())) for name, knobs in written.items()]


def _back(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(one["configuration"], _told(one)) for one in found["which knob"]]


def _spread(values: Sequence[float]) -> str:
    return f"{np.mean(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def _told(test: Mapping[str, Any] | None) -> str:
    if test is None:
        return "–"
    return f"{test['ratio']:.2f} × (p {test['p']:.1g}{'' if test['significant'] else f' ≥ {SIGNIFICANCE:g}'})"


def _yes(test: Mapping[str, Any]) -> str:
    return "yes" if test["significant"] else "no"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(headings) + " |", "|" + " --- |" * len(headings)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
