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
    "map": "Calc PythonCalc StreamRecordTimestampInserter TransformationsModify RowKindSetter PadLeft PadRight "
    "DataStreamToTable DataSteamToTable TableToDataStream TableToDataSteam SourceConversion SinkConversion",
    "filter": "DropUpdateBefore ConstraintEnforcer FilterLeft FilterRight",
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
    "watermarks": "WatermarkAssigner MiniBatchAssigner WatermarkTimestampAssigner",
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
    # The second version of the API: a window's function gets all its records, of one input or of two.
    "Window": "window_aggregate", "TwoOutput-Window": "window_aggregate", "TwoInput-NonBroadcast-Window": "co_process",
    **dict.fromkeys(("Global Process", "Two-Output-Process", "Two-Output-Operator"), "process"),
    # Of one partition at a time.
    "MapPartition": "process", "SortPartition": "sort", "KeyedSortPartition": "sort",
    "PartitionReduce": "aggregate", "PartitionAggregate": "aggregate",
    "Projection": "map", "CoGroup": "window_join", "Data stream collect sink": "sink",
    "CepOperator": "match", "GlobalCepOperator": "match",
    # Files are written, then merged, then said to be there.
    **dict.fromkeys(("streaming-writer", "compact-coordinator", "compact-operator", "partition-committer"), "sink"),
    "PROCESS": "process", "KEYED PROCESS": "process",
    "_stream_key_by_map_operator": "map", "_partition_custom_map_operator": "map",
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


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((f"{inputs}TwoInput-Process", "co_process") for inputs in ("", "Keyed-", "Broadcast-", "Global-Global-")),
        ("Keyed-TwoInput-Broadcast-Process", "co_process"),
        ("Keyed-Join-Process", "join"),
        ("Interval Join [Async]", "join"),
        ("Split Reader: Custom File source", "flat_map"),
        ("SinkConversion To Row", "map"),
        ("SinkConversionToTuple2", "map"),
        (
            "TriggerWindow(TumblingEventTimeWindows(5000), ListStateDescriptor{…}, EventTimeTrigger())",
            "window_aggregate",
        ),
        ("Window(MyAssigner@12, EventTimeTrigger, ReduceFunction$1)", "window_aggregate"),
        ("Window(TumblingEventTimeWindows(5000), EventTimeTrigger, CoGroupWindowFunction)", "window_join"),
    ],
)
def test_defaults_that_are_made_of_parts(name: str, kind: str) -> None:
    assert describe(name, "").kind == kind


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


def jar(name: str) -> zipfile.ZipFile:
    """A jar of the Flink that is installed, by its name without the version."""
    found = find_spec("pyflink")
    if found is None or not found.submodule_search_locations:
        pytest.skip("Flink is not installed")
    return zipfile.ZipFile(next(Path(next(iter(found.submodule_search_locations)), "lib").glob(f"{name}-[0-9]*.jar")))


def planner() -> zipfile.ZipFile:
    with jar("flink-table-planner-loader") as loader:
        return zipfile.ZipFile(io.BytesIO(loader.read("flink-table-planner.jar")))


def test_the_table_names_every_node_of_the_planner() -> None:
    """From the planner's own jar, where Flink is installed."""
    with planner() as classes:
        names = classes.namelist()
    nodes = {match[1] for name in names if (match := re.search(r"/stream/StreamExec(\w+)\.class$", name))}
    assert len(nodes) > 40
    assert nodes - NO_OPERATORS <= set(SQL_NODES)


# Bytes of each kind of entry in a class file's pool of constants behind its tag; text (1) says its own length.
POOL = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}


def strings_of(compiled: bytes) -> set[str]:
    """The string constants of a class file (Java Virtual Machine Specification, 4.4)."""
    texts, strings, place, entry = {}, [], 10, 1
    while entry < int.from_bytes(compiled[8:10]):
        tag = compiled[place]
        value = int.from_bytes(compiled[place + 1 : place + 3])
        if tag == 1:
            texts[entry] = compiled[place + 3 : place + 3 + value].decode("utf-8", "replace")
        elif tag == 8:
            strings.append(value)
        place += 3 + value if tag == 1 else 1 + POOL[tag]
        entry += 2 if tag in (5, 6) else 1  # a long and a double count twice
    return {texts[one] for one in strings}


