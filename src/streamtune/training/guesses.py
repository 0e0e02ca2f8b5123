"""Runs whose offered rates are guesses: they would teach as if they were measurements."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sql


def is_guessed() -> Column:
    """Of a table of runs: whether the rate of a source is a guess. Older ones do not say, and were measured."""
    guessed = sql.array_contains(sql.map_values("rate_origins"), "estimated")
    return sql.coalesce(guessed, sql.lit(False))
