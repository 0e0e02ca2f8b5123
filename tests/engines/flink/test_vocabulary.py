"""Every operator that Flink can print has its type, and one that is not known is never called by its neighbour's."""

from __future__ import annotations

import io
import json
import re
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from streamtune.engines.flink.descriptions import describe
from streamtune.engines.flink.vocabulary import DATASTREAM_NAMES, SQL_NODES, kind_of

# Nodes that never become a vertex, or are only bases of others.
NO_OPERATORS = {"AggregateBase", "WindowAggregateBase", "Node", "Exchange", "Union", "MultipleInput"}


# What each operator does, written down from Flink's documentation of them, not from the table that is tested.
DOES = {
    "map": "Calc PythonCalc StreamRecordTimestampInserter TransformationsModify",
    "filter": "DropUpdateBefore ConstraintEnforcer",
    # One row becomes any number: table functions, grouping sets, and the windows a row lies in.
    "flat_map": "Correlate PythonCorrelate Expand WindowTableFunction",
    # They wait for answers from elsewhere.
    "async": "AsyncCalc PythonAsyncCalc AsyncCorrelate MLPredictTableFunction",
    "source": "Values DataStreamScan TableSourceScan LegacyTableSourceScan",
    "sink": "Sink LegacySink",
    # They keep the last row of each key, to tell what a new one changes.
    "deduplicate": "Deduplicate ChangelogNormalize SinkMaterializer SinkUpsertMaterializer",
    # The first n, by whatever order.
    "rank": "Rank Limit SortLimit",
    "sort": "Sort TemporalSort",
    "match": "Match",
    "watermarks": "WatermarkAssigner MiniBatchAssigner",
    "aggregate": "GroupAggregate LocalGroupAggregate GlobalGroupAggregate IncrementalGroupAggregate "
    "PythonGroupAggregate GroupTableAggregate PythonGroupTableAggregate",
    "over_aggregate": "OverAggregate PythonOverAggregate",
    "window_aggregate": "WindowAggregate LocalWindowAggregate GlobalWindowAggregate GroupWindowAggregate "
    "PythonGroupWindowAggregate",
    "window_rank": "WindowRank",
    "window_deduplicate": "WindowDeduplicate",
    "window_join": "WindowJoin",
    "join": "Join IntervalJoin TemporalJoin DeltaJoin MultiJoin",
    # One row is looked up at a time, in a table outside.
    "lookup_join": "LookupJoin VectorSearchTableFunction",
    "process": "ProcessTableFunction",
}
SQL = {name: kind for kind, names in DOES.items() for name in names.split()}

DATASTREAM = {
    "Map": "map", "Flat Map": "flat_map", "Filter": "filter",
    "Process": "process", "KeyedProcess": "process", "Keyed Process": "process",
    "PartitionProcess": "process", "FullPartitionMap": "process",
    "Keyed Reduce": "aggregate", "Keyed Aggregation": "aggregate",
    **dict.fromkeys(("Co-Map", "Co-Flat Map", "Co-Process", "Co-Keyed-Process"), "co_process"),
    **dict.fromkeys(("Co-Process-Broadcast", "Co-Process-Broadcast-Keyed"), "co_process"),
    "Interval Join": "join", "async wait operator": "async", "Timestamps/Watermarks": "watermarks",
    "Collection Source": "source", "Sequence Source": "source",
    "Print to Std. Out": "sink", "Print to Std. Err": "sink",
    **{
        f"{shape}{time}Windows": "window_aggregate"
        for shape in ("Tumbling", "Sliding") for time in ("EventTime", "ProcessingTime", "Time")
    },
    **{
        f"{gap}{time}SessionWindows": "window_aggregate"
        for gap in ("", "Dynamic") for time in ("EventTime", "ProcessingTime")
    },
    "GlobalWindows": "window_aggregate",
}  # fmt: skip


def test_no_name_of_the_tables_goes_untested() -> None:
    assert SQL.keys() == SQL_NODES.keys()
    assert DATASTREAM.keys() == DATASTREAM_NAMES.keys()


@pytest.mark.parametrize(("node", "kind"), SQL.items())
def test_sql_nodes_with_and_without_counter(node: str, kind: str) -> None:
    assert kind_of(f"{node}[12]") == kind_of(f"{node}(select=[a])") == kind_of(node) == kind


@pytest.mark.parametrize(("name", "kind"), DATASTREAM.items())
def test_datastream_defaults(name: str, kind: str) -> None:
    assert kind_of(name) == kind


# What the jobs of benchmarks/foreign_jobs do; a chain of a map and a filter may be called either.
FOREIGN = {
    "async": {"orders": "source", "async-wait-operator": "async"},
    "chain": {"orders": "source", "Map": "map filter"},
    "chained": {"orders": "source"},
    "co-process": {"orders": "source", "rules": "source", "Co-Keyed-Process": "co_process"},
    "fork": {"orders": "source", "Map": "map"},
    "global-window": {"orders": "source", "GlobalWindows": "window_aggregate"},
    "self-join": {"orders": "source", "KeyedProcess": "process", "TumblingProcessingTimeWindows": "window_join"},
    "session": {"orders": "source", "ProcessingTimeSessionWindows": "window_aggregate", "Map": "map"},
    "side-output": {"orders": "source", "Process": "process", "Map": "map"},
    "single": {"orders": "source", "TumblingProcessingTimeWindows": "window_aggregate", "Map": "map filter"},
    "sql-deduplicate": {"orders": "source", "Deduplicate": "deduplicate"},
    "sql-fork": {"orders": "source", "GroupAggregate": "aggregate", "GroupAggregate-2": "aggregate"},
    "sql-rank": {"orders": "source", "Rank": "rank"},
    "union": {"orders": "source", "returns": "source", "KeyedProcess": "process"},
}


