"""Real runs of Flink (PDSP-Bench, cleaned by the history pipeline): random folds, and leaving out whole applications.

Latency is the marker at the last operator, the rate is what arrived. Hosts are those the data names; their cores
and clocks are set by hand: Table II of the ZeroTune paper where it has them, else unchecked.
The data is read where it lies and never copied into the project.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from streamtune.dataflow import Run
from streamtune.dataflow.hosts import Cluster, Host
from streamtune.dataflow.operator import SOURCE
from streamtune.errors import StreamTuneError
from streamtune.experiments.paper.findings import Check, Finding, Shown
from streamtune.experiments.zerotune.arena import ZeroTuneArena, fingerprint, key_of
from streamtune.experiments.zerotune.flat import FlatModel
from streamtune.experiments.zerotune.scores import HEADINGS, Predictor, Score
from streamtune.models.costmodel.assembly import assembled, trained_member
from streamtune.models.costmodel.columns import LABELLED_SCHEMA
from streamtune.models.costmodel.datasets import plans_of
from streamtune.models.costmodel.features import PlanEncoder
from streamtune.models.costmodel.model import CostModel
from streamtune.models.costmodel.optisample import OptiSample
from streamtune.models.costmodel.settings import (
    CostModelSettings,
    CostNetworkSettings,
    CostTrainingSettings,
    FeatureSet,
)
from streamtune.models.costmodel.training import summary

# cores, GHz, GB, Gbit/s of the machines that occur
_HARDWARE = {
    "m510": (8, 2.0, 64, 10.0),
    "c6320": (28, 2.0, 256, 10.0),
    "c6525-25g": (16, 3.0, 128, 25.0),
    "c6525-100g": (24, 2.8, 128, 100.0),
    "d710": (4, 2.4, 12, 1.0),
}
_DEFAULT_NODES = 5
BOTH = "mean of both"
# Where a plan comes from: parallelism measured behind the sources, or (partly) only asked for or assumed.
MEASURED, ASSUMED = "measured", "assumed"
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RealRuns:
    """Valid runs as labelled plans, and the application each belongs to."""

    table: pa.Table
    applications: tuple[str, ...]

    @property
    def measured(self) -> Indices:
        """The runs of which it is known, not assumed, what parallelism they had."""
        return np.flatnonzero(np.array(self.table.column("enumeration").to_pylist()) == MEASURED)


def read_real_runs(file: Path, work: Path) -> RealRuns:
    """Through the quarantine of the history pipeline; what it rejects is not learnt from."""
    if not file.exists():
        raise StreamTuneError(f"no real runs at {file}: give the file of PDSP-Bench runs with --real-runs")
    kept = work / "real-runs.parquet"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(_cleaned(file, work), kept)
    table = pq.read_table(kept)
    return RealRuns(table, tuple(str(name) for name in table.column("structure").to_pylist()))


def _cleaned(file: Path, work: Path) -> pa.Table:
    from streamtune.history import reasons
    from streamtune.history.ingest import ingest
    from streamtune.history.settings import default_validation
    from streamtune.history.store import History
    from streamtune.spark.session import build_session
    from streamtune.training.costmodel import describe_run

    raw = _raw_records(file)
    spark = build_session()
    history = History(spark, str((work / "real-history").absolute()))
    # The parallelism asked for often has fewer entries than the DAG has operators; plans are taken from the operators,
    # which carry what ran, so this alone is not a reason to leave a run out.
    usual = default_validation("pdsp")
    tolerant = usual.model_copy(update={"tolerate": usual.tolerate | {reasons.PARALLELISM_VECTOR_LENGTH}})
    ingest(history, [str(file.absolute())], format_name="pdsp", validation=tolerant)
    rows = []
    for entry in history.runs.read().where("engine = 'flink'").select(*Run.model_fields).toLocalIterator():
        values = entry.asDict(recursive=True)
        if not (values["latency_ms"] and values["latency_ms"] > 0 and (values["throughput_per_s"] or 0) > 0):
            continue
        run, record = Run.model_validate(values), raw[values["run_id"]]
        cluster = _cluster(record["cluster"], max(o.parallelism for o in run.operators))
        row = describe_run(run, cluster, nominal_rates(run, record), measured_selectivities(record))
        known = MEASURED if plan_was_measured(record) else ASSUMED
        rows.append({**row, "query": run.run_id, "structure": str(record["application"]), "enumeration": known})
    spark.stop()
    return pa.Table.from_pylist(sorted(rows, key=lambda row: str(row["query"])), schema=LABELLED_SCHEMA)


def nominal_rates(run: Run, record: Mapping[str, Any]) -> dict[str, float] | None:
    """What the generator was asked for, which the data gives for each source; what arrived is the sum over them."""
    asked = record.get("event_rate")
    if not isinstance(asked, int | float) or not 0 < asked < float("inf"):
        return None
    return dict.fromkeys(run.source_rates, float(asked))


def measured_selectivities(record: Mapping[str, Any]) -> dict[str, float]:
    """Of the operators that report one; the runs have no records per operator to derive it from."""
    nodes = record["dag"]["nodes"]
    found = {node["id"]: (node.get("metrics") or {}).get("selectivity") for node in nodes}
    return {key: float(value) for key, value in found.items() if value is not None and np.isfinite(value)}


def plan_was_measured(record: Mapping[str, Any]) -> bool:
    """Whether the parallelism of everything behind the sources is what ran, not what was asked for or assumed."""
    return all(node["parallelism_from"] == "measured" for node in record["dag"]["nodes"] if node["type"] != SOURCE)


def _raw_records(file: Path) -> dict[str, Mapping[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        records = (json.loads(line) for line in lines)
        return {record["artifact"]: record for record in records}


def _cluster(named: Mapping[str, Any], largest: int) -> Cluster:
    """Nodes as named; more slots than cores where the plan needs them, as the experimenters configured."""
    cores, ghz, memory_gb, network_gbps = _HARDWARE.get(str(named.get("hardware")), (8, 2.0, 64, 10.0))
    nodes = int(named.get("nodes") or _DEFAULT_NODES)
    slots = max(int(named.get("slots_per_node") or cores), -(-largest // nodes))
    host = Host(kind=str(named.get("hardware")), cores=slots, ghz=ghz, memory_gb=memory_gb, network_gbps=network_gbps)
    return Cluster((host,) * nodes)


def real_runs_experiment(arena: ZeroTuneArena, file: Path) -> Finding:
    """q-errors of latency and throughput by split, against gradient boosting and a constant."""
    arena.say("reading real runs")
    runs = read_real_runs(file, arena.work)
    random = np.random.default_rng(arena.scale.seed).permutation(runs.table.num_rows)
    folds = [np.sort(part) for part in np.array_split(random, arena.scale.folds)]
    applications = np.array(runs.applications)
    left_out = [np.flatnonzero(applications == name) for name in sorted(set(runs.applications))]
    figures: dict[str, Any] = {}
    # Random folds are about jobs that ran before, so operators are known by name. Leaving out applications is about
    # jobs that never ran.
    splits: tuple[tuple[str, list[Indices], FeatureSet], ...] = (
        ("random folds", folds, "known_jobs"),
        ("application left out", left_out, "all"),
    )
    for split_name, parts, feature_set in splits:
        predicted = _cross_validated(arena, runs.table, parts, feature_set)
        for name, chosen in (("", np.arange(runs.table.num_rows)), (", measured plans alone", runs.measured)):
            figures |= {f"{split_name}{name}: {key}": one for key, one in _scores(runs, predicted, chosen).items()}
    rows = [
        (name, *(f"{both[target][key]:.2f}" for target in both for key in ("median", "p95")))
        for name, both in figures.items()
    ]
    return Finding(
        "zerotune-real",
        "Real runs of Flink (PDSP-Bench)",
        f"{runs.table.num_rows} valid runs of {len(left_out)} applications, the plan of {len(runs.measured)} measured "
        f"behind the sources; {arena.scale.folds} folds, one network each, {arena.scale.real_epochs} epochs, "
        f"seed {arena.scale.seed}",
        "",
        (Shown("", ("split: method", *HEADINGS[1:]), tuple(rows)),),
        checks=_against_the_reported(figures),
        figures=figures,
    )


def _against_the_reported(figures: Mapping[str, Score]) -> tuple[Check, ...]:
    """The issue's figure: an untuned gradient boosting on random folds."""
    latencies = {name: figures[f"random folds: {name}"]["latency"] for name in ("ZeroTune", "gradient boosting", BOTH)}
    return tuple(
        Check(
            f"random folds, latency better than 1.12 / 2.05: {name}",
            f"{one['median']:.3f} / {one['p95']:.2f}",
            one["median"] < 1.12 and one["p95"] < 2.05,
        )
        for name, one in latencies.items()
    )


