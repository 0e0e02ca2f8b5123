"""The thesis' future work: features of change over time. Do they make rankings fresher?

To the features of the longest window come, for each of a few counts and probabilities, the logarithm of its ratio
between a shorter window and a longer one that end on the same day, and whether the pair was searched for at all in the
shorter one. A model with them and one without are trained on the same pairs, once to please by relevance, once by
recency; the parameters of each are chosen by cross-validation on queries that are not judged.
"""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import xgboost

from streamtune.dataflow.documents import read_document
from streamtune.experiments.paper.findings import Check, Finding, Shown
from streamtune.experiments.sundog.arena import SundogArena, top_ten
from streamtune.experiments.sundog.rankings import FRESHNESS, KINDS, RELEVANCE, p_value
from streamtune.outputs import write_whole
from streamtune.sundog.evaluation import judge
from streamtune.sundog.features import FEATURES
from streamtune.sundog.labels import sample_queries
from streamtune.sundog.training import Examples, fit, sweep

_CHANGING = ("conditional_users", "joint_users", "joint_events", "related_probability_users")
_PLACE = {RELEVANCE: 0, FRESHNESS: 1}


def with_trends(arena: SundogArena, day: date) -> tuple[pd.DataFrame, list[str]]:
    """Features of the longest window and the names of the trend features added to them."""
    windows = arena.scale.windows
    table = arena.features(day, windows[-1])
    names: list[str] = []
    for window in windows[:-1]:
        shorter = arena.features(day, window)[["entity", "related", *_CHANGING]]
        table = table.merge(shorter, on=["entity", "related"], how="left", suffixes=("", f"_{window}"))
        table[f"searched_{window}"] = table[f"joint_events_{window}"].notna().astype(np.float32)
        names.append(f"searched_{window}")
        for feature in _CHANGING:
            ratio = table[f"{feature}_{window}"].fillna(0.0) / table[feature].clip(lower=1e-12)
            table[f"trend_{feature}_{window}"] = np.log(ratio.clip(lower=1e-3)).astype(np.float32)
            names.append(f"trend_{feature}_{window}")
    return table, names


def trends(arena: SundogArena) -> Finding:
    """Four models on every judged day: with and without trends, for relevance and for recency."""
    got: dict[tuple[str, bool, str], list[float]] = {}
    for day in arena.scale.judged_days:
        arena.tell(f"trends on {day}")
        table, added = with_trends(arena, day)
        grades = arena.grades(day)
        queries = arena.queries(day)
        asked = table[table["entity"].isin(set(queries))]
        for aim in KINDS:
            labels = {pair: grade[_PLACE[aim]] for pair, grade in grades.items()}
            for trendy in (False, True):
                columns = [*FEATURES, *(added if trendy else [])]
                kept = arena.learned / f"trends-{day}-{aim}-{'with' if trendy else 'without'}.json"
                score = _scores(arena, table[~table["entity"].isin(arena.held_out)], asked, columns, labels, kept)
                ranked = top_ten(asked, score)
                for kind in KINDS:
                    pool = {pair: grade[_PLACE[kind]] for pair, grade in grades.items()}
                    found = judge(ranked, pool, queries, ["NDCG@10"]).by_query["NDCG@10"]
                    got.setdefault((aim, trendy, kind), []).extend(found.values())
    return _finding(arena, {key: np.array(found) for key, found in got.items()})


def _scores(
    arena: SundogArena,
    train: pd.DataFrame,
    asked: pd.DataFrame,
    columns: list[str],
    labels: dict[tuple[str, str], int],
    kept: Path,
) -> np.ndarray:
    """Scores of the judged pairs. The chosen parameters are kept, since the sweep is what takes long."""
    train = sample_queries(train, labels, arena.scale.labelled_pairs, arena.scale.seed)
    train = train.sort_values(["entity", "related"], kind="stable")
    label = np.array([labels[pair] for pair in zip(train["entity"], train["related"], strict=True)], np.int32)
    query = pd.factorize(train["entity"])[0].astype(np.int64)
    data = Examples(np.ascontiguousarray(train[columns].to_numpy(np.float32)), label, query)
    if not kept.is_file():
        write_whole(kept, json.dumps(sweep(data, arena.sweep, arena.spark)[0]))
    best = read_document(kept)
    booster = fit(data, np.arange(len(label)), best, arena.scale.seed)
    return np.asarray(booster.predict(xgboost.DMatrix(asked[columns].to_numpy(np.float32), nthread=1)))


def _finding(arena: SundogArena, got: dict[tuple[str, bool, str], np.ndarray]) -> Finding:
    rows, checks, figures = [], [], {}
    for aim in KINDS:
        for kind in KINDS:
            plain, trendy = got[aim, False, kind], got[aim, True, kind]
            p = p_value(plain, trendy)
            rows.append((f"trained on {aim}: {kind}", f"{plain.mean():.4f}", f"{trendy.mean():.4f}", f"{p:.2g}"))
            figures[f"{aim}-{kind}"] = {"plain": float(plain.mean()), "trends": float(trendy.mean()), "p": p}
            if kind == FRESHNESS:
                measured = f"{trendy.mean():.4f} against {plain.mean():.4f}, p = {p:.2g}"
                checks.append(
                    Check(
                        f"trained on {aim}: trends make rankings fresher",
                        measured,
                        bool(trendy.mean() > plain.mean() and p < 0.05),
                    )
                )
    window = arena.scale.windows[-1]
    return Finding(
        "sundog-trends",
        "Future work: features of change over time",
        f"generated logs, window of {window} days, changes against "
        f"{', '.join(map(str, arena.scale.windows[:-1]))} days; all related pairs are judged",
        "named as future work",
        tables=(Shown("NDCG-10", ("", "without trends", "with trends", "p (paired t-test)"), tuple(rows)),),
        checks=tuple(checks),
        figures=figures,
    )
