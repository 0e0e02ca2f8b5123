"""Proactive against reactive on a real Flink: contenders side by side on one cluster, each through the same day."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamtune.control.audit import AuditTrail
from streamtune.control.controller import Controller
from streamtune.control.guards import Guards
from streamtune.control.supervisor import Supervisor
from streamtune.engines.base import Deployment, MeasurementWindow
from streamtune.engines.flink import FlinkClient, FlinkEngine
from streamtune.engines.flink.published import RATES_PARAMETER, write_rates
from streamtune.errors import EngineError, StreamTuneError
from streamtune.experiments.flink_instruments import records_at_sink
from streamtune.experiments.flink_jobs import engine_on, small_cluster
from streamtune.experiments.provisioning.compressed import CompressedDay, CompressedStudy
from streamtune.experiments.provisioning.days import Setting
from streamtune.experiments.provisioning.flink_books import FlinkBooks

_WARM_UP_S = 15.0  # until there are metrics and a checkpoint
_LOOK_EVERY_S = 1.0
_STARTED_AT_ONCE = 3


@dataclass(frozen=True)
class Contender:
    """Who tunes, by the name in the table."""

    name: str
    setting: Setting


@dataclass(frozen=True)
class Lane:
    """One contender on one day."""

    day: CompressedDay
    contender: Contender


@dataclass
class _Running:
    """A lane's job while it lives."""

    lane: Lane
    engine: FlinkEngine
    deployment: Deployment
    rates_file: Path
    books: FlinkBooks
    records: float = 0.0  # at the sink, when the day began, and the time it was read
    records_s: float = 0.0
    error: Exception | None = None


def run_lanes(
    lanes: Sequence[Lane], study: CompressedStudy, progress: Callable[[str], None], audits: Path | None = None
) -> list[dict[str, Any]]:
    """All lanes at once on a cluster of their own, from a common first to a common last second."""
    with (
        small_cluster(len(lanes)) as cluster,
        tempfile.TemporaryDirectory() as folder,
        ExitStack() as engines,
        FlinkClient(cluster.url, timeout_s=30.0) as client,
    ):

        def started(lane: Lane) -> _Running:
            engine = engines.enter_context(engine_on(cluster.url, Path(folder), lane.day.spec, mode="live"))
            return _start(lane, engine)

        with ThreadPoolExecutor(_STARTED_AT_ONCE) as pool:
            running = list(pool.map(started, lanes))
        progress(f"{len(running)} jobs run; the day begins in {_WARM_UP_S:.0f} s and lasts {study.day_s:.0f} s")
        time.sleep(_WARM_UP_S)
        _note_records(running)
        begun_s = _live(running, study, client, audits)
        rows = [_row(one, study, begun_s) for one in running]
        for one in running:
            with suppress(StreamTuneError):
                one.engine.stop(one.deployment)
    return rows


def _start(lane: Lane, engine: FlinkEngine) -> _Running:
    day = lane.day
    job = day.spec.with_rates(day.offered(float(day.rates[0]))).job
    deployment = engine.deploy(job, day.starting_plan())
    job_id = engine.job_id(deployment)
    rates_file = Path(engine.client.user_parameters(job_id)[RATES_PARAMETER])
    vertex_of = engine.imported(deployment).vertex_of
    tuned = frozenset(vertex_of[one.id] for one in job.dataflow.operators if not one.is_source)
    return _Running(lane, engine, deployment, rates_file, FlinkBooks(tuned))


def _note_records(running: Sequence[_Running]) -> None:
    for one in running:
        one.records, one.records_s = records_at_sink(one.engine, one.deployment), time.monotonic()


def _live(running: Sequence[_Running], study: CompressedStudy, client: FlinkClient, audits: Path | None) -> float:
    """Rates, looks and tuners, each in a thread of its own; returns when the day began, once it is over."""
    begun_s = time.monotonic()
    over = threading.Event()
    threads = [
        threading.Thread(target=_offer, args=(running, study, begun_s, over), name="rates"),
        threading.Thread(target=_look, args=(running, client, over), name="books"),
        *(threading.Thread(target=_supervise, args=(one, study, audits), name="tuner") for one in running),
    ]
    for thread in threads:
        thread.start()
    time.sleep(max(0.0, begun_s + study.day_s - time.monotonic()))
    over.set()
    for thread in threads:
        thread.join()
    return begun_s


def _offer(running: Sequence[_Running], study: CompressedStudy, begun_s: float, over: threading.Event) -> None:
    """Every job is offered the rate of its epoch as it begins."""
    for epoch in range(1, round(study.day_s / study.step_s)):
        if over.wait(max(0.0, begun_s + epoch * study.step_s - time.monotonic())):
            return
        for one in running:
            write_rates(one.rates_file, one.lane.day.offered(float(one.lane.day.rates[epoch])))


def _look(running: Sequence[_Running], client: FlinkClient, over: threading.Event) -> None:
    while True:
        began_s = time.monotonic()
        for one in running:
            with suppress(EngineError):  # the time until the next answer is judged by that
                one.books.take(client.job(one.engine.job_id(one.deployment)), time.monotonic())
        if over.wait(max(0.05, began_s + _LOOK_EVERY_S - time.monotonic())):
            return


def _supervise(one: _Running, study: CompressedStudy, audits: Path | None) -> None:
    """The product's own supervisor, for as long as the day lasts."""
    lane = one.lane
    window = MeasurementWindow(settle_s=study.settle_s, length_s=study.window_s)
    guards = Guards(max_reconfigurations=3, not_ready_patience=30)
    file = None if audits is None else audits / f"{lane.day.trace}-{lane.contender.name.replace(' ', '-')}.jsonl"
    try:
        with AuditTrail(file) as trail:
            tuner = lane.day.tuner(lane.contender.setting, study)
            supervisor = Supervisor(study.supervision)
            job = supervisor.add(Controller(one.engine, tuner, guards, window, trail), one.deployment)
            supervisor.run()
            one.deployment, one.error = job.deployment, job.error
    except Exception as error:  # a thread's own would be lost
        one.error = error


def _row(one: _Running, study: CompressedStudy, begun_s: float) -> dict[str, Any]:
    books, lane = one.books, one.lane
    if one.error is None:
        seen, at_s = records_at_sink(one.engine, one.deployment), time.monotonic()
        offered = _offered_between(lane.day, study, one.records_s - begun_s, at_s - begun_s)
        served = (seen - one.records) / offered
    return {
        "trace": lane.day.trace,
        "method": lane.contender.name,
        "setting": lane.contender.setting.__dict__,
        "forecaster": lane.day.forecaster,
        "seconds": books.seconds,
        "backpressured_s": books.backpressured_s,
        "down_s": books.down_s,
        "hours": books.instance_s / 3600,
        "changes": books.changes,
        "served": served if one.error is None else None,
        "error": None if one.error is None else str(one.error),
    }


def _offered_between(day: CompressedDay, study: CompressedStudy, first_s: float, last_s: float) -> float:
    """Records that the sources were offered; the first and the last rate hold before and after the day."""
    total = float(day.rates.sum()) * study.step_s
    before, after = max(0.0, -first_s), max(0.0, last_s - study.day_s)
    return total + float(day.rates[0]) * before + float(day.rates[-1]) * after
