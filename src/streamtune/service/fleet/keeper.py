"""``Keeper``: looks after one job: observe, recommend, decide by policy, apply, and write everything down."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from streamtune.clock import Steps
from streamtune.control.supervisor import has_moved
from streamtune.dataflow import Job, Observation, Plan
from streamtune.engines.base import Deployment, JobCrashedError, NotReady
from streamtune.errors import EngineError, StreamTuneError
from streamtune.service.clusters.base import Cluster, FoundJob
from streamtune.service.errors import LeaseHeldError, StoreError
from streamtune.service.fleet.applying import Applier
from streamtune.service.fleet.context import Context
from streamtune.service.fleet.deciding import make_decision, much_the_same, outcome_of
from streamtune.service.fleet.shadow import AutoscalerShadow
from streamtune.service.fleet.state import KeptJob
from streamtune.service.fleet.summary import total_rate, worst_backpressure
from streamtune.service.policies import Situation, allowed_plan, excluded_by, objection
from streamtune.service.settings import Policy
from streamtune.service.store.jobs import JobRow, ObservationRow
from streamtune.service.views import Decision
from streamtune.tuners.base import Recommendation

log = logging.getLogger("streamtune.service")

_LOOK_AGAIN_S = 30.0
_LOOK_ANEW = 2
_DAY = timedelta(days=1)


class _Interrupted:
    """An observation was broken off, since there is something to apply."""


class Keeper:
    """The steps of one job. What it knows is in ``state``; whoever reads it never waits for it."""

    def __init__(
        self, context: Context, cluster: Cluster, found: FoundJob, row: JobRow, *, offset_s: float = 0.0
    ) -> None:
        self._context = context
        self._cluster = cluster
        self.found = found
        self.state = KeptJob(context, cluster, row)
        self.applier = Applier(context, cluster, self.state)
        self._shadow: AutoscalerShadow | None = None
        self._attached: Job | None = None
        self._made_for: tuple[object, ...] | None = None
        self._provisional = False
        self._refused: tuple[str, dict[str, int]] | None = None
        self._not_ready = 0
        self._offset_s = offset_s

    @property
    def id(self) -> str:
        return self.state.id

    @property
    def policy(self) -> Policy:
        return self.state.policy

    # The loop

    def steps(self) -> Steps[None]:
        """For ever: attach, observe, act; whatever fails is said and tried again."""
        while True:
            try:
                if self.state.deployment is None:
                    self._attach()
                yield from self._round()
            except LeaseHeldError as error:
                self.state.held_by_other(error)
                yield _LOOK_AGAIN_S
            except StoreError as error:
                log.error("the store failed", extra={"job": self.state.name, "error": str(error)})
                self.state.note_trouble(str(error))
                yield 10.0
            except EngineError as error:
                self._lose(error)
                yield _LOOK_AGAIN_S
            except StreamTuneError as error:
                self.state.note_trouble(str(error))
                yield _LOOK_AGAIN_S
            except Exception as error:  # a job that trips over a defect of ours is still looked after
                log.exception("a defect", extra={"job": self.state.name})
                self.state.note_trouble(f"a defect of the service ({type(error).__name__}): its log has the details")
                yield _LOOK_AGAIN_S

    def _attach(self) -> None:
        if self.found.state not in ("running", "restarting"):
            self.state.set_state(self.found.state)
            raise EngineError(f"the job is {self.found.state}: start it again, and it is looked after")
        deployment = self._cluster.attach(self.found)
        self.applier.recover(deployment)
        if self.policy.group is not None:
            self._context.store.claims.note({self.id: (self.policy.group, deployment.plan.total)})
        self.state.attached(deployment)
        if self._shadow is None or self._attached != deployment.job:
            self._shadow = AutoscalerShadow(deployment.job)
            self._made_for = None
        self._attached = deployment.job

    def _lose(self, error: EngineError) -> None:
        self.state.lost(str(error), self.found.state)
        self._context.observed(self.id, False)

    def _round(self) -> Steps[None]:
        """One observation, and what follows from it; an approved decision comes first."""
        self.applier.settle()
        if self.applier.hold():
            self._attach()
        if self.applier.approved() is not None:
            self._attach()  # a person may answer late, and the job may have been changed meanwhile
            yield from self.applier.apply_approved(self._with_record(self._situation(None)))
            return
        seen = yield from self._observe()
        if isinstance(seen, _Interrupted):
            return
        if isinstance(seen, NotReady):
            self.state.not_ready(seen.reason)
            self._not_ready += 1
            if self._not_ready % _LOOK_ANEW == 0:
                self.state.deployment = None  # somebody else may have changed the job: take it as it is now
            self._context.observed(self.id, False)
            yield max(1.0, seen.retry_after_s)
            return
        self._not_ready = 0
        self._take_in(seen)
        yield from self._act(seen)
        if self._offset_s:  # once, so that the jobs of a large cluster are not all asked in the same second
            wait_s, self._offset_s = self._offset_s, 0.0
            yield wait_s

    def _observe(self) -> Steps[Observation | NotReady | _Interrupted]:
        """One window, broken off when a person has approved something meanwhile."""
        deployment = self.state.running
        steps = self._cluster.engine.observing(deployment, self._cluster.window)
        clock = self._context.clock
        try:
            while True:
                end = clock.steady() + next(steps)
                while (left := end - clock.steady()) > 1e-6:
                    yield left
                    if self.applier.approved() is not None or self.state.deployment is not deployment:
                        return _Interrupted()
        except StopIteration as done:
            found: Observation | NotReady = done.value
            return found
        except JobCrashedError as crash:
            self.state.attached(crash.deployment)
            return NotReady(str(crash), 5.0)
        finally:
            steps.close()

    # What is seen

    def _take_in(self, seen: Observation) -> None:
        context, state, job = self._context, self.state, self.state.running.job
        now = context.now()
        complete = set(seen.operators) == set(job.dataflow.index)
        autoscaler = None
        if complete:
            self._renew_tuner()
            state.tuner_in_use.learn(seen)
            assert self._shadow is not None
            autoscaler = self._shadow.instances(seen, now)
            if state.may_act:
                context.record(job, self._cluster.engine.capabilities.name, seen)
        recommended = self._recommend(seen) if complete else None
        state.observed(seen, recommended, autoscaler, now)
        if state.awaits_outcome is not None:
            context.store.decisions.set_outcome(state.awaits_outcome, outcome_of(seen, now))
            state.tell_decision(state.awaits_outcome)
            state.awaits_outcome = None
        if state.may_act:
            context.keep(self._row(seen, now, autoscaler), state.summary(), self.policy.group)
        context.observed(self.id, True)
        state.publish()

    def _row(self, seen: Observation, now: datetime, autoscaler: int | None) -> ObservationRow:
        return ObservationRow(
            job=self.id,
            time=now,
            window_s=seen.window_s,
            rate=total_rate(seen),
            backpressure=worst_backpressure(seen),
            backpressured=seen.has_backpressure,
            instances=seen.plan.total,
            recommended=self.state.recommended_total,
            autoscaler=autoscaler,
            parallelism=dict(seen.plan),
        )

    def _renew_tuner(self) -> None:
        """The tuner that the policy asks for; made anew when the policy or the model in force has changed."""
        policy, job = self.policy, self.state.running.job
        wanted = (policy.tuner, policy.model, self._context.tuners.version(policy), job)
        if self._made_for != wanted:
            self.state.tuner = self._context.tuners.make(policy, job)
            self.state.model = self._context.tuners.version(policy)
            self._made_for = wanted
            self.state.tuned_for = None

    # What is decided

    def _recommend(self, seen: Observation) -> Recommendation | None:
        """A recommendation where one is due: backpressure, rates that have moved, or an unfinished one."""
        state = self.state
        due = (
            state.tuned_for is None
            or seen.has_backpressure
            or self._provisional
            or has_moved(state.tuned_for, seen.source_rates, self.policy.rate_change)
        )
        return state.tuner_in_use.recommend(seen) if due else None

    def _situation(self, seen: Observation | None) -> Situation:
        state, context = self.state, self._context
        now = context.now()
        deployment = state.running
        return Situation(
            job=deployment.job,
            current=deployment.plan,
            now=now,
            backpressured=state.backpressured if seen is None else seen.has_backpressure,
            bounds=state.bounds,
            excluded=self._cluster.engine.excluded(deployment),
            slots=self._cluster.engine.slots_in_reach(deployment),
            slots_needed=partial(self._cluster.engine.slots_needed, deployment),
        )

    def _with_record(self, at: Situation) -> Situation:
        """A situation with what was done before, which the store is asked for only where something is to be done."""
        store = self._context.store
        return replace(
            at,
            changed_at=store.decisions.changes_since(self.id, at.now - _DAY),
            budget_left=store.claims.left(self.policy.group, self._context.settings.budgets),
        )

    def _act(self, seen: Observation) -> Steps[None]:
        recommendation = self.state.recommendation
        if recommendation is None or set(seen.operators) != set(self.state.running.job.dataflow.index):
            return
        self._provisional = recommendation.provisional
        at = self._situation(seen)
        plan, held = allowed_plan(self.policy, recommendation.plan, at)
        self.state.recommend(plan)
        if not self.state.may_act:
            return
        if plan == at.current:
            self.state.tuned_for = dict(seen.source_rates)
            self.applier.expire_proposal("what runs is what is recommended now")
            return
        at = self._with_record(at)
        if self.policy.mode == "auto" and not self.state.paused:
            yield from self._act_by_itself(seen, plan, held, at)
        else:
            self._propose(seen, plan, held, at)

    def _act_by_itself(self, seen: Observation, plan: Plan, held: dict[str, str], at: Situation) -> Steps[None]:
        no = objection(self.policy, plan, at)
        if no is not None:
            self._refuse(seen, plan, held, no)
            return
        decision = self._decision(seen, plan, held, "approved", "it applies what it decides (mode auto)")
        self._context.store.decisions.add(decision, "decided under mode auto")
        self.state.tell(decision)
        yield from self.applier.apply(decision, at, seen.source_rates)

    def _propose(self, seen: Observation, plan: Plan, held: dict[str, str], at: Situation) -> None:
        """Say what would be done; nothing is said twice."""
        state = self.state
        asks = self.policy.mode == "approve" and not state.paused
        if objection(self.policy, plan, at) is not None and not asks:
            state.tuned_for = dict(seen.source_rates)
            return
        said = state.last_proposed is not None and much_the_same(state.last_proposed, plan)
        if said and (state.pending is not None or not asks):
            return
        worth = objection(self.policy, plan, at)
        if worth is not None and worth.endswith("not worth a restart"):
            state.tuned_for = dict(seen.source_rates)
            return
        proposes = self.policy.mode in ("recommend", "approve")
        note = "" if proposes else "only observed"
        decision = self._decision(seen, plan, held, "proposed" if asks or proposes else "observed", note)
        self._context.store.decisions.add(decision, f"under mode {self.policy.mode}")
        state.last_proposed = dict(plan)
        state.pending = decision.id if asks else None
        state.tuned_for = dict(seen.source_rates)
        state.tell(decision)
        if asks:
            self._context.notify("approval_wanted", state.summary(), decision, decision.summary)

    def _refuse(self, seen: Observation, plan: Plan, held: dict[str, str], why: str) -> None:
        """A plan that the policy forbids now is written down once, not every minute."""
        if why.endswith("not worth a restart"):
            self.state.tuned_for = dict(seen.source_rates)
            return
        kind = why.partition(" ")[0]
        known = self._refused is not None and self._refused[0] == kind and much_the_same(self._refused[1], plan)
        if not known:
            self._refused = (kind, dict(plan))
            decision = self._decision(seen, plan, held, "refused", why)
            self._context.store.decisions.add(decision, why)
            self.state.tell(decision)

    def _decision(self, seen: Observation, plan: Plan, held: dict[str, str], status: str, note: str) -> Decision:
        state = self.state
        assert state.recommendation is not None
        return make_decision(
            self.id,
            self._context.now(),
            status,  # type: ignore[arg-type]
            state.running.plan,
            plan,
            state.recommendation,
            held,
            state.tuner_in_use,
            seen,
            model=state.model,
            policy=self.policy.pattern,
            by=self._context.holder,
            note=note if status in ("refused", "observed") else "",
        )

    def excluded(self) -> frozenset[str]:
        """The operators that nobody touches."""
        deployment: Deployment | None = self.state.deployment
        if deployment is None:
            return frozenset()
        sources = {source.id for source in deployment.job.dataflow.sources} if not self.policy.tune_sources else set()
        return excluded_by(self.policy, deployment.job) | self._cluster.engine.excluded(deployment) | sources

    def must_finish(self) -> bool:
        """Whether a plan is being applied right now."""
        return self.applier.is_applying
