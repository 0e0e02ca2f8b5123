"""How often a plan with one instance less than the oracle's shows no backpressure.

All built-in workloads at 10 · W_u, 120 s of settling, 60 s of measuring, seed 0: every operator with more than one
instance loses one, by itself. A shortage of a few percent stays hidden while buffers fill: some of these look clean.
"""

from __future__ import annotations

import json
from pathlib import Path

from streamtune import workloads
from streamtune.engines.simulator import find_oracle, simulate_once
from streamtune.engines.simulator.settings import SimulatorWindow

RESULTS = Path(__file__).parent / "results" / "below-oracle.json"


def main() -> None:
    tried, clean = 0, 0
    for name in workloads.names():
        workload = workloads.load(name)
        job, rates = workload.spec.job, workload.rates_at(10)
        sources = {source.id: job.initial_plan[source.id] for source in job.dataflow.sources}
        oracle = find_oracle(job, workload.physics, rates, fixed=sources)
        for key, degree in oracle.plan.items():
            if key in sources or degree < 2 or oracle.unreachable:
                continue
            plan = oracle.plan.replace({key: degree - 1})
            seen = simulate_once(job, workload.physics, plan, rates, window=SimulatorWindow(120, 60), seed=0)
            tried += 1
            clean += not seen.has_backpressure
    RESULTS.write_text(json.dumps({"plans": tried, "clean": clean, "settle_s": 120, "window_s": 60}, indent=1) + "\n")
    print(f"{clean} of {tried} plans with one instance less than the oracle's show no backpressure")


if __name__ == "__main__":
    main()
