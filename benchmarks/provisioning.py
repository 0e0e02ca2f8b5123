"""QEScalor's tables and figures, plan times, and proactive against reactive: one command, one JSON file per part.

    python benchmarks/provisioning.py all --tiny          a few minutes, to see that it runs
    python benchmarks/provisioning.py tables              Table 2 and 3 on real operators (control groups, as root)
    python benchmarks/provisioning.py tables --operator CO1   one operator; others measured before are kept
    python benchmarks/provisioning.py costs coverage forecasts proactive days times
    python benchmarks/provisioning.py flink-choice flink  proactive against reactive on a real Flink (quiet machine)
    python benchmarks/provisioning.py report              docs/results/provisioning.md from the results

Results go to benchmarks/results/provisioning-<part>.json, pictures beside them. What stands there is not run again,
trace by trace: a part that was stopped goes on; remove its file to measure anew.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import provisioning_flink

from streamtune.experiments.provisioning.compressed import CompressedStudy
from streamtune.experiments.provisioning.costs import coverage, total_costs
from streamtune.experiments.provisioning.days import DayStudy, compared_days, day_rows
from streamtune.experiments.provisioning.forecast_errors import forecast_errors
from streamtune.experiments.provisioning.proactive import ProactiveStudy, compared, is_perfect, is_reactive, study
from streamtune.experiments.provisioning.report import write_report
from streamtune.experiments.provisioning.tables import Tables
from streamtune.experiments.provisioning.traces import SEASONAL
from streamtune.experiments.provisioning.verdicts import on_tables
from streamtune.forecasts.selection import FORECASTERS
from streamtune.labs.sampling import OPERATORS
from streamtune.outputs import write_whole
from streamtune.provisioning.exact import plan_exact
from streamtune.provisioning.methods import compile_kernels
from streamtune.provisioning.pictures import draw_curves
from streamtune.provisioning.problem import Problem, Size
from streamtune.provisioning.sampling.samples import Convergence

RESULTS = Path(__file__).parent / "results"


def say(text: str) -> None:
    print(text, flush=True)


def tables(tiny: bool, simulated: bool, operators: tuple[str, ...]) -> dict[str, Any]:
    """One operator after the other, each algorithm's samples and each model kept as soon as they are there."""
    convergence = Convergence(most_s=0.8, spread=0.1, chunk_s=0.1, least_chunks=4) if tiny else Convergence()
    file = RESULTS / f"provisioning-tables{'-tiny' if tiny else ''}.json"
    kept = Tables(
        found=json.loads(file.read_text()) if file.is_file() else {},
        keep=lambda found: write_whole(file, json.dumps({"part": "tables", "tiny": tiny, **found}, indent=1) + "\n"),
        progress=say,
        real=not simulated,
        steps=12 if tiny else 16,
        repeats=1 if tiny else 10,
        convergence=convergence,
    )
    for operator in operators:
        kept.add(operator)
    for table in ("table_2", "table_3"):
        say(f"\n{table}: operator, method, RMSE, MAE, samples, seconds")
        for row in kept.found[table]:
            say(
                f"  {row['operator']:5} {row['method']:18} {row['rmse']:.4f} {row['mae']:.4f} "
                f"{row['samples']:3d} {row['seconds']:7.1f}"
            )
    say(on_tables(kept.found))
    return kept.found


class Runs:
    """The runs of a part, each written as soon as it is there, so that a part that was stopped goes on."""

    def __init__(self, part: str, tiny: bool, keys: tuple[str, ...]) -> None:
        self.file = RESULTS / f"provisioning-{part}{'-tiny' if tiny else ''}.json"
        self.head = {"part": part, "tiny": tiny}
        self.keys = keys
        self.runs = json.loads(self.file.read_text())["runs"] if self.file.is_file() else []

    def has(self, *key: object) -> bool:
        """It is there already; remove the file to measure anew."""
        return any(self._key(run) == tuple(map(str, key)) for run in self.runs)

    def add(self, run: dict[str, Any]) -> None:
        """In the place of an older one of the same key."""
        self.runs = [one for one in self.runs if self._key(one) != self._key(run)] + [run]
        self.file.write_text(json.dumps({**self.head, "runs": self.runs}, indent=1) + "\n")

    def _key(self, run: dict[str, Any]) -> tuple[str, ...]:
        return tuple(str(run[name]) for name in self.keys)