def constants(classes: zipfile.ZipFile, pattern: str) -> set[str]:
    names = [name for name in classes.namelist() if re.search(pattern, name)]
    assert names
    return {text for name in names for text in strings_of(classes.read(name))}


# Constants shaped like names that no operator is called by: generated classes, keys of state, what errors speak of.
GENERATED = re.compile(r"(Comparator|Condition|Equaliser|Equals|Function|HashCode|Handler|Helper|Projection)$")
NO_NAMES = {"Partitioner", "TableFunctionResultFuture", "WindowTriggerContext"}


def test_the_table_names_what_nodes_of_the_planner_add() -> None:
    """A node's operators have names of their own: a row-kind setter before a sink, a padding beside a join."""
    with planner() as classes:
        found = constants(classes, r"/(StreamExec|CommonExec|External)\w+\.class$|/ScanUtil\$\.class$")
    heads = {match[1] for text in found if (match := re.match(r"([A-Z][a-z]+(?:[A-Z][a-z]+)+)(?:\(|\[| To |$)", text))}
    assert {"DataStreamToTable", "PadLeft", "RowKindSetter", "SourceConversion", "WatermarkTimestampAssigner"} <= heads
    assert {one for one in heads - NO_NAMES if not GENERATED.search(one) and kind_of(one) == "unknown"} == set()


@pytest.mark.parametrize(
    ("name", "pattern", "shape", "some", "no_names"),
    [
        (
            "flink-dist",
            r"/api/datastream/(\w*Stream|\w*Streams\$WithWindow|StreamProjection|KeyedStream\$IntervalJoined)\.class$",
            r"[A-Z]\w+(?:[ /.-]+[A-Z]\w+\.?){0,3}",
            {"Projection", "KeyedSortPartition", "CoGroup"},
            {"Key serializer", "Queryable state name", "State Descriptor", "DataStream Collect"},
        ),
        (
            "flink-dist",
            r"/datastream/impl/(stream/\w+Impl|utils/StreamUtils)\.class$",
            r"[A-Z]\w+(?:[ -][A-Z]\w+){0,3}",
            {"Global Process", "Two-Output-Process", "Keyed-TwoInput-Process", "Window"},
            {"Second-Output", "Sink"},
        ),
        ("flink-cep", r"/PatternStreamBuilder\.class$", r"[A-Z]\w+", {"CepOperator"}, set()),
        (
            "flink-connector-files",
            r"/StreamingSink\.class$",
            r"[a-z]+-[a-z]+",
            {"streaming-writer", "partition-committer"},
            {"discarding-sink"},
        ),
    ],
)
def test_the_table_names_every_default_of_the_apis(
    name: str, pattern: str, shape: str, some: set[str], no_names: set[str]
) -> None:
    with jar(name) as classes:
        found = {text for text in constants(classes, pattern) if re.fullmatch(shape, text)}
    assert some <= found
    assert {one for one in found - no_names if kind_of(one) == "unknown"} == set()


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
        # A name that is not known would hide its neighbours, an argument that is taken for a name too.
        ("Rank[3] -> RowKindSetter[4] -> Sink: out[4]", "", "rank", "Rank[3]"),
        ("DataSteamToTable(stream=a.b, type=ROW<`f` INT, `g` INT> NOT NULL, rowtime=false) -> Calc[2]", "", "map", ""),
        ("Calc(select=[a, b], where=[(a > 1)])", "Calc(select=[a, b], where=[(a &gt; 1)])", "filter", ""),
        ("KEYED PROCESS, Map -> _stream_key_by_map_operator", "", "process", "KEYED PROCESS"),
        ("[vertex-1]Rank[4] -> Sink: out[5]", "", "rank", "Rank[4]"),
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
        ("window=[TUMBLE(slice_end=[$slice_end], size=[1 d])]", "tumbling", 86400.0, None),
        ("window=[CUMULATE(slice_end=[$e], max_size=[1 d], step=[1 h])]", "cumulative", 86400.0, 3600.0),
        ("window=[SlidingGroupWindow('w$, ts, 600000, 60000)]", "sliding", 600.0, 60.0),
    ],
)
def test_windows(text: str, kind: str, length: float, slide: float | None) -> None:
    window = describe("WindowAggregate[1]", f"WindowAggregate(groupBy=[user], {text}, select=[COUNT(*) AS c])").window
    assert window is not None
    assert (window.type, window.length, window.slide) == (kind, length, slide)