def _cross_validated(
    arena: ZeroTuneArena, table: pa.Table, parts: list[Indices], feature_set: FeatureSet
) -> dict[str, Floats]:
    """Latency and throughput of every run, by models that never saw its part: 2 × R by method."""
    methods = ("ZeroTune", "gradient boosting", BOTH, "constant")
    found = {name: np.ones((2, table.num_rows)) for name in methods}
    for number, held_out in enumerate(parts):
        arena.say(f"real runs: part {number + 1} of {len(parts)}")
        rest = np.setdiff1d(np.arange(table.num_rows), held_out)
        learning, tested = table.take(pa.array(rest)), table.take(pa.array(held_out))
        found["ZeroTune"][:, held_out], found["gradient boosting"][:, held_out] = _predicted(
            arena, learning, tested, feature_set
        )
        found[BOTH][:, held_out] = np.sqrt(found["ZeroTune"][:, held_out] * found["gradient boosting"][:, held_out])
        labels = plans_of(learning).labels
        medians = np.median(labels.latency_ms), np.median(labels.throughput_per_s)
        found["constant"][:, held_out] = np.array(medians)[:, None]
    return found


def _predicted(
    arena: ZeroTuneArena, learning: pa.Table, tested: pa.Table, feature_set: FeatureSet
) -> tuple[Floats, Floats]:
    """By the network and by boosting, each 2 × tested runs."""
    settings = _settings(arena, feature_set)
    plans = plans_of(learning)

    def boosting() -> Predictor:
        encoder = PlanEncoder.fit(plans.columns, feature_set)
        return FlatModel.train("gradient boosting", plans, encoder, arena.scale.seed)

    return (
        _kept(arena, ("network", settings), learning, tested, lambda: _network(arena, learning, settings)),
        _kept(arena, ("boosting", feature_set, str(arena.scale.seed)), learning, tested, boosting),
    )


