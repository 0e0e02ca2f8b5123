"""Write your own tuner: one class with one method, which then runs on every engine.

python examples/own_tuner.py

This one is Kubernetes' rule for pods: instances × (load now / load wanted), operator by operator.
"""

from __future__ import annotations

import math
from pathlib import Path

from streamtune import Controller, Observation, Plan, Recommendation, Simulator, Tuner, load_spec
from streamtune.testing import TUNER_LAWS

JOB = Path(__file__).with_name("job.yaml")
WANTED_LOAD = 0.7


class TargetUtilisation(Tuner):
    """Every operator gets as many instances as bring its busy share to 70 %; sources stay as they are."""

    name = "target-utilisation"

    def recommend(self, observation: Observation) -> Recommendation:
        degrees, why = {}, {}
        for operator in self.job.dataflow.operators:
            metrics = observation.operators[operator.id]
            degrees[operator.id], why[operator.id] = metrics.parallelism, "kept as it is"
            # What was not measured is NaN: no decision is better than a wild one.
            if not operator.is_source and math.isfinite(metrics.busy_share):
                wanted = math.ceil(metrics.parallelism * metrics.busy_share / WANTED_LOAD)
                degrees[operator.id] = min(max(1, wanted), self.job.max_parallelism)
                why[operator.id] = f"it was busy {metrics.busy_share:.0%} of the time"
        return Recommendation(Plan(degrees), why)


def main() -> None:
    spec = load_spec(JOB)
    engine = Simulator.of(spec)
    deployment = engine.deploy(spec.job, spec.job.initial_plan)
    outcome = Controller(engine, TargetUtilisation(spec.job)).tune(deployment)
    for law in TUNER_LAWS:  # in your tests: one test per law
        law(TargetUtilisation, spec.job, outcome.observation)
    plan, steps = dict(outcome.deployment.plan), outcome.reconfigurations
    print(f"{plan} after {steps} reconfiguration(s) ({outcome.stop_reason})")


if __name__ == "__main__":
    main()
