"""The study on real hosts: a Timely Dataflow over network namespaces, bytes read from the interfaces.

Bytes are measured at a fixed rate over links that do not limit it, throughput by a fixed number of tuples over links
that do. The model is calibrated on one number of hosts (background, overhead and factor of a hop) and checked blind on
another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from streamtune.dataflow.operator import Frozen
from streamtune.experiments.placement.arena import Case, build, place_flows
from streamtune.experiments.placement.findings import Cell, Table
from streamtune.experiments.placement.flows import task_flows
from streamtune.labs.hosts.network import HostNetwork
from streamtune.labs.hosts.timely import HostRun, run_on_hosts
from streamtune.labs.hosts.work import TaskWork
from streamtune.placement.fluid import TaskFlows
from streamtune.placement.graph import Ints
from streamtune.workloads.placement_topologies import payload

SCHEDULERS = ("even-sorted", "even-random", "greedy", "metis", "ours")
Tell = Callable[[str], None]


class RealScale(Frozen):
    """How long and how large; small enough for two cores."""

    calibrate_on: int = Field(default=4, ge=2, description="Hosts on which the cost of a hop is measured.")
    check_on: tuple[int, ...] = Field(default=(4, 10), description="Hosts on which the model is checked.")
    topologies: tuple[str, ...] = Field(default=("payload", "parallel", "opengov", "reference"), description="Which.")
    rate: float = Field(default=500.0, gt=0, description="Tuples/s of one spout when bytes are measured.")
    seconds: float = Field(default=5.0, gt=0, description="How long spouts emit.")
    repetitions: int = Field(default=3, ge=1, description="Runs of each kind.")
    bandwidths: tuple[float, ...] = Field(default=(10.0, 30.0, 100.0, 300.0), description="Mbit/s of the curve.")
    burst: int = Field(default=3000, ge=1, description="Tuples of one spout when throughput is measured.")
    free_mbit_per_s: float = Field(default=2000.0, gt=0, description="A link that does not limit the rate.")
    timeout_s: float = Field(default=300.0, gt=0, description="For one run.")


@dataclass(frozen=True)
class Calibration:
    """Bytes of a run: background + Σ over remote tuples (overhead + factor · size).

    The background is Timely's progress: every worker tells every other about every step of the dataflow. ``background``
    is that of one step between one pair of hosts, in one direction.
    """

    background: float
    overhead: float
    factor: float

    def predicted(self, work: TaskWork, hosts: int) -> float:
        """Bytes that all hosts send in a run of this work."""
        hops = sum(tuples * (self.overhead + self.factor * size) for tuples, size in work.remote())
        return self.background * hosts * (hosts - 1) * work.stages + hops


def _work(flows: TaskFlows, part: Ints, scale: RealScale) -> TaskWork:
    return TaskWork.of(flows, part, scale.rate, int(scale.rate * scale.seconds))


def calibrate(network: HostNetwork, scale: RealScale) -> Calibration:
    """Ideal placement for the background; small and large tuples over one hop for overhead and factor."""
    hosts = network.count
    sizes = (16, 3072)
    per_tuple = []
    ideal = task_flows(payload(hosts, depth=3, tuple_bytes=16))
    part = place_flows(ideal, hosts, "ours").part
    quiet = _work(ideal, part, scale)
    background = float(run_on_hosts(network, quiet, scale.timeout_s).sent_bytes)
    for size in sizes:
        flows = task_flows(payload(hosts, depth=3, tuple_bytes=size))
        work = _work(flows, place_flows(flows, hosts, "even-sorted").part, scale)
        sent = run_on_hosts(network, work, scale.timeout_s).sent_bytes
        per_tuple.append((sent - background) / sum(tuples for tuples, _ in work.remote()))
    factor = (per_tuple[1] - per_tuple[0]) / (sizes[1] - sizes[0])
    step = background / (hosts * (hosts - 1) * quiet.stages)
    return Calibration(step, per_tuple[0] - factor * sizes[0], factor)


def bytes_table(scale: RealScale, tell: Tell = lambda _: None) -> Table:
    """Measured bytes per tuple of every scheduler, and what the calibrated model says."""
    with HostNetwork(scale.calibrate_on, scale.free_mbit_per_s) as network:
        tell(f"calibrating on {scale.calibrate_on} hosts")
        model = calibrate(network, scale)
    rows: list[tuple[Cell, ...]] = []
    for hosts in scale.check_on:
        with HostNetwork(hosts, scale.free_mbit_per_s) as network:
            for name in scale.topologies:
                rows.extend(_bytes_rows(network, name, scale, model, tell))
    note = (
        f"Calibrated on {scale.calibrate_on} hosts: {model.background:.0f} bytes of progress per step and pair, a hop "
        f"costs {model.overhead:.0f} + {model.factor:.3f} · size bytes. Other numbers of hosts are predicted blind."
    )
    columns = (
        "hosts", "topology", "scheduler", "bytes/tuple", "spread, %", "vs sorted, %", "vs random, %", "predicted",
        "error, %",
    )  # fmt: skip
    thesis = "Metis against Default on Payload with 10 hosts: −88 %."
    return Table("real-bytes", "Real hosts: bytes between hosts per tuple (Timely)", columns, tuple(rows), thesis, note)


def _bytes_rows(
    network: HostNetwork, name: str, scale: RealScale, model: Calibration, tell: Tell
) -> list[tuple[Cell, ...]]:
    hosts = network.count
    measured: dict[str, list[float]] = {}
    predicted: dict[str, list[float]] = {}
    for repetition in range(scale.repetitions):
        flows = task_flows(build(Case(name, hosts, repetition)))
        for which in SCHEDULERS:
            tell(f"{hosts} hosts, {name}, {which}, run {repetition + 1}")
            work = _work(flows, place_flows(flows, hosts, which, repetition).part, scale)
            ran = run_on_hosts(network, work, scale.timeout_s)
            measured.setdefault(which, []).append(ran.sent_bytes / ran.emitted)
            expected = model.predicted(work, hosts)
            predicted.setdefault(which, []).append(expected / ran.emitted)
    means = {which: float(np.mean(values)) for which, values in measured.items()}
    rows: list[tuple[Cell, ...]] = []
    for which in SCHEDULERS:
        guess = float(np.mean(predicted[which]))
        values = measured[which]
        rows.append(
            (
                hosts, name, which, means[which], 100 * (max(values) - min(values)) / means[which],
                100 * (means[which] / means["even-sorted"] - 1), 100 * (means[which] / means["even-random"] - 1),
                guess, 100 * (guess / means[which] - 1),
            )
        )  # fmt: skip
    return rows


def throughput_table(scale: RealScale, tell: Tell = lambda _: None) -> Table:
    """A fixed number of tuples as fast as they go, over links from slow to fast."""
    hosts = scale.calibrate_on
    rows: list[tuple[Cell, ...]] = []
    for name in scale.topologies:
        for bandwidth in scale.bandwidths:
            with HostNetwork(hosts, bandwidth) as network:
                speed = {which: _speed(network, name, which, scale, tell) for which in SCHEDULERS}
            for which, value in speed.items():
                rows.append((name, bandwidth, which, value, value / speed["even-sorted"], value / speed["even-random"]))
    columns = ("topology", "Mbit/s", "scheduler", "tuples/s", "× sorted", "× random")
    title = f"Real hosts: throughput over bandwidth, {hosts} hosts (Timely)"
    note = "Two shared cores: ratios in one run count, not the figures. Timely has no flow control within an epoch."
    return Table("real-throughput", title, columns, tuple(rows), "one link only (1 Gbit/s).", note)


def _speed(network: HostNetwork, name: str, which: str, scale: RealScale, tell: Tell) -> float:
    hosts = network.count
    speeds: list[float] = []
    for repetition in range(scale.repetitions):
        tell(f"{network.mbit_per_s:g} Mbit/s, {name}, {which}, run {repetition + 1}")
        flows = task_flows(build(Case(name, hosts, repetition)))
        work = TaskWork.of(flows, place_flows(flows, hosts, which, repetition).part, 1e9, scale.burst)
        ran: HostRun = run_on_hosts(network, work, scale.timeout_s)
        speeds.append(ran.throughput)
    return float(np.median(speeds))


def real_tables(scale: RealScale, tell: Tell = lambda _: None) -> Sequence[Table]:
    """Both tables."""
    return bytes_table(scale, tell), throughput_table(scale, tell)