@pytest.mark.parametrize("window", ["TumblingGroupWindow('w$, proctime, 5)", "SlidingGroupWindow('w$, ts, 500, 10)"])
def test_a_window_of_rows_is_none_of_milliseconds(window: str) -> None:
    """Flink writes both alike, and windows of some milliseconds are nobody's."""
    text = f"GroupWindowAggregate(window=[{window}], select=[COUNT(*) AS n])"
    assert describe("GroupWindowAggregate[4]", text).window is None


@pytest.mark.parametrize(
    ("function", "written"),
    [
        ("count", "COUNT(*)"),
        ("count", "COUNT$12(x)"),
        ("count_distinct", "COUNT(DISTINCT x)"),
        ("min", "MIN_RETRACT(x)"),
        ("sum", "$SUM0(x)"),
        ("sum", "SUM0_RETRACT(x)"),
        ("stddev", "STDDEV_POP(x)"),
        ("var", "VAR_SAMP(x)"),
        ("json_arrayagg", "JSON_ARRAYAGG_ABSENT_ON_NULL(x)"),
    ],
)
@pytest.mark.parametrize(
    "beside", ["CAST(user AS VARCHAR(2147483647)) AS u", "MINUTE(ts) AS m", "SUMMARY(a, b) AS s", "MAX(1, 2) AS x"]
)
def test_projections_beside_an_aggregate_are_none(function: str, written: str, beside: str) -> None:
    aggregate = f"GroupAggregate(groupBy=[user], select=[user, {written} AS n])"
    for text in (
        f"[5]:{aggregate}<br/>+- [6]:Calc(select=[{beside}, n])<br/>",
        f"[4]:Calc(select=[{beside}, user])<br/>+- [5]:{aggregate}<br/>",
        f"{aggregate} -> Calc(select=[{beside}, n])",
    ):
        found = describe("GroupAggregate[5] -> Calc[6]", text).aggregate
        assert found is not None
        assert found.function == function


@pytest.mark.parametrize(
    ("text", "kind", "width"),
    [
        ("Rank(strategy=[AppendFastStrategy], partitionBy=[a], orderBy=[b DESC], select=[a, b, c])", "rank", 3),
        ("Deduplicate(keep=[LastRow], key=[a], order=[PROCTIME])", "deduplicate", None),
        ("Sort(orderBy=[a ASC])", "sort", None),
        ("OverAggregate(partitionBy=[a], select=[a, COUNT(x) AS w0$o0])", "over_aggregate", 2),
        (
            "WindowJoin(leftWindow=[TUMBLE(size=[10 s])], joinType=[InnerJoin], where=[(a = b)], select=[a, b])",
            "window_join",
            2,
        ),
    ],
)
def test_a_node_that_stands_alone_is_sql(text: str, kind: str, width: int | None) -> None:
    found = describe(f"{text.partition('(')[0]}[4]", f"[4]:{text}<br/>")
    assert (found.kind, found.is_sql, found.width_out) == (kind, True, width)


def test_an_over_aggregate_has_its_function_and_key() -> None:
    found = describe(
        "Calc[3] -> OverAggregate[4]",
        "[3]:Calc(select=[CAST(id AS BIGINT) AS user, ts])<br/>+- [4]:OverAggregate(partitionBy=[user], "
        "orderBy=[ts ASC], window=[ RANG BETWEEN 10000 PRECEDING AND CURRENT ROW], "
        "select=[user, ts, COUNT(ts) AS w0$o0, $SUM0(ts) AS s])",
    ).aggregate
    assert found is not None
    assert (found.function, found.key_class) == ("count+sum", "long")


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
