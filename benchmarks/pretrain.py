"""Pre-training measured: from history to bundle, and whether the graph helps. Run by ``make bench-pretrain``.

Prints tables, writes ``benchmarks/results/pretrain.json`` and ``docs/images/pretrain.png``. Options:

    python benchmarks/pretrain.py --runs 10000 --growth 1000 3000 10000 30000
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from rich.console import Console
from rich.table import Table

from streamtune.experiments.bottleneck_models import (
    LabelledRuns,
    boosted,
    compare,
    encoder_outputs,
    encoder_scores,
    train_encoder,
)
from streamtune.history.cluster import assignment, centres, cluster
from streamtune.history.featurise import featurise
from streamtune.history.label import label
from streamtune.history.store import History
from streamtune.labs.histories import draw, generate
from streamtune.labs.settings import GenerateSettings
from streamtune.models.bundle import ClusterModel, ModelBundle
from streamtune.models.encoder import Trained, TrainingSettings, train
from streamtune.models.encoder.evaluation import Scores, score
from streamtune.models.encoder.tables import COLUMNS, graphs_of
from streamtune.models.features import FeatureEncoder
from streamtune.spark.session import build_session
from streamtune.spark.settings import SparkSettings
from streamtune.training.pretrain import Clustering, pretrain
from streamtune.training.settings import PretrainSettings

mpl.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[1]
RANDOM_JOBS = 200
MIN_CLUSTER_RUNS = PretrainSettings().min_cluster_runs
console = Console(width=130)


def settings_for(runs: int) -> GenerateSettings:
    return GenerateSettings(runs=runs, random_jobs=RANDOM_JOBS)


def make_history(location: Path, runs: int) -> tuple[History, FeatureEncoder]:
    spark = build_session(SparkSettings(app_name="bench-pretrain", conf={"spark.driver.memory": "3g"}))
    history = History(spark, str(location))
    start = time.perf_counter()
    generate(history, settings_for(runs))
    console.print(f"{runs:,} runs generated in {time.perf_counter() - start:.0f} s", style="dim")
    label(history)
    return history, featurise(history)


def read_runs(history: History, encoder: FeatureEncoder, runs: int, split: str) -> tuple[LabelledRuns, list[str]]:
    """Featurised runs with the true need of every operator, which only the generator can tell."""
    joined = history.features.read().join(history.labels.read().drop("day"), "run_id").where(f"split = '{split}'")
    table = joined.select(*COLUMNS).toArrow().sort_by("run_id")
    settings = settings_for(runs)
    needed: list[float] = []
    total = []
    for run_id in table.column("run_id").to_pylist():
        experiment = draw(int(run_id.rsplit("-", 1)[1]), settings)
        needs = experiment.needs()
        flow, limit = experiment.workload.spec.job.dataflow, experiment.workload.spec.job.max_parallelism
        needed += [
            float("nan") if operator.is_source or needs[operator.id] >= limit else float(needs[operator.id])
            for operator in flow.operators
        ]
        total.append(sum(experiment.rates.values()))
    graphs = graphs_of(table, encoder)
    return LabelledRuns(graphs, np.array(needed), np.array(total)), table.column("run_id").to_pylist()


def template(job: str) -> str:
    return job.rsplit("-", 1)[0] if job.startswith(("pqp", "random")) else "nexmark"


def clustered_scores(
    bundle: ModelBundle, testing: LabelledRuns, cluster_of_run: list[int]
) -> tuple[Scores, dict[str, Scores]]:
    """Every test run is judged by the encoder of its own cluster, or by the global one where there is none."""
    size = len(testing.graphs.labels)
    probability, recommended = np.zeros(size), np.ones(size)
    by_cluster: dict[str, Scores] = {}
    names = np.array([f"cluster-{number}" for number in cluster_of_run])
    for name in np.unique(names):
        runs = np.flatnonzero(names == name)
        part = testing.select(runs)
        chance, least = encoder_outputs(as_trained(bundle.models.get(name, bundle.fallback)), part.graphs)
        nodes = np.concatenate([np.arange(testing.graphs.starts[r], testing.graphs.starts[r + 1]) for r in runs])
        probability[nodes], recommended[nodes] = chance, least
        if (part.graphs.labels == 1).sum() >= 10:
            by_cluster[name] = score(part.graphs.labels, chance, least, part.needed)
    return score(testing.graphs.labels, probability, recommended, testing.needed), by_cluster


def one_per_cluster(
    training: LabelledRuns,
    testing: LabelledRuns,
    clusters: tuple[list[int], list[int]],
    seed: int,
    *,
    from_global: bool,
) -> Scores:
    """The same with encoders trained here, for every seed; a cluster too small for its own uses the global one."""
    of_training, of_testing = np.array(clusters[0]), np.array(clusters[1])
    fallback = train_encoder(training, seed)
    size = len(testing.graphs.labels)
    probability, recommended = np.zeros(size), np.ones(size)
    for number in np.unique(of_testing):
        own = np.flatnonzero(of_training == number)
        trained = fallback
        if len(own) >= MIN_CLUSTER_RUNS:
            start = fallback.network.state_dict() if from_global else None
            trained = train(training.select(own).graphs, TrainingSettings(seed=seed), start=start)
        runs = np.flatnonzero(of_testing == number)
        nodes = np.concatenate([np.arange(testing.graphs.starts[r], testing.graphs.starts[r + 1]) for r in runs])
        probability[nodes], recommended[nodes] = encoder_outputs(trained, testing.select(runs).graphs)
    return score(testing.graphs.labels, probability, recommended, testing.needed)


def as_trained(model: ClusterModel) -> Trained:
    member = model.member
    return Trained(model.network, member.logit_shift, 0.0, 0, member.runs, member.jobs, member.seconds)


def print_scores(title: str, rows: Mapping[str, Scores]) -> None:
    table = Table(title=title)
    table.add_column("model")
    for heading in ("AUC-PR", "F1", "calibration", "threshold error", "90 %", "labelled", "bottlenecks"):
        table.add_column(heading, justify="right")
    for name, found in rows.items():
        table.add_row(
            name,
            f"{found.auc_pr:.3f}",
            f"{found.f1:.3f}",
            f"{found.calibration_error:.3f}",
            "–" if found.threshold_error is None else f"{found.threshold_error:.3f}",
            "–" if found.threshold_error_p90 is None else f"{found.threshold_error_p90:.3f}",
            f"{found.labelled:,}",
            f"{found.bottlenecks:,}",
        )
    console.print(table)


def dump(rows: Mapping[str, Scores]) -> dict[str, Any]:
    return {name: found.model_dump() for name, found in rows.items()}


def print_spread(title: str, by_seed: Mapping[int, Mapping[str, Scores]]) -> None:
    """The two figures that count, as mean and range over the seeds of the models."""
    table = Table(title=f"{title}; mean (range) over seeds {', '.join(map(str, by_seed))}")
    table.add_column("model")
    table.add_column("AUC-PR", justify="right")
    table.add_column("threshold error", justify="right")
    for name in next(iter(by_seed.values())):
        found = [rows[name] for rows in by_seed.values()]
        precision = [one.auc_pr for one in found]
        error = [one.threshold_error or float("nan") for one in found]
        table.add_row(name, *(f"{np.mean(v):.3f} ({min(v):.3f}–{max(v):.3f})" for v in (precision, error)))
    console.print(table)


def main_table(work: Path, runs: int, seeds: list[int]) -> dict[str, Any]:
    """History → bundle with its time, then all models on the same unseen jobs."""
    history, encoder = make_history(work / "history", runs)
    start = time.perf_counter()
    cluster(history, work / "clusters")
    clustered_s = time.perf_counter() - start
    clustering = Clustering(assignment(history, work / "clusters"), centres(work / "clusters"))
    manifest = pretrain(
        history, work / "model", clustering=clustering, progress=lambda n, m: console.print(f"{n}: {m}")
    )
    total_s = time.perf_counter() - start
    verdict = "met" if total_s < 600 else "MISSED"
    console.print(
        f"history to bundle: {total_s:.0f} s, of which clustering {clustered_s:.0f} s (target 600 s: {verdict})"
    )
    training, train_ids = read_runs(history, encoder, runs, "train")
    testing, test_ids = read_runs(history, encoder, runs, "test")
    of_run = {row.run_id: int(row.cluster) for row in clustering.assignment.toLocalIterator()}
    clusters = [of_run.get(run_id, -1) for run_id in train_ids], [of_run.get(run_id, -1) for run_id in test_ids]
    by_seed = {}
    for seed in seeds:
        by_seed[seed] = dict(compare(training, testing, encoder, seed))
        by_seed[seed]["encoder, one per cluster, each from scratch"] = one_per_cluster(
            training, testing, clusters, seed, from_global=False
        )
        by_seed[seed]["encoder, one per cluster, from the global one"] = one_per_cluster(
            training, testing, clusters, seed, from_global=True
        )
    _, by_cluster = clustered_scores(ModelBundle.load(work / "model"), testing, clusters[1])
    print_scores(f"jobs never seen, {runs:,} runs, {len(set(testing.graphs.jobs))} test jobs", by_seed[seeds[0]])
    print_spread("jobs never seen", by_seed)
    print_scores("the same by cluster (own encoder)", by_cluster)
    by_template = scores_by_template(training, testing)
    print_scores("global encoder by workload", by_template)
    return {
        "runs": runs,
        "history_to_bundle_s": total_s,
        "clustering_s": clustered_s,
        "clusters": len(manifest.members) - 1,
        "unseen_jobs": dump(by_seed[seeds[0]]),
        "unseen_jobs_by_seed": {seed: dump(found) for seed, found in by_seed.items()},
        "by_cluster": dump(by_cluster),
        "by_workload": dump(by_template),
        "unseen_family": unseen_family(training, encoder),
    }


def scores_by_template(training: LabelledRuns, testing: LabelledRuns) -> dict[str, Scores]:
    trained = train_encoder(training)
    kinds = np.array([template(job) for job in testing.graphs.jobs])
    return {
        str(kind): encoder_scores(trained, testing.select(np.flatnonzero(kinds == kind))) for kind in np.unique(kinds)
    }


def unseen_family(training: LabelledRuns, encoder: FeatureEncoder) -> dict[str, Any]:
    """Trained without any three-way join of PQP, scored on those of the training part."""
    kinds = np.array([template(job) for job in training.graphs.jobs])
    without = training.select(np.flatnonzero(kinds != "pqp-3way"))
    joins = training.select(np.flatnonzero(kinds == "pqp-3way"))
    rows = compare(without, joins, encoder)
    print_scores("trained without three-way joins, scored on them", rows)
    return dump(rows)


def growth(work: Path, sizes: list[int]) -> list[dict[str, Any]]:
    """How accuracy and training time grow with the history (Fig. 9b)."""
    largest = max(sizes)
    history, encoder = make_history(work / "large", largest)
    training, _ = read_runs(history, encoder, largest, "train")
    testing, _ = read_runs(history, encoder, largest, "test")
    order = np.random.default_rng(0).permutation(training.graphs.runs)
    rows = []
    table = Table(title=f"growth, scored on {testing.graphs.runs:,} runs of unseen jobs")
    for heading in ("training runs", "seconds", "encoder AUC-PR", "threshold error", "XGBoost + demand AUC-PR"):
        table.add_column(heading, justify="right")
    for size in sizes:
        part = training.select(np.sort(order[: round(size * training.graphs.runs / largest)]))
        trained = train_encoder(part)
        found, plain = encoder_scores(trained, testing), boosted(part, testing, statistics=True)
        rows.append(
            {"runs": size, "seconds": trained.seconds, "encoder": found.model_dump(), "xgboost": plain.model_dump()}
        )
        table.add_row(
            f"{size:,}",
            f"{trained.seconds:.1f}",
            f"{found.auc_pr:.3f}",
            f"{found.threshold_error:.3f}",
            f"{plain.auc_pr:.3f}",
        )
    console.print(table)
    return rows


def draw_picture(result: dict[str, Any]) -> None:
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 3.8), gridspec_kw={"width_ratios": [1.6, 1, 1]})
    rows = result["main"]["unseen_jobs"]
    names = list(rows)[::-1]
    left.barh(names, [rows[name]["auc_pr"] for name in names], color="#4878a8")
    left.set_xlabel("AUC-PR, jobs never seen")
    left.tick_params(axis="y", labelsize=7)
    sizes = [row["runs"] for row in result["growth"]]
    middle.plot(sizes, [row["encoder"]["auc_pr"] for row in result["growth"]], "o-", label="encoder")
    middle.plot(sizes, [row["xgboost"]["auc_pr"] for row in result["growth"]], "s--", label="XGBoost + demand")
    middle.set_xscale("log")
    middle.set_xlabel("runs")
    middle.set_ylabel("AUC-PR")
    middle.legend(frameon=False, fontsize=8)
    right.plot(sizes, [row["seconds"] for row in result["growth"]], "o-")
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("runs")
    right.set_ylabel("training, s")
    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(ROOT / "docs" / "images" / "pretrain.png", dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--growth", type=int, nargs="+", default=[1000, 3000, 10_000, 30_000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of the models")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = {
            "seeds": options.seeds,
            "main": main_table(Path(folder), options.runs, options.seeds),
            "growth": growth(Path(folder), options.growth),
        }
    draw_picture(result)
    target = ROOT / "benchmarks" / "results" / "pretrain.json"
    target.write_text(json.dumps(result, indent=1) + "\n")
    console.print(f"written: {target.relative_to(ROOT)}, docs/images/pretrain.png")


if __name__ == "__main__":
    main()
