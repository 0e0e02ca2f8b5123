"""What must be in order before a job is rescaled, asked in the first second instead of found out on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from streamtune.engines.base import RescaleRefusedError
from streamtune.engines.flink.client import FlinkClient, FlinkRefusedError, FlinkUnreachableError
from streamtune.engines.flink.plan import slots_needed
from streamtune.engines.flink.responses import Checkpoints, FlinkGarbledError, JobDetails
from streamtune.engines.flink.settings import RescaleSettings
from streamtune.errors import EngineError

Verdict = Literal["ok", "warning", "failed"]
# Checkpoints that are due before all tasks run are declined: on a busy cluster that is no sign of anything.
_FAILED_AT_THE_START = 3
_FIRST_ONE = "wait for the first one: nothing is rescaled before it has completed"
_HEAP_USED, _HEAP_MAX = "Status.JVM.Memory.Heap.Used", "Status.JVM.Memory.Heap.Max"
_GC_TIME = "Status.JVM.GarbageCollector.All.TimeMsPerSecond"
# Parallelism of jobs that are started over REST is lost on the way: FLINK-38770.
_IGNORE_PLANS = ("2.0.", "2.1.", "2.2.", "2.3.")
# No job has this id.
_NOBODY = "0" * 32
_SEE_PROXY = "allow GET, PUT, PATCH and POST at whatever stands before the cluster"
_SAVEPOINT_FOLDERS = ("execution.checkpointing.savepoint-dir", "state.savepoints.dir")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: how it is, and what to do where that is not good."""

    name: str
    verdict: Verdict
    seen: str
    to_do: str = ""


