"""The laws of the service, looked at from outside: by the store and by the engines, never by what a service believes.

A law that is broken is said at once, and written down with all that may explain it.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from streamtune.dataflow import Plan
from streamtune.engines.base import Deployment
from streamtune.service.clocks import HandClock
from streamtune.service.clusters.base import job_key
from streamtune.service.clusters.simulated import SimulatedCluster
from streamtune.service.settings import ServiceSettings
from streamtune.service.store import Store

# A job that others have restarted counts with what it had until a service has noted its new size, at most so long.
_NOTICED_AFTER_S = 3600.0


def key_of(cluster: str, name: str) -> str:
    return job_key("simulator", f"simulated://{cluster}", name)


@dataclass(frozen=True)
class Rescale:
    """One change that an engine was asked for."""

    job: str
    by: str
    decision: str
    wall: datetime
    began: float
    ended: list[float]


@dataclass
class Inspector:
    """Looks at every change before it is made, and at the leases all the time."""

    store: Store
    settings: ServiceSettings
    clock: HandClock
    evidence: Path
    clusters: dict[str, SimulatedCluster] = field(default_factory=dict)
    rescales: list[Rescale] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    checks: Counter[str] = field(default_factory=Counter)
    restarted: dict[str, tuple[float, int]] = field(default_factory=dict)
    lately: deque[str] = field(default_factory=lambda: deque(maxlen=40))

    # What happens

    def note(self, what: str) -> None:
        """Something has gone wrong on purpose: it may explain a fault."""
        self.lately.append(f"{self.clock.steady():.0f} s, {self.clock.now():%a %H:%M:%S}: {what}")

    def before(self, service: str, cluster: str, deployment: Deployment, plan: Plan) -> Rescale:
        """A change is about to be made: is it recorded, allowed, new, and by the holder of the lease?"""
        name, wall = deployment.job.name, self.clock.now()
        job = key_of(cluster, name)
        self.note(f"{service} changes {name}")
        opened = self.store.decisions.of_job(job, status=("applying",), limit=5)
        decision = opened[0].id if opened else "none"
        self._law(
            "a record before every change", len(opened) == 1 and opened[0].after == dict(plan), job, wants=dict(plan)
        )
        self._law("no plan applied twice", decision not in self.used, job, decision=decision)
        self.used.add(decision)
        lease = self.store.leases.all(self.store.lease_clock.now()).get(job)
        self._law(
            "only the holder acts",
            lease is not None and lease.holder == service,
            job,
            service=service,
            lease=str(lease),
        )
        others = [other.by for other in self.rescales if other.job == job and not other.ended and other.by != service]
        self._law("never two at the same time", not others, job, service=service, others=others)
        self._check_policy(cluster, job, deployment, plan, wall)
        one = Rescale(job, service, decision, wall, self.clock.steady(), [])
        self.rescales.append(one)
        return one

    def check_leases(self, believed: Mapping[str, list[str]]) -> None:
        """Job → the services that hold its lease as far as they know, now."""
        for job, holders in believed.items():
            self._law("no lease held by two", len(holders) <= 1, job, holders=holders)

    # The laws of policies

    def _check_policy(self, cluster: str, job: str, deployment: Deployment, plan: Plan, wall: datetime) -> None:
        policy = self.settings.policy_for(cluster, deployment.job.name)
        runs = self._runs(cluster, deployment.job.name)
        self._law("a mode that lets it act", policy.mode in ("auto", "approve"), job, mode=policy.mode)
        shrinks = any(plan[key] < runs[key] for key in plan)
        closed = [
            window for window in policy.maintenance if window.covers(wall) and (window.allow == "nothing" or shrinks)
        ]
        self._law("maintenance windows", not closed, job, wall=str(wall), runs=dict(runs), wants=dict(plan))
        for hours, most in ((1, policy.max_per_hour), (24, policy.max_per_day)):
            since = wall - timedelta(hours=hours)
            recent = [str(one.wall) for one in self.rescales if one.job == job and one.wall > since]
            self._law(f"changes within {hours} h", len(recent) < most, job, recent=recent, most=most)
        sources = {source.id for source in deployment.job.dataflow.sources}
        moved = [key for key in sources if plan[key] != runs[key]]
        self._law("sources are left alone", not moved, job, moved=moved)
        high = [key for key in plan if policy.max_parallelism and plan[key] > max(policy.max_parallelism, runs[key])]
        self._law("no operator above its limit", not high, job, high=high)
        if policy.group is not None:
            self._check_budget(policy.group, job, plan, runs)

    def _check_budget(self, group: str, job: str, plan: Plan, runs: Plan) -> None:
        noted = self.store.claims.all()
        have = {}
        for cluster in self.clusters.values():
            for name, living in cluster.engine.living.items():
                if self.settings.policy_for(cluster.name, name).group == group:
                    key, total = key_of(cluster.name, name), living.simulation.plan.total
                    have[key] = self._as_known(key, total, noted.get(key, (group, 0))[1])
        budget = self.settings.budgets[group]
        would = sum(have.values()) - have[job] + plan.total
        kept = plan.total <= runs.total or would <= budget
        self._law("budgets of groups", kept, job, have=have, noted=noted, wants=plan.total, budget=budget)

    def _as_known(self, job: str, total: int, noted: int) -> int:
        """Others may restart a job at any moment: it counts as it is once a service has seen it."""
        when, before = self.restarted.get(job, (0.0, total))
        if noted == total or self.clock.steady() - when > _NOTICED_AFTER_S:
            self.restarted.pop(job, None)
            return total
        return before

    def _runs(self, cluster: str, name: str) -> Plan:
        return self.clusters[cluster].engine.living[name].simulation.plan

    # What is said

    def _law(self, law: str, holds: bool, job: str, **evidence: Any) -> None:
        self.checks[law] += 1
        if not holds:
            self.fault(law, job, **evidence)

    def fault(self, law: str, job: str, **evidence: Any) -> None:
        """Say it now: a run of a week may be broken off, and what explains it is gone later."""
        text = f"{self.clock.now():%a %H:%M} {job}: {law}"
        self.faults.append(text)
        print(f"FAULT {text} {json.dumps(evidence, default=str)}", file=sys.stderr, flush=True)
        decisions = [
            one.model_dump(mode="json", exclude={"curves", "reasons"})
            for one in self.store.decisions.of_job(job, limit=8)
        ]
        said = {
            "law": law,
            "job": job,
            "steady_s": self.clock.steady(),
            "wall": str(self.clock.now()),
            "evidence": evidence,
            "decisions": decisions,
            "leases": {key: str(one) for key, one in self.store.leases.all(self.store.lease_clock.now()).items()},
            "rescales": [asdict(one) for one in self.rescales[-20:]],
            "lately": list(self.lately),
        }
        with self.evidence.open("a", encoding="utf-8") as file:
            file.write(json.dumps(said, default=str) + "\n")