def costs(tiny: bool) -> dict[str, Any]:
    kept = Runs("costs", tiny, ("trace", "start_cost"))
    for trace in ("taxi",) if tiny else ("taxi", "nasa", "amzn"):
        for weight in ("light", "heavy"):
            if kept.has(trace, weight):
                continue
            found = total_costs(trace, 5 if tiny else 60, weight)
            kept.add(found)
            say(f"\n{trace}, {found['days']:.0f} days, {weight} start costs, proven gap {100 * found['gap']:.2f} %")
            for method, row in found["methods"].items():
                say(f"  {method:16} {row['cost']:12.4f}  {100 * row['above_ours']:+7.2f} %  {row['starts']:6d} starts")
            curves = {m: list(enumerate(r["by_day"], start=1)) for m, r in found["methods"].items() if m != "peak"}
            file = RESULTS / f"provisioning-costs-{trace}-{weight}.svg"
            draw_curves(file, curves, "days", "total cost", f"{trace}, {weight} start costs")
    return {"runs": kept.runs}


def covered(tiny: bool) -> dict[str, Any]:
    levels = (0.9, 0.99) if tiny else (0.5, 0.9, 0.95, 0.99, 0.999)
    kept = Runs("coverage", tiny, ("trace",))
    for trace in ("taxi",) if tiny else ("taxi", "nasa", "amzn"):
        if kept.has(trace):
            continue
        found = coverage(trace, 8 if tiny else 60, levels)
        kept.add(found)
        say(f"\n{trace}: {found['epochs']} epochs, level, covered, cost over perfect")
        for row in found["rows"]:
            say(f"  {row['level']!s:8} {100 * row['covered']:7.3f} %  {row['over_perfect']:.3f}")
    return {"runs": kept.runs}


def forecasts(tiny: bool, traces: tuple[str, ...]) -> dict[str, Any]:
    kept = Runs("forecasts", tiny, ("trace", "method"))
    for trace in traces:
        for method in FORECASTERS:
            found = None if kept.has(trace, method) else forecast_errors(trace, method, 6 if tiny else 48)
            if found is not None:
                kept.add(found)
                shown = ", ".join(f"{name} {error:.3f}" for name, error in found["error"].items())
                say(f"  {trace:8} {method:18} {shown}; covers {found['coverage']}")
    return {"runs": kept.runs}


def proactive(tiny: bool) -> dict[str, Any]:
    kept = Runs("proactive", tiny, ("trace", "rescale"))
    traces = {"taxi": 20.0} if tiny else {"nasa": 58.0, "taxi": 90.0, "twitter": 21.0, "amzn": 54.0, "goog": 54.0}
    for trace, days in traces.items():
        for name, downtime_s in (("restart", 20.0), ("live", 5.0)):
            if kept.has(trace, name):
                continue
            settings = ProactiveStudy(downtime_s=downtime_s)
            if tiny:
                settings = settings.model_copy(update={"levels": (0.5, 0.9), "headrooms": (0.0, 0.1)})
            found = {"rescale": name, **study(trace, days, settings)}
            found["compared"] = compared(found["rows"])
            kept.add(found)
            _print_proactive(found)
    return {"runs": kept.runs}


def _print_proactive(found: dict[str, Any]) -> None:
    say(f"\n{found['trace']}, {found['rescale']}: headroom, minutes → proactive, hours ratio, perfect, 10 × at")
    for row in found["compared"]:
        if row["proactive"] is None:
            say(f"  {row['headroom']:.2f}  no proactive setting within its hours")
            continue
        perfect = row["perfect"]["minutes"] if row["perfect"] else math.nan
        tenth = row["ten_times_at"] or math.nan
        say(
            f"  {row['headroom']:.2f}  {row['reactive']['minutes']:7.0f} → {row['proactive']['minutes']:7.0f} "
            f"({row['times_fewer']:.2f} × fewer)  {row['hours_ratio']:.3f}  {perfect:7.0f}  {tenth:.2f}  "
            f"[{row['proactive']['forecast']}, change {row['proactive']['change_cost']:g}, "
            f"+{row['proactive']['headroom']:g}]"
        )
    curves = {
        "reactive": [(r["test"]["hours"], r["test"]["minutes"]) for r in found["rows"] if is_reactive(r)],
        "proactive": _front([r["test"] for r in found["rows"] if not is_perfect(r)]),
        "perfect forecast": _front([r["test"] for r in found["rows"] if is_perfect(r)]),
    }
    file = RESULTS / f"provisioning-proactive-{found['trace']}-{found['rescale']}.svg"
    draw_curves(file, curves, "instance-hours", "backpressured minutes", f"{found['trace']}, {found['rescale']}")


