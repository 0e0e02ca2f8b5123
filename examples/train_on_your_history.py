"""Train a model on your own history, and let it tune a job it has never seen.

python examples/train_on_your_history.py my-folder

Needs ``pip install 'streamtune[spark,learn]'`` and Java 17. Your own runs come from ``streamtune collect`` or
``streamtune tune --history``; any file with one run per line as JSON will do (docs: the schema of runs). Here, the
simulator stands in for a cluster: it runs a few jobs under random plans, and the runs are written to such a file.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from streamtune import Controller, History, Job, ModelBundle, Plan, Simulator, build_session, load_spec, make_tuner
from streamtune.dataflow import Run
from streamtune.engines.simulator import simulate_once
from streamtune.history.featurise import featurise
from streamtune.history.ingest import ingest
from streamtune.history.label import label
from streamtune.models.encoder import NetworkSettings, TrainingSettings
from streamtune.training.pretrain import PretrainSettings, pretrain
from streamtune.workloads import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = Path(__file__).with_name("job.yaml")
# Small, so that the example takes a minute; leave the settings out for a model to work with.
QUICK = PretrainSettings(training=TrainingSettings(network=NetworkSettings(width=8, iterations=1), epochs=3))


def observed_runs(count: int = 120, seed: int = 0) -> list[Run]:
    """What you would have: observations of your jobs under the plans they happened to have."""
    draw = random.Random(seed)
    runs = []
    for number in range(count):
        workload = load(f"random-{draw.randrange(12)}")
        job = workload.spec.job
        plan = Plan({key: draw.randint(1, 30) for key in job.dataflow.index})
        rates = {source: rate * draw.uniform(1, 10) for source, rate in workload.units.items()}
        seen = simulate_once(job, workload.physics, plan, rates, seed=number)
        runs.append(Run.of(f"run-{number:04d}", job, "simulator", seen))
    return runs


def train(spark: SparkSession, folder: Path) -> ModelBundle:
    """From a file of runs to a model bundle: ingest, label, featurise, pretrain."""
    file = folder / "runs.jsonl"
    file.write_text("".join(json.dumps(run.to_record()) + "\n" for run in observed_runs()), encoding="utf-8")
    history = History(spark, str(folder / "history"))
    report = ingest(history, [str(file)])
    print(f"{report.valid} runs are valid, {report.rejected} were rejected")
    label(history)
    featurise(history)
    pretrain(history, folder / "model", settings=QUICK)
    return ModelBundle.load(folder / "model")


def tune(bundle: ModelBundle, job: Job, engine: Simulator) -> None:
    tuner = make_tuner("streamtune", job, model=bundle.path)
    outcome = Controller(engine, tuner).tune(engine.deploy(job, job.initial_plan))
    plan, steps = dict(outcome.deployment.plan), outcome.reconfigurations
    print(f"{plan} after {steps} reconfiguration(s) ({outcome.stop_reason})")


def main(folder: Path, spark: SparkSession | None = None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    session = spark or build_session()
    try:
        bundle = train(session, folder)
    finally:
        if spark is None:
            session.stop()
    print(f"the model knows {len(bundle.capacity.types)} types of operators from {bundle.manifest.data['runs']} runs")
    spec = load_spec(JOB)
    tune(bundle, spec.job, Simulator.of(spec))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/example-history"))
