"""The REST client: timeouts, retries with backoff, typed responses, and errors that say what to do next."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from streamtune.dataflow.documents import DocumentError, in_whole_letters
from streamtune.engines.flink.access import Access, split_login
from streamtune.engines.flink.refusals import FlinkNotFoundError as FlinkNotFoundError
from streamtune.engines.flink.refusals import FlinkRefusedError as FlinkRefusedError
from streamtune.engines.flink.refusals import FlinkUnreachableError as FlinkUnreachableError
from streamtune.engines.flink.refusals import broken_off, is_of_flink, refusal, root_cause, shown
from streamtune.engines.flink.responses import (
    ENDED,
    Answer,
    Bounds,
    Checkpoints,
    Exceptions,
    FlinkGarbledError,
    JobConfig,
    JobDetails,
    JobList,
    JobStatus,
    JobSummary,
    Metric,
    Overview,
    Requirements,
    Savepoint,
    SavepointOperation,
    SavepointStatus,
    TaskManager,
    TaskManagers,
    VertexDetails,
    parse,
)
from streamtune.engines.flink.settings import check_address
from streamtune.errors import EngineError

_LONGEST_PAUSE_S = 10.0
_FORBIDDEN = (401, 403, 405)
# Each costs a call.
_ASKED_TASK_MANAGERS = 50


class FlinkClient:
    """Talks to one JobManager.

    Reads are retried ``retries`` times when the connection fails, times out or the server errs, with pauses that
    double from ``first_pause_s``. Writes are retried only where they are idempotent.
    ``calls`` counts requests, for measuring what polling costs.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = 10.0,
        retries: int = 4,
        first_pause_s: float = 0.25,
        sleep: Callable[[float], None] = time.sleep,
        access: Access | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        check_address(url)
        bare, login = split_login(url)
        self.url = bare.rstrip("/")
        access = access or Access.of()
        self._retries = retries
        self._first_pause_s = first_pause_s
        self._sleep = sleep
        try:
            self._http = httpx.Client(
                base_url=self.url,
                timeout=timeout_s,
                headers=access.headers,
                auth=login or access.login,
                verify=access.verify,
                transport=transport,
            )
        except httpx.InvalidURL as error:  # a host that no name can have
            raise EngineError(f"{self.url!r} is no address: {error}. Check --url") from error
        self.calls = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # What is read

    def overview(self) -> Overview:
        return self._read_as(Overview, "/overview")

    def jobs(self) -> tuple[JobSummary, ...]:
        return self._read_as(JobList, "/jobs/overview").jobs

    def job(self, job_id: str) -> JobDetails:
        return self._read_as(JobDetails, f"/jobs/{job_id}")

    def status(self, job_id: str) -> JobStatus:
        """The state alone; unlike the details it is always current."""
        return self._read_as(JobStatus, f"/jobs/{job_id}/status")

    def vertex(self, job_id: str, vertex_id: str) -> VertexDetails:
        return self._read_as(VertexDetails, f"/jobs/{job_id}/vertices/{vertex_id}")

    def vertex_metrics(self, job_id: str, vertex_id: str, names: Sequence[str], aggregates: str) -> dict[str, Metric]:
        """Metrics of a vertex over its subtasks; ``aggregates`` is a list such as ``max,sum``."""
        query = {"get": ",".join(names), "agg": aggregates}
        return self._metrics(f"/jobs/{job_id}/vertices/{vertex_id}/subtasks/metrics", query)

    def metric_names(self, job_id: str, vertex_id: str) -> tuple[str, ...]:
        entries = self._entries(f"/jobs/{job_id}/vertices/{vertex_id}/subtasks/metrics", None)
        return tuple(str(entry["id"]) for entry in entries if "id" in entry)

    def user_parameters(self, job_id: str) -> dict[str, str]:
        """What the job's program has published as its global parameters."""
        return dict(self._read_as(JobConfig, f"/jobs/{job_id}/config").execution_config.user_config)

    def cluster_options(self) -> dict[str, str]:
        entries = self._entries("/jobmanager/config", None)
        return {str(entry.get("key")): str(entry.get("value")) for entry in entries}

    def failure(self, job_id: str) -> str | None:
        """The first line of what made the job fail, if anything did."""
        found = self._read_as(Exceptions, f"/jobs/{job_id}/exceptions", {"maxExceptions": "1"}).history.entries
        text = found[0].stacktrace if found else None
        return root_cause(text) if text else None

    def resource_requirements(self, job_id: str) -> dict[str, Bounds]:
        """Bounds of every vertex; refused where the adaptive scheduler does not run the job."""
        found = self._read_as(Requirements, f"/jobs/{job_id}/resource-requirements").root
        return {key: one.parallelism for key, one in found.items()}

    def checkpoints(self, job_id: str) -> Checkpoints:
        """Counts and the last ones; refused where the job has no checkpoints."""
        return self._read_as(Checkpoints, f"/jobs/{job_id}/checkpoints")

    def slots_held(self, job_id: str) -> int:
        """Slots that TaskManagers keep for a job, those of its old tasks included; 0 where they cannot be asked."""
        try:
            managers = self._read_as(TaskManagers, "/taskmanagers").taskmanagers
            if len(managers) > _ASKED_TASK_MANAGERS:
                return 0
            asked = (self._read_as(TaskManager, f"/taskmanagers/{quote(one.id, safe=':')}") for one in managers)
            return sum(slot.job_id == job_id for one in asked for slot in one.allocated)
        except (FlinkRefusedError, FlinkGarbledError):
            return 0

    def task_manager_metrics(self, names: Sequence[str]) -> dict[str, float]:
        """The largest value of each metric over all TaskManagers; those that are not reported are left out."""
        found = self._metrics("/taskmanagers/metrics", {"get": ",".join(names), "agg": "max"})
        return {key: metric.maximum for key, metric in found.items() if math.isfinite(metric.maximum)}

    def savepoint(self, job_id: str, trigger: str) -> Savepoint:
        found = self._read_as(SavepointStatus, f"/jobs/{job_id}/savepoints/{trigger}")
        operation = found.operation or SavepointOperation()
        cause = operation.cause
        failure = None if cause is None else root_cause(cause.stack_trace or cause.kind or "")
        return Savepoint(state=found.status.id, location=operation.location, failure=failure)

    # What is changed

    def set_resource_requirements(self, job_id: str, bounds: Mapping[str, Bounds]) -> None:
        """Ask for a parallelism between bounds, for every vertex of the job."""
        body = {key: {"parallelism": {"lowerBound": one.lower, "upperBound": one.upper}} for key, one in bounds.items()}
        self._send("PUT", f"/jobs/{job_id}/resource-requirements", body=body, idempotent=True)

    def stop_with_savepoint(self, job_id: str, folder: str | None, *, trigger: str | None = None) -> str:
        """Begin to stop a job with a savepoint; returns the id of the trigger to poll, which may be given (32 hex)."""
        body: dict[str, Any] = {"drain": False}
        if trigger is not None:
            body["triggerId"] = trigger
        if folder is not None:
            body["targetDirectory"] = folder
        return self._text_field("POST", f"/jobs/{job_id}/stop", "request-id", body=body)

    def cancel(self, job_id: str) -> None:
        self._send("PATCH", f"/jobs/{job_id}?mode=cancel", idempotent=True)

    def upload_jar(self, path: Path) -> str:
        """Put a jar on the cluster; returns its id."""
        with path.open("rb") as file:
            content = {"jarfile": (path.name, file.read(), "application/x-java-archive")}
        return self._text_field("POST", "/jars/upload", "filename", files=content).rsplit("/", 1)[-1]

    def run_jar(
        self,
        jar_id: str,
        *,
        entry_class: str | None = None,
        arguments: Sequence[str] = (),
        savepoint: str | None = None,
        configuration: Mapping[str, str] | None = None,
        job_id: str | None = None,
    ) -> str:
        """Start the program of a jar; returns the id of the job. Flink takes a job of a given id once, never twice."""
        body: dict[str, Any] = {"programArgsList": list(arguments), "flinkConfiguration": dict(configuration or {})}
        if entry_class is not None:
            body["entryClass"] = entry_class
        if savepoint is not None:
            body["savepointPath"] = savepoint
        if job_id is not None:
            body["jobId"] = job_id
        try:
            # Planning a SQL job on a busy machine takes far longer than reading a number.
            return self._text_field("POST", f"/jars/{jar_id}/run", "jobid", body=body, timeout_s=180.0)
        except (FlinkUnreachableError, FlinkRefusedError) as error:
            # The answer may be lost and the job there all the same, or it was submitted just before, by a process that
            # was killed since: then Flink refuses it as a duplicate.
            same = [] if job_id is None else [job for job in self.jobs() if job.id == job_id]
            if not same or (isinstance(error, FlinkRefusedError) and same[0].state in ENDED):
                raise
            return same[0].id

    def read(self, path: str) -> Any:
        """The JSON document at a path, for what has no method of its own here."""
        return self._read(path)

    def is_let_through(self, method: str, path: str, body: Any) -> bool | None:
        """Whether a request reaches Flink, whose refusals are answers too; None where that cannot be told.

        Meant for requests that Flink has to refuse, to see what a proxy before it does.
        """
        answer = self._answer(method, path, None, body, None, None)
        if answer.is_redirect or answer.status_code in _FORBIDDEN:
            return False
        return True if is_of_flink(answer) else None

    # How

    def _read(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        return self._send("GET", path, query=query, idempotent=True)

    def _read_as(self, kind: type[Answer], path: str, query: Mapping[str, str] | None = None) -> Answer:
        return parse(kind, self._read(path, query), f"GET {self.url}{path}")

    def _metrics(self, path: str, query: Mapping[str, str]) -> dict[str, Metric]:
        metrics = (parse(Metric, entry, f"GET {self.url}{path}") for entry in self._entries(path, query))
        return {metric.id: metric for metric in metrics}

    def _entries(self, path: str, query: Mapping[str, str] | None) -> list[dict[str, Any]]:
        """A response that is a list of mappings."""
        payload = self._read(path, query)
        if not isinstance(payload, list):
            raise FlinkGarbledError(f"GET {self.url}{path}: expected a list, but got {shown(payload)}")
        return [entry for entry in payload if isinstance(entry, dict)]

    def _text_field(self, method: str, path: str, field: str, **options: Any) -> str:
        payload = self._send(method, path, **options)
        value = payload.get(field) if isinstance(payload, dict) else None
        if not isinstance(value, str):
            raise FlinkGarbledError(
                f"{method} {self.url}{path}: expected '{field}' in the answer, but got {shown(payload)}"
            )
        return value

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        files: Any = None,
        idempotent: bool = False,
        timeout_s: float | None = None,
    ) -> Any:
        attempts = 1 + (self._retries if idempotent else 0)
        pause_s = self._first_pause_s
        for attempt in range(1, attempts + 1):
            try:
                return self._send_once(method, path, query, body, files, timeout_s)
            except FlinkUnreachableError:
                if attempt == attempts:
                    raise
                self._sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        raise AssertionError("unreachable")

    def _send_once(
        self, method: str, path: str, query: Mapping[str, str] | None, body: Any, files: Any, timeout_s: float | None
    ) -> Any:
        answer = self._answer(method, path, query, body, files, timeout_s)
        if answer.is_redirect or answer.status_code >= 400:
            raise refusal(f"{method} {self.url}{path}", answer)
        if not answer.content:
            return {}
        try:
            text = answer.content.decode("utf-8")  # strictly, which json.loads of bytes is not
            return in_whole_letters(json.loads(text), text)
        except DocumentError as error:
            raise FlinkGarbledError(f"{method} {self.url}{path}: the answer {error}") from error
        except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, numbers or brackets without end
            raise FlinkGarbledError(
                f"{method} {self.url}{path}: expected JSON, but got {shown(answer.text)}. "
                "Check that the address is a Flink REST endpoint"
            ) from error

    def _answer(
        self, method: str, path: str, query: Mapping[str, str] | None, body: Any, files: Any, timeout_s: float | None
    ) -> httpx.Response:
        self.calls += 1
        try:
            return self._http.request(
                method,
                path,
                params=query,
                json=body,
                files=files,
                timeout=httpx.USE_CLIENT_DEFAULT if timeout_s is None else timeout_s,
            )
        except httpx.InvalidURL as error:  # an id with control characters, or thousands of letters
            raise FlinkGarbledError(f"{self.url}{path[:200]!r} is no address: {error}") from error
        except httpx.HTTPError as error:
            raise broken_off(self.url, path, error) from error
