"""Four jobs that nobody here wrote, through the cycle of ten rates: the foreign part of ``make bench-flink``.

StreamTune is attached to them as to anybody's job: their rates change behind its back, in a file that only their
generators read. The oracle is the least that serves: records per second × the time that one of them takes.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from foreign import make_jar

from streamtune.control.audit import AuditTrail
from streamtune.control.controller import Controller
from streamtune.control.guards import Guards
from streamtune.control.story import Change, Recorder, TuningStory
from streamtune.dataflow import Plan
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.flink import FlinkClient, FlinkEngine, FlinkSettings, RescaleSettings
from streamtune.errors import StreamTuneError
from streamtune.experiments.flink_jobs import LIMIT
from streamtune.labs.flink import FlinkDistribution
from streamtune.tuners import make_contestant
from streamtune.workloads import cycle

MICROS = 8000
# A wait takes about 0.07 ms longer than was asked for.
TAKEN_S = (MICROS + 70) / 1e6
# At no multiple of it is the heaviest vertex within 8 % of a whole number of instances.
BASE_PER_S = 57.0


@dataclass(frozen=True)
class Driven:
    """A foreign job whose rate is driven: W_u of ``orders``, and how many records per order reach what works."""

    kind: str
    base_per_s: float
    reach: Mapping[str, float]

    def least(self, multiple: float, plan: Plan) -> Plan:
        """The least plan that serves a multiple of W_u.

        >>> DRIVEN["foreign-union"].least(10, Plan({"orders": 1, "KeyedProcess": 1}))
        Plan({'orders': 1, 'KeyedProcess': 5})
        """
        per_s = multiple * self.base_per_s
        needs = {key: max(1, math.ceil(per_s * share * TAKEN_S)) for key, share in self.reach.items()}
        return Plan({key: needs.get(key, 1) for key in plan})


DRIVEN = {
    "foreign-fork": Driven("fork", BASE_PER_S, {"Map": 1.0, "audit": 0.02}),
    "foreign-union": Driven("union", BASE_PER_S / 1.5, {"KeyedProcess": 1.5}),
    "foreign-session": Driven("session", BASE_PER_S, {"Map": 1.0}),
    "foreign-single": Driven("single", BASE_PER_S, {"Map": 1.0}),
}
_COMPILING = threading.Lock()


@cache
def _jar() -> Path:
    return make_jar(FlinkDistribution.find(), Path(tempfile.mkdtemp(prefix="streamtune-foreign-")))


@contextmanager
def _running(client: FlinkClient, job: Driven, rate: Path) -> Iterator[str]:
    """The job with one instance of everything, once it has a checkpoint to come back from."""
    with _COMPILING:
        jar_id = client.upload_jar(_jar())
    job_id = client.run_jar(
        jar_id, entry_class="foreign.ForeignJobs", arguments=(job.kind, str(rate.resolve()), str(MICROS), "1")
    )
    try:
        for _ in range(90):
            if client.job(job_id).is_running and client.checkpoints(job_id).latest.completed is not None:
                break
            time.sleep(1.0)
        else:
            raise StreamTuneError(f"{job.kind} did not start")
        yield job_id
    finally:
        client.cancel(job_id)


def foreign_story(
    url: str, folder: Path, tuner: str, name: str, chosen: argparse.Namespace, window: MeasurementWindow
) -> Any:
    """One tuner through the cycle on one foreign job."""
    job, rate = DRIVEN[name], folder / f"{tuner}-{name}.rate"
    multiples = cycle()[: chosen.changes]
    rate.write_text(str(job.base_per_s))
    settings = FlinkSettings(start_timeout_s=120.0, fetch_patience_s=40.0, rescale=RescaleSettings(timeout_s=120.0))
    guards = Guards(max_reconfigurations=8, not_ready_patience=30, max_parallelism=LIMIT)
    recorder, changes = Recorder(), []
    with (
        FlinkClient(url, timeout_s=30.0) as client,
        AuditTrail(chosen.work / "audit" / f"{tuner}-{name}.jsonl") as trail,
        _running(client, job, rate) as job_id,
    ):
        engine = FlinkEngine(client, settings=settings)
        deployment = engine.attach(job_id)
        made = partial(make_contestant, tuner, model=chosen.model)(deployment.job)
        controller = Controller(engine, made, guards, window, trail, watch=recorder.take)
        for multiple in multiples:
            rate.write_text(str(multiple * job.base_per_s))
            trail.write("rates_changed", {"rates": {"orders": multiple * job.base_per_s}})
            time.sleep(window.settle_s)
            outcome = controller.tune(deployment)
            deployment = outcome.deployment
            changes.append(Change.of(outcome, job.least(multiple, deployment.plan)))
    return TuningStory.of(deployment.job, made, engine.capabilities.name, 0, changes, recorder.steps).model_dump(
        mode="json"
    )
