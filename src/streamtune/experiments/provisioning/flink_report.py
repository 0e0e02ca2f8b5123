"""The section about days on a real Flink, from the runs alone."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

from streamtune.experiments.provisioning.markdown import table

OURS = "proactive StreamTune"
_TOLD = """## Proactive against reactive on a real Flink
A day of a real trace in {minutes:g} minutes ({compression:g} × as fast), the rate held for each quarter of an hour of
the trace ({step_s:.1f} s here), for `{job}` at this machine's scale on one local Flink with live rescale. Only the rate
runs faster: a rescale, a look ({window_s:g} s, and {settle_s:g} s after a change) and a metric take their own time,
{compression:g} × as much of the day as in a real one. So this compares contenders under the same conditions; it does
not say how many seconds a day would have.

- **Days**: of every seasonal trace the first test day of the part above, scaled so that the day before it peaks at
  {peak} instances of the widest operator. Nothing about the day itself was used.
- **Contenders** run side by side on one cluster, under the same supervisor with the same windows, guards and
  information. Proactive StreamTune's forecaster was chosen and fitted on the days before, its setting on the day before
  on the simulator (`flink-choice`): the dearest price of being short at no more than 1.1 × the hours of reactive
  StreamTune; where no setting is within them, the fewest hours. That rule was settled on those simulated days; by then
  a trial of 90 s had been run on taxi's day, to see that the experiment works.
- **Measured beside the tuners**, by a look at Flink's own counters every second: a second is backpressured when an
  operator was for more than a tenth of it; down is while not all subtasks run. Instances are those that ran, without
  the sources. The generators keep half a second of input and no more, so nothing has to be caught up with after a
  stop; `served` is what reached the sink, of all that was offered.
"""


def flink_section(found: dict[str, Any]) -> str:
    """Every repetition, their means, and ours against each rival."""
    runs = sorted(found["runs"], key=lambda run: (run["trace"], run["method"] != OURS, run["method"]))
    study = runs[0]["study"]
    compression = 1440 / study["minutes"]
    text = _TOLD.format(
        **study, compression=compression, step_s=study["epoch_s"] / compression, peak=study["peak_instances"]
    )
    for trace in dict.fromkeys(run["trace"] for run in runs):
        mine = [run for run in runs if run["trace"] == trace]
        groups = {name: [run for run in mine if run["method"] == name] for name in dict.fromkeys(_names(mine))}
        setting = next((run["setting"] for run in mine if run["method"] == OURS), None)
        text += f"\n### {trace}, day {mine[0]['day']}{_told(setting, mine[0]['forecaster'])}\n"
        text += _by_method(groups) + "\n" + _against(groups)
    return text


def _names(runs: Sequence[dict[str, Any]]) -> list[str]:
    return [run["method"] for run in runs]


def _told(setting: dict[str, Any] | None, forecaster: str) -> str:
    if setting is None:
        return ""
    return f" ({forecaster}, an hour of being short {setting['short']:g}, a change {setting['change']:g})"


def _by_method(groups: dict[str, list[dict[str, Any]]]) -> str:
    rows = []
    for name, runs in groups.items():
        each = ", ".join(f"{run['backpressured_s']:.0f}" for run in sorted(runs, key=lambda run: run["repetition"]))
        hours = [run["hours"] for run in runs]
        rows.append(
            [
                name,
                each,
                f"{_mean(runs, 'backpressured_s'):.1f} of {_mean(runs, 'seconds'):.0f}",
                f"{_mean(runs, 'down_s'):.1f}",
                f"{mean(hours):.3f} ({min(hours):.3f} to {max(hours):.3f})",
                f"{_mean(runs, 'changes'):.1f}",
                f"{100 * _mean(runs, 'served'):.1f} %",
            ]
        )
    heads = ["tuner", "backpressured s of each repetition", "mean", "down s", "instance-hours", "changes", "served"]
    return table(heads, rows)


def _against(groups: dict[str, list[dict[str, Any]]]) -> str:
    if OURS not in groups:
        return ""
    ours, hours = _mean(groups[OURS], "backpressured_s"), _mean(groups[OURS], "hours")
    told = []
    for name, runs in groups.items():
        if name != OURS:
            theirs = _mean(runs, "backpressured_s")
            # Below one second of a look's length a ratio says nothing.
            much = f"{theirs / max(ours, 1.0):.1f} × fewer" if theirs > ours else f"{ours - theirs:.1f} s more"
            told.append(f"{much} backpressured seconds than {name} at {hours / _mean(runs, 'hours'):.2f} × its hours")
    return "Proactive StreamTune has " + "; ".join(told) + ".\n"


def _mean(runs: Sequence[dict[str, Any]], key: str) -> float:
    return float(mean(run[key] for run in runs))
