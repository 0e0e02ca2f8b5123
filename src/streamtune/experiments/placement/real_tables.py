"""Tables of what was measured on real hosts, with what the frozen model of a hop says beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from streamtune.experiments.placement.engine_check import simulated_bytes_per_tuple
from streamtune.experiments.placement.findings import Cell, Chart, Table
from streamtune.experiments.placement.hop_model import TIMELY_FROZEN, FlinkModel, HopModel
from streamtune.experiments.placement.journal import Journal, Key, Value
from streamtune.experiments.placement.real_design import (
    BLIND,
    BLIND_AGAIN,
    CALIBRATION,
    FITTED_REPETITIONS,
    FLINK_CALIBRATION,
    SCHEDULERS,
    THESIS,
)
from streamtune.experiments.placement.real_hosts import Engine, at_rate
from streamtune.labs.hosts.work import TaskWork
from streamtune.placement import Hosts, Problem
from streamtune.placement.fluid import FluidHosts, HostLimits, TaskFlows
from streamtune.placement.graph import Ints
from streamtune.placement.wire import HopCost

_CALIBRATED = tuple(design for design, _ in (*CALIBRATION, *FLINK_CALIBRATION))
_EVERY = {one.name: one for one in (*_CALIBRATED, *BLIND, *BLIND_AGAIN, *THESIS)}
# Below this many bytes a tuple what is left is heartbeats, and a relative error means nothing.
_LEAST_BYTES = 30.0
_NOTHING = 0.02
_SECONDS = 6.0


def _flows(key: Key, value: Value) -> tuple[TaskFlows, Ints]:
    """What ran: the flows at their rate, and the placement."""
    design = _EVERY[key["design"]]
    flows = at_rate(design.flows(int(key["hosts"]), int(key["repetition"])), float(value["rate"]))
    return flows, np.array(value["part"], dtype=np.int64)


def _work(key: Key, value: Value) -> TaskWork:
    flows, part = _flows(key, value)
    return TaskWork.of(flows, part, float(value["rate"]), max(4, round(float(value["rate"]) * _SECONDS)))


def _imbalance(key: Key, value: Value) -> float:
    """By tuples in and out, as the schedulers see it."""
    flows, part = _flows(key, value)
    return Problem(flows.graph(counted=True), Hosts.equal(int(key["hosts"]))).imbalance_of(part)


def predicted(key: Key, value: Value) -> float:
    """Bytes per tuple by the frozen model: the fluid simulator for Flink, the counts of messages for Timely."""
    flows, part = _flows(key, value)
    if key["engine"] == "flink":
        free = HostLimits(mbit_per_s=1e9, cores=1e6)
        return FluidHosts(flows, int(key["hosts"]), free, HopCost()).run(part).bytes_per_tuple
    return TIMELY_FROZEN.predicted(_work(key, value), int(key["hosts"]))


def calibration_table(journal: Journal, engine: Engine) -> Table:
    """How well the model fits what it was fitted to, and what a fit to this journal gives."""
    rows: list[tuple[Cell, ...]] = []
    terms, values = [], []
    model: HopModel = FlinkModel() if engine == "flink" else TIMELY_FROZEN
    for key, value in _fitted_to(journal, engine):
        terms.append(model.terms(_work(key, value), key["hosts"]))
        values.append(value["bytes_per_tuple"])
        guess = predicted(key, value)
        case = (key["hosts"], key["design"], key["scheduler"])
        rows.append((*case, values[-1], guess, _percent(guess, values[-1])))
    note = "nothing measured yet" if not values else f"A fit to these runs: {model.fitted(terms, values)}."
    columns = ("hosts", "design", "scheduler", "bytes/tuple", "frozen model", "error, %")
    title = f"Calibration of a hop ({engine}), {'four' if engine == 'flink' else 'two to four'} hosts"
    return Table(f"calibration-{engine}", title, columns, tuple(rows), "not in the thesis.", note)


def _fitted_to(journal: Journal, engine: Engine) -> list[tuple[Key, Value]]:
    """All that a model is fitted to; Flink's also to the first repetitions of the topologies on four hosts."""
    found = journal.matching(kind="calibration", engine=engine)
    if engine == "flink":
        ran = journal.matching(kind="thesis", engine=engine, hosts=4)
        found += [(key, value) for key, value in ran if key["repetition"] < FITTED_REPETITIONS]
    return [(key, value) for key, value in found if value["bytes_per_tuple"] > _LEAST_BYTES]


def blind_table(journal: Journal, engine: Engine, kind: str = "blind") -> Table:
    """Measured after the model was frozen, on more hosts than it was fitted to, with designs that it never saw."""
    rows: list[tuple[Cell, ...]] = []
    verdicts: list[str] = []
    for (hosts, design), entries in _grouped(journal.matching(kind=kind, engine=engine)):
        seen, guessed = {}, {}
        for key, value in entries:
            measured, guess = value["bytes_per_tuple"], predicted(key, value)
            seen[key["scheduler"]], guessed[key["scheduler"]] = measured, guess
            part = _flows(key, value)[1]
            whole = simulated_bytes_per_tuple(_EVERY[design], hosts, part, value["rate"]) if engine == "flink" else None
            rows.append(
                (
                    hosts, design, key["scheduler"], measured, guess, _error(guess, measured, seen),
                    whole, None if whole is None else _error(whole, measured, seen),
                )
            )  # fmt: skip
        verdicts.append(f"{design}: order of schedulers {'the same' if same_order(seen, guessed) else 'NOT the same'}")
    columns = (
        "hosts", "design", "scheduler", "bytes/tuple", "fluid model", "error, %", "simulator engine", "error, %",
    )  # fmt: skip
    seen_before = engine == "flink" and kind == "blind"
    title = (
        f"First blind check ({engine}), seen before today's model was made"
        if seen_before
        else f"Blind check ({engine})"
    )
    note = "; ".join(verdicts) + ". Below 2 % of the even schedule's bytes an error in percent means nothing: –."
    return Table(f"{kind}-{engine}", title, columns, tuple(rows), "not in the thesis.", note)