def _kept(
    arena: ZeroTuneArena, how: tuple[str, ...], learning: pa.Table, tested: pa.Table, train: Callable[[], Predictor]
) -> Floats:
    """Predictions of one model for one part, made once: a run that was stopped continues from them."""
    file = arena.work / "real" / f"{key_of(*how, fingerprint(learning), fingerprint(tested))}.npy"
    if not file.exists():
        found = train().predict(plans_of(tested).columns)
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, (found.latency_ms, found.throughput_per_s))
    predicted: Floats = np.load(file, allow_pickle=False)
    return predicted


def _scores(runs: RealRuns, predicted: Mapping[str, Floats], chosen: Indices) -> dict[str, Score]:
    """The q-errors of some of the runs, by method."""
    truth = plans_of(runs.table).labels.select(chosen)
    return {
        name: {
            "latency": summary(truth.latency_ms, latency[chosen]),
            "throughput": summary(truth.throughput_per_s, throughput[chosen]),
        }
        for name, (latency, throughput) in predicted.items()
    }


def _settings(arena: ZeroTuneArena, feature_set: FeatureSet) -> str:
    """Real throughput at the sink is not a share of what the sources offer, so the paper's readout is used."""
    scale = arena.scale
    training = CostTrainingSettings(
        network=CostNetworkSettings(readout="sink", width=64),
        epochs=scale.real_epochs,
        patience=scale.real_epochs,
        batch_plans=64,
        hidden_selectivity=0.0,
        seed=scale.seed,
    )
    return CostModelSettings(training=training, members=1, feature_set=feature_set).model_dump_json()


def _network(arena: ZeroTuneArena, learning: pa.Table, settings: str) -> CostModel:
    arena.say(f"real runs: a network of {learning.num_rows} runs")
    return assembled(settings, [trained_member(learning, settings, train_share=0.9)[0]], OptiSample({}))
