"""Measures a configuration of a streaming application: one warm session, a new checkpoint, a baseline beside it.

What PLATFORM.md found, and what is made of it:

- *A cold JVM lies* (77 and later 215 k rows per CPU second for the same configuration): one session is kept for all
  trials, and the baseline is run a few times, unmeasured, before the first one.
- *Machines drift*: the baseline (the space's defaults) is run again next to every ``baseline_every``-th trial, and the
  value of a trial is its throughput divided by the median of the last baselines: 2.8 means 2.8 × the defaults.
- *Old checkpoints pin settings* silently (shuffle partitions, the state store): every run has a new one.
- A run is stopped once its rows/s fall below ``objective.hopeless`` of the best so far (of this process: after a resume
  the first run sets it anew): what it reached is its result.
- Settings that Spark cannot change in a session (``spark.conf.isModifiable``) get a new, warmed session (in the same
  JVM). Baselines always have the defaults of these too, and are kept across such a restart.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import Field

from streamtune.autoconfig.objective import check_throughput, required
from streamtune.autoconfig.problem import Problem, written
from streamtune.autoconfig.space import Configuration, Value
from streamtune.autoconfig.spark.application import Application, load_application
from streamtune.autoconfig.trial import Measurement
from streamtune.errors import StreamTuneError
from streamtune.frozen import Frozen

_POLL_S = 0.05
_LEAST_BATCHES = 4
_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


class SparkTarget(Frozen):
    """How runs are made."""

    master: str = Field(default="local[*]", description="Spark master.")
    warm_up: int = Field(default=2, ge=0, description="Unmeasured runs of the baseline in a new session.")
    baseline_every: int = Field(default=2, ge=1, description="Trials per run of the baseline.")
    remembered: int = Field(default=3, ge=1, description="Baselines whose median a trial is compared with.")
    conf: dict[str, str] = Field(default_factory=dict, description="Properties of every session.")


@dataclass(frozen=True)
class Throughput:
    """One query that read all its input: rows and seconds from its own progress reports."""

    rows: int
    seconds: float
    batches: int
    stopped: bool = False
    """Before its end, since it was hopeless."""

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.seconds if self.seconds > 0 else 0.0


def seen_in(reports: Iterable[Mapping[str, Any]]) -> Throughput:
    """What a query's progress reports say, of batches with rows alone."""
    with_rows = [report for report in reports if report["numInputRows"] > 0]
    rows = sum(int(report["numInputRows"]) for report in with_rows)
    seconds = sum(float(report["durationMs"]["triggerExecution"]) for report in with_rows) / 1000.0
    return Throughput(rows, seconds, len(with_rows))


def is_hopeless_run(reports: Sequence[Mapping[str, Any]], least_rows_per_s: float) -> bool:
    """Whether to stop a run: it has had enough batches, and even without the first, which starts slowly, too few rows.

    >>> def batch(rows: int) -> dict[str, object]:
    ...     return {"numInputRows": rows, "durationMs": {"triggerExecution": 1000}}
    >>> slow_start = [batch(1), *[batch(100)] * 3]
    >>> [is_hopeless_run(slow_start[:count], 90.0) for count in (1, 3, 4)], is_hopeless_run(slow_start, 110.0)
    ([False, False, False], True)
    """
    with_rows = [report for report in reports if report["numInputRows"] > 0]
    return len(with_rows) >= _LEAST_BATCHES and seen_in(with_rows[1:]).rows_per_s < least_rows_per_s