@pytest.mark.parametrize("name", FOREIGN)
def test_jobs_of_a_real_flink_are_called_what_they_are(name: str) -> None:
    """As ``make bench-foreign`` attached to them, on both versions and both schedulers."""
    pieces = json.loads((Path(__file__).parents[3] / "benchmarks/results/foreign.json").read_text())
    found = [one["types"] for key, one in pieces.items() if key.endswith(f"/{name}") and "types" in one]
    assert found
    for types in found:
        for operator, kinds in FOREIGN[name].items():
            assert types[operator] in kinds.split()


def test_the_table_names_every_node_of_the_planner() -> None:
    """From the planner's own jar, where Flink is installed."""
    found = find_spec("pyflink")
    if found is None or not found.submodule_search_locations:
        pytest.skip("Flink is not installed")
    jars = sorted(Path(next(iter(found.submodule_search_locations)), "lib").glob("flink-table-planner-loader-*.jar"))
    with zipfile.ZipFile(jars[0]) as loader:
        names = zipfile.ZipFile(io.BytesIO(loader.read("flink-table-planner.jar"))).namelist()
    nodes = {match[1] for name in names if (match := re.search(r"/stream/StreamExec(\w+)\.class$", name))}
    assert len(nodes) > 40
    assert nodes - NO_OPERATORS <= set(SQL_NODES)


@pytest.mark.parametrize(
    ("vertex", "description", "kind", "words"),
    [
        ("Rank[7] -> Calc[8]", "[7]:Rank(strategy=[AppendFastStrategy])", "rank", "Rank[7]"),
        ("Deduplicate[3] -> Sink: out[4]", "", "deduplicate", "Deduplicate[3]"),
        ("KeyedProcess -> Map", "", "process", "KeyedProcess"),
        ("enrich orders -> Sink: out: Writer", "", "unknown", "enrich orders"),
        ("enrich orders -> Filter -> Map", "", "unknown", "enrich orders"),
        ("GlobalWindows -> Sink: out", "Window(GlobalWindows(), CountTrigger, ReduceFunction)", "window_aggregate", ""),
        (
            "TumblingEventTimeWindows -> Map",
            "Window(TumblingEventTimeWindows(5000), EventTimeTrigger, CoGroupWindowFunction)",
            "window_join",
            "TumblingEventTimeWindows",
        ),
        ("LookupJoin[4] -> Calc[5]", "", "lookup_join", "LookupJoin[4]"),
        ("async wait operator -> Filter", "", "async", "async wait operator"),
        ("Co-Process-Broadcast-Keyed -> Map", "", "co_process", ""),
        ("out: Committer", "", "sink", ""),
        ("IterationSink-4", "", "sink", ""),
        ("SinkMaterializer[9] -> Sink: out[9]", "", "deduplicate", ""),
    ],
)
def test_what_decides_about_a_chain(vertex: str, description: str, kind: str, words: str) -> None:
    found = describe(vertex, description)
    assert found.kind == kind
    assert not words or found.read_from == words


@pytest.mark.parametrize(
    ("text", "kind", "length", "slide"),
    [
        ("window=[TUMBLE(time_col=[ts], size=[1 min])]", "tumbling", 60.0, None),
        ("window=[HOP(time_col=[ts], size=[10 s], slide=[2 s])]", "sliding", 10.0, 2.0),
        ("window=[CUMULATE(time_col=[ts], max_size=[1 h], step=[10 min])]", "cumulative", 3600.0, 600.0),
        ("window=[SESSION(time_col=[ts], gap=[30 s], partition_keys=[user])]", "session", 30.0, None),
        ("window=[SessionGroupWindow('w$, ts, 5000)]", "session", 5.0, None),
        ("Window(EventTimeSessionWindows(3000), EventTimeTrigger, AggregateFunction)", "session", 3.0, None),
        ("Window(SlidingEventTimeWindows(10000, 2000), EventTimeTrigger, X)", "sliding", 10.0, 2.0),
    ],
)
def test_windows(text: str, kind: str, length: float, slide: float | None) -> None:
    window = describe("WindowAggregate[1]", f"WindowAggregate(groupBy=[user], {text}, select=[COUNT(*) AS c])").window
    assert window is not None
    assert (window.type, window.length, window.slide) == (kind, length, slide)


def test_all_aggregates_with_distinct_and_filter_and_their_key() -> None:
    found = describe(
        "GroupAggregate[5]",
        "Calc(select=[CAST(id AS BIGINT) AS user, price])<br/>GroupAggregate(groupBy=[user], select=[user, COUNT(*) AS "
        "n, COUNT(DISTINCT item) AS d, SUM(price) FILTER $f3 AS s])",
    ).aggregate
    assert found is not None
    assert (found.function, found.value_class, found.key_class) == (
        "count+count_distinct+sum_filter",
        "unknown",
        "long",
    )


def test_a_key_of_unknown_class_stays_unknown() -> None:
    found = describe("GroupAggregate[5]", "GroupAggregate(groupBy=[user], select=[user, COUNT(*) AS n])").aggregate
    assert found is not None
    assert (found.function, found.value_class, found.key_class) == ("count", "long", "unknown")
