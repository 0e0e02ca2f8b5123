"""Tune a job on the simulator while the rate of its source changes.

python examples/tune_on_simulator.py

Needs nothing but ``pip install streamtune``. With ``streamtune[learn]``, try ``make_tuner("streamtune", spec.job)``.
"""

from __future__ import annotations

from pathlib import Path

from streamtune import Controller, Simulator, load_spec, make_tuner

JOB = Path(__file__).with_name("job.yaml")
RATES = [{"lines": 20_000.0}, {"lines": 60_000.0}, {"lines": 35_000.0}]


def main() -> None:
    spec = load_spec(JOB)
    engine = Simulator.of(spec)
    controller = Controller(engine, make_tuner("ds2", spec.job))
    deployment = engine.deploy(spec.job, spec.job.initial_plan)
    for outcome in controller.tune_over(deployment, RATES):
        state = "backpressure is left" if outcome.backpressure else "it keeps up"
        print(
            f"{outcome.rates['lines']:>6,.0f} lines/s: {dict(outcome.deployment.plan)} "
            f"after {outcome.reconfigurations} reconfiguration(s), {state}"
        )


if __name__ == "__main__":
    main()
