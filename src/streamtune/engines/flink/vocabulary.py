"""Every operator name that Flink's SQL planner and DataStream API print, and the type it stands for.

SQL names are those of the planner's nodes (``StreamExecRank`` prints ``Rank[5]`` or ``Rank(strategy=…)``) and of the
operators that nodes add. DataStream names are the API's defaults, as ``StreamExecutionEnvironment`` and the windowed
and connected streams set them, those of its second version, of Python, of CEP and of the files connector. A name that
is not here was chosen by a user: words in it are read where they are plain, else it is ``unknown``.
"""

from __future__ import annotations

import re

UNKNOWN = "unknown"

# Nodes of the SQL planner, without the prefix ``StreamExec``, and what they print around themselves.
SQL_NODES: dict[str, str] = {
    "Calc": "map",
    "PythonCalc": "map",
    "AsyncCalc": "async",
    "PythonAsyncCalc": "async",
    "Correlate": "flat_map",
    "PythonCorrelate": "flat_map",
    "AsyncCorrelate": "async",
    "Expand": "flat_map",
    "Values": "source",
    "DataStreamScan": "source",
    "TableSourceScan": "source",
    "LegacyTableSourceScan": "source",
    "Sink": "sink",
    "LegacySink": "sink",
    "ChangelogNormalize": "deduplicate",
    "Deduplicate": "deduplicate",
    "DropUpdateBefore": "filter",
    "Rank": "rank",
    "Limit": "rank",
    "SortLimit": "rank",
    "Sort": "sort",
    "TemporalSort": "sort",
    "Match": "match",
    "MiniBatchAssigner": "watermarks",
    "WatermarkAssigner": "watermarks",
    "GroupAggregate": "aggregate",
    "LocalGroupAggregate": "aggregate",
    "GlobalGroupAggregate": "aggregate",
    "IncrementalGroupAggregate": "aggregate",
    "PythonGroupAggregate": "aggregate",
    "GroupTableAggregate": "aggregate",
    "PythonGroupTableAggregate": "aggregate",
    "OverAggregate": "over_aggregate",
    "PythonOverAggregate": "over_aggregate",
    "WindowAggregate": "window_aggregate",
    "LocalWindowAggregate": "window_aggregate",
    "GlobalWindowAggregate": "window_aggregate",
    "GroupWindowAggregate": "window_aggregate",
    "PythonGroupWindowAggregate": "window_aggregate",
    "WindowTableFunction": "flat_map",
    "WindowRank": "window_rank",
    "WindowDeduplicate": "window_deduplicate",
    "WindowJoin": "window_join",
    "Join": "join",
    "IntervalJoin": "join",
    "TemporalJoin": "join",
    "LookupJoin": "lookup_join",
    "DeltaJoin": "join",
    "MultiJoin": "join",
    "MLPredictTableFunction": "async",
    "VectorSearchTableFunction": "lookup_join",
    "ProcessTableFunction": "process",
    # What the planner puts around sinks.
    "ConstraintEnforcer": "filter",
    "SinkMaterializer": "deduplicate",
    "SinkUpsertMaterializer": "deduplicate",
    "StreamRecordTimestampInserter": "map",
    "TransformationsModify": "map",
    "RowKindSetter": "map",
    "WatermarkTimestampAssigner": "watermarks",
    # Between tables and streams; older releases spell it without the r.
    "DataStreamToTable": "map",
    "DataSteamToTable": "map",
    "TableToDataStream": "map",
    "TableToDataSteam": "map",
    "SourceConversion": "map",
    "SinkConversion": "map",
    # An interval join whose bounds can never be met only pads its outer side.
    "FilterLeft": "filter",
    "FilterRight": "filter",
    "PadLeft": "map",
    "PadRight": "map",
}

# Names that the DataStream API gives by itself.
DATASTREAM_NAMES: dict[str, str] = {
    "Map": "map",
    "Flat Map": "flat_map",
    "Filter": "filter",
    "Process": "process",
    "KeyedProcess": "process",
    "Keyed Process": "process",
    "PartitionProcess": "process",
    "FullPartitionMap": "process",
    "Keyed Reduce": "aggregate",
    "Keyed Aggregation": "aggregate",
    "Co-Map": "co_process",
    "Co-Flat Map": "co_process",
    "Co-Process": "co_process",
    "Co-Keyed-Process": "co_process",
    "Co-Process-Broadcast": "co_process",
    "Co-Process-Broadcast-Keyed": "co_process",
    "Interval Join": "join",
    "async wait operator": "async",
    "Timestamps/Watermarks": "watermarks",
    "Collection Source": "source",
    "Sequence Source": "source",
    "Print to Std. Out": "sink",
    "Print to Std. Err": "sink",
    "TumblingEventTimeWindows": "window_aggregate",
    "TumblingProcessingTimeWindows": "window_aggregate",
    "TumblingTimeWindows": "window_aggregate",
    "SlidingEventTimeWindows": "window_aggregate",
    "SlidingProcessingTimeWindows": "window_aggregate",
    "SlidingTimeWindows": "window_aggregate",
    "EventTimeSessionWindows": "window_aggregate",
    "ProcessingTimeSessionWindows": "window_aggregate",
    "DynamicEventTimeSessionWindows": "window_aggregate",
    "DynamicProcessingTimeSessionWindows": "window_aggregate",
    "GlobalWindows": "window_aggregate",
    "Projection": "map",
    "CoGroup": "window_join",
    "MapPartition": "process",
    "SortPartition": "sort",
    "KeyedSortPartition": "sort",
    "PartitionReduce": "aggregate",
    "PartitionAggregate": "aggregate",
    "Data stream collect sink": "sink",
    "CepOperator": "match",
    "GlobalCepOperator": "match",
    # The SQL sink of files, which is made of DataStream operators.
    "streaming-writer": "sink",
    "compact-coordinator": "sink",
    "compact-operator": "sink",
    "partition-committer": "sink",
    # Its second version.
    "Global Process": "process",
    "Two-Output-Process": "process",
    "Two-Output-Operator": "process",
    "Window": "window_aggregate",
    "TwoOutput-Window": "window_aggregate",
    "TwoInput-NonBroadcast-Window": "co_process",
    # Python's.
    "PROCESS": "process",
    "KEYED PROCESS": "process",
    "_stream_key_by_map_operator": "map",
    "_partition_custom_map_operator": "map",
}

