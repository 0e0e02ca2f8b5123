"""From the featurised runs of one cluster to the files of its encoder."""

from __future__ import annotations

import os
import socket
import time

import pyarrow as pa
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from streamtune.models.bundle import Member, MemberFiles
from streamtune.models.encoder.evaluation import score
from streamtune.models.encoder.settings import TrainingSettings
from streamtune.models.encoder.tables import graphs_of, sample_runs, to_parquet
from streamtune.models.encoder.training import Trained, train
from streamtune.models.features import FeatureEncoder


def fit_encoder(
    name: str,
    training: pa.Table,
    testing: pa.Table,
    features: FeatureEncoder,
    settings: TrainingSettings,
    warmup_runs: int,
    started_s: float | None = None,
    start: bytes | None = None,
) -> MemberFiles:
    """Train on one part, score on the other; tables have the columns of ``encoder.tables.COLUMNS``.

    ``start`` are the weights to go on from.
    ``started_s`` is when the task began, which is earlier than this call by what loading torch takes.
    """
    started_s = time.time() if started_s is None else started_s
    trained = train(graphs_of(training, features), settings, start=None if start is None else load_tensors(start))
    member = Member(
        name=name,
        runs=trained.runs,
        jobs=trained.jobs,
        logit_shift=trained.logit_shift,
        network=settings.network,
        metrics=_metrics(trained, testing, features),
        seconds=trained.seconds,
        trained_at=(started_s, time.time()),
        trained_by=f"{socket.gethostname()}:{os.getpid()}",
    )
    weights = {key: value.contiguous() for key, value in trained.network.state_dict().items()}
    return MemberFiles(member, save_tensors(weights), to_parquet(sample_runs(training, warmup_runs, settings.seed)))


def _metrics(trained: Trained, testing: pa.Table, features: FeatureEncoder) -> dict[str, float | None]:
    found: dict[str, float | None] = {"validation_loss": trained.validation_loss, "epochs": float(trained.epochs)}
    if testing.num_rows:
        graphs = graphs_of(testing, features)
        scores = score(graphs.labels, trained.probability(graphs.batch()).numpy())
        found |= {"auc_pr": scores.auc_pr, "f1": scores.f1, "calibration_error": scores.calibration_error}
        found |= {"test_runs": float(graphs.runs), "test_bottlenecks": float(scores.bottlenecks)}
    return found