class SparkObjective:
    """An ``Objective`` over one application. Values are ratios to the baseline; figures have rows/s."""

    def __init__(
        self, problem: Problem, application: Application, folder: Path, settings: SparkTarget, session: Any = None
    ) -> None:
        check_throughput(problem, "a Spark application")
        self._problem = problem
        self._application = application
        self._folder = folder
        self._settings = settings
        self._spark = session
        self._owned = session is None
        self._static: dict[str, str] = {}
        self._baselines: deque[float] = deque(maxlen=settings.remembered)
        self._best = 0.0
        self._runs = 0
        self._count = 0

    # -- Objective --------------------------------------------------------------------------------------------------

    def measure(self, number: int, repeat: int, knobs: Configuration) -> Measurement:
        start = time.monotonic()
        try:
            if self._spark is None:
                self._start(self._properties(self._problem.space.filled(self._baseline)))
                start = time.monotonic()  # what a session takes to start and warm up is not the trial's
            if self._count % self._settings.baseline_every == 0 or not self._baselines:
                self._baselines.append(self._run(self._baseline, f"baseline-{number}-{repeat}").rows_per_s)
            baseline = median(self._baselines)  # before the trial, which may end the session these belong to
            least = (self._problem.objective.hopeless or 0.0) * self._best * baseline
            seen = self._run(knobs, f"trial-{number}-{repeat}", least)
        except StreamTuneError:
            raise
        except Exception as error:  # whatever a configuration breaks is the configuration's result
            self._forget_dead_session()
            reason = f"{type(error).__name__}: {str(error).splitlines()[0][:300] if str(error) else ''}"
            return Measurement(failed=True, reason=reason, seconds=time.monotonic() - start)
        finally:
            self._count += 1
        seconds = time.monotonic() - start
        if seen.rows == 0 or baseline <= 0:
            return Measurement(failed=True, reason="the query read no rows", seconds=seconds)
        figures = {"rows_per_s": seen.rows_per_s, "baseline_rows_per_s": baseline, "batches": float(seen.batches)}
        if seen.stopped:
            figures["stopped_early"] = 1.0
        measured = required(
            Measurement(value=seen.rows_per_s / baseline, seconds=seconds, figures=figures), self._problem.objective
        )
        if not measured.failed:
            self._best = max(self._best, seen.rows_per_s / baseline)
        return measured

    def rows_per_s(self, knobs: Configuration) -> float:
        """One run without a baseline beside it, for comparisons that interleave their own; 0 where it fails."""
        try:
            return self._run(knobs, "alone").rows_per_s
        except StreamTuneError:
            raise
        except Exception:
            self._forget_dead_session()
            return 0.0

    def restore(self, knobs: Configuration) -> None:
        """Nothing keeps running between trials: the next one deploys anew."""

    def close(self) -> None:
        if self._spark is not None and self._owned:
            self._spark.stop()
        self._spark = None

    # -- one run ----------------------------------------------------------------------------------------------------

    @property
    def _baseline(self) -> Configuration:
        return self._problem.space.active(self._problem.space.defaults)

    def _run(self, knobs: Configuration, name: str, least_rows_per_s: float = 0.0) -> Throughput:
        full = self._problem.space.filled(knobs)
        spark = self._session(full)
        checkpoint = self._folder / "checkpoints" / f"{name}-{self._runs}"
        self._runs += 1
        shutil.rmtree(checkpoint, ignore_errors=True)
        try:
            writer = self._application.query(spark, full)
            query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
            return self._wait(query, least_rows_per_s)
        finally:
            shutil.rmtree(checkpoint, ignore_errors=True)

    def _wait(self, query: Any, least_rows_per_s: float = 0.0) -> Throughput:
        limit = self._problem.objective.timeout
        deadline = None if limit is None else time.monotonic() + limit
        reports: dict[int, Any] = {}
        stopped = False
        try:
            while True:
                alive = query.isActive
                reports.update({report["batchId"]: report for report in query.recentProgress})
                stopped = alive and is_hopeless_run(list(reports.values()), least_rows_per_s)
                if stopped or not alive:
                    break
                if deadline is not None and time.monotonic() > deadline:
                    raise TimeoutError(f"no result within {limit:g} s")
                query.awaitTermination(_POLL_S)
        finally:
            if query.isActive:
                query.stop()
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        return replace(seen_in(reports.values()), stopped=stopped)

    # -- sessions ---------------------------------------------------------------------------------------------------

    def _properties(self, knobs: Mapping[str, Value]) -> dict[str, str]:
        space = self._problem.space
        return {
            knob.key: f"{written(knobs[name])}{knob.unit}" for name, knob in space.knobs.items() if knob.key is not None
        }

    def _session(self, knobs: Mapping[str, Value]) -> Any:
        wanted = self._properties(knobs)
        if self._spark is None:
            self._start(wanted)
        static = {key: value for key, value in wanted.items() if not self._spark.conf.isModifiable(key)}
        if static and static != self._static and self._owned:
            self._spark.stop()
            self._start(wanted)
        self._static = static
        for key, value in wanted.items():
            if key not in static:
                self._spark.conf.set(key, value)
        return self._spark

    def _start(self, properties: Mapping[str, str]) -> None:
        """A new session: input prepared, warmed by the baseline."""
        self._spark = build_session(self._settings, properties)
        self._static = {key: value for key, value in properties.items() if not self._spark.conf.isModifiable(key)}
        if self._application.prepare is not None:
            self._application.prepare(self._spark)
        warm = self._problem.space.filled(self._baseline)
        for key, value in self._properties(warm).items():
            if self._spark.conf.isModifiable(key):
                self._spark.conf.set(key, value)
        for place in range(self._settings.warm_up):
            checkpoint = self._folder / "checkpoints" / f"warm-{self._runs}-{place}"
            writer = self._application.query(self._spark, warm)
            query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
            try:
                self._wait(query)
            finally:
                shutil.rmtree(checkpoint, ignore_errors=True)

    def _forget_dead_session(self) -> None:
        """After a configuration that took the JVM down: the next trial starts a new one."""
        try:
            alive = self._spark is not None and not self._spark.sparkContext._jsc.sc().isStopped()
        except Exception:
            alive = False
        if not alive:
            self._spark = None
            self._baselines.clear()  # another JVM, warmed anew, may be faster or slower


def build_session(settings: SparkTarget, properties: Mapping[str, str]) -> Any:
    """A session whose Python workers run this interpreter."""
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise StreamTuneError("pyspark is not installed: pip install 'streamtune[spark]'") from error
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(settings.master).appName("streamtune-autoconfig")
    for key, value in {**_QUIET, **settings.conf, **properties}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def spark_objective(
    problem: Problem, path: Path, store: Path, settings: SparkTarget | None = None, session: Any = None
) -> Iterator[SparkObjective]:
    """The objective of ``--spark-app``; the session is stopped at the end."""
    objective = SparkObjective(problem, load_application(path), store.resolve(), settings or SparkTarget(), session)
    try:
        yield objective
    finally:
        objective.close()
