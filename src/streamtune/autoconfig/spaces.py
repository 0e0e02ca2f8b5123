"""The spaces of Spark and Flink: what is worth tuning, described once, with the engines' defaults.

Which knobs of Spark Structured Streaming matter was measured (PLATFORM.md): shuffle partitions 3.5 to 8 ×, batch size
another 3.5 ×, partition bytes, state store and code generation 15 to 45 %; adaptive execution, Arrow batch and open
cost: nothing to see, so that they are not here. Flink's are the ones its documentation names for
throughput, of those that a job can bring with it (``taskmanager.*`` is the cluster's).
"""

from __future__ import annotations

from typing import Any

from streamtune.autoconfig.problem import Problem, parse_problem
from streamtune.errors import StreamTuneError

_STATE = "org.apache.spark.sql.execution.streaming.state."
_HEAP, _ROCKSDB = f"{_STATE}HDFSBackedStateStoreProvider", f"{_STATE}RocksDBStateStoreProvider"

SPARK: dict[str, Any] = {
    "engine": "spark",
    "objective": {"direction": "maximize", "timeout": 600},
    "knobs": {
        "shuffle_partitions": {
            "type": "int", "low": 1, "high": 400, "log": True, "default": 200, "key": "spark.sql.shuffle.partitions",
            "description": "Tasks behind a shuffle, and state stores of a stateful query: each costs time per batch.",
        },
        "files_per_batch": {
            "type": "int", "low": 1, "high": 64, "log": True, "default": 1,
            "description": "Input files in one micro-batch: the batch size. Read by the application.",
        },
        "partition_mb": {
            "type": "int", "low": 1, "high": 512, "log": True, "default": 128, "unit": "mb",
            "key": "spark.sql.files.maxPartitionBytes", "description": "Bytes of input files in one task.",
        },
        "state_store": {
            "type": "category", "choices": [_HEAP, _ROCKSDB],
            "default": _HEAP, "key": "spark.sql.streaming.stateStore.providerClass",
            "description": "Where state lives: the heap, or RocksDB beside it for state that is larger.",
        },
        "changelog": {
            "type": "category", "choices": [False, True], "default": False,
            "when": f"state_store == '{_ROCKSDB}'",
            "key": "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
            "description": "RocksDB writes changes at a commit instead of snapshots.",
        },
        "codegen": {
            "type": "category", "choices": [True, False], "default": True, "key": "spark.sql.codegen.wholeStage",
            "description": "Compile whole stages.",
        },
        "no_data_batches": {
            "type": "category", "choices": [True, False], "default": True,
            "key": "spark.sql.streaming.noDataMicroBatches.enabled",
            "description": "Run an extra batch without data to let windows close.",
        },
        "retained_batches": {
            "type": "int", "low": 2, "high": 100, "log": True, "default": 100,
            "key": "spark.sql.streaming.minBatchesToRetain",
            "description": "Old versions of state that are kept.",
        },
    },
}  # fmt: skip

FLINK: dict[str, Any] = {
    "engine": "flink",
    "objective": {"direction": "maximize", "timeout": 600},
    "knobs": {
        "parallelism": {
            "type": "int", "low": 1, "high": 64, "log": True, "default": 1, "key": "parallelism.default",
            "operator": "job", "description": "Instances of every operator that sets no parallelism of its own.",
        },
        "buffer_timeout": {
            "type": "int", "low": 0, "high": 1000, "default": 100, "unit": " ms",
            "key": "execution.buffer-timeout.interval",
            "description": "How long a record may wait for its network buffer to fill; 0 flushes every record.",
        },
        "object_reuse": {
            "type": "category", "choices": [False, True], "default": False, "key": "pipeline.object-reuse",
            "description": "Hand records on without copying; only for functions that do not keep them.",
        },
        "checkpoint_interval": {
            "type": "int", "low": 1, "high": 600, "log": True, "default": 60, "unit": " s",
            "key": "execution.checkpointing.interval", "description": "Seconds between checkpoints.",
        },
        "mini_batch": {
            "type": "category", "choices": [False, True], "default": False, "key": "table.exec.mini-batch.enabled",
            "description": "SQL: gather records before aggregating.",
        },
        "mini_batch_latency": {
            "type": "int", "low": 10, "high": 10000, "log": True, "default": 1000, "unit": " ms", "when": "mini_batch",
            "key": "table.exec.mini-batch.allow-latency", "description": "SQL: how long records may be gathered.",
        },
        "mini_batch_size": {
            "type": "int", "low": 100, "high": 100000, "log": True, "default": 5000, "when": "mini_batch",
            "key": "table.exec.mini-batch.size", "description": "SQL: how many records are gathered at most.",
        },
    },
}  # fmt: skip

_SPACES = {"spark": SPARK, "flink": FLINK}


def engine_problem(engine: str) -> Problem:
    """The space of an engine.

    :raises StreamTuneError: for an engine that has none.
    """
    if engine not in _SPACES:
        raise StreamTuneError(f"no space for engine {engine!r}: there are {', '.join(_SPACES)}")
    return parse_problem(_SPACES[engine], f"the space of {engine}")
