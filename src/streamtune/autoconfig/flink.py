"""Measures a configuration of a Flink job over REST: run the jar with it, count records at the sources, cancel.

Settings of a job (``parallelism.default``, ``execution.*``, ``pipeline.*``, ``table.*``) go with the submission
(``flinkConfiguration`` of ``POST /jars/:id/run``); settings of the cluster (``taskmanager.*``) cannot, and are refused.
Rates are differences of counters after a warm-up: Flink's per-second metrics are slow averages (PLATFORM.md).

What a vertex reports about its time gives readings; those of the busiest one stand for the job, so that ``ours`` knows
which parallelism would be just about busy.

The id of a job is in the store before it is submitted: one that outlived a killed session is cancelled before the
next is measured.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from pydantic import Field

from streamtune.autoconfig.journal import make_folder
from streamtune.autoconfig.objective import check_throughput, required
from streamtune.autoconfig.problem import Problem, written
from streamtune.autoconfig.space import Configuration
from streamtune.autoconfig.supervisor import read_json, write_whole
from streamtune.autoconfig.trial import Measurement, OperatorReading
from streamtune.errors import EngineError, StreamTuneError
from streamtune.frozen import Frozen

_CLUSTER_PREFIXES = ("taskmanager.", "jobmanager.", "cluster.")
_PARALLELISM = "parallelism.default"
_LEFT = "flink-job.json"
# Asked for metrics older than 10 s (by default), the JobManager fetches new ones, and answers with the old.
_POLL_S = 0.25
_PATIENCE_S = 25.0
_COUNTERS = (
    "read-records",
    "write-records",
    "accumulated-busy-time",
    "accumulated-idle-time",
    "accumulated-backpressured-time",
)
_ENDED = frozenset({"FAILED", "CANCELED", "FINISHED"})


class FlinkTarget(Frozen):
    """What is run, and how long it is looked at."""

    url: str = Field(description="REST address of the JobManager.")
    jar: str = Field(description="A jar file, or the id of one that was uploaded.")
    entry_class: str | None = Field(default=None, description="Main class; default: the jar's own.")
    arguments: tuple[str, ...] = Field(default=(), description="Arguments of the program.")
    start_s: float = Field(default=60.0, gt=0, description="Seconds until the job must run.")
    warm_up_s: float = Field(default=20.0, ge=0, description="Seconds before counting begins.")
    window_s: float = Field(default=30.0, gt=0, description="Seconds of counting.")


class FlinkObjective:
    """An ``Objective``: records/s that leave the sources."""

    def __init__(
        self,
        problem: Problem,
        settings: FlinkTarget,
        *,
        store: Path | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not settings.url.startswith(("http://", "https://")):
            raise EngineError(f"--url must start with http:// or https://, but got '{settings.url}'")
        check_throughput(problem, "a Flink job")
        _check_settings(problem, settings)
        self._left = None if store is None else store / _LEFT
        self._problem = problem
        self._settings = settings
        self._sleep = sleep
        self._clock = clock
        self._http = httpx.Client(base_url=settings.url.rstrip("/"), timeout=30.0, transport=transport)
        self._jar: str | None = None

    def close(self) -> None:
        self._http.close()

    def measure(self, number: int, repeat: int, knobs: Configuration) -> Measurement:
        del number, repeat
        start = self._clock()
        job: str | None = None
        try:
            self._end_leftover()
            self._check_slots(knobs)
            job = uuid.uuid4().hex
            self._remember(job)
            self._submit(job, knobs)
            self._await_running(job)
            self._sleep(self._settings.warm_up_s)
            first, began = self._fresh_vertices(job)
            self._sleep(self._settings.window_s)
            second, ended = self._fresh_vertices(job)
            seen = _counted(first, second, ended - began, self._clock() - start)
            return required(self._with_job(seen, knobs), self._problem.objective)
        except (EngineError, httpx.HTTPError, KeyError, ValueError) as error:
            reason = f"{type(error).__name__}: {str(error)[:300]}"
            return Measurement(failed=True, reason=reason, seconds=self._clock() - start)
        finally:
            if job is not None:
                self._cancel(job)
                self._remember(None)

    def restore(self, knobs: Configuration) -> None:
        """Every trial is a job of its own that is cancelled: nothing is left to put back."""

    def _call(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        answer = self._http.request(method, path, **arguments)
        if answer.status_code >= 400:
            raise EngineError(f"Flink refused {method} {path}: {answer.text[:300]}")
        data = answer.json() if answer.content else {}
        return data if isinstance(data, dict) else {}

    def _remember(self, job: str | None) -> None:
        if self._left is None:
            return
        if job is None:
            self._left.unlink(missing_ok=True)
        else:
            make_folder(self._left.parent)
            write_whole(self._left, {"job": job})

    def _end_leftover(self) -> None:
        """Cancel what a killed session left running: beside it nothing can be measured."""
        left = None if self._left is None else read_json(self._left)
        if left is not None:
            self._cancel(str(left.get("job")))
            self._remember(None)

    def _check_slots(self, knobs: Configuration) -> None:
        """More instances than the cluster has slots for would wait for them until the time is up."""
        wanted = self._parallelism(knobs)
        slots = int(self._call("GET", "/overview").get("slots-total") or 0)
        if wanted is not None and 0 < slots < wanted:
            raise EngineError(f"parallelism {wanted} needs more than the cluster's {slots} slots")

    def _parallelism(self, knobs: Configuration) -> int | None:
        space = self._problem.space
        return next((int(value) for name, value in knobs.items() if space.knobs[name].key == _PARALLELISM), None)

    def _with_job(self, seen: Measurement, knobs: Configuration) -> Measurement:
        """With a reading of the whole job, under the operator that the parallelism knob names: its busiest vertex."""
        name = next((k.operator for k in self._problem.space.knobs.values() if k.key == _PARALLELISM), None)
        wanted = self._parallelism(knobs)
        alike = [one for one in seen.operators.values() if one.parallelism == wanted]
        if name is None or not alike or name in seen.operators:
            return seen
        busiest = max(alike, key=lambda one: one.busy)
        return seen.model_copy(update={"operators": {**seen.operators, name: busiest}})

    def _submit(self, job: str, knobs: Configuration) -> None:
        if self._jar is None:
            self._jar = self._upload()
        options = {
            knob.key: f"{written(value)}{knob.unit}"
            for name, value in knobs.items()
            if (knob := self._problem.space.knobs[name]).key
        }
        arguments = list(self._settings.arguments)
        body: dict[str, Any] = {"jobId": job, "programArgsList": arguments, "flinkConfiguration": options}
        if (parallelism := self._parallelism(knobs)) is not None:
            body["parallelism"] = parallelism  # Flink takes this, or 1, before the configuration's
        if self._settings.entry_class is not None:
            body["entryClass"] = self._settings.entry_class
        self._call("POST", f"/jars/{self._jar}/run", json=body)

    def _upload(self) -> str:
        path = Path(self._settings.jar)
        if not path.is_file():
            return self._settings.jar
        with path.open("rb") as file:
            files = {"jarfile": (path.name, file, "application/x-java-archive")}
            answer = self._call("POST", "/jars/upload", files=files)
        return str(answer["filename"]).rpartition("/")[2]

    def _await_running(self, job: str) -> None:
        limit = self._problem.objective.timeout
        look = self._settings.warm_up_s + self._settings.window_s
        patience = self._settings.start_s if limit is None else min(self._settings.start_s, limit - look)
        deadline = self._clock() + patience
        while True:
            vertices = self._call("GET", f"/jobs/{job}")
            if vertices.get("state") in _ENDED:
                raise EngineError(f"the job went to {vertices['state']}")
            states = {vertex.get("status") for vertex in vertices.get("vertices", [])}
            if states == {"RUNNING"}:
                return
            if self._clock() > deadline:
                raise EngineError(f"the job does not run after {patience:g} s")
            self._sleep(1.0)

    def _fresh_vertices(self, job: str) -> tuple[dict[str, dict[str, Any]], float]:
        """Counters that were fetched just now, and when they came; the old ones where none change."""
        old = self._vertices(job)
        deadline = self._clock() + _PATIENCE_S
        while True:
            self._sleep(_POLL_S)
            seen = self._vertices(job)
            if _counters(seen) != _counters(old) or self._clock() > deadline:
                return seen, self._clock()

    def _vertices(self, job: str) -> dict[str, dict[str, Any]]:
        details = self._call("GET", f"/jobs/{job}")
        if details.get("state") != "RUNNING":
            raise EngineError(f"the job went to {details.get('state')} while it was measured")
        plan = {node["id"]: node.get("inputs", []) for node in details["plan"]["nodes"]}
        return {vertex["id"]: {**vertex, "is_source": not plan.get(vertex["id"])} for vertex in details["vertices"]}

    def _cancel(self, job: str) -> None:
        """End the job and wait for it: two at once would share the slots."""
        try:
            self._call("PATCH", f"/jobs/{job}", params={"mode": "cancel"})
            deadline = self._clock() + self._settings.start_s
            while self._clock() < deadline:
                if self._call("GET", f"/jobs/{job}").get("state") in _ENDED:
                    return
                self._sleep(0.5)
        except (EngineError, httpx.HTTPError, ValueError):
            return  # it may have ended by itself; the next submission fails if it has not


def _check_settings(problem: Problem, settings: FlinkTarget) -> None:
    """:raises StreamTuneError: for what could not be heeded: settings of the cluster, a timeout below one look."""
    for name, knob in problem.space.knobs.items():
        if knob.key and knob.key.startswith(_CLUSTER_PREFIXES):
            raise StreamTuneError(
                f"knob '{name}' is {knob.key}, a setting of the cluster that no job can bring with it: leave it out"
            )
    limit, look = problem.objective.timeout, settings.warm_up_s + settings.window_s
    if limit is not None and limit <= look:
        raise StreamTuneError(f"objective.timeout is {limit:g} s, but warm-up and window take {look:g} s: raise it")


def _counters(vertices: Mapping[str, Mapping[str, Any]]) -> list[list[Any]]:
    return [[vertex["metrics"].get(name) for name in _COUNTERS] for vertex in vertices.values()]


def _counted(
    first: Mapping[str, Mapping[str, Any]], second: Mapping[str, Mapping[str, Any]], seconds: float, took: float
) -> Measurement:
    """Records/s out of the sources between two looks, and readings of every vertex."""
    rate, operators = 0.0, {}
    for key, vertex in second.items():
        before, after = first[key]["metrics"], vertex["metrics"]
        out = (float(after["write-records"]) - float(before["write-records"])) / seconds
        into = (float(after["read-records"]) - float(before["read-records"])) / seconds
        rate += out if vertex["is_source"] else 0.0
        times = [float(after.get(name) or 0) - float(before.get(name) or 0) for name in _COUNTERS[2:]]
        if sum(times) > 0:
            operators[str(vertex["name"])] = OperatorReading(
                rate=max(0.0, out if vertex["is_source"] else into),
                busy=max(0.0, times[0] / sum(times)),
                parallelism=int(vertex["parallelism"]),
            )
    if rate <= 0:
        return Measurement(failed=True, reason="no record left the sources", seconds=took)
    return Measurement(value=rate, seconds=took, operators=operators)


@contextmanager
def flink_objective(problem: Problem, settings: FlinkTarget, store: Path) -> Iterator[FlinkObjective]:
    """The objective of ``--engine flink``."""
    objective = FlinkObjective(problem, settings, store=store)
    try:
        yield objective
    finally:
        objective.close()