@dataclass(frozen=True)
class Preflight:
    """Looks at a cluster and one of its jobs; changes nothing."""

    client: FlinkClient
    settings: RescaleSettings
    has_program: bool = False

    def cluster(self) -> list[Finding]:
        overview = self.client.overview()
        options = self.options()
        has_adaptive = options.get("jobmanager.scheduler", "").lower() == "adaptive"
        adaptive = has_adaptive and self.settings.mode != "restart"
        found = [
            Finding("Flink", "ok", f"{overview.version} at {self.client.url}"),
            Finding(
                "slots",
                "ok" if overview.slots_available else "warning",
                f"{overview.slots_available} of {overview.slots_total} are free",
                "" if overview.slots_available else "a job can only grow into free slots: start more TaskManagers",
            ),
        ]
        if is_reactive(options):
            return [*found, _reactive()]
        if not options:  # a live rescale may work all the same: that shows when one is asked for
            seen = "not known: something before the cluster does not let /jobmanager/config through"
            return [*found, Finding("scheduler", "warning", seen, _SEE_PROXY)]
        if adaptive:
            found.append(Finding("scheduler", "ok", "adaptive: jobs are rescaled live"))
        else:
            found.append(self._without_adaptive(options, overview.version))
        folder = self.settings.savepoint_folder or next(
            (options[key] for key in _SAVEPOINT_FOLDERS if key in options), ""
        )
        if folder:
            found.append(Finding("savepoints", "ok", f"go to {folder}"))
        else:
            needed = not adaptive
            found.append(
                Finding(
                    "savepoints",
                    "failed" if needed else "ok",
                    "no folder is set" + ("" if needed else ", and a live rescale needs none"),
                    f"set {_SAVEPOINT_FOLDERS[0]}, or rescale.savepoint_folder in streamtune.yaml" if needed else "",
                )
            )
        return found

    def rights(self) -> list[Finding]:
        """Whether a proxy lets through what changes a job: tried on a job that does not exist, so that none changes."""
        options = self.options()
        if is_reactive(options):
            return []
        is_live = options.get("jobmanager.scheduler", "").lower() == "adaptive" and self.settings.mode != "restart"
        method, ending = ("PUT", "resource-requirements") if is_live else ("POST", "stop")
        found = self.client.is_let_through(method, f"/jobs/{_NOBODY}/{ending}", {} if is_live else {"drain": False})
        what = f"{method} /jobs/…/{ending}"
        if found is None:
            return [Finding("rights", "warning", f"not known: something else than Flink answers {what}", _SEE_PROXY)]
        if not found:
            return [Finding("rights", "failed", f"reading is allowed, {what} is not", _SEE_PROXY)]
        return [Finding("rights", "ok", f"{what} reaches Flink")]

    def job(self, job_id: str) -> list[Finding]:
        details = self.client.job(job_id)
        in_use = slots_needed(details, {})
        state: Verdict = "ok" if details.is_running else "failed"
        waiting = "" if details.is_running else "wait until it runs"
        held = self.client.slots_held(job_id)
        return [
            Finding("job", state, f"{details.name} ({job_id}) is {details.state}, in {_slots(in_use)}", waiting),
            self.checkpoint(details),
            Finding("slots of the job", "ok", f"TaskManagers keep {_slots(max(in_use, held))} for it"),
            *self._single(details),
        ]

    def checkpoint(self, details: JobDetails) -> Finding:
        """Whether the job could go on from where it is: a rescale restarts it from its last checkpoint."""
        insist = "or insist with --without-checkpoint: what is in flight and in state may be lost"
        if self.settings.without_checkpoint:
            return Finding("checkpoint", "warning", "not looked at: --without-checkpoint was given")
        try:
            found = self.client.checkpoints(details.id)
        except FlinkRefusedError:
            found = Checkpoints()
        if found.latest.completed is None:
            failed = found.counts.failed
            young_s = (details.now_ms - details.start_ms) / 1000
            if failed <= _FAILED_AT_THE_START and young_s < self.settings.first_checkpoint_s:
                lost = f", {failed} failed as it started" if failed else ""
                return Finding("checkpoint", "warning", f"none yet, the job is {young_s:.0f} s old{lost}", _FIRST_ONE)
            seen = f"none has completed, {failed} failed" if failed else "none has completed"
            return Finding("checkpoint", "failed", seen, f"fix or switch on checkpoints first, {insist}")
        age_s = max(0.0, (details.now_ms - found.latest.completed.completed_ms) / 1000)
        seen = f"the last one completed {age_s:.0f} s ago, {found.counts.failed} of {found.counts.total} failed"
        if age_s > self.settings.max_checkpoint_age_s:
            limit = f"older than {self.settings.max_checkpoint_age_s:g} s (rescale.max_checkpoint_age_s)"
            return Finding("checkpoint", "failed", f"{seen}: {limit}", f"see why the later ones fail, {insist}")
        return Finding("checkpoint", "ok", seen)

    def awaits_first_checkpoint(self, job_id: str) -> bool:
        """Whether the job runs, has no checkpoint yet, and is too young for that to mean anything."""
        details = self.client.job(job_id)
        return details.is_running and self.checkpoint(details).to_do == _FIRST_ONE

    def check_job(self, job_id: str) -> None:
        """Refuse to rescale a job that could not go on from a recent checkpoint; nothing was changed."""
        found = self.checkpoint(self.client.job(job_id))
        if found.verdict == "failed" or found.to_do == _FIRST_ONE:
            raise RescaleRefusedError(
                f"job {job_id} is not rescaled, because of its checkpoints: {found.seen}. {found.to_do.capitalize()}"
            )

    def check_pressure(self) -> None:
        """Refuse to rescale while memory is short or garbage is collected for long; nothing was changed."""
        limits = self.settings.pressure
        if limits.max_heap_share is None and limits.max_gc_share is None:
            return
        found = self.client.task_manager_metrics((_HEAP_USED, _HEAP_MAX, _GC_TIME))
        if limits.max_heap_share is not None and _HEAP_USED in found and found.get(_HEAP_MAX, 0.0) > 0:
            share = found[_HEAP_USED] / found[_HEAP_MAX]
            if share > limits.max_heap_share:
                raise RescaleRefusedError(f"a TaskManager uses {share:.0%} of its heap: nothing is rescaled now")
        if limits.max_gc_share is not None and found.get(_GC_TIME, 0.0) > 1000 * limits.max_gc_share:
            raise RescaleRefusedError(
                f"a TaskManager spends {found[_GC_TIME] / 1000:.0%} of its time on garbage: nothing is rescaled now"
            )

    def check_cluster(self) -> list[str]:
        """Refuse what cannot work, before anything is measured; what may not work, in words."""
        all_found = self.cluster()
        for found in all_found:
            if found.verdict == "failed":
                raise EngineError(f"{found.name}: {found.seen}: {found.to_do}")
        return [f"{found.name}: {found.seen}: {found.to_do}" for found in all_found if found.verdict == "warning"]

    def notes(self) -> list[str]:
        """The same in words, for who only looks."""
        return [f"{found.name}: {found.seen}: {found.to_do}" for found in self.cluster() if found.verdict != "ok"]

    def options(self) -> dict[str, str]:
        try:
            return self.client.cluster_options()
        except (FlinkRefusedError, FlinkUnreachableError, FlinkGarbledError):
            return {}

    def _without_adaptive(self, options: dict[str, str], version: str) -> Finding:
        name = (options.get("jobmanager.scheduler", "default") or "default").lower()
        live = "set jobmanager.scheduler: adaptive"
        if name == "adaptive":
            name, live = "adaptive, but engines.flink.rescale.mode is restart", "set engines.flink.rescale.mode: auto"
        seen = f"{name}: jobs are rescaled by a savepoint and a new start"
        if not self.has_program:
            to_do = f"give the job's jar (--jar, --entry-class, --argument), or {live}"
            return Finding("scheduler", "failed", f"{seen}, and how to start the job is not known", to_do)
        if options.get("web.submit.enable", "true").lower() == "false":
            to_do = f"set web.submit.enable: true, or {live}"
            return Finding("scheduler", "failed", f"{seen}, but the cluster takes no jobs over REST", to_do)
        if version.startswith(_IGNORE_PLANS):
            seen += f", and Flink {version} may ignore the plan of such a job (FLINK-38770)"
            return Finding("scheduler", "warning", seen, f"{live}; a plan that is ignored is taken back")
        return Finding("scheduler", "ok", seen)

    @staticmethod
    def _single(details: JobDetails) -> list[Finding]:
        single = [vertex.name for vertex in details.vertices if vertex.max_parallelism == 1]
        if not single:
            return []
        return [Finding("single instances", "ok", f"cannot be scaled: {', '.join(single)}")]


def _slots(number: int) -> str:
    return f"{number} slot" if number == 1 else f"{number} slots"


def is_reactive(options: dict[str, str]) -> bool:
    return options.get("scheduler-mode", "").lower() == "reactive"


def _reactive() -> Finding:
    return Finding(
        "scheduler",
        "failed",
        "reactive mode: Flink itself gives every job all slots there are, and takes no plan from outside",
        "remove scheduler-mode: reactive and set jobmanager.scheduler: adaptive",
    )


def look(steps: list[Callable[[], list[Finding]]]) -> list[Finding]:
    """All findings; a step that fails is the last finding: those after it would fail as well."""
    found: list[Finding] = []
    for step in steps:
        try:
            found += step()
        except EngineError as error:
            return [*found, Finding("Flink", "failed", str(error))]
    return found
