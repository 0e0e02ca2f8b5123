"""The study on real hosts: Timely and Flink over network namespaces, bytes read from the interfaces.

Bytes are measured at a fixed rate over links that do not limit it, as the slope between a short and a long run (what
starting a job sends drops out); throughput by a fixed number of tuples over links that do limit. The cost of a hop is
calibrated on a few hosts and checked blind on more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import numpy as np
from pydantic import Field

from streamtune.experiments.placement.arena import Case, build, place_flows
from streamtune.experiments.placement.findings import Cell, Table
from streamtune.experiments.placement.flows import task_flows
from streamtune.experiments.placement.hop_model import MODELS, HopModel
from streamtune.frozen import Frozen
from streamtune.labs.hosts.network import HostNetwork
from streamtune.labs.hosts.run import HostRun
from streamtune.labs.hosts.work import TaskWork
from streamtune.placement.fluid import TaskFlows
from streamtune.placement.graph import Ints
from streamtune.workloads.placement_topologies import payload

SCHEDULERS = ("even-sorted", "even-random", "greedy", "metis", "ours")
Tell = Callable[[str], None]
Run = Callable[[TaskWork], HostRun]
Engine = Literal["timely", "flink"]
_SIZES = (16.0, 3072.0)


class RealPlacementStudy(Frozen):
    """How long and how large; small enough for two cores."""

    calibrate_on: int = Field(default=4, ge=2, description="Hosts on which the cost of a hop is measured.")
    check_on: tuple[int, ...] = Field(default=(4, 10), description="Hosts on which the model is checked.")
    topologies: tuple[str, ...] = Field(default=("payload", "parallel", "opengov", "reference"), description="Which.")
    rate: float = Field(default=1500.0, gt=0, description="Most tuples/s of one spout when bytes are measured.")
    spout_bytes_per_s: float = Field(default=1.5e6, gt=0, description="Most bytes/s that one spout's tuples become.")
    seconds: float = Field(
        default=9.0, gt=0, description="How long spouts emit in the long run; a third in the short one."
    )
    repetitions: int = Field(default=3, ge=1, description="Runs of each kind.")
    bandwidths: tuple[float, ...] = Field(default=(10.0, 30.0, 100.0, 300.0), description="Mbit/s of the curve.")
    burst: int = Field(default=3000, ge=1, description="Tuples of one spout when throughput is measured.")
    free_mbit_per_s: float = Field(default=2000.0, gt=0, description="A link that does not limit the rate.")
    timeout_s: float = Field(default=300.0, gt=0, description="For one run.")


@contextmanager
def engine_on(engine: Engine, network: HostNetwork, timeout_s: float) -> Iterator[Run]:
    """Something that runs work on the hosts of a network."""
    if engine == "timely":
        from streamtune.labs.hosts.timely import run_on_hosts

        yield lambda work: run_on_hosts(network, work, timeout_s)
        return
    from streamtune.labs.hosts.flink import FlinkOnHosts

    with FlinkOnHosts(network) as cluster:
        yield lambda work: cluster.run(work, timeout_s)


def measured(run: Run, flows: TaskFlows, part: Ints, rate: float, seconds: float) -> tuple[float, TaskWork, TaskWork]:
    """Bytes per emitted tuple as the slope between two runs, and the two."""
    short = TaskWork.of(flows, part, rate, max(1, int(rate * seconds / 3)))
    long = TaskWork.of(flows, part, rate, max(2, int(rate * seconds)))
    first, second = run(short), run(long)
    return (second.sent_bytes - first.sent_bytes) / (second.emitted - first.emitted), short, long


def rate_for(flows: TaskFlows, scale: RealPlacementStudy) -> float:
    """What the machine can take: large tuples come more slowly."""
    bytes_per_tuple = float((flows.wanted @ flows.per_source @ flows.tuple_bytes) / flows.wanted.sum())
    return min(scale.rate, scale.spout_bytes_per_s / bytes_per_tuple)


def calibrate(engine: Engine, run: Run, hosts: int, scale: RealPlacementStudy, tell: Tell) -> HopModel:
    """Ideal placement for what runs in the background; one hop with small and large tuples, and with few of them."""
    model = MODELS[engine]
    rows, values = [], []
    cases = [
        ("ours", _SIZES[0], 1.0),
        ("even-sorted", _SIZES[0], 1.0),
        ("even-sorted", _SIZES[1], 1.0),
        ("even-sorted", _SIZES[0], 0.1),
    ]
    for which, size, slower in cases:
        tell(f"{engine}: calibrating on {hosts} hosts, {which}, {size:g} bytes")
        flows = task_flows(payload(hosts, depth=3, tuple_bytes=size))
        part = place_flows(flows, hosts, which).part
        value, short, long = measured(run, flows, part, rate_for(flows, scale) * slower, scale.seconds)
        rows.append(model.features(short, long, hosts))
        values.append(value)
    return model.fitted(np.array(rows), np.array(values))


def bytes_table(scale: RealPlacementStudy, engine: Engine = "timely", tell: Tell = lambda _: None) -> Table:
    """Measured bytes per tuple of every scheduler, and what the calibrated model says."""
    model: HopModel | None = None
    rows: list[tuple[Cell, ...]] = []
    for hosts in dict.fromkeys((scale.calibrate_on, *scale.check_on)):
        with HostNetwork(hosts, scale.free_mbit_per_s) as network, engine_on(engine, network, scale.timeout_s) as run:
            if model is None:
                model = calibrate(engine, run, hosts, scale, tell)
            for name in scale.topologies if hosts in scale.check_on else ():
                rows.extend(_bytes_rows(run, hosts, name, scale, model, tell))
    note = f"Calibrated on {scale.calibrate_on} hosts: {model}. Coefficients of other numbers of hosts are not fitted."
    columns = (
        "hosts", "topology", "scheduler", "bytes/tuple", "spread, %", "vs sorted, %", "vs random, %", "predicted",
        "error, %",
    )  # fmt: skip
    thesis = "Metis against Default on Payload with 10 hosts: −88 %."
    title = f"Real hosts: bytes between hosts per tuple ({engine})"
    return Table(f"real-bytes-{engine}", title, columns, tuple(rows), thesis, note)


def _bytes_rows(
    run: Run, hosts: int, name: str, scale: RealPlacementStudy, model: HopModel, tell: Tell
) -> list[tuple[Cell, ...]]:
    found: dict[str, list[float]] = {which: [] for which in SCHEDULERS}
    guesses: dict[str, list[float]] = {which: [] for which in SCHEDULERS}
    for repetition in range(scale.repetitions):
        flows = task_flows(build(Case(name, hosts, repetition)))
        for which in SCHEDULERS:
            tell(f"{hosts} hosts, {name}, {which}, run {repetition + 1}")
            part = place_flows(flows, hosts, which, repetition).part
            value, short, long = measured(run, flows, part, rate_for(flows, scale), scale.seconds)
            found[which].append(value)
            guesses[which].append(model.predicted(short, long, hosts))
    means = {which: float(np.mean(values)) for which, values in found.items()}
    rows: list[tuple[Cell, ...]] = []
    for which in SCHEDULERS:
        guess, values = float(np.mean(guesses[which])), found[which]
        rows.append(
            (
                hosts, name, which, means[which], _percent(max(values) - min(values) + means[which], means[which]),
                _percent(means[which], means["even-sorted"]), _percent(means[which], means["even-random"]),
                guess, _percent(guess, means[which]),
            )
        )  # fmt: skip
    return rows


def _percent(value: float, base: float) -> float | None:
    return 100 * (value / base - 1) if base > 0 else None


def throughput_table(scale: RealPlacementStudy, engine: Engine = "timely", tell: Tell = lambda _: None) -> Table:
    """A fixed number of tuples as fast as they go, over links from slow to fast."""
    hosts = scale.calibrate_on
    rows: list[tuple[Cell, ...]] = []
    for bandwidth in scale.bandwidths:
        with HostNetwork(hosts, bandwidth) as network, engine_on(engine, network, scale.timeout_s) as run:
            for name in scale.topologies:
                tell(f"{engine}: {bandwidth:g} Mbit/s, {name}")
                speed = {which: _speed(run, hosts, name, which, scale) for which in SCHEDULERS}
                for which, value in speed.items():
                    base = (speed["even-sorted"], speed["even-random"])
                    rows.append((name, bandwidth, which, value, value / base[0], value / base[1]))
    columns = ("topology", "Mbit/s", "scheduler", "tuples/s", "× sorted", "× random")
    title = f"Real hosts: throughput over bandwidth, {hosts} hosts ({engine})"
    note = "Shared cores: ratios in one run count, not the figures. Timely has no flow control within an epoch."
    return Table(f"real-throughput-{engine}", title, columns, tuple(rows), "one link only (1 Gbit/s).", note)


def _speed(run: Run, hosts: int, name: str, which: str, scale: RealPlacementStudy) -> float:
    speeds: list[float] = []
    for repetition in range(scale.repetitions):
        flows = task_flows(build(Case(name, hosts, repetition)))
        work = TaskWork.of(flows, place_flows(flows, hosts, which, repetition).part, 1e9, scale.burst)
        speeds.append(run(work).throughput)
    return float(np.median(speeds))


def real_tables(
    scale: RealPlacementStudy, engines: Sequence[Engine] = ("timely", "flink"), tell: Tell = lambda _: None
) -> list[Table]:
    """Bytes and throughput on every engine."""
    return [make(scale, engine, tell) for engine in engines for make in (bytes_table, throughput_table)]
