"""Log lines to tables on Spark, against counting by hand."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from streamtune.errors import StreamTuneError
from streamtune.sundog.knowledge import load_knowledge
from streamtune.sundog.pipeline import Sundog
from streamtune.sundog.ranking import COUNTS
from streamtune.sundog.readers import Slice, read_slice
from streamtune.sundog.settings import SundogSettings
from sundog.brute_force import count_window
from sundog.examples import ENTITIES, RELATIONS, make_lines, write_knowledge

pytestmark = pytest.mark.spark

WriteLog = Callable[[Path, list[Any]], Path]
SMALL = SundogSettings(buckets=2, slice_bytes=2_000, slice_rows=50)


def read_tables(out: Path, table: str) -> pd.DataFrame:
    frame = pd.read_parquet(out / table)
    return frame.sort_values(
        ["day", "window", "entity", *(["rank"] if "rank" in frame else []), "related"]
    ).reset_index(drop=True)


def test_counts_are_those_of_brute_force(
    spark: SparkSession, tmp_path: Path, knowledge_folder: Path, write_log: WriteLog
) -> None:
    lines = make_lines(400)
    write_log(tmp_path / "logs/a.jsonl", [*lines[:150], "", "   "])
    (tmp_path / "logs/more").mkdir()
    with gzip.open(tmp_path / "logs/more/b.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(json.dumps(line) for line in lines[150:250]))  # no line feed at the end
    table = pa.Table.from_pylist(lines[250:])
    pq.write_table(table, tmp_path / "logs/c.parquet", row_group_size=40)
    sundog = Sundog(spark, load_knowledge(knowledge_folder), str(tmp_path / "out"), SMALL)
    report = sundog.run([str(tmp_path / "logs")], [date(2014, 1, 16)], [1, 7])
    assert report.counts.lines == 400
    assert report.counts.broken == 0
    assert report.counts.add_up
    features, rankings = (read_tables(tmp_path / "out", name) for name in ("features", "rankings"))
    for window in (1, 7):
        wanted = count_window(lines, ENTITIES, RELATIONS, "2014-01-16", window)
        rows = features[features.window == window].set_index(["entity", "related"])[list(COUNTS)]
        assert rows.to_dict("index") == wanted
        assert len(wanted) >= 4
        ranked = rankings[rankings.window == window]
        assert set(zip(ranked.entity, ranked.related, strict=True)) == set(wanted), "fewer than ten: all are ranked"
    for _, group in rankings.groupby(["window", "entity"], observed=True):
        assert group["rank"].tolist() == list(range(1, len(group) + 1))
        assert (np.diff(group["score"]) <= 0).all()
        assert np.allclose(group["score"], group["users"] / group["entity_users"])


def test_broken_lines_go_to_quarantine(
    spark: SparkSession, tmp_path: Path, knowledge_folder: Path, write_log: WriteLog
) -> None:
    good = {"user": "u", "time": "2014-01-16T10:00:00Z", "query": "jay-z beyoncé"}
    broken = [
        ("not_json", "{oops"),
        ("not_json", "[1, 2]"),
        ("no_user", {**good, "user": None}),
        ("no_user", {**good, "user": ""}),
        ("no_query", {"user": "u", "time": good["time"]}),
        ("no_time", {"user": "u", "query": "x"}),
        ("bad_time", {**good, "time": "2014-02-30T10:00:00Z"}),
        ("bad_time", {**good, "time": "yesterday"}),
        ("wrong_type", {**good, "query": "nyc", "time": 1390212000}),
    ]
    lines = [good, *(json.dumps(line) if isinstance(line, dict) else line for _, line in broken), {**good, "user": 7}]
    file = write_log(tmp_path / "logs/a.jsonl", lines)
    with file.open("ab") as more:
        more.write(b'{"user": "u", "time": "2014-01-16", "query": "caf\xe9"}\n')
    (tmp_path / "logs/b.parquet").write_bytes(b"PAR1 this is none")
    pq.write_table(pa.table({"user": ["u"], "query": ["x"]}), tmp_path / "logs/c.parquet")
    rows = {"user": ["u", None, "v"], "time": [good["time"], good["time"], "never"], "query": ["nyc", "x", "y"]}
    pq.write_table(pa.table(rows), tmp_path / "logs/d.parquet")
    (tmp_path / "logs/e.jsonl").write_text("")
    sundog = Sundog(spark, load_knowledge(knowledge_folder), str(tmp_path / "out"), SMALL)
    report = sundog.run([str(tmp_path / "logs")], [date(2014, 1, 16)], [1])
    quarantine = pd.read_parquet(tmp_path / "out/quarantine").sort_values(["file", "position"])
    in_a = quarantine[quarantine.file.str.endswith("a.jsonl")]
    assert in_a["reason"].tolist() == [*(reason for reason, _ in broken), "not_utf8"]
    content = file.read_bytes()
    for position, raw in zip(in_a.position[:-1], in_a.raw[:-1], strict=True):
        assert content[position:].decode("utf-8", "replace").startswith(raw), "the position is that of the line"
    rest = quarantine[~quarantine.file.str.endswith("a.jsonl")]
    assert rest["reason"].tolist() == ["unreadable_file", "missing_column", "no_user", "bad_time"]
    assert report.counts.lines == len(lines) + 1 + 1 + 1 + 3
    assert report.counts.broken == len(quarantine) == sum(report.reasons.values())
    assert report.counts.with_entity == 3
    assert report.counts.add_up


def test_a_batch_done_again_replaces_its_quarantine(
    spark: SparkSession, tmp_path: Path, knowledge_folder: Path, write_log: WriteLog
) -> None:
    """As after a crash between the writing of panes and their commit, with slices of another size the second time."""
    write_log(tmp_path / "logs/a.jsonl", [*make_lines(100), *["oops"] * 50])
    knowledge = load_knowledge(knowledge_folder)
    found = []
    for size in (100, 1000):
        settings = SundogSettings(buckets=2, slice_bytes=size)
        sundog = Sundog(spark, knowledge, str(tmp_path / "out"), settings)
        part = sundog.count(sundog.inputs([str(tmp_path / "logs")]), 2)
        found.append((len(list((tmp_path / "out/quarantine").iterdir())), part.counts, part.reasons))
        quarantine = pd.read_parquet(tmp_path / "out/quarantine")
        assert quarantine["reason"].tolist() == ["not_json"] * 50
        assert quarantine["position"].is_unique
    assert found[0][1:] == found[1][1:]
    assert found[0][0] > found[1][0] > 0, "one file per slice with broken lines"


def test_timestamps_and_whole_numbers_in_parquet(tmp_path: Path) -> None:
    times = pa.array([1389960000_000_000, 1389830399_999_999], pa.timestamp("us", "Europe/Oslo"))
    pq.write_table(pa.table({"user": [12, 13], "time": times, "query": ["x", "y"]}), tmp_path / "a.parquet")
    texts = {"user": ["12", "13"], "time": ["2014-01-17T12:00Z", "2014-01-16T00:59:59.9+01:00"], "query": ["x", "y"]}
    pq.write_table(pa.table(texts), tmp_path / "b.parquet")
    one, other = (
        read_slice(Slice(path=str(tmp_path / name), parquet=True, begin=0, end=1))
        for name in ("a.parquet", "b.parquet")
    )
    assert one.days.tolist() == other.days.tolist() == [16087, 16085]
    assert one.coupons.tolist() == other.coupons.tolist()


@pytest.mark.parametrize("size", [7, 64, 333, 100_000])
def test_slices_share_the_lines(tmp_path: Path, write_log: WriteLog, size: int) -> None:
    lines = make_lines(60, seed=3)
    file = write_log(tmp_path / "a.jsonl", [*lines, "oops"])
    total = file.stat().st_size
    parts = [
        read_slice(Slice(path=str(file), parquet=False, begin=begin, end=min(total, begin + size)))
        for begin in range(0, total, size)
    ]
    assert sum(part.read for part in parts) == 61
    queries = [
        part.data[begin:end].tobytes().decode()
        for part in parts
        for begin, end in zip(part.begins, part.ends, strict=True)
    ]
    assert queries == [line["query"] for line in lines]
    assert [reject.position for part in parts for reject in part.rejects] == [total - 5]


GOOD_ENTITY = '{"id": "a", "names": ["b"], "type": "t"}\n'
BAD_BASES: dict[str, tuple[str | None, str | None, str]] = {
    "no_folder": (None, None, "is not a folder"),
    "no_relations": (GOOD_ENTITY, None, "relations.jsonl is missing"),
    "twice": (GOOD_ENTITY * 2, "", "'a' is there twice"),
    "not_json": ("{", "", "entities.jsonl line 1 is not valid JSON"),
    "names": ('{"id": "a", "names": "b", "type": "t"}', "", "list of texts, but got 'b'"),
    "no_type": ('{"id": "a", "names": ["b"]}', "", "'type' must be a text"),
    "empty": ("\n", "", "has no entities"),
    "bad_relation": (GOOD_ENTITY, '{"from": "a", "to": 3, "type": "t"}', "line 1: 'to' must be a text"),
}


@pytest.mark.parametrize("name", BAD_BASES)
def test_bad_knowledge_bases(tmp_path: Path, name: str) -> None:
    entities, relations, message = BAD_BASES[name]
    folder = tmp_path / "kb"
    for file, text in (("entities.jsonl", entities), ("relations.jsonl", relations)):
        if text is not None:
            folder.mkdir(exist_ok=True)
            (folder / file).write_text(text)
    with pytest.raises(StreamTuneError, match=message):
        load_knowledge(folder)


def test_a_state_belongs_to_its_knowledge_base(
    spark: SparkSession, tmp_path: Path, knowledge_folder: Path, write_log: WriteLog
) -> None:
    write_log(tmp_path / "logs/a.jsonl", make_lines(5))
    sundog = Sundog(spark, load_knowledge(knowledge_folder), str(tmp_path / "out"), SMALL)
    with pytest.raises(StreamTuneError, match="there is no state"):
        sundog.rank(date(2014, 1, 16), 7)
    sundog.add(sundog.inputs([str(tmp_path / "logs")]))
    (knowledge_folder / "relations.jsonl").write_text("")
    changed = Sundog(spark, load_knowledge(knowledge_folder), str(tmp_path / "out"), SMALL)
    with pytest.raises(StreamTuneError, match="another knowledge base"):
        changed.rank(date(2014, 1, 16), 7)


def test_nothing_to_rank_leaves_empty_tables(spark: SparkSession, tmp_path: Path, write_log: WriteLog) -> None:
    knowledge = write_knowledge(tmp_path / "lonely", ENTITIES, [])
    write_log(tmp_path / "logs/a.jsonl", make_lines(20))
    sundog = Sundog(spark, load_knowledge(knowledge), str(tmp_path / "out"), SMALL)
    report = sundog.run([str(tmp_path / "logs")], [date(2014, 1, 16), date(2020, 1, 1)], [7])
    assert [ranked.pairs for ranked in report.rankings] == [0, 0]
    for table in ("features", "rankings"):
        frame = pd.read_parquet(tmp_path / "out" / table)
        assert frame.empty
        assert {"entity", "related", *COUNTS} <= set(frame.columns)
