"""``History``: the tables of one execution history, all under one location."""

from __future__ import annotations

from pyspark.sql import SparkSession

from streamtune.spark.settings import TableSettings
from streamtune.spark.tables import Table


class History:
    """The tables of one history, all under one location: whatever address Spark can reach.

    >>> spark = SparkSession.getActiveSession()  # or ``build_session()``, which starts one
    >>> History(spark, "s3a://bucket/history/").location
    's3a://bucket/history'
    """

    def __init__(self, spark: SparkSession, location: str, settings: TableSettings | None = None) -> None:
        self.spark = spark
        self.location = location.rstrip("/")
        self.settings = settings or TableSettings()

    def table(self, name: str) -> Table:
        return Table(self.spark, f"{self.location}/{name}", self.settings)

    @property
    def runs(self) -> Table:
        return self.table("runs")

    @property
    def rejected(self) -> Table:
        return self.table("rejected")

    @property
    def labels(self) -> Table:
        return self.table("labels")

    @property
    def features(self) -> Table:
        return self.table("features")
