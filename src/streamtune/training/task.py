"""What a Spark task does to train one encoder. Torch is loaded inside the task."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streamtune.history.split import TEST, TRAIN
from streamtune.models.features import FeatureEncoder

RESULT = "member string, weights binary, warmup binary, error string"
_SCHEMA = pa.schema(
    [("member", pa.string()), ("weights", pa.binary()), ("warmup", pa.binary()), ("error", pa.string())]
)


def train_task(
    batches: Iterator[pa.RecordBatch],
    *,
    name: str,
    features: str,
    training: str,
    warmup_runs: int,
    start: bytes | None,
) -> Iterator[pa.RecordBatch]:
    """Trains on the training part, scores on the test part, gives back one row. Settings come as JSON."""
    started_s = time.time()
    from streamtune.errors import StreamTuneError
    from streamtune.models.encoder import TrainingSettings
    from streamtune.models.encoder.pretraining import fit_encoder

    table = pa.Table.from_batches(list(batches))
    split = table.column("split")
    try:
        files = fit_encoder(
            name,
            table.filter(pc.equal(split, TRAIN)),
            table.filter(pc.equal(split, TEST)),
            FeatureEncoder.from_json(features),
            TrainingSettings.model_validate_json(training),
            warmup_runs,
            started_s,
            start,
        )
        row: tuple[Any, ...] = (files.member.model_dump_json(), files.weights, files.warmup, None)
    except StreamTuneError as error:
        row = (None, None, None, str(error))
    arrays = [pa.array([value], type=field.type) for value, field in zip(row, _SCHEMA, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
