"""``Applier``: applies a plan at most once, with its record written before and after, under a lease."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from streamtune.clock import Steps
from streamtune.dataflow import Plan
from streamtune.engines.base import Deployment
from streamtune.errors import StreamTuneError
from streamtune.service.clusters.base import Cluster
from streamtune.service.errors import LeaseHeldError
from streamtune.service.fleet.context import Context
from streamtune.service.fleet.state import KeptJob
from streamtune.service.policies import Situation, objection
from streamtune.service.store.claims import Claim
from streamtune.service.views import Decision, Status

log = logging.getLogger("streamtune.service")

_ACTING = ("approve", "auto")
# A rescale may take as long as this; the lease lasts at least so long from its beginning.
_RESCALE_S = 600.0


class Applier:
    """What changes one job."""

    def __init__(self, context: Context, cluster: Cluster, state: KeptJob) -> None:
        self._context = context
        self._cluster = cluster
        self._state = state
        self._approved: str | None = None
        self.is_applying = False
        self._unwritten: tuple[Decision, Status, str, Mapping[str, float] | None] | None = None

    # Leases

    def hold(self) -> bool:
        """Take the lease: what another looks after is watched here, not touched and not written down twice.

        Where the policy lets nothing be changed, it is a lease on watching, which leaves the job free for ``tune``.
        True where another had it before, who may have changed the job since it was looked at.
        """
        context, state = self._context, self._state
        acts = state.policy.mode in _ACTING or self._approved is not None
        key = state.id if acts else f"{state.id}:watch"
        lease, now = context.leases.get(key), context.lease_now()
        remaining = 0.0 if lease is None else (lease.until - now).total_seconds()
        if lease is not None and lease.holder == context.holder and remaining > context.settings.lease_s / 3:
            state.holds_lease()
            return False
        try:
            taken = context.store.leases.take(key, context.holder, now, context.settings.lease_s)
        except LeaseHeldError as error:
            state.held_by_other(error)
            return False
        context.leases[key] = taken
        state.holds_lease()
        return acts and taken.taken_from is not None

    # Decisions that others made

    def set_open(self, decision: str | None, status: str | None) -> bool:
        """What the store says is open for this job; True where there is something to apply."""
        self._state.pending = decision if status == "proposed" and self._state.policy.mode == "approve" else None
        self._approved = decision if status == "approved" else None
        if decision is not None and status == "proposed" and self._state.last_proposed is None:
            # After a restart: what somebody may be reading is not proposed again.
            found = self._context.store.decisions.get(self._state.id, decision)
            self._state.last_proposed = None if found is None else dict(found.after)
        self._state.refresh()
        return self._approved is not None

    def approved(self) -> str | None:
        """The decision that a person has approved and that is not applied yet."""
        return self._approved if not self.is_applying and self._state.may_act else None

    def expire_proposal(self, why: str) -> None:
        """Take back a proposal that is not worth anything any more."""
        state, context = self._state, self._context
        state.last_proposed = None
        if state.pending is None:
            return
        decision, state.pending = state.pending, None
        context.store.decisions.finish(decision, "expired", context.holder, why, context.now(), None)
        state.tell_decision(decision)

    def apply_approved(self, at: Situation) -> Steps[None]:
        """Apply what a person approved, if it still fits what runs and the policy allows it now."""
        decision_id, self._approved = self._approved, None
        context, state = self._context, self._state
        decision = None if decision_id is None else context.store.decisions.get(state.id, decision_id)
        if decision is None or decision.status != "approved":
            return
        plan = Plan(decision.after)
        why = objection(state.policy, plan, at, by_person=True)
        if decision.kind == "tune" and state.policy.mode not in _ACTING:
            why = f"the policy's mode is {state.policy.mode} by now"
        state.pending = None
        if decision.before != dict(at.current):
            self._finish(decision, "expired", f"the job runs with {dict(at.current)} by now", None)
            return
        if why is not None:
            self._finish(decision, "refused", why, None)
            return
        rates = None if state.seen is None else dict(state.seen.source_rates)
        yield from self.apply(decision, at, rates)

    # Applying

    def apply(self, decision: Decision, at: Situation, rates: Mapping[str, float] | None) -> Steps[None]:
        """Apply one decision, once."""
        context, state, plan = self._context, self._state, Plan(decision.after)
        group, budgets = state.policy.group, context.settings.budgets
        claim = None
        if group is not None and group in budgets:
            claim = Claim(group, budgets[group], at.current.total, plan.total)
            context.claims_itself(state.id)
        try:
            began = context.store.decisions.begin(
                decision,
                context.holder,
                at.now,
                lease_now=context.lease_now(),
                lease_s=max(context.settings.lease_s, _RESCALE_S),
                claim=claim,
            )
        except StreamTuneError:
            context.leases.pop(state.id, None)
            raise
        if began == "over_budget":
            self._finish(decision, "refused", f"the budget of group '{group}' was taken meanwhile", None)
        elif began == "begun":
            yield from self._rescale(decision, plan, rates)

    def _rescale(self, decision: Decision, plan: Plan, rates: Mapping[str, float] | None) -> Steps[None]:
        context, state = self._context, self._state
        before = state.running
        self.is_applying, state.pending = True, None
        state.tell_decision(decision.id)
        log.info("applying", extra={"job": state.name, "decision": decision.id, "plan": dict(plan)})
        try:
            deployment = yield from self._cluster.engine.rescaling(before, plan)
        except StreamTuneError as error:
            state.deployment = None  # look again at what runs
            self._finish(decision, "failed", str(error), rates)
            context.notify("failure", state.summary(), decision, str(error))
        else:
            state.applied(deployment, decision.id)
            self._finish(decision, "applied", "the engine runs with the new plan", rates)
        finally:
            self.is_applying = False

    def _finish(self, decision: Decision, status: Status, text: str, rates: Mapping[str, float] | None) -> None:
        """Write down how it went; where the store cannot take it now, ``settle`` does so later."""
        self._unwritten = (decision, status, text, rates)
        self.settle()

    def settle(self) -> None:
        """Write what could not be written when it happened; nothing else is done to the job before."""
        if self._unwritten is None:
            return
        context, state = self._context, self._state
        decision, status, text, rates = self._unwritten
        context.store.decisions.finish(decision.id, status, context.holder, text, context.now(), rates)
        self._unwritten = None
        self._shorten_lease()
        context.decided(state.id, status)
        log.info("decided", extra={"job": state.name, "decision": decision.id, "status": status, "text": text})
        if rates is not None:
            state.tuned_for = dict(rates)
        state.tell_decision(decision.id)
        state.publish()

    def _shorten_lease(self) -> None:
        """A lease lasts long while a plan is applied; then as long as ever, so that another can soon go on after us."""
        context, state = self._context, self._state
        lease = context.leases.get(state.id)
        if lease is None or lease.holder != context.holder:
            return
        try:
            lease_s = context.settings.lease_s
            context.leases[state.id] = context.store.leases.take(state.id, context.holder, context.lease_now(), lease_s)
        except LeaseHeldError as error:
            state.held_by_other(error)

    def recover(self, deployment: Deployment) -> None:
        """After a crash: a decision that was being applied is closed by what runs; it is never applied again.

        Not while another holds the lease: the change may be under way there.
        """
        context, state = self._context, self._state
        opened = context.store.decisions.of_job(state.id, status=("applying",))
        lease = context.store.leases.of(state.id, context.lease_now()) if opened else None
        if lease is not None and lease.holder != context.holder:
            return
        for decision in opened:
            runs = dict(deployment.plan)
            status: Status
            if runs == decision.after:
                status, text = "applied", "found applied after a restart of the service"
                state.awaits_outcome = decision.id
            elif runs == decision.before:
                status, text = "failed", "the service ended meanwhile, and the job runs as before"
            else:
                status, text = "failed", f"the service ended meanwhile, and the job runs with {runs}"
            self._finish(decision, status, text, None)
