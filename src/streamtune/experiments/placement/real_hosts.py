"""The study on real hosts: Timely and Flink over network namespaces, bytes read from the interfaces.

Bytes are measured at a fixed rate over links that do not limit it, as the slope between a short and a long run (what
starting a job sends drops out). Throughput is the slope too, of two numbers of tuples that are sent as fast as the
links let them. Everything goes into a journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from streamtune.experiments.placement.arena import place_flows
from streamtune.experiments.placement.journal import Journal, Value
from streamtune.experiments.placement.real_design import (
    BLIND,
    BLIND_AGAIN,
    CALIBRATION,
    FLINK_CALIBRATION,
    LINK_SCHEDULERS,
    SCHEDULERS,
    Design,
    RealPlacementStudy,
)
from streamtune.labs.hosts.network import HostNetwork
from streamtune.labs.hosts.run import HostRun
from streamtune.labs.hosts.work import TaskWork
from streamtune.placement.fluid import TaskFlows
from streamtune.placement.graph import Ints

Tell = Callable[[str], None]
Run = Callable[[TaskWork], HostRun]
Engine = Literal["timely", "flink"]
_UNLIMITED = 1e9
_MOST_TUPLES = 2_000_000


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


def rate_for(flows: TaskFlows, scale: RealPlacementStudy, slower: float = 1.0) -> float:
    """Tuples/s of the fastest spout that leave the machine idle for a good part: a full one measures itself."""
    relative = flows.wanted / flows.wanted.max()
    hops = relative @ flows.per_source
    most = min(scale.hops_per_s / float(hops.sum()), scale.bytes_per_s / float(hops @ flows.tuple_bytes))
    return min(scale.rate, most) * slower


def at_rate(flows: TaskFlows, rate: float) -> TaskFlows:
    """The same flows with sources that want this much; slower sources keep their proportion."""
    return replace(flows, wanted=flows.wanted / flows.wanted.max() * rate)


@dataclass
class RealLab:
    """Hosts with an engine on them that are started when the first thing has to be measured."""

    engine: Engine
    hosts: int
    scale: RealPlacementStudy
    journal: Journal
    tell: Tell

    @contextmanager
    def running(self) -> Iterator[tuple[HostNetwork, Run]]:
        with (
            HostNetwork(self.hosts, self.scale.free_mbit_per_s) as network,
            engine_on(self.engine, network, self.scale.timeout_s) as run,
        ):
            yield network, run

    def bytes_per_tuple(self, run: Run, flows: TaskFlows, part: Ints, rate: float) -> Value:
        """Bytes per emitted tuple as the slope between two runs."""
        scale = self.scale
        long = TaskWork.of(flows, part, rate, max(4, round(rate * scale.seconds)))
        short = TaskWork.of(flows, part, rate, max(1, round(rate * scale.seconds * scale.short_share)))
        first, second = run(short), run(long)
        emitted, seconds = second.emitted - first.emitted, second.seconds - first.seconds
        return {
            "bytes_per_tuple": (second.sent_bytes - first.sent_bytes) / emitted,
            "rate": rate,
            "emitted": emitted,
            "seconds": seconds,
            "part": part.tolist(),
        }

    def tuples_per_s(self, run: Run, flows: TaskFlows, part: Ints) -> Value:
        """Tuples/s of all sources as the slope between a probe and a run that takes seconds longer than it.

        Starting a job takes about a second and varies: a slope over less than ``curve_seconds`` would measure that.
        """
        scale = self.scale
        first = run(TaskWork.of(flows, part, _UNLIMITED, scale.probe))
        count = 4 * scale.probe
        while True:
            second = run(TaskWork.of(flows, part, _UNLIMITED, count))
            longer = second.seconds - first.seconds
            if longer >= scale.curve_seconds or count >= _MOST_TUPLES:
                break
            # Towards twice the time wanted, but never by more than 16 times at once: the first slopes are mostly noise.
            count = min(_MOST_TUPLES, round(count * min(16.0, max(2.0, 2 * scale.curve_seconds / max(longer, 0.01)))))
        speed = (second.emitted - first.emitted) / longer if longer >= scale.curve_seconds / 2 else None
        return {"tuples_per_s": speed, "emitted": second.emitted, "seconds": longer}


def _key(kind: str, lab: RealLab, design: str, which: str, repetition: int, **more: float) -> dict[str, object]:
    return {
        "kind": kind, "engine": lab.engine, "hosts": lab.hosts, "design": design, "scheduler": which,
        "repetition": repetition, **more,
    }  # fmt: skip


Cell = tuple[dict[str, object], Design, str, int, float | None]


def byte_cells(lab: RealLab, kind: str) -> list[Cell]:
    """The cells of a set of cases on the lab's hosts."""
    if kind == "calibration":
        cases = (*CALIBRATION, *(FLINK_CALIBRATION if lab.engine == "flink" else ()))
        return [(_key(kind, lab, one.name, which, 0), one, which, 0, None) for one, which in cases]
    repetitions = 1 if kind != "thesis" or lab.engine == "timely" else lab.scale.repetitions
    designs = {"blind": BLIND, "blind-again": BLIND_AGAIN}.get(kind, lab.scale.thesis(lab.engine))
    return [
        (_key(kind, lab, one.name, which, number), one, which, number, None)
        for number in range(repetitions)
        for one in designs
        for which in SCHEDULERS
    ]


def curve_cells(lab: RealLab) -> list[Cell]:
    """The cells of the throughput curve, bandwidth after bandwidth."""
    designs = [one for one in lab.scale.thesis(lab.engine) if one.name in lab.scale.curve_designs]
    most = None if lab.hosts <= lab.scale.calibrate_on else lab.scale.most_bandwidths
    return [
        (_key("speed", lab, one.name, which, 0, mbit_per_s=mbit), one, which, 0, mbit)
        for one in designs
        for mbit in lab.scale.bandwidths[:most]
        for which in (*SCHEDULERS, *LINK_SCHEDULERS.get(one.name, ()))
    ]


def measure(lab: RealLab, cells: list[Cell]) -> None:
    """Everything of these cells that the journal does not have yet."""
    missing = [cell for cell in cells if lab.journal.get(cell[0]) is None]
    if not missing:
        return
    lab.journal.check_time()
    with lab.running() as (network, run):
        for key, design, which, repetition, mbit in missing:
            lab.tell(" ".join(str(value) for value in key.values()))
            flows = design.flows(lab.hosts, repetition)
            rate = rate_for(flows, lab.scale, design.slower)
            part = place_flows(at_rate(flows, rate), lab.hosts, which, design.seed + repetition).part
            if mbit is not None and network.mbit_per_s != mbit:
                network.limit(mbit)

            if mbit is None:
                lab.journal.measured(key, partial(lab.bytes_per_tuple, run, flows, part, rate))
            else:
                lab.journal.measured(key, partial(lab.tuples_per_s, run, flows, part))
