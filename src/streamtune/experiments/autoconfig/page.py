"""The study as it stands, written into a page between two markers: what was not run is left out, and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from streamtune.errors import StreamTuneError
from streamtune.experiments.autoconfig import tables
from streamtune.experiments.autoconfig.bench import figure_4_finding, figure_6_finding
from streamtune.experiments.autoconfig.noise import NoiseRun, NoiseStudy, noise_checks, noise_table
from streamtune.experiments.autoconfig.noise import keys as noise_keys
from streamtune.experiments.autoconfig.study import AutoconfigStudy, Run, keys

BEGIN, END = "<!-- {name}: written by benchmarks/autoconfig.py --page -->", "<!-- end of {name} -->"

_PICTURES = {
    "autoconfig-fig4": "Fig. 4: throughput of the choice over the best known, by setting",
    "autoconfig-fig6": "Fig. 6: what the steps measured over the best known, smoothed",
}


def complete_cells(runs: Sequence[Run], contestants: Sequence[str]) -> list[Run]:
    """The runs of those graphs of a setting that every contestant was run on: what is compared is compared alike.

    Of strategies that were run beside them, those settings whose graphs they were all run on.
    """
    done: dict[tuple[object, ...], set[str]] = {}
    for run in runs:
        done.setdefault(_cell(run), set()).add(run.contestant)
    whole = {cell for cell, names in done.items() if names >= set(contestants)}
    of: dict[tuple[object, ...], list[set[str]]] = {}
    for cell in whole:
        of.setdefault(cell[:3], []).append(done[cell])
    shown = {setting: set.intersection(*names) for setting, names in of.items()}
    return [run for run in runs if _cell(run) in whole and run.contestant in shown[tables.setting_of(run)]]


def _cell(run: Run) -> tuple[object, ...]:
    return (run.size, run.imbalance, run.contention, run.seed, run.turn)


def study_text(runs: Sequence[Run], settings: AutoconfigStudy) -> str:
    """Tables of the figures and the targets, over complete cells alone."""
    kept = complete_cells(runs, settings.contestants)
    if not kept:
        return "Nothing was run."
    wanted = len(list(keys(settings)))
    planned = [run for run in kept if run.contestant in settings.contestants]
    beside = Counter(run.contestant for run in kept if run.contestant not in settings.contestants)
    graphs = {one: len({run.seed for run in kept if tables.setting_of(run) == one}) for one in tables.settings_of(kept)}
    counted = ", ".join(
        f"{count} of {len(settings.seeds)} graphs in {many} settings"
        for count, many in sorted(Counter(graphs.values()).items(), reverse=True)
    )
    missing = len(settings.sizes) * len(settings.imbalances) * len(settings.contentions) - len(graphs)
    parts = [
        f"{len(planned)} of {wanted} passes (the thesis' two per graph), {settings.steps} steps each: {counted}"
        + (f", none in {missing} settings." if missing else ".")
        + (f" Beside them passes of {', '.join(f'{name} ({n})' for name, n in beside.items())}." if beside else "")
    ]
    shown = {
        "Fig. 4: throughput of the choice, run 30 times, over the best known: mean over graphs (least to most run)": (
            tables.figure_4(kept)
        ),
        "Fig. 5: step of the best measurement; median step at 95 % (graphs that got there)": tables.figure_5(kept),
        "Mean first step at 95 % (graphs that got there); never counts as one step more than there were": (
            tables.steps_table(kept)
        ),
        "Order of the thesis' strategies": tables.order(kept),
        "Fig. 7: CPU seconds to choose a configuration, mean (largest mean of a pass)": tables.figure_7(kept),
    }
    parts += [f"**{title}**\n\n{_table(*table)}" for title, table in shown.items()]
    parts += [f"![{told}](../images/{name}.svg)" for name, told in _PICTURES.items()]
    lines = [f"| {one['target']} | {one['measured']} | {_verdict(one['met'])} |" for one in tables.checks(kept)]
    parts.append("**Targets**\n\n| target | measured | |\n| --- | --- | --- |\n" + "\n".join(lines))
    return "\n\n".join(parts)


def noise_text(runs: Sequence[NoiseRun], settings: NoiseStudy) -> str:
    """The choice under noise, as far as it was run."""
    if not runs:
        return "Nothing was run."
    verdicts = "\n".join(
        f"- {one['target']}: {one['measured']}: {_verdict(bool(one['met']))}." for one in noise_checks(runs)
    )
    return f"{len(runs)} of {len(list(noise_keys(settings)))} sessions.\n\n{_table(*noise_table(runs))}\n\n{verdicts}"


def pictures(runs: Sequence[Run], settings: AutoconfigStudy, folder: Path) -> list[Path]:
    """Fig. 4 and Fig. 6 as ``autoconfig-fig4.svg`` and ``autoconfig-fig6.svg``."""
    kept = complete_cells(runs, settings.contestants)
    written = []
    for finding in (figure_4_finding(kept, ""), figure_6_finding(kept, "")) if kept else ():
        path = folder / f"{finding.name}.svg"
        path.write_text(finding.pictures[0], encoding="utf-8")
        written.append(path)
    return written


def write_between(page: Path, name: str, text: str) -> None:
    """Replace what stands between the markers of ``name``.

    :raises StreamTuneError: when the page has no such markers.
    """
    begin, end = BEGIN.format(name=name), END.format(name=name)
    old = page.read_text(encoding="utf-8")
    before, found, rest = old.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise StreamTuneError(f"{page} has no '{begin}' … '{end}' to write between")
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(headings) + " |", "|" + " --- |" * len(headings)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _verdict(met: bool) -> str:
    return "met" if met else "**missed**"
