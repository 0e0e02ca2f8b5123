"""How good rankings are, by ir_measures, the field's own library.

NDCG's gain is exponential (2^grade − 1), in training, which is XGBoost's, and here, where ir_measures' ``nDCG`` is
given these gains; the discount is logarithmic. A pair counts as good for precision and MAP from grade 3 on ("Closely
Related", "Very Recent"), as in the thesis' Table 6. An entity's ideal ranking is made of all pairs that were judged
for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import ir_measures
import numpy as np
import pandas as pd
from ir_measures import AP, P, nDCG

GOOD = 3
_GAINS = {grade: 2**grade - 1 for grade in range(5)}
MEASURES = {
    "NDCG@10": nDCG(gains=_GAINS) @ 10,
    "NDCG@5": nDCG(gains=_GAINS) @ 5,
    "P@10": P(rel=GOOD) @ 10,
    "P@5": P(rel=GOOD) @ 5,
    "MAP": AP(rel=GOOD) @ 10,
}

Grades = Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class Quality:
    """Means over queries, and the measures of each query for tests of significance."""

    mean: dict[str, float]
    by_query: dict[str, dict[str, float]]


def judge(
    rankings: pd.DataFrame, grades: Grades, queries: Iterable[str], measures: Iterable[str] = MEASURES
) -> Quality:
    """Measure rankings (entity, related, score or rank) on some queries; one that was not ranked counts as 0."""
    chosen = list(dict.fromkeys(queries))
    wanted = set(chosen)
    qrels = [ir_measures.Qrel(one, other, grade) for (one, other), grade in grades.items() if one in wanted]
    rows = rankings[rankings["entity"].astype(str).isin(wanted)]
    run = [
        # The rank decides, ties of the score included.
        ir_measures.ScoredDoc(str(entity), str(related), -float(rank))
        for entity, related, rank in zip(rows["entity"], rows["related"], rows["rank"], strict=True)
    ]
    named = {MEASURES[name]: name for name in measures}
    by_query: dict[str, dict[str, float]] = {name: dict.fromkeys(chosen, 0.0) for name in named.values()}
    for metric in ir_measures.iter_calc(list(named), qrels, run):
        if metric.query_id in wanted:
            by_query[named[metric.measure]][metric.query_id] = float(metric.value)
    means = {name: float(np.mean(list(values.values()))) if values else 0.0 for name, values in by_query.items()}
    return Quality(means, by_query)