def bytes_table(journal: Journal, engine: Engine) -> Table:
    """The thesis' topologies: bytes per tuple with spread, against both even schedules, and what the graph predicts."""
    rows: list[tuple[Cell, ...]] = []
    for (hosts, design), entries in _grouped(journal.matching(kind="thesis", engine=engine)):
        found: dict[str, list[float]] = {which: [] for which in SCHEDULERS}
        guesses: dict[str, list[float]] = {which: [] for which in SCHEDULERS}
        imbalance = dict.fromkeys(SCHEDULERS, 1.0)
        for key, value in entries:
            imbalance[key["scheduler"]] = max(imbalance[key["scheduler"]], _imbalance(key, value))
            found[key["scheduler"]].append(value["bytes_per_tuple"])
            guesses[key["scheduler"]].append(predicted(key, value))
        means = {which: float(np.mean(values)) for which, values in found.items() if values}
        for which in (name for name in SCHEDULERS if name in means):
            values, guess = found[which], float(np.mean(guesses[which]))
            spread = max(values) - min(values)
            rows.append(
                (
                    hosts, design, which, imbalance[which], len(values), means[which], spread,
                    _percent(means[which], means.get("even-sorted")), _percent(means[which], means.get("even-random")),
                    guess, _error(guess, means[which], means),
                )
            )  # fmt: skip
    columns = (
        "hosts", "topology", "scheduler", "imbalance", "runs", "bytes/tuple", "max − min", "vs sorted, %",
        "vs random, %",
        "predicted", "error, %",
    )  # fmt: skip
    thesis = "Metis against Default on Payload with 10 hosts: −88 %."
    title = f"Real hosts: bytes between hosts per tuple ({engine})"
    return Table(f"real-bytes-{engine}", title, columns, tuple(rows), thesis)


def speed_table(journal: Journal, engine: Engine) -> Table:
    """Throughput over the bandwidth of the links, as fast as tuples go."""
    rows: list[tuple[Cell, ...]] = []
    charts: list[Chart] = []
    groups: dict[tuple[int, str], dict[float, dict[str, float]]] = {}
    for key, value in journal.matching(kind="speed", engine=engine):
        if value["tuples_per_s"] is None:  # faster than could be told
            continue
        curve = groups.setdefault((key["hosts"], key["design"]), {})
        curve.setdefault(key["mbit_per_s"], {})[key["scheduler"]] = value["tuples_per_s"]
    for (hosts, design), curve in groups.items():
        lines: dict[str, tuple[list[float], list[float]]] = {}
        for mbit, speeds in sorted(curve.items()):
            for which, speed in speeds.items():
                base = (speeds.get("even-sorted"), speeds.get("even-random"))
                rows.append((hosts, design, mbit, which, speed, *(None if not one else speed / one for one in base)))
                x, y = lines.setdefault(which, ([], []))
                x.append(mbit)
                y.append(speed)
        charts.append(Chart("Mbit/s", f"tuples/s, {design}, {hosts} hosts", lines, log_x=True, log_y=True))
    columns = ("hosts", "topology", "Mbit/s", "scheduler", "tuples/s", "× sorted", "× random")
    title = f"Real hosts: throughput over bandwidth ({engine})"
    note = "All hosts share two cores: the ratios count, not the figures; what runs locally is limited by those cores."
    return Table(f"real-speed-{engine}", title, columns, tuple(rows), "one link only (1 Gbit/s).", note, tuple(charts))


def same_order(measured: dict[str, float], guessed: dict[str, float], close: float = 0.03) -> bool:
    """Whether both order the schedulers alike; those whose measured bytes differ by less than ``close`` may swap.

    Below 2 % of the most there are heartbeats alone, as in the errors: they are equal too.

    >>> same_order({"a": 10, "b": 20, "c": 20.1}, {"a": 9, "b": 22, "c": 21})
    True
    >>> same_order({"a": 10, "b": 20}, {"a": 23, "b": 22})
    False
    """
    least = _NOTHING * max(measured.values(), default=0.0)
    for one, value in measured.items():
        for other, more in measured.items():
            apart = more > least and more - value > close * abs(more)
            if apart and guessed[one] >= guessed[other]:
                return False
    return True


def _grouped(entries: Iterable[tuple[Key, Value]]) -> Iterator[tuple[tuple[int, str], list[tuple[Key, Value]]]]:
    groups: dict[tuple[int, str], list[tuple[Key, Value]]] = {}
    for key, value in entries:
        groups.setdefault((int(key["hosts"]), str(key["design"])), []).append((key, value))
    yield from groups.items()


def _percent(value: float, base: float | None) -> float | None:
    return 100 * (value / base - 1) if base and base > 0 else None


def _error(guess: float, measured: float, seen: dict[str, float]) -> float | None:
    """In percent; None where next to nothing crosses and only noise is left."""
    return _percent(guess, measured) if measured > _NOTHING * max(seen.values()) else None