# Days that no earlier study of ours was scored on: earlier ones learnt from the first halves of the traces and were
# scored on the rest (of taxi: the last 90 of 215 days); elb was never used. Of nasa, days 24 to 29 were seen by a run
# whose sources were too few (a fault of the experiment, since corrected) and are left out. First day, days, test days.
UNTOUCHED = {
    "nasa": (0.0, 18.0, 3.0),
    "taxi": (0.0, 120.0, 7.0),
    "amzn": (0.0, 27.0, 3.0),
    "elb": (0.0, 14.0, 3.0),
    "goog": (0.0, 27.0, 3.0),
    "twitter": (0.0, 10.0, 2.0),
}


def days(tiny: bool, traces: tuple[str, ...]) -> dict[str, Any]:
    """Days on the simulator under the supervisor, trace by trace; what is there is kept."""
    kept = Runs("days", tiny, ("trace", "rescale"))
    for trace in traces:
        first, length, test = UNTOUCHED[trace]
        if tiny:
            length, test = min(length, 8.0), 0.5
        for name, downtime_s in (("restart", 10.0), ("live", 1.0)):
            if kept.has(trace, name):
                continue
            settings = DayStudy(downtime_s=downtime_s)
            new = {"rescale": name, **compared_days(trace, (first, length), test, settings, say)}
            kept.add(new)
            _print_days(new)
    return {"runs": kept.runs}


def _print_days(run: dict[str, Any]) -> None:
    say(f"\n{run['trace']}, {run['rescale']}, {run['test_days']:g} test days: rival, minutes → ours, × hours, setting")
    for row in day_rows(run):
        say("  {rival:16} {minutes:5d} → {ours}  {fewer} × fewer at {hours} × the hours  [{setting}]".format(**row))
    for row in run["rows"]["test"]:
        if row["method"] == "perfect":
            say(f"  perfect forecast, short hour {row['short']:g}: {row['minutes']} minutes, {row['hours']:.0f} hours")
    curves = {
        name: sorted((row["hours"], row["minutes"]) for row in run["rows"]["test"] if row["method"] == name)
        for name in ("streamtune", "ds2", "ahead", "perfect")
    }
    file = RESULTS / f"provisioning-days-{run['trace']}-{run['rescale']}.svg"
    draw_curves(file, curves, "instance-hours", "backpressured minutes", f"{run['trace']}, {run['rescale']}")


def flink_days(traces: tuple[str, ...]) -> dict[str, int]:
    """The first test day of the part days, of each seasonal trace: so it was settled before any of them was run."""
    first_tests = {trace: round(first + length - test) for trace, (first, length, test) in UNTOUCHED.items()}
    return {trace: first_tests[trace] for trace in SEASONAL if trace in traces}


def flink_choice(tiny: bool, traces: tuple[str, ...]) -> dict[str, Any]:
    kept = Runs("flink-choice", tiny, ("trace",))
    provisioning_flink.choices(kept, flink_days(traces), CompressedStudy(), say)
    return {"runs": kept.runs}


def flink(tiny: bool, traces: tuple[str, ...], minutes: float, times: int) -> dict[str, Any]:
    kept = Runs("flink", tiny, ("trace", "method", "repetition"))
    chosen = Runs("flink-choice", False, ("trace",)).file
    methods = ("proactive StreamTune", "DS2") if tiny else None
    study = CompressedStudy(minutes=minutes)
    provisioning_flink.repetitions(kept, chosen, flink_days(traces), times, study, say, methods)
    return {"runs": kept.runs}


def _front(points: list[dict[str, float]]) -> list[tuple[float, float]]:
    """The points that no other beats in both."""
    front: list[tuple[float, float]] = []
    for hours, minutes in sorted((one["hours"], one["minutes"]) for one in points):
        if not front or minutes < front[-1][1]:
            front.append((hours, minutes))
    return front


