"""Figures 6 to 12 and Tables 1 and 2 of Fischer's first study, on the fluid model of hosts.

Two baselines stand side by side: Storm's even scheduler with sorted tasks, which the thesis compared with, and a random
deal. Throughput depends on the link, so it is a curve over bandwidth, and the thesis' 1 Gbit/s is one point of it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from streamtune.experiments.placement.arena import (
    SCHEDULERS,
    WITH_LINK,
    Case,
    PlacementStudy,
    at_fixed_rate,
    change,
    place_flows,
    placed,
    run,
    spread,
)
from streamtune.experiments.placement.findings import Cell, Chart, Table
from streamtune.experiments.placement.flows import task_flows
from streamtune.placement.fluid import FluidHosts, HostLimits
from streamtune.workloads.placement_topologies import TOPOLOGIES, TUPLE_SIZES, payload

# Table 1 of the thesis: spread (average, largest), and improvement of throughput over Default and over Greedy, percent.
THESIS_TABLE_1 = {
    "parallel": {"even": (5, 10), "greedy": (21, 53, 0), "metis": (13, 29, 6, 6)},
    "payload": {"even": (20, 38), "greedy": (23, 53, 12), "metis": (26, 70, 52, 38)},
    "opengov": {"even": (4, 11), "greedy": (5, 12, 0), "metis": (9, 17, 19, 19)},
    "reference": {"even": (9, 16), "greedy": (9, 22, 1), "metis": (5, 12, 3, 2)},
}
REPLICA_RATE = 4000.0


def fig6(scale: PlacementStudy) -> Table:
    """Bytes per tuple and throughput against both even schedules, on the smallest and the largest cluster."""
    rows: list[tuple[Cell, ...]] = []
    for hosts in scale.ends:
        for name in TOPOLOGIES:
            for which in WITH_LINK:
                cases = [Case(name, hosts, n) for n in range(scale.repetitions)]
                per_tuple = [at_fixed_rate(case, which, scale).bytes_per_tuple for case in cases]
                speed = [run(case, which, scale).throughput for case in cases]
                base = {
                    even: (
                        float(np.mean([at_fixed_rate(case, even, scale).bytes_per_tuple for case in cases])),
                        float(np.mean([run(case, even, scale).throughput for case in cases])),
                    )
                    for even in ("even-sorted", "even-random")
                }
                imbalance = max(placed(case, which, scale.effort)[1].imbalance for case in cases)
                rows.append(
                    (
                        hosts, name, which, float(np.mean(per_tuple)),
                        change(float(np.mean(per_tuple)), base["even-sorted"][0]),
                        change(float(np.mean(per_tuple)), base["even-random"][0]),
                        change(float(np.mean(speed)), base["even-sorted"][1]),
                        change(float(np.mean(speed)), base["even-random"][1]),
                        imbalance,
                    )
                )  # fmt: skip
    columns = (
        "hosts", "topology", "scheduler", "bytes/tuple", "bytes vs sorted, %", "bytes vs random, %",
        "throughput vs sorted, %", "throughput vs random, %", "imbalance",
    )  # fmt: skip
    thesis = (
        "Metis against Default: bytes −88 % on Payload with 10 hosts; on average over sizes −33.75 % (Payload), −14 % "
        "(Parallel); Greedy at best −9.75 % (Reference). Throughput up to +56 %."
    )
    return Table("fig6", "Fig. 6: bandwidth and throughput against the even schedule", columns, tuple(rows), thesis)


def fig7(scale: PlacementStudy) -> Table:
    """Throughput over the size of the cluster, smallest, mean and largest of the repetitions."""
    rows: list[tuple[Cell, ...]] = []
    charts = []
    for name in TOPOLOGIES:
        lines: dict[str, tuple[list[float], list[float]]] = {}
        for which in SCHEDULERS:
            means = []
            for hosts in scale.hosts:
                speeds = [run(Case(name, hosts, n), which, scale).throughput for n in range(scale.repetitions)]
                means.append(float(np.mean(speeds)))
                rows.append((name, which, hosts, min(speeds), means[-1], max(speeds)))
            lines[which] = ([float(hosts) for hosts in scale.hosts], means)
        charts.append(Chart("hosts", f"tuples/s, {name}", lines))
    columns = ("topology", "scheduler", "hosts", "min tuples/s", "mean tuples/s", "max tuples/s")
    thesis = "Metis is ahead of both even in its worst of three runs in most cases."
    title = f"Fig. 7: throughput over hosts at {scale.mbit_per_s:g} Mbit/s"
    return Table("fig7", title, columns, tuple(rows), thesis, charts=tuple(charts))


def fig8(scale: PlacementStudy) -> Table:
    """Bytes per tuple of the Reference topology, whose throughput is throttled."""
    rows: list[tuple[Cell, ...]] = []
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for which in SCHEDULERS:
        values = []
        for hosts in scale.hosts:
            found = [at_fixed_rate(Case("reference", hosts, n), which, scale) for n in range(scale.repetitions)]
            values.append(float(np.mean([one.bytes_per_tuple for one in found])))
            rows.append((which, hosts, values[-1]))
        lines[which] = ([float(hosts) for hosts in scale.hosts], values)
    thesis = "Metis needs fewer bytes than Greedy and Default by 34 % and 95 % at 10 hosts, by 8 % and 5 % at 80."
    note = (
        "Every stage sends to all tasks of the next one: with k hosts of equal load at most about 2/k of the bytes can "
        "stay local, so 95 % is out of reach of any placement of this graph."
    )
    return Table(
        "fig8", "Fig. 8: bytes per tuple, Reference", ("scheduler", "hosts", "bytes/tuple"), tuple(rows), thesis, note,
        (Chart("hosts", "bytes/tuple", lines),),
    )  # fmt: skip


def fig9(scale: PlacementStudy) -> Table:
    """How evenly hosts are loaded, in CPU of the fluid model at the fixed rate."""
    rows: list[tuple[Cell, ...]] = []
    for hosts in scale.ends:
        for name in TOPOLOGIES:
            for which in SCHEDULERS:
                cpu = at_fixed_rate(Case(name, hosts), which, scale).cpu
                mean = float(cpu.mean())
                shares = np.percentile(cpu / mean, [0, 25, 50, 75, 100]) if mean else np.ones(5)
                imbalance = placed(Case(name, hosts), which, scale.effort)[1].imbalance
                rows.append((hosts, name, which, *(float(value) for value in shares), imbalance))
    columns = ("hosts", "topology", "scheduler", "min", "25 %", "median", "75 %", "max", "imbalance by tuples")
    thesis = "Metis' distribution of load is similar to Default's and Greedy's."
    return Table("fig9", "Fig. 9: CPU of hosts over the mean", columns, tuple(rows), thesis)


def fig10(scale: PlacementStudy) -> Table:
    """Throughput over the size of tuples: the Payload topology with depth 3."""
    hosts = scale.tuple_size_hosts
    rows: list[tuple[Cell, ...]] = []
    lines: dict[str, tuple[list[float], list[float]]] = {which: ([], []) for which in SCHEDULERS}
    for size in scale.tuple_sizes:
        flows = task_flows(payload(hosts, depth=3, tuple_bytes=size))
        fluid = FluidHosts(flows, hosts, HostLimits(mbit_per_s=scale.mbit_per_s), scale.cost)
        speed = {
            which: fluid.run(place_flows(flows, hosts, which).part, unlimited=True).throughput for which in SCHEDULERS
        }
        for which, value in speed.items():
            lines[which][0].append(size)
            lines[which][1].append(value / hosts)
            rows.append((size, which, value / hosts, value / speed["even-sorted"], value / speed["even-random"]))
    columns = ("tuple bytes", "scheduler", "tuples/s per spout", "× sorted", "× random")
    thesis = "The larger the tuple, the more is gained: more than four times from 10 KB on."
    chart = Chart("tuple bytes", "tuples/s per spout", lines, log_x=True, log_y=True)
    return Table(
        "fig10", f"Fig. 10: throughput over tuple size, {hosts} hosts", columns, tuple(rows), thesis, charts=(chart,)
    )


def _acking(scale: PlacementStudy) -> list[tuple[int, bool, str, float, float]]:
    """(hosts, acking, scheduler, bytes/s between hosts, tuples/s handled) at 4,000 tuples/s per spout of 112 bytes."""
    found = []
    for hosts in scale.hosts:
        for acked in (False, True):
            plain = payload(hosts, tuple_bytes=112, rate=REPLICA_RATE)
            flows = task_flows(plain.acknowledged(hosts) if acked else plain)
            fluid = FluidHosts(flows, hosts, HostLimits(mbit_per_s=1e9, cores=1e6), scale.cost)
            for which in ("even-sorted", "even-random", "metis", "ours"):
                outcome = fluid.run(place_flows(flows, hosts, which).part)
                found.append((hosts, acked, which, outcome.remote_bytes_per_s, outcome.handled_per_s))
    return found


def fig11(scale: PlacementStudy) -> Table:
    """Bandwidth with and without acknowledgements."""
    rows = tuple(
        (hosts, "on" if acked else "off", which, sent / 1e6) for hosts, acked, which, sent, _ in _acking(scale)
    )
    thesis = "Acking uses a substantial amount of bandwidth that scheduling cannot save."
    columns = ("hosts", "acking", "scheduler", "MB/s between hosts")
    return Table("fig11", "Fig. 11: bandwidth at a constant rate, acking on and off (112 B)", columns, rows, thesis)


def fig12(scale: PlacementStudy) -> Table:
    """Messages in the whole topology with and without acknowledgements."""
    found = [entry for entry in _acking(scale) if entry[2] == "ours"]
    off = {hosts: handled for hosts, acked, _, _, handled in found if not acked}
    rows = tuple((hosts, off[hosts], handled, handled / off[hosts]) for hosts, acked, _, _, handled in found if acked)
    thesis = "Acking effectively doubles the number of messages."
    return Table(
        "fig12", "Fig. 12: tuples handled, acking on and off", ("hosts", "off, /s", "on, /s", "×"), rows, thesis
    )


def table1(scale: PlacementStudy) -> Table:
    """Spread over repetitions and improvement of throughput, averaged over cluster sizes."""
    rows: list[tuple[Cell, ...]] = []
    for name in TOPOLOGIES:
        speeds = {
            which: [
                [run(Case(name, h, n), which, scale).throughput for n in range(scale.repetitions)] for h in scale.hosts
            ]
            for which in SCHEDULERS
        }
        best = {which: np.array([max(values) for values in found]) for which, found in speeds.items()}
        for which in SCHEDULERS:
            spreads = [spread(values) for values in speeds[which]]
            gains = [
                float(np.mean(100 * (best[which] / best[base] - 1)))
                for base in ("even-sorted", "even-random", "greedy")
            ]
            thesis = THESIS_TABLE_1[name].get({"even-sorted": "even"}.get(which, which))
            rows.append((name, which, float(np.mean(spreads)), max(spreads), *gains, str(thesis) if thesis else None))
    columns = (
        "topology",
        "scheduler",
        "spread avg, %",
        "spread max, %",
        "vs sorted, %",
        "vs random, %",
        "vs greedy, %",
        "thesis",
    )
    text = "per scheduler: spread average, spread largest, improvement over Default, improvement over Greedy (percent)."
    note = (
        "Best of the repetitions, as the thesis takes it; the model itself has no noise: spread comes from seeds alone."
    )
    return Table("table1", "Table 1: spread and improvement of throughput", columns, tuple(rows), text, note)


def table2(_scale: PlacementStudy) -> Table:
    """Tuple sizes."""
    rows = []
    for name, build in TOPOLOGIES.items():
        sizes = sorted({link.tuple_bytes for link in build(10).links})
        rows.append((name, f"{sizes[0]:g}" if len(sizes) == 1 else f"{sizes[0]:g} to {sizes[-1]:g}", TUPLE_SIZES[name]))
    thesis = "see the last column."
    return Table("table2", "Table 2: tuple sizes", ("topology", "ours, bytes", "thesis"), tuple(rows), thesis)


def curve(scale: PlacementStudy) -> Table:
    """Throughput over bandwidth: any single ratio can be had by choosing the link."""
    rows: list[tuple[Cell, ...]] = []
    charts = []
    hosts = scale.ends[0]
    for name in TOPOLOGIES:
        lines: dict[str, tuple[list[float], list[float]]] = {which: ([], []) for which in WITH_LINK}
        for bandwidth in scale.bandwidths:
            # Sources in proportion, as on real hosts, where a fixed number of tuples of each is run to its end.
            case = Case(name, hosts)
            speed = {which: run(case, which, scale, bandwidth, together=True).throughput for which in WITH_LINK}
            for which, value in speed.items():
                lines[which][0].append(bandwidth)
                lines[which][1].append(value)
                rows.append((name, bandwidth, which, value, value / speed["even-sorted"], value / speed["even-random"]))
        charts.append(Chart("Mbit/s", f"tuples/s, {name}", lines, log_x=True, log_y=True))
    columns = ("topology", "Mbit/s", "scheduler", "tuples/s", "× sorted", "× random")
    thesis = "one link only (1 Gbit/s)."
    return Table(
        "curve", f"Throughput over bandwidth, {hosts} hosts", columns, tuple(rows), thesis, charts=tuple(charts)
    )


def ordinary(scale: PlacementStudy) -> Table:
    """One ordinary job per family: what placement is worth where the thesis did not look."""
    from streamtune.experiments.placement.ordinary import ordinary_rows

    columns = ("job", "tasks", "hosts", "scheduler", "between hosts, %", "MB/s between hosts", "imbalance")
    thesis = "not in the thesis."
    title = "Ordinary jobs: Nexmark, PQP, random"
    return Table("ordinary", title, columns, tuple(ordinary_rows(scale)), thesis)


EXPERIMENTS: dict[str, Callable[[PlacementStudy], Table]] = {
    "fig6": fig6,
    "fig7": fig7,
    "fig8": fig8,
    "fig9": fig9,
    "fig10": fig10,
    "fig11": fig11,
    "fig12": fig12,
    "table1": table1,
    "table2": table2,
    "curve": curve,
    "ordinary": ordinary,
}
