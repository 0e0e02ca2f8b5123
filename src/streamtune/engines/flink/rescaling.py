"""Giving a running job another plan: live where the adaptive scheduler runs it, else by a savepoint and a new start.

All that waits for Flink is written as steps, so that many jobs can be waited for at once.

Whatever fails, the job ends up on its last good plan wherever Flink allows it, and the error says where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from streamtune.clock import Steps
from streamtune.dataflow import Plan
from streamtune.engines.base import JobEndedError, RescaleFailedError, RescaleRefusedError
from streamtune.engines.flink.client import FlinkClient, FlinkNotFoundError, FlinkRefusedError, FlinkUnreachableError
from streamtune.engines.flink.journal import Journal, Underway, fresh_id
from streamtune.engines.flink.plan import slots_needed
from streamtune.engines.flink.polling import difference, state_of, without_work
from streamtune.engines.flink.preflight import Preflight
from streamtune.engines.flink.responses import FINISHED, Bounds, FlinkGarbledError, JobDetails
from streamtune.engines.flink.settings import RescaleSettings
from streamtune.errors import EngineError

OVERRIDES_OPTION = "pipeline.jobvertex-parallelism-overrides"


class FlinkRescaleFailedError(RescaleFailedError):
    """A rescale that did not work out; ``job_id`` is the job that runs now, None if none does."""

    def __init__(self, message: str, job_id: str | None) -> None:
        super().__init__(message, is_running=job_id is not None)
        self.job_id = job_id


@dataclass(frozen=True)
class Program:
    """How a job is submitted: a jar on the cluster, and arguments that may depend on the plan."""

    jar_id: str
    entry_class: str | None = None
    arguments: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    argument_of: Callable[[Plan], str] | None = None

    def arguments_for(self, plan: Plan) -> list[str]:
        return [*self.arguments, *([self.argument_of(plan)] if self.argument_of else [])]


class Rescaler:
    """Changes jobs and waits until the change is there."""

    def __init__(self, client: FlinkClient, settings: RescaleSettings, journal: Journal | None = None) -> None:
        self._client = client
        self._settings = settings
        self._journal = journal or Journal(None)
        self._ignored: str | None = None  # what showed that this Flink ignores the plan of a job that is started again

    @cached_property
    def is_live_cluster(self) -> bool:
        """Whether the cluster runs its jobs with the adaptive scheduler."""
        if self._settings.mode == "restart":
            return False
        try:
            return self._client.cluster_options().get("jobmanager.scheduler", "").lower() == "adaptive"
        except (FlinkRefusedError, FlinkGarbledError):
            return False

    def rescale(
        self,
        job_id: str,
        vertex_of: Mapping[str, str],
        current: Plan,
        wanted: Plan,
        program: Program | None,
    ) -> Steps[str]:
        """Move a job to another plan; returns the id of the job that runs it."""
        changed = {vertex_of[key]: wanted[key] for key in wanted if wanted[key] != current[key]}
        preflight = self._preflight(program)
        yield from self._first_checkpoint(job_id, preflight)
        preflight.check_job(job_id)
        preflight.check_pressure()
        self._check_slots(job_id, changed)
        bounds = self._bounds(job_id)
        if bounds is not None:
            degrees = {vertex_of[key]: degree for key, degree in wanted.items()}
            yield from self._rescale_live(job_id, bounds, degrees, changed, _grown(vertex_of, current, wanted))
            return job_id
        if program is None:
            why = (
                "engines.flink.rescale.mode is restart"
                if self._settings.mode == "restart"
                else "that needs Flink's adaptive scheduler: jobmanager.scheduler: adaptive"
            )
            raise RescaleRefusedError(
                f"job {job_id} cannot be rescaled live ({why}), and how to start it again is not known: give its jar "
                "(--jar, --entry-class, --argument)"
            )
        if self._ignored is not None and program.argument_of is None:
            raise RescaleRefusedError(f"job {job_id} is not stopped again: {self._ignored}")
        return (yield from self._stop_and_restart(job_id, vertex_of, current, wanted, program))

    def _first_checkpoint(self, job_id: str, preflight: Preflight) -> Steps[None]:
        """A job that was just started has none: a matter of seconds, and no reason to refuse."""
        waited_s = 0.0
        while waited_s < self._settings.first_checkpoint_s and preflight.awaits_first_checkpoint(job_id):
            yield self._settings.poll_s
            waited_s += self._settings.poll_s

    def _preflight(self, program: Program | None) -> Preflight:
        return Preflight(self._client, self._settings, has_program=program is not None)

    def _check_slots(self, job_id: str, changed: Mapping[str, int]) -> None:
        details = self._client.job(job_id)
        needed, in_use = slots_needed(details, changed), slots_needed(details, {})
        free = self._client.overview().slots_available
        in_reach = in_use + free
        if needed > in_reach:
            # After a scale-down Flink keeps slots for the job for a while: they are its own.
            in_use = max(in_use, self._client.slots_held(job_id))
            in_reach = in_use + free
        if needed > in_reach:
            raise RescaleRefusedError(
                f"the plan needs {needed} slots, {in_reach} are available ({in_use} of them its own): "
                "start more TaskManagers, or lower --max-parallelism. Nothing was changed"
            )

    def _bounds(self, job_id: str) -> dict[str, Bounds] | None:
        """What each vertex may have now; None where the job is not rescaled live."""
        if self._settings.mode == "restart":
            return None
        try:
            return self._client.resource_requirements(job_id)
        except FlinkNotFoundError:
            raise
        except (FlinkRefusedError, FlinkUnreachableError):
            if self._settings.mode == "live" or self.is_live_cluster:
                raise
            return None

    # Live

    def _rescale_live(
        self,
        job_id: str,
        before: Mapping[str, Bounds],
        wanted: Mapping[str, int],
        changed: Mapping[str, int],
        grown: Collection[str],
    ) -> Steps[None]:
        """Raise or lower the upper bounds of the changed vertices; all others keep theirs."""
        lost = next((key for key in wanted if key not in before), None)
        if lost is not None:
            raise RescaleRefusedError(
                f"job {job_id}: Flink tells of no resource requirements of its vertex '{lost}': ask again in a while. "
                "Nothing was changed"
            )
        # The lower bound stays 1: with too few slots Flink then keeps the job running, if on fewer instances.
        after = {key: Bounds(lower=1, upper=changed[key]) if key in changed else old for key, old in before.items()}
        self._client.set_resource_requirements(job_id, after)
        try:
            yield from self.wait_until_running(
                job_id, self._settings.timeout_s, lambda: "the live rescale did not complete", wanted, grown
            )
        except JobEndedError:
            raise
        except EngineError as error:
            yield from self._take_back(job_id, before, error)

    def _take_back(self, job_id: str, before: Mapping[str, Bounds], error: EngineError) -> Steps[None]:
        try:
            self._client.set_resource_requirements(job_id, before)
            last = {key: bounds.upper for key, bounds in before.items()}
            yield from self.wait_until_running(
                job_id, self._settings.timeout_s, lambda: "its last plan did not come back", last
            )
        except EngineError as second:
            raise FlinkRescaleFailedError(f"{error}; taking it back failed as well: {second}", job_id) from error
        raise FlinkRescaleFailedError(f"{error}. The job runs on its last good plan again", job_id) from error

    # Stop and restart

    def _stop_and_restart(
        self,
        job_id: str,
        vertex_of: Mapping[str, str],
        current: Plan,
        wanted: Plan,
        program: Program,
    ) -> Steps[str]:
        self._check_that_none_is_under_way(job_id)
        entry = self._journal.write(self._underway(job_id, vertex_of, current, wanted, program))
        try:
            return (yield from self._through(entry, vertex_of, current, wanted, program))
        except EngineError:
            self._journal.leave(entry)
            raise

    def _check_that_none_is_under_way(self, job_id: str) -> None:
        left = self._journal.left(self._client.url, job_id)
        with suppress(FlinkNotFoundError):
            if left is not None and left.trigger is not None and self._client.savepoint(job_id, left.trigger).is_open:
                raise RescaleRefusedError(
                    f"job {job_id} is still being stopped since an earlier rescale: nothing was changed"
                )

    def _through(
        self, entry: Underway, vertex_of: Mapping[str, str], current: Plan, wanted: Plan, program: Program
    ) -> Steps[str]:
        savepoint = yield from self._stop_with_savepoint(entry)
        entry = self._journal.write(entry.model_copy(update={"savepoint": savepoint}))
        degrees = {vertex_of[key]: degree for key, degree in wanted.items()}
        new_id = None
        try:
            new_id = self.submit(program, wanted, vertex_of, savepoint, entry.new_job_id)
            yield from self._wait_for_plan(new_id, degrees, _grown(vertex_of, current, wanted))
            self._journal.done(entry)
            return new_id
        except JobEndedError:  # from the savepoint, what it has done since would be done twice
            self._journal.done(entry)
            raise
        except EngineError as error:
            try:
                yield from self._resume(new_id, program, current, vertex_of, entry, error)
            except FlinkRescaleFailedError as failed:
                if failed.is_running:
                    self._journal.done(entry)
                raise
            raise AssertionError("unreachable") from error

    def _wait_for_plan(self, job_id: str, degrees: Mapping[str, int], grown: Collection[str]) -> Steps[None]:
        """Wait until a job that was started again runs on its plan; at once an error where Flink never heard of it."""
        timeout_s = self._settings.timeout_s
        details = yield from self.wait_until_running(job_id, timeout_s, lambda: f"job {job_id} did not start")
        other = difference(details, degrees)
        if other is not None and self._is_fixed(job_id, degrees):
            self._ignored = (
                f"it was started with the plan, but {other}: Flink 2.0 to 2.3 ignore {OVERRIDES_OPTION} for jobs "
                "that come in over REST (FLINK-38770). Rescale live instead (jobmanager.scheduler: adaptive, "
                "engines.flink.rescale.mode: auto)"
            )
            raise EngineError(f"job {job_id} is not on its plan: {self._ignored}")
        yield from self.wait_until_running(
            job_id, timeout_s, lambda: f"job {job_id} did not reach the plan", degrees, grown
        )

    def _is_fixed(self, job_id: str, degrees: Mapping[str, int]) -> bool:
        """Whether Flink has no intention to run the job at this parallelism, however many slots there are."""
        try:
            bounds = self._client.resource_requirements(job_id)
        except EngineError:
            return True  # not the adaptive scheduler: what it runs with now it keeps
        return any(bounds[key].upper != degree for key, degree in degrees.items() if key in bounds)

    def _underway(
        self, job_id: str, vertex_of: Mapping[str, str], current: Plan, wanted: Plan, program: Program
    ) -> Underway:
        """What is about to be done, so that another process can finish it."""
        return Underway(
            url=self._client.url,
            job_id=job_id,
            job_name=self._client.job(job_id).name,
            jar_id=program.jar_id,
            entry_class=program.entry_class,
            arguments=tuple(program.arguments_for(wanted)),
            last_arguments=tuple(program.arguments_for(current)),
            configuration=_configuration(program, wanted, vertex_of),
            last_configuration=_configuration(program, current, vertex_of),
            trigger=fresh_id(),
            new_job_id=fresh_id(),
        )

    def _resume(
        self,
        failed_id: str | None,
        program: Program,
        current: Plan,
        vertex_of: Mapping[str, str],
        entry: Underway,
        error: EngineError,
    ) -> Steps[None]:
        """Bring the job back on its last plan, from the savepoint it was stopped with; always raises."""
        degrees, savepoint = {vertex_of[key]: degree for key, degree in current.items()}, entry.savepoint
        try:
            if failed_id is not None:
                yield from self.end(failed_id)
                entry = self._journal.write(entry.model_copy(update={"new_job_id": fresh_id()}))
            back_id = self.submit(program, current, vertex_of, savepoint, entry.new_job_id)
            yield from self.wait_until_running(
                back_id, self._settings.timeout_s, lambda: "the job did not come back on its last plan", degrees
            )
        except EngineError as second:
            raise FlinkRescaleFailedError(
                f"{error}; the job is DOWN, because its last plan could not be started either: {second}. "
                f"Start it by hand from the savepoint {savepoint}",
                None,
            ) from error
        raise FlinkRescaleFailedError(
            f"{error}. The job runs on its last good plan again, as job {back_id}, from the savepoint {savepoint}",
            back_id,
        ) from error

    def _stop_with_savepoint(self, entry: Underway) -> Steps[str]:
        job_id = entry.job_id
        try:
            trigger = self._client.stop_with_savepoint(job_id, self._settings.savepoint_folder, trigger=entry.trigger)
        except FlinkRefusedError:
            self._journal.done(entry)  # the job was not stopped
            raise
        if trigger != entry.trigger:
            self._journal.write(entry.model_copy(update={"trigger": trigger}))
        waited_s = 0.0
        while waited_s < self._settings.savepoint_timeout_s:
            savepoint = self._client.savepoint(job_id, trigger)
            if savepoint.failure is not None:
                self._journal.done(entry)
                raise FlinkRescaleFailedError(
                    f"the savepoint of job {job_id} failed: {savepoint.failure}. The job was not stopped", job_id
                )
            if savepoint.location is not None:
                yield from self.wait_until_ended(job_id)
                return savepoint.location
            yield self._settings.poll_s
            waited_s += self._settings.poll_s
        raise FlinkRescaleFailedError(
            f"the savepoint of job {job_id} did not complete within {self._settings.savepoint_timeout_s:g} s: "
            "check its checkpoints in Flink's web page, or raise the timeout. If it completes after all the job is "
            "stopped: then 'streamtune flink resume' starts it again",
            job_id,
        )

    def submit(
        self,
        program: Program,
        plan: Plan,
        vertex_of: Mapping[str, str],
        savepoint: str | None = None,
        job_id: str | None = None,
    ) -> str:
        """Start a program under a plan. Vertices that are known already get their parallelism by Flink's option."""
        return self._client.run_jar(
            program.jar_id,
            entry_class=program.entry_class,
            arguments=program.arguments_for(plan),
            savepoint=savepoint,
            configuration=_configuration(program, plan, vertex_of),
            job_id=job_id,
        )

    def end(self, job_id: str) -> Steps[None]:
        """Cancel a job and wait until it is gone."""
        try:
            self._client.cancel(job_id)
            yield from self.wait_until_ended(job_id)
        except FlinkRefusedError:
            return  # it has ended by itself

    # Waiting

    def wait_until_running(
        self,
        job_id: str,
        timeout_s: float,
        complaint: Callable[[], str],
        degrees: Mapping[str, int] | None = None,
        grown: Collection[str] = (),
    ) -> Steps[JobDetails]:
        """Wait until all subtasks run, at the given parallelism by vertex; an error if the job ends or time is up.

        An error also where instances that ``grown`` vertices were just given have nothing to do, and ended.
        """
        waited_s = 0.0
        trouble = "no answer yet"
        is_idle = False
        while waited_s <= timeout_s:
            try:
                details = self._client.job(job_id)
                if details.state == FINISHED:
                    raise JobEndedError(f"job {job_id} is FINISHED: it has done its work", is_done=True)
                if details.has_ended:
                    cause = self._client.failure(job_id) or "no reason given"
                    raise EngineError(f"{complaint()}: the job is {details.state}: {cause}")
                missing = state_of(details) or difference(details, degrees)
                idle = without_work(details, grown) if missing is None else None
                if missing is None and idle is None:
                    return details
                trouble, was_idle, is_idle = missing or idle or "", is_idle, idle is not None
                if was_idle and is_idle:  # twice in a row: it stays like that
                    raise EngineError(f"{complaint()}: {idle}")
            except FlinkUnreachableError as error:
                trouble = str(error)
            except FlinkNotFoundError as error:  # a job that was submitted a moment ago is not listed yet
                trouble = str(error)
            yield self._settings.poll_s
            waited_s += self._settings.poll_s
        raise EngineError(f"{complaint()} within {timeout_s:g} s: {trouble}")

    def wait_until_ended(self, job_id: str) -> Steps[None]:
        waited_s = 0.0
        while waited_s <= self._settings.timeout_s:
            try:
                if self._client.status(job_id).has_ended:
                    return
            except FlinkNotFoundError:
                return
            yield self._settings.poll_s
            waited_s += self._settings.poll_s
        raise EngineError(f"job {job_id} did not end within {self._settings.timeout_s:g} s: see Flink's web page")


def _grown(vertex_of: Mapping[str, str], current: Plan, wanted: Plan) -> frozenset[str]:
    """Vertices that a plan gives more instances."""
    return frozenset(vertex_of[key] for key, degree in wanted.items() if degree > current[key])


def _configuration(program: Program, plan: Plan, vertex_of: Mapping[str, str]) -> dict[str, str]:
    configuration = dict(program.configuration)
    if vertex_of:
        configuration[OVERRIDES_OPTION] = ",".join(f"{vertex_of[key]}:{degree}" for key, degree in plan.items())
    return configuration
