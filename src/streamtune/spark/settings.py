"""What can be set about Spark and the tables on it; loads no Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator

from streamtune.settings import Settings
from streamtune.spark.errors import StorageError

LOCAL_MASTER = "local[*]"
_MASTER = re.compile(r"local(\[[\d*, ]+\])?|local-cluster\[[\d, ]+\]|yarn|(spark|k8s|mesos)://\S+")
_FORMATS = ("parquet", "orc", "delta", "iceberg", "hudi", "avro", "json")

# What the pipeline relies on, whoever provides the session.
_ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    # Few, large Arrow batches: the NumPy kernels cost the same per batch, however small it is.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.parquet.compression.codec": "zstd",
}
# What suits one machine and would be wrong on a cluster.
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.log.level": "ERROR",
}


def _as_text(values: Any) -> Any:
    """Numbers and true/false as Spark writes them, so that a YAML file needs no quotes."""
    if not isinstance(values, Mapping):
        return values
    plain = {key: str(value).lower() if isinstance(value, bool) else value for key, value in values.items()}
    return {key: str(value) if isinstance(value, int | float) else value for key, value in plain.items()}


Texts = Annotated[Mapping[str, str], BeforeValidator(_as_text)]


class SparkSettings(Settings):
    """Where Spark runs. Without a master: what ``spark-submit`` gives, else all cores of this machine."""

    master: str | None = Field(default=None, description="Spark master URL, for instance spark://host:7077")
    conf: Texts = Field(default_factory=dict, description="Spark properties; they win over ours")
    app_name: str = Field(default="streamtune", description="name of the Spark application")

    @field_validator("master")
    @classmethod
    def _known_master(cls, master: str | None) -> str | None:
        if master and not _MASTER.fullmatch(master):
            raise ValueError(f"must be local[*], local[2], yarn, spark://host:7077 or k8s://…, but got '{master}'")
        return master

    @property
    def effective(self) -> dict[str, str]:
        """All properties the session is built with."""
        master = self.conf.get("spark.master") or self.master or (None if _under_spark_submit() else LOCAL_MASTER)
        local = master is not None and master.startswith("local")
        ours = {**_ALWAYS, **(_LOCAL if local else {}), "spark.app.name": self.app_name, **self.conf}
        return {**ours, "spark.master": master} if master else ours


class TableSettings(Settings):
    """How tables are kept. ``format`` is any file format that this Spark knows: parquet, orc, delta…"""

    format: str = Field(default="parquet", description="Spark's name of the file format")
    options: Texts = Field(default_factory=dict, description="options given to Spark's writer")
    partition_by: tuple[str, ...] = Field(default=("day",), description="partition columns, where a table has them")

    @field_validator("format")
    @classmethod
    def _known_format(cls, name: str) -> str:
        """A class of somebody's own has a package before its name."""
        if name not in _FORMATS and not re.fullmatch(r"\w+(\.\w+)+", name):
            raise ValueError(f"must be one of {', '.join(_FORMATS)} or the name of a class, but got '{name}'")
        return name


def _under_spark_submit() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def parse_conf(pairs: Sequence[str]) -> dict[str, str]:
    """``--spark-conf key=value`` options as a mapping.

    >>> parse_conf(["spark.executor.memory=4g"])
    {'spark.executor.memory': '4g'}
    """
    conf: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise StorageError(
                f"a Spark property is key=value, for instance spark.executor.memory=4g, but got {pair!r}"
            )
        conf[key.strip()] = value.strip()
    return conf
