"""Judgements of pairs: planted truth, or people's own in a file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd

from streamtune.dataflow.documents import DocumentError, read_text
from streamtune.sundog.errors import SundogError
from streamtune.sundog.world import Truth

MOST_BYTES = 2**30

Grades = dict[tuple[str, str], int]


@dataclass(frozen=True)
class Judgements:
    """Grades 0 to 4 of (entity, related); recency only where it is known."""

    relevance: Grades
    recency: Grades = field(default_factory=dict)


def read_grades(truth: Path | None, labels: Path | None, day: date) -> Judgements:
    """From the planted truth of a day, or from a file of JSON lines (entity, related, grade)."""
    if (truth is None) == (labels is None):
        raise SundogError("judgements are needed: give --truth or --labels, one of the two")
    if truth is not None:
        both = Truth.read(truth).grades(day)
        return Judgements(
            {pair: grade[0] for pair, grade in both.items()}, {pair: grade[1] for pair, grade in both.items()}
        )
    assert labels is not None
    return Judgements(_read_labels(labels))


def _read_labels(file: Path) -> Grades:
    try:
        text = read_text(file, MOST_BYTES)
    except DocumentError as error:
        raise SundogError(f"{file} {error.problem}: labels are JSON lines with entity, related and grade") from error
    grades: Grades = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            entity, related, grade = record["entity"], record["related"], record["grade"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise SundogError(
                f"{file} line {number}: needs entity, related and grade, but got {line[:80]!r}"
            ) from error
        if isinstance(grade, bool) or grade not in range(5):
            raise SundogError(f"{file} line {number}: a grade is 0, 1, 2, 3 or 4, but got {grade!r}")
        grades[str(entity), str(related)] = int(grade)
    return grades


def most_searched(rankings: pd.DataFrame, count: int) -> list[str]:
    """The entities with most events among those that have a ranking; ties go by id."""
    events = rankings.groupby("entity", observed=True)["entity_events"].max().reset_index()
    events["entity"] = events["entity"].astype(str)
    best = events.sort_values(["entity_events", "entity"], ascending=[False, True])
    return [str(entity) for entity in best["entity"].head(count)]


def sample_queries(table: pd.DataFrame, grades: Grades, most_pairs: int, seed: int) -> pd.DataFrame:
    """Whole queries, drawn until about so many labelled pairs are together."""
    sizes = table.groupby("entity", observed=True)["related"].size()
    order = np.random.default_rng([seed, 6]).permutation(len(sizes))
    kept = sizes.index[order[np.cumsum(sizes.to_numpy()[order]) <= max(most_pairs, int(sizes.max()))]]
    return table if len(grades) == 0 else table[table["entity"].isin(kept)]