# Defaults that are made of parts: the class that is converted to, the file source that was read, how inputs come.
_DEFAULT_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"^SinkConversion ?To"), "map"),
    (re.compile(r"^Split Reader: "), "flat_map"),
    (re.compile(r"\bTwoInput(-Broadcast)?-Process$"), "co_process"),
)

# Words in names that users chose, the first that occurs decides.
_WORDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"\bwindow[ _-]?join\b", "window_join"),
        (r"\b(lookup|async)[ _-]?join\b", "lookup_join"),
        (r"\bjoin\b", "join"),
        (r"\b(dedup|deduplicate|deduplication)\b", "deduplicate"),
        (r"\btop[ _-]?n\b", "rank"),
        (r"\bflat[ _-]?map\b", "flat_map"),
        (r"\bfilter\b", "filter"),
        (r"\bmap\b", "map"),
        (r"\b(aggregat(e|ion)|reduce|keyed (sum|min|max))\b", "aggregate"),
    )
)
_SQL_NAME = re.compile(r"^(?:\[\d+\]:)?(?:Source: |Sink: )?([A-Z][A-Za-z]+)(?:\[|\(|$)")
_SOURCE = re.compile(r"^(Source: |IterationSource-)")
_SINK = re.compile(r"^Sink: |^IterationSink-|: (Writer|Committer|Global Committer|Compactor|Pre-writer|Post-commit)\b")
# A window of two tagged streams is how the DataStream API joins.
_CO_GROUP = re.compile(r"CoGroupWindowFunction|CoGroupedStreams|JoinCoGroupFunction")
# An operator of a window is called like its assigner, which older releases print with trigger and function.
_WINDOW_CALL = re.compile(r"^(?:Trigger)?Window\(")
_WINDOW = re.compile(r"^((?:Tumbling|Sliding|EventTimeSession|ProcessingTimeSession|Dynamic|Global)\w*Windows)")

# What decides about a vertex of several chained operators: the heaviest of them. One that nobody knows may be heavier
# than a projection, a filter or a sink chained to it, and is never called by their names.
_HEAVY = (
    "window_join",
    "window_rank",
    "window_deduplicate",
    "window_aggregate",
    "match",
    "join",
    "lookup_join",
    "over_aggregate",
    "rank",
    "deduplicate",
    "sort",
    "aggregate",
    "co_process",
    "async",
    "process",
)
_LIGHT = ("flat_map", "filter", "map", "watermarks", "sink", "source")


def kind_of(name: str, description: str = "") -> str:
    """The type of one operator by its name; ``description`` tells window joins from window aggregates.

    >>> [kind_of(name) for name in ("Rank[7]", "Co-Process", "TumblingEventTimeWindows", "out: Writer", "enrichment")]
    ['rank', 'co_process', 'window_aggregate', 'sink', 'unknown']
    """
    if _SOURCE.search(name):
        return "source"
    if _SINK.search(name):
        return "sink"
    sql = _SQL_NAME.match(name)
    if sql is not None and sql[1] in SQL_NODES:
        return SQL_NODES[sql[1]]
    window = _WINDOW.match(name)
    if _WINDOW_CALL.match(name) or (window is not None and window[1] in DATASTREAM_NAMES):
        return "window_join" if _CO_GROUP.search(f"{name} {description}") else "window_aggregate"
    if name in DATASTREAM_NAMES:
        return DATASTREAM_NAMES[name]
    for pattern, kind in _DEFAULT_PATTERNS:
        if pattern.search(name):
            return kind
    return next((kind for pattern, kind in _WORDS if pattern.search(name)), UNKNOWN)


def heaviest(kinds: list[str]) -> str:
    """The type of a vertex that chains operators of these types.

    >>> heaviest(["rank", "map", "sink"]), heaviest(["unknown", "map"]), heaviest(["map", "sink"])
    ('rank', 'unknown', 'map')
    """
    for kind in (*_HEAVY, UNKNOWN, *_LIGHT):
        if kind in kinds:
            return kind
    return UNKNOWN
