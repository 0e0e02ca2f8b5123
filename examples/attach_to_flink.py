"""Attach to a job that runs on Flink and bring it to the least parallelism without backpressure.

python examples/attach_to_flink.py --url http://127.0.0.1:8081 --dry-run

No cluster at hand? With ``pip install 'streamtune[flink]'`` and a JDK there is a local one:

streamtune flink up --slots 40
streamtune flink submit nexmark-q2 --max-rate 600
streamtune flink rates 8x
python examples/attach_to_flink.py
streamtune flink down
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from streamtune import Controller, FlinkEngine, MeasurementWindow, make_tuner
from streamtune.clock import Clock, SystemClock
from streamtune.control.controller import Guards, Outcome
from streamtune.engines.flink import FlinkClient

# Flink's metrics are real some ten seconds after a start, and half a minute evens out windows that fire.
WINDOW = MeasurementWindow(settle_s=20.0, length_s=30.0)


@dataclass(frozen=True)
class Options:
    """Where the job runs, and how to treat it."""

    url: str = "http://127.0.0.1:8081"
    job: str | None = None
    dry_run: bool = False


def tune(options: Options, clock: Clock | None = None) -> Outcome:
    """One tuning process. Sources are left alone, and nothing but parallelism is ever changed."""
    clock = clock or SystemClock()
    guards = Guards(max_reconfigurations=5, dry_run=options.dry_run)
    with FlinkClient(options.url) as client:
        engine = FlinkEngine(client, clock=clock)
        deployment = engine.attach(options.job)
        tuner = make_tuner("ds2", deployment.job)
        return Controller(engine, tuner, guards, WINDOW, clock=clock).tune(deployment)


def main() -> None:
    parser = argparse.ArgumentParser(description="Tune a running Flink job once.")
    parser.add_argument("--url", default=Options.url, help="address of the JobManager")
    parser.add_argument("--job", help="id or name of the job; not needed if it is the only one")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    given = parser.parse_args()
    outcome = tune(Options(given.url, given.job, given.dry_run))
    print(f"{outcome.stop_reason} after {outcome.reconfigurations} reconfiguration(s): {dict(outcome.recommendation)}")


if __name__ == "__main__":
    main()
