"""Which jobs are for training and which for testing. By job, never by row; by a hash, never by a random generator."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sql

from streamtune.history.settings import DEFAULT_TEST_SHARE
from streamtune.models.splits import bucket

TRAIN, TEST = "train", "test"
_BUCKETS = 10_000


def split_of(job: str, test_share: float = DEFAULT_TEST_SHARE) -> str:
    """The part a job belongs to; the same on every machine and in every run.

    >>> split_of("nexmark-q5") == split_of("nexmark-q5")
    True
    """
    return TEST if bucket(job, _BUCKETS) < round(test_share * _BUCKETS) else TRAIN


def split_column(test_share: float = DEFAULT_TEST_SHARE, job: str = "job") -> Column:
    """The same as a column of Spark."""
    number = sql.conv(sql.substring(sql.sha2(job, 256), 1, 8), 16, 10).cast("bigint") % _BUCKETS
    return sql.when(number < round(test_share * _BUCKETS), TEST).otherwise(TRAIN)
