"""Clustering on Spark: the same for any number of partitions, families found again, bad input refused in one line."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from sklearn.metrics import adjusted_rand_score
from typer.testing import CliRunner

from similarity.families import planted
from streamtune.cli import app
from streamtune.dataflow import Dataflow
from streamtune.errors import StreamTuneError
from streamtune.history import pair_work
from streamtune.history.cluster import (
    ASSIGNMENT,
    SUMMARY,
    ClusteringSummary,
    assignment,
    centres,
    cluster,
    read_summary,
)
from streamtune.history.errors import HistoryError
from streamtune.history.ingest import ingest
from streamtune.history.shapes import dataflow_of, run_forms, shape_counts
from streamtune.history.store import History
from streamtune.reports.cluster_pictures import draw_pictures
from streamtune.similarity import edit_distance, pack
from streamtune.similarity.distance_table import UNKNOWN, packed_bounds
from streamtune.similarity.settings import KMeansSettings

pytestmark = pytest.mark.spark
Record = dict[str, Any]
FAMILIES = 4
FAST = KMeansSettings(restarts=4, max_k=8)


def run_of(number: int, flow: Dataflow, random: np.random.Generator) -> Record:
    """A valid run of this dataflow: operators in random order, ids of its own, edges in random order."""
    order = random.permutation(len(flow.types))
    ids = [f"r{number}-{position}" for position in range(len(order))]
    operators = [{"id": ids[node], "type": flow.types[node], "parallelism": 1} for node in order]
    edges = [{"source": ids[a], "target": ids[b], "partitioning": "hash"} for a, b in flow.edge_indices]
    random.shuffle(edges)
    return {
        "schema_version": 1,
        "run_id": f"run-{number:04d}",
        "job": f"job-{number % 17}",
        "engine": "flink",
        "observed_at": "2026-11-16T10:00:00Z",
        "window_s": 60.0,
        "source_rates": {ids[node]: 10.0 for node, kind in enumerate(flow.types) if kind == "source"},
        "operators": operators,
        "edges": edges,
    }


@pytest.fixture(scope="module")
def flows() -> list[tuple[Dataflow, int]]:
    """Distinct shapes with the family of each; every run of family f is repeated f + 1 times."""
    return list(zip(*planted(seed=11, families=FAMILIES, members=10), strict=True))


@pytest.fixture(scope="module")
def history(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, flows: list[tuple[Dataflow, int]]
) -> Iterator[History]:
    folder = tmp_path_factory.mktemp("cluster")
    random = np.random.default_rng(0)
    repeated = [flow for flow, family in flows for _ in range(family + 1)]
    lines = [json.dumps(run_of(number, flow, random)) for number, flow in enumerate(repeated)]
    (folder / "runs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    made = History(spark, str(folder / "history"))
    report = ingest(made, [str(folder / "runs.jsonl")])
    assert report.rejected == 0
    yield made
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def clustered(history: History, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ClusteringSummary]:
    out = tmp_path_factory.mktemp("out") / "clusters"
    return out, cluster(history, out, settings=FAST, draw=draw_pictures)


def test_shapes_are_counted_whatever_the_order_of_operators_and_edges(
    history: History, flows: list[tuple[Dataflow, int]]
) -> None:
    assert shape_counts(history) == {flow.canonical_form: family + 1 for flow, family in flows}


def test_every_run_gets_the_form_of_its_dataflow(history: History, flows: list[tuple[Dataflow, int]]) -> None:
    forms = Counter(row.canonical_form for row in run_forms(history).collect())
    assert forms == Counter(flow.canonical_form for flow, family in flows for _ in range(family + 1))


def test_a_form_spells_out_its_dataflow(flows: list[tuple[Dataflow, int]]) -> None:
    for flow in [Dataflow.from_edges([], []), Dataflow.from_edges(["sink"], []), *(flow for flow, _ in flows)]:
        assert dataflow_of(flow.canonical_form).canonical_form == flow.canonical_form


def test_planted_families_are_found_again(
    history: History, clustered: tuple[Path, ClusteringSummary], flows: list[tuple[Dataflow, int]]
) -> None:
    out, summary = clustered
    assert summary.k == FAMILIES
    family = {flow.canonical_form: number for flow, number in flows}
    found = {row.run_id: row.cluster for row in assignment(history, out).collect()}
    forms = {row.run_id: row.canonical_form for row in run_forms(history).collect()}
    assert found.keys() == forms.keys()
    assert adjusted_rand_score([family[forms[run]] for run in forms], [found[run] for run in forms]) >= 0.9


def test_the_summary_adds_up_and_the_distances_are_exact(
    history: History, clustered: tuple[Path, ClusteringSummary]
) -> None:
    out, summary = clustered
    assert read_summary(out) == summary
    table = pq.read_table(out / ASSIGNMENT).to_pylist()
    assert summary.runs == history.runs.rows() == sum(row["runs"] for row in table)
    assert summary.shapes == len(table) == sum(each.shapes for each in summary.clusters)
    assert summary.distances.unproven == 0
    middle = centres(out)
    for row in table:
        own = [edit_distance(dataflow_of(row["canonical_form"]), middle[number]) or 0 for number in range(summary.k)]
        assert row["distance"] == own[row["cluster"]] == min(own)
    for each in summary.clusters:
        rows = [row for row in table if row["cluster"] == each.cluster]
        assert each.runs == sum(row["runs"] for row in rows)
        assert each.max_distance == max(row["distance"] for row in rows)
        mean = sum(row["runs"] * row["distance"] for row in rows) / each.runs
        assert each.mean_distance == pytest.approx(mean)
    assert summary.mean_squared_distance == pytest.approx(summary.elbow[summary.k - 1])


def test_the_result_is_the_same_for_any_number_of_partitions(
    history: History, clustered: tuple[Path, ClusteringSummary], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, _ = clustered
    monkeypatch.setattr(pair_work, "PAIRS_WORTH_A_JOB", 20)  # most of the pairs go through Spark
    before = history.spark.conf.get("spark.sql.shuffle.partitions")
    try:
        for partitions, blocks in ((1, 1), (5, 23)):
            history.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
            again = tmp_path / f"{partitions}"
            cluster(history, again, settings=FAST, blocks=blocks)
            for name in (SUMMARY, ASSIGNMENT):
                assert (again / name).read_bytes() == (out / name).read_bytes()
    finally:
        history.spark.conf.set("spark.sql.shuffle.partitions", before or "2")


@pytest.mark.parametrize("blocks", [1, 3, 30])
def test_blocks_give_what_one_call_gives(
    spark: SparkSession, flows: list[tuple[Dataflow, int]], blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_work, "PAIRS_WORTH_A_JOB", 1)
    packed = pack(flow for flow, _ in flows[:12])
    pairs = np.column_stack(np.triu_indices(12, 1)).astype(np.int64)
    limits = np.where(np.arange(len(pairs)) % 3 == 0, 4, UNKNOWN)
    bounds = pair_work.SparkPairBounds(spark, packed, blocks)
    for spread, here in zip(bounds(pairs, limits, 50), packed_bounds(packed, pairs, limits, 50), strict=True):
        assert spread.tolist() == here.tolist()
    bounds.close()


def test_pictures_are_drawn(clustered: tuple[Path, ClusteringSummary]) -> None:
    out, _ = clustered
    assert sorted(os.listdir(out)) == [
        ASSIGNMENT,
        "clusters.json",
        "clusters.png",
        "clusters.sha256",
        "elbow.png",
    ]
    for name in ("clusters.png", "elbow.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")


def test_an_older_clustering_is_replaced_and_anything_else_refused(history: History, tmp_path: Path) -> None:
    out = tmp_path / "clusters"
    cluster(history, out, k=2, settings=FAST)
    assert cluster(history, out, k=3, settings=FAST).chosen_by == "user"
    assert read_summary(out).k == 3
    assert os.listdir(tmp_path) == ["clusters"]  # nothing is left beside it
    foreign = tmp_path / "precious"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(StreamTuneError, match="precious exists and is not a clustering: choose another --out"):
        cluster(history, foreign, k=2)
    assert os.listdir(foreign) == ["thesis.txt"]


def test_a_drawing_that_fails_leaves_the_old_clustering_alone(history: History, tmp_path: Path) -> None:
    out = tmp_path / "clusters"
    cluster(history, out, k=2, settings=FAST)

    def fail(*_: object) -> None:
        raise RuntimeError("no ink")

    with pytest.raises(RuntimeError, match="no ink"):
        cluster(history, out, k=3, settings=FAST, draw=fail)
    assert read_summary(out).k == 2
    assert os.listdir(tmp_path) == ["clusters"]


def test_bad_input_is_one_clear_error(
    history: History, spark: SparkSession, tmp_path: Path, write_lines: Callable[..., Path]
) -> None:
    out = tmp_path / "out"
    with pytest.raises(StreamTuneError, match=r"number of distinct dataflow shapes, 40, but got 41"):
        cluster(history, out, k=41)
    with pytest.raises(StreamTuneError, match=r"there is no history at '.*nowhere'"):
        cluster(History(spark, str(tmp_path / "nowhere")), out)
    empty = History(spark, str(tmp_path / "empty"))
    ingest(empty, [str(write_lines("bad.jsonl", ["{}"]))])
    with pytest.raises(StreamTuneError, match=r"the history at '.*empty' has no runs: ingest or generate some first"):
        cluster(empty, out)
    assert not out.exists()


def test_a_folder_without_a_clustering_is_one_clear_error(history: History, tmp_path: Path) -> None:
    with pytest.raises(StreamTuneError, match=r"clusters.json cannot be read: .* that 'streamtune cluster' wrote"):
        assignment(history, tmp_path)
    (tmp_path / SUMMARY).write_text('{"k": 3}', encoding="utf-8")
    with pytest.raises(StreamTuneError, match="is not a clustering"):
        centres(tmp_path)


def test_the_command_prints_what_it_wrote(history: History, tmp_path: Path) -> None:
    out = tmp_path / "clusters"
    asked = ["cluster", history.location, "--out", str(out), "--k", "3", "--init", "random", "--restarts", "2"]
    printed = CliRunner().invoke(app, [*asked, "--json"], catch_exceptions=False)
    assert printed.exit_code == 0
    assert ClusteringSummary.model_validate_json(printed.stdout) == read_summary(out)
    assert read_summary(out).settings == KMeansSettings(init="random", restarts=2)
    assert not (out / "elbow.png").exists()  # k was given: there is no curve to draw
    shown = CliRunner().invoke(app, asked, catch_exceptions=False).stdout
    assert "3 clusters of 40 shapes, 100 runs" in shown


def test_a_sample_of_all_shapes_gives_what_the_table_of_all_pairs_gives(
    history: History, clustered: tuple[Path, ClusteringSummary], tmp_path: Path
) -> None:
    _, exact = clustered
    large = cluster(history, tmp_path / "all", settings=FAST.replace(exact_shapes=20, sample_shapes=40))
    assert (exact.sampled, large.sampled) == (None, 40)
    assert large.clusters == exact.clusters
    assert (large.k, large.elbow, large.stable) == (exact.k, exact.elbow, True)
    assert pq.read_table(tmp_path / "all" / ASSIGNMENT) == pq.read_table(clustered[0] / ASSIGNMENT)


def test_a_sample_finds_the_families_and_its_centres_move_to_the_middle_of_all(
    history: History, clustered: tuple[Path, ClusteringSummary], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More shapes than the table has room for: refused before, now clustered from a sample of half of them."""
    _, exact = clustered
    told: list[str] = []
    sampled = KMeansSettings(restarts=2, exact_shapes=20, sample_shapes=20)
    found = cluster(history, tmp_path / "a", k=4, settings=sampled, draw=draw_pictures, progress=told.append)
    assert (found.sampled, found.shapes, found.runs) == (20, 40, history.runs.rows())
    assert "seeking centres on 20 of 40 shapes" in told
    # Every centre ended where all the shapes put it, so the clusters are those of the table of all pairs.
    assert found.clusters == exact.clusters
    assert found.distances.exact < exact.distances.exact
    assert (tmp_path / "a" / "clusters.png").exists()
    monkeypatch.setattr(pair_work, "PAIRS_WORTH_A_JOB", 100)  # the assignment and the counts go through Spark
    cluster(history, tmp_path / "b", k=4, settings=sampled, blocks=7)
    for name in (SUMMARY, ASSIGNMENT):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_only_the_most_frequent_shapes(history: History, flows: list[tuple[Dataflow, int]], tmp_path: Path) -> None:
    summary = cluster(history, tmp_path / "some", k=2, settings=FAST, most_shapes=10)
    # Each of the ten shapes of the last family has as many runs as there are families, more than any other.
    assert (summary.shapes, summary.runs) == (10, 10 * FAMILIES)
    table = pq.read_table(tmp_path / "some" / ASSIGNMENT)
    assert set(table.column("canonical_form").to_pylist()) == {
        flow.canonical_form for flow, family in flows if family == FAMILIES - 1
    }
    assert assignment(history, tmp_path / "some").count() == 10 * FAMILIES


def test_one_flipped_bit_in_a_clustering_is_found(clustered: tuple[Path, ClusteringSummary], tmp_path: Path) -> None:
    shutil.copytree(clustered[0], tmp_path / "copy")
    file = tmp_path / "copy" / SUMMARY
    whole = file.read_bytes()
    at = whole.index(b'"runs"') + len(b'"runs":')
    file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(HistoryError, match=r"clusters\.json is"):
        read_summary(tmp_path / "copy")
