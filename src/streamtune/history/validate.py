"""Which runs are fit to learn from: all rules together over a batch of runs, in Arrow and NumPy. No Spark in here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamtune.dataflow.observation import METRICS, SIGNED_METRICS
from streamtune.dataflow.operator import SOURCE
from streamtune.dataflow.run import READABLE_VERSIONS
from streamtune.history import reasons
from streamtune.history.flatten import (
    Bools,
    IdIndex,
    Indices,
    Ragged,
    any_per_row,
    codes_of,
    floats,
    list_column,
    map_as_list,
    nulls,
)
from streamtune.history.settings import ValidationSettings

_REQUIRED = ("run_id", "job", "engine", "observed_at", "window_s", "source_rates", "operators", "edges")
# 2009-01-01, before the first of the engines, and 2200-01-01, in seconds since 1970.
_EARLIEST_S, _LATEST_S = 1_230_768_000, 7_258_118_400
_PARTITIONINGS = pa.array(["forward", "rebalance", "hash", "broadcast"])


def check(runs: pa.RecordBatch, settings: ValidationSettings) -> dict[str, Bools]:
    """Reason → for each run, whether it is rejected for it. Columns are those of ``schema.RUN``, all nullable."""
    return _Checker(runs, settings).all_rules()


def reason_lists(flags: dict[str, Bools], rows: int) -> pa.ListArray:
    """The reasons of each run as one list column."""
    names = np.array(list(flags), dtype=object)
    if not len(names):
        return list_column(names, np.zeros(rows, dtype=np.int64), pa.string())
    matrix = np.stack(list(flags.values()), axis=1)
    _, which = np.nonzero(matrix)
    return list_column(names[which], matrix.sum(axis=1), pa.string())


class _Checker:
    """One batch, flattened once; each rule is a method."""

    def __init__(self, runs: pa.RecordBatch, settings: ValidationSettings) -> None:
        self.runs = runs
        self.rows = len(runs)
        self.settings = settings
        operators, edges = Ragged.of(runs.column("operators")), Ragged.of(runs.column("edges"))
        self.op_row, self.edge_row, self.sizes = operators.row, edges.row, operators.lengths
        self.operators, self.edges = operators.values, edges.values
        rates = Ragged.of(map_as_list(runs.column("source_rates")))
        self.rate_row, self.rate_values = rates.row, floats(pc.struct_field(rates.values, "value"))
        ids = self._operator("id")
        self.op_code, self.edge_source, self.edge_target, rate_code = codes_of(
            ids, self._edge("source"), self._edge("target"), pc.struct_field(rates.values, "key")
        )
        width = len(ids) + 2 * len(self.edges) + len(rates.values) + 1
        self.index = IdIndex.of(self.op_row, self.op_code, width)
        self.source_at = self.index.find(self.edge_row, self.edge_source)
        self.target_at = self.index.find(self.edge_row, self.edge_target)
        self.rate_at = self.index.find(self.rate_row, rate_code)
        self.is_source = _flags(pc.equal(self._operator("type"), SOURCE))
        self.known_edge = (self.source_at >= 0) & (self.target_at >= 0)

    def all_rules(self) -> dict[str, Bools]:
        window = floats(self.runs.column("window_s"))
        flags = {
            reasons.MISSING_FIELD: self.missing_field(),
            reasons.IMPOSSIBLE_TIME: self.impossible_time(),
            reasons.UNKNOWN_VERSION: ~np.isin(floats(self.runs.column("schema_version")), READABLE_VERSIONS),
            reasons.INVALID_DAG: self.invalid_dag(),
            reasons.INVALID_FEATURE: self.invalid_feature(),
            reasons.INVALID_PARALLELISM: self._any_operator(~(floats(self._operator("parallelism")) >= 1)),
            reasons.INVALID_METRIC: self.invalid_metric(),
            reasons.TIMES_DO_NOT_ADD_UP: self.times_do_not_add_up(),
            reasons.INCONSISTENT_FLOW: self.inconsistent_flow(),
            reasons.MISSING_SOURCE_RATE: self.missing_source_rate(),
            reasons.UNKNOWN_SOURCE: self.unknown_source(),
            reasons.ZERO_SOURCE_RATE: self.zero_source_rate(),
            reasons.ZERO_THROUGHPUT: self.zero_throughput(),
            reasons.WINDOW_TOO_SHORT: ~nulls(self.runs.column("window_s"))
            & ~((window >= self.settings.min_window_s) & (window > 0) & np.isfinite(window)),
        }
        return {reason: np.asarray(flag) for reason, flag in flags.items() if reason not in self.settings.tolerate}

    def missing_field(self) -> Bools:
        missing = np.zeros(self.rows, dtype=np.bool_)
        for name in _REQUIRED:
            column = self.runs.column(name)
            missing |= nulls(column)
            if pa.types.is_string(column.type):
                missing |= _flags(pc.equal(column, ""))
        for name in ("id", "type"):
            column = self._operator(name)
            missing |= self._any_operator(nulls(column) | _flags(pc.equal(column, "")))
        missing |= any_per_row(self.edge_row, (self.edge_source < 0) | (self.edge_target < 0), self.rows)
        return missing

    def impossible_time(self) -> Bools:
        """Null times are missing fields."""
        column = self.runs.column("observed_at")
        seconds = pc.cast(pc.cast(column, pa.timestamp("s", tz="UTC"), safe=False), pa.int64())
        given = _flags(pc.and_(pc.greater_equal(seconds, _EARLIEST_S), pc.less(seconds, _LATEST_S)))
        return ~given & ~nulls(column)

    def invalid_dag(self) -> Bools:
        named_edge = (self.edge_source >= 0) & (self.edge_target >= 0)
        bad_edge = named_edge & (~self.known_edge | (self.source_at == self.target_at))
        pair = self.source_at * (len(self.op_row) + 1) + self.target_at
        bad_edge |= self.known_edge & _repeated(pair)
        source, target = self.source_at[self.known_edge], self.target_at[self.known_edge]
        has_input = np.zeros(len(self.op_row), dtype=np.bool_)
        has_input[target] = True
        bad_operator = self.index.repeated() & (self.op_code >= 0)
        bad_operator |= self.is_source == has_input  # a source has no inputs, all others have some
        bad_operator |= _on_a_cycle(source, target, len(self.op_row))
        sourceless = ~any_per_row(self.op_row, self.is_source, self.rows)
        empty = sourceless & ~nulls(self.runs.column("operators"))
        return any_per_row(self.edge_row, bad_edge, self.rows) | self._any_operator(bad_operator) | empty

    def invalid_feature(self) -> Bools:
        """What ``dataflow.Operator`` and ``dataflow.Window`` would refuse."""
        kind = self._operator("type")
        bad = ~nulls(kind) & ~_flags(pc.match_substring_regex(kind, r"^[a-z][a-z0-9_]*$")) & ~_flags(pc.equal(kind, ""))
        window, policy = self._operator("window_type"), self._operator("window_policy")
        length, slide = floats(self._operator("window_length")), floats(self._operator("window_slide"))
        windowed, sliding = ~nulls(window), _flags(pc.is_in(window, value_set=pa.array(["sliding", "cumulative"])))
        bad |= windowed & ~(sliding | _flags(pc.is_in(window, value_set=pa.array(["tumbling", "session"]))))
        bad |= ~nulls(policy) & ~_flags(pc.is_in(policy, value_set=pa.array(["time", "count"])))
        bad |= ~nulls(self._operator("window_length")) & ~((length > 0) & np.isfinite(length))
        bad |= windowed & nulls(self._operator("window_length"))
        has_slide = ~nulls(self._operator("window_slide"))
        bad |= has_slide & ~((slide > 0) & (slide <= length))
        bad |= windowed & (has_slide != sliding)
        for name in ("tuple_width_in", "tuple_width_out"):
            bad |= _out_of_range(self._operator(name))
        partitioning = self._edge("partitioning")
        odd_edge = ~nulls(partitioning) & ~_flags(pc.is_in(partitioning, value_set=_PARTITIONINGS))
        return self._any_operator(bad) | any_per_row(self.edge_row, odd_edge, self.rows)

    def invalid_metric(self) -> Bools:
        bad = np.zeros(len(self.op_row), dtype=np.bool_)
        for name in METRICS:
            bad |= _out_of_range(self._operator(name), may_be_negative=name in SIGNED_METRICS)
        of_the_job = _out_of_range(self.runs.column("latency_ms")) | _out_of_range(self.runs.column("throughput_per_s"))
        bad_rate = ~np.isnan(self.rate_values) & ~((self.rate_values >= 0) & np.isfinite(self.rate_values))
        bad_edge = _out_of_range(self._edge("records_per_s")) | _out_of_range(self._edge("bytes_per_s"))
        of_edges = any_per_row(self.edge_row, bad_edge, self.rows)
        return self._any_operator(bad) | of_edges | of_the_job | any_per_row(self.rate_row, bad_rate, self.rows)

    def times_do_not_add_up(self) -> Bools:
        total = sum(
            (floats(self._operator(name)) for name in ("busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s")),
            start=np.zeros(len(self.op_row)),
        )
        return self._any_operator(np.abs(total - 1000.0) > self.settings.time_tolerance_ms)

    def inconsistent_flow(self) -> Bools:
        """Taking in less than was sent is what a bottleneck does; taking in more cannot be."""
        taken, sent = floats(self._operator("records_in_per_s")), floats(self._operator("records_out_per_s"))
        source, target = self.source_at[self.known_edge], self.target_at[self.known_edge]
        # Where an engine counts what goes over an edge, that is what the reader was sent; else all of the output.
        counted = floats(self._edge("records_per_s"))[self.known_edge]
        over = np.where(np.isfinite(counted), counted, sent[source])
        offered = np.bincount(target, weights=over, minlength=len(taken))
        too_much = taken > offered * (1 + self.settings.flow_tolerance) + 1.0
        return self._any_operator(too_much & ~self.is_source)

    def missing_source_rate(self) -> Bools:
        rated = np.zeros(len(self.op_row), dtype=np.bool_)
        rated[self.rate_at[(self.rate_at >= 0) & ~np.isnan(self.rate_values)]] = True
        return self._any_operator(self.is_source & ~rated)

    def unknown_source(self) -> Bools:
        is_source = np.append(self.is_source, False)  # position −1 means not found: not a source
        return any_per_row(self.rate_row, ~is_source[self.rate_at], self.rows)

    def zero_source_rate(self) -> Bools:
        given = any_per_row(self.rate_row, ~np.isnan(self.rate_values), self.rows)
        return given & ~any_per_row(self.rate_row, self.rate_values != 0, self.rows)

    def zero_throughput(self) -> Bools:
        flowing = floats(self._operator("records_out_per_s")) > 0
        nothing: Bools = floats(self.runs.column("throughput_per_s")) == 0
        return nothing & ~self._any_operator(flowing)

    def _operator(self, name: str) -> Any:
        return pc.struct_field(self.operators, name)

    def _edge(self, name: str) -> Any:
        return pc.struct_field(self.edges, name)

    def _any_operator(self, flags: Bools) -> Bools:
        return any_per_row(self.op_row, flags, self.rows)


def _flags(values: Any) -> Bools:
    return np.asarray(pc.fill_null(values, False).to_numpy(zero_copy_only=False))


def _out_of_range(values: Any, may_be_negative: bool = False) -> Bools:
    """Given, but negative, infinite or NaN."""
    numbers = floats(values)
    return ~nulls(values) & ~(((numbers >= 0) | may_be_negative) & np.isfinite(numbers))


def _repeated(keys: Indices) -> Bools:
    result = np.ones(len(keys), dtype=np.bool_)
    result[np.unique(keys, return_index=True)[1]] = False
    return result


def _on_a_cycle(source: Indices, target: Indices, size: int) -> Bools:
    """Operators on a cycle or behind one: what is left when all edges from operators without inputs are taken away."""
    while True:
        has_input = np.zeros(size, dtype=np.bool_)
        has_input[target] = True
        keep = has_input[source]
        if keep.all():
            return has_input
        source, target = source[keep], target[keep]