def times(tiny: bool) -> dict[str, Any]:
    """Seconds and proven gap by sizes and epochs, with what else the machine had to do."""
    compile_kernels()
    plan_exact(random_problem(2, 8, 1.0, 4.0))  # what is imported and compiled the first time is no plan's time
    kept = Runs("times", tiny, ("sizes", "epochs", "start_cost", "peak_in_smallest"))
    cases = [(1, 1440), (4, 96), (4, 288), (4, 1440), (10, 24), (10, 96), (20, 1440)]
    for sizes, epochs in cases[:3] if tiny else cases:
        for name, weight in (("light", 0.25), ("heavy", 4.0)):
            between = (60.0, 70.0) if (sizes, epochs) == (10, 96) else ()  # where the lattice just does not fit
            for peak in (44.0,) if tiny else (22.0, 44.0, *between, 100.0):
                if kept.has(sizes, epochs, name, peak):
                    continue
                plan = plan_exact(random_problem(sizes, epochs, weight, peak))
                row = {"sizes": sizes, "epochs": epochs, "start_cost": name, "peak_in_smallest": peak}
                proof = {"seconds": plan.seconds, "gap": plan.gap, "optimal": plan.is_optimal}
                kept.add({**row, **proof, "load": os.getloadavg()[0]})
                say(f"  {row}  {plan.seconds:8.3f} s  gap {100 * plan.gap:.3f} %")
    return {"runs": kept.runs}


def random_problem(count: int, epochs: int, weight: float, peak: float, seed: int = 0) -> Problem:
    """Sizes of 0.6, 1.2, … cores with diminishing and uneven returns, and days of a noisy rate."""
    generator = np.random.default_rng(seed)
    cpu = 0.6 * np.arange(1, count + 1)
    rate = 100 * cpu**0.95 * generator.uniform(0.93, 1.07, count)
    price = cpu + 0.05
    hours = np.arange(epochs) / 4
    day = 1.2 + np.sin(2 * np.pi * hours / 24) + 0.3 * np.sin(2 * np.pi * hours / 6) + generator.normal(0, 0.12, epochs)
    workload = np.maximum(day, 0.05)
    workload *= peak * rate[0] / workload.max()
    sizes = tuple(
        Size(name=f"r{k + 1}", cpu=c, memory_mb=96, performance_per_s=r, price=p)
        for k, (c, r, p) in enumerate(zip(cpu.tolist(), rate.tolist(), price.tolist(), strict=True))
    )
    start = weight * float(price[0])
    return Problem(sizes=sizes, start_cost=start, stop_cost=start / 4, workload=tuple(workload.tolist()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ["tables", "costs", "coverage", "forecasts", "proactive", "days", "times", "flink-choice", "flink"]
    parser.add_argument("parts", nargs="+", choices=["all", "report", *names])
    parser.add_argument("--tiny", action="store_true", help="Small inputs, to see that it runs.")
    parser.add_argument("--simulated", action="store_true", help="Tables on the simulator instead of real operators.")
    parser.add_argument("--operator", action="append", choices=OPERATORS, help="tables: only these operators.")
    parser.add_argument("--trace", action="append", choices=list(UNTOUCHED), help="days, costs…: only these traces.")
    parser.add_argument("--minutes", type=float, default=12.0, help="flink: of real time for a day of a trace.")
    parser.add_argument("--repetitions", type=int, default=3, help="flink: of each day.")
    asked = parser.parse_args()
    operators = tuple(asked.operator or (("CO2",) if asked.tiny else OPERATORS))
    traces = tuple(asked.trace or (("taxi",) if asked.tiny else UNTOUCHED))
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "tables": lambda: tables(asked.tiny, asked.simulated, operators),
        "costs": lambda: costs(asked.tiny),
        "coverage": lambda: covered(asked.tiny),
        "forecasts": lambda: forecasts(asked.tiny, traces),
        "proactive": lambda: proactive(asked.tiny),
        "days": lambda: days(asked.tiny, traces),
        "times": lambda: times(asked.tiny),
        "flink-choice": lambda: flink_choice(asked.tiny, traces),
        "flink": lambda: flink(asked.tiny, traces, asked.minutes, asked.repetitions),
    }
    RESULTS.mkdir(exist_ok=True)
    for name in parts if "all" in asked.parts else [part for part in asked.parts if part != "report"]:
        begun = time.monotonic()
        found = {"part": name, "tiny": asked.tiny, **parts[name]()}
        target = RESULTS / f"provisioning-{name}{'-tiny' if asked.tiny else ''}.json"
        target.write_text(json.dumps(found, indent=1) + "\n")
        say(f"{name}: {time.monotonic() - begun:.0f} s, {target}")
    if {"all", "report"} & set(asked.parts) and not asked.tiny:
        write_report(RESULTS, Path(__file__).parents[1] / "docs" / "results" / "provisioning.md")


if __name__ == "__main__":
    main()
