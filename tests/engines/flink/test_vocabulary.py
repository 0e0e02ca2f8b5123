"""Every operator that Flink can print has its type, and one that is not known is never called by its neighbour's."""

from __future__ import annotations

import io
import re
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from streamtune.engines.flink.descriptions import describe
from streamtune.engines.flink.vocabulary import DATASTREAM_NAMES, SQL_NODES, kind_of

# Nodes that never become a vertex, or are only bases of others.
NO_OPERATORS = {"AggregateBase", "WindowAggregateBase", "Node", "Exchange", "Union", "MultipleInput"}


@pytest.mark.parametrize(("node", "kind"), SQL_NODES.items())
def test_sql_nodes_with_and_without_counter(node: str, kind: str) -> None:
    assert kind_of(f"{node}[12]") == kind_of(f"{node}(select=[a])") == kind_of(node) == kind


@pytest.mark.parametrize(("name", "kind"), DATASTREAM_NAMES.items())
def test_datastream_defaults(name: str, kind: str) -> None:
    assert kind_of(name) == kind


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
