"""Training, the model file, and measures, without Spark."""

from __future__ import annotations

import json
import math
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from streamtune.errors import StreamTuneError
from streamtune.sundog.evaluation import judge
from streamtune.sundog.features import FEATURES
from streamtune.sundog.labels import most_searched, read_grades, sample_queries
from streamtune.sundog.model import TreeModel
from streamtune.sundog.settings import SweepSettings
from streamtune.sundog.training import Examples, examples, folds_of, ndcg, train

QUICK = SweepSettings(learning_rates=(0.3,), trees=(10, 20), depths=(2,), folds=3)


def table(queries: int = 40, pairs: int = 8, seed: int = 0) -> tuple[pd.DataFrame, dict[tuple[str, str], int]]:
    """Features in which one column tells the grade, with some noise."""
    random = np.random.default_rng(seed)
    rows = [(f"q{query:02d}", f"r{pair}") for query in range(queries) for pair in range(pairs)]
    frame = pd.DataFrame(random.random((len(rows), len(FEATURES))).astype(np.float32), columns=list(FEATURES))
    frame.insert(0, "entity", [row[0] for row in rows])
    frame.insert(1, "related", [row[1] for row in rows])
    truth = frame["conditional_users"] + 0.05 * random.normal(size=len(rows))
    grades = np.clip((truth * 5).astype(int), 0, 4)
    return frame, {row: int(grade) for row, grade in zip(rows, grades, strict=True)}


def test_a_model_learns_and_survives_its_folder(tmp_path: Path) -> None:
    frame, grades = table()
    data = examples(frame, grades)
    model = train(data, day=date(2014, 1, 12), window=7, settings=QUICK)
    assert model.card.ndcg > 0.9
    assert len(model.card.swept) == 2
    assert model.card.swept[0]["ndcg"] >= model.card.swept[1]["ndcg"], "the best of the sweep"
    assert next(iter(model.importance())) == "conditional_users"
    other, other_grades = table(seed=1)
    unseen = examples(other, other_grades)
    assert ndcg(unseen.query, unseen.label, model.score(unseen.features), 10) > 0.9
    model.save(tmp_path / "model")
    again = TreeModel.load(tmp_path / "model")
    assert again.card == model.card
    assert np.array_equal(again.score(unseen.features), model.score(unseen.features))
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"manifest.json", "manifest.sha256", "trees.json"}
    single = np.concatenate([again.score(unseen.features[row : row + 1]) for row in range(20)])
    assert np.array_equal(single, again.score(unseen.features)[:20]), "a score does not depend on other rows"


def test_damaged_models_are_refused(tmp_path: Path) -> None:
    frame, grades = table(queries=6)
    model = train(examples(frame, grades), day=date(2014, 1, 12), window=7, settings=QUICK)
    model.save(tmp_path / "model")
    (tmp_path / "model" / "trees.json").write_text("{}")
    with pytest.raises(StreamTuneError, match=r"trees.json is not what was written"):
        TreeModel.load(tmp_path / "model")
    model.save(tmp_path / "other")
    manifest = json.loads((tmp_path / "other" / "manifest.json").read_text())
    manifest["card"]["features"] = ["one"]
    (tmp_path / "other" / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "other" / "manifest.sha256").unlink()  # else it is refused as damaged before its features are compared
    with pytest.raises(StreamTuneError, match="other features"):
        TreeModel.load(tmp_path / "other")


def test_a_query_is_in_one_fold() -> None:
    frame, grades = table(queries=25)
    data = examples(frame, grades)
    fold = folds_of(data, 10, seed=3)
    assert set(fold) == set(range(10))
    assert all(len(set(fold[data.query == query])) == 1 for query in range(25))


def test_examples_need_two_labelled_pairs() -> None:
    frame, _ = table(queries=2, pairs=3)
    data = examples(frame, {("q00", "r0"): 4, ("q00", "r2"): 1, ("q01", "r1"): 3})
    assert data.label.tolist() == [4, 1]
    with pytest.raises(StreamTuneError, match="no query has two labelled pairs"):
        examples(frame, {("q01", "r1"): 3})


def test_ndcg_by_hand() -> None:
    ranked = pd.DataFrame({"entity": ["a", "a", "b"], "related": ["x", "y", "z"], "rank": [1, 2, 1]})
    grades = {("a", "x"): 1, ("a", "y"): 4, ("a", "w"): 3, ("b", "z"): 0, ("c", "z"): 4}
    quality = judge(ranked, grades, ["a", "b", "c"])
    # Gains 1 and 15 at ranks 1 and 2, discounts log2(2) and log2(3); ideal: 15, 7 and 1.
    wanted = (1 + 15 / math.log2(3)) / (15 + 7 / math.log2(3) + 1 / 2)
    assert quality.by_query["NDCG@10"] == pytest.approx({"a": wanted, "b": 0.0, "c": 0.0})
    assert quality.mean["NDCG@10"] == pytest.approx(wanted / 3)
    assert quality.by_query["P@5"]["a"] == pytest.approx(1 / 5)
    assert quality.by_query["MAP"]["a"] == pytest.approx((1 / 2) / 2), "one of two good pairs, at rank 2"


def test_both_ndcgs_agree() -> None:
    frame, grades = table(queries=10, seed=5)
    data = examples(frame, grades)
    score = data.features[:, FEATURES.index("conditional_users")]
    order = frame.sort_values(["entity", "conditional_users"], ascending=[True, False])
    ranked = order.assign(rank=order.groupby("entity").cumcount() + 1)
    slow = judge(ranked[ranked["rank"] <= 10], grades, [f"q{query:02d}" for query in range(10)]).mean["NDCG@10"]
    assert ndcg(data.query, data.label, score, 10) == pytest.approx(slow)


def test_labels_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "labels.jsonl"
    file.write_text('{"entity": "a", "related": "b", "grade": 4}\n\n{"entity": "a", "related": "c", "grade": 0}\n')
    assert read_grades(None, file, date(2014, 1, 1)).relevance == {("a", "b"): 4, ("a", "c"): 0}
    for text, message in (
        ('{"entity": "a", "related": "b", "grade": 5}', "a grade is 0, 1, 2, 3 or 4, but got 5"),
        ('{"entity": "a", "grade": 1}', "line 1: needs entity, related and grade"),
        ("nonsense", "line 1: needs entity, related and grade"),
    ):
        file.write_text(text)
        with pytest.raises(StreamTuneError, match=message):
            read_grades(None, file, date(2014, 1, 1))
    with pytest.raises(StreamTuneError, match="one of the two"):
        read_grades(None, None, date(2014, 1, 1))


def test_whole_queries_are_drawn() -> None:
    frame, grades = table(queries=20, pairs=5)
    drawn = sample_queries(frame, grades, 30, seed=0)
    assert len(drawn) == 30
    assert (drawn.groupby("entity").size() == 5).all()


def test_most_searched_go_by_events_then_id() -> None:
    frame = pd.DataFrame({"entity": ["b", "b", "a", "c"], "entity_events": [5, 5, 5, 9]})
    assert most_searched(frame, 2) == ["c", "a"]


def test_perfect_scores_have_ndcg_one() -> None:
    data = Examples(np.zeros((4, 1), np.float32), np.array([0, 4, 2, 1], np.int32), np.array([0, 0, 1, 1]))
    assert ndcg(data.query, data.label, data.label.astype(np.float32), 10) == 1.0
