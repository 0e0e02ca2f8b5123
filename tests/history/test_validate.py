"""Each rule rejects what it should and nothing else; no Spark is started."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from streamtune.dataflow import Run
from streamtune.history import reasons
from streamtune.history.checking import LineCounter
from streamtune.history.schema import RUN
from streamtune.history.settings import ValidationSettings
from streamtune.history.validate import check, reason_lists
from streamtune.settings import SettingsError
from streamtune.spark.schemas import nullable

Record = dict[str, Any]
ARROW = to_arrow_schema(nullable(RUN), timezone="UTC")


def batch_of(*records: Record) -> pa.RecordBatch:
    rows = []
    for record in records:
        row = {**record}
        if isinstance(row.get("observed_at"), str):
            row["observed_at"] = datetime.fromisoformat(row["observed_at"])
        if row.get("source_rates") is not None:
            row["source_rates"] = list(row["source_rates"].items())
        rows.append(row)
    return pa.RecordBatch.from_pylist(rows, schema=ARROW)


def found(*records: Record, **overrides: Any) -> list[list[str]]:
    flags = check(batch_of(*records), ValidationSettings(**overrides))
    return [sorted(entry) for entry in reason_lists(flags, len(records)).to_pylist()]


def edit(record: Record, operator: int, **fields: Any) -> Record:
    operators = [{**entry} for entry in record["operators"]]
    operators[operator].update(fields)
    return {**record, "operators": operators}


def test_a_good_run_is_fine_and_so_is_one_without_metrics(good_run: Callable[..., Record]) -> None:
    bare = [{"id": e["id"], "type": e["type"], "parallelism": 1} for e in good_run()["operators"]]
    assert found(good_run(), good_run(operators=bare, latency_ms=None, throughput_per_s=None)) == [[], []]


def edge(source: str | None, target: str | None, partitioning: str = "hash") -> Record:
    return {"source": source, "target": target, "partitioning": partitioning}


CHAIN = [edge("in", "count"), edge("count", "out")]

BAD_FIELDS = [
    ({"run_id": None}, reasons.MISSING_FIELD),
    ({"job": ""}, reasons.MISSING_FIELD),
    ({"edges": None}, reasons.MISSING_FIELD),
    ({"observed_at": None}, reasons.MISSING_FIELD),
    ({"edges": [*CHAIN, edge(None, "out")]}, reasons.MISSING_FIELD),
    ({"schema_version": 3}, reasons.UNKNOWN_VERSION),
    ({"observed_at": "1500-01-01T00:00:00+00:00"}, reasons.IMPOSSIBLE_TIME),
    ({"observed_at": "2008-12-31T23:59:59+00:00"}, reasons.IMPOSSIBLE_TIME),
    ({"observed_at": "2200-01-01T00:00:01+00:00"}, reasons.IMPOSSIBLE_TIME),
    ({"edges": [*CHAIN, edge("in", "nowhere")]}, reasons.INVALID_DAG),
    ({"edges": [*CHAIN, edge("in", "count")]}, reasons.INVALID_DAG),
    ({"edges": [*CHAIN, edge("count", "count")]}, reasons.INVALID_DAG),
    ({"edges": [*CHAIN, edge("out", "count")]}, reasons.INVALID_DAG),
    ({"edges": [*CHAIN, edge("out", "in")]}, reasons.INVALID_DAG),
    ({"edges": [edge("in", "count")]}, reasons.INVALID_DAG),
    ({"edges": [edge("in", "count", "sideways"), edge("count", "out")]}, reasons.INVALID_FEATURE),
    ({"latency_ms": -1.0}, reasons.INVALID_METRIC),
    ({"throughput_per_s": math.inf}, reasons.INVALID_METRIC),
    ({"source_rates": {"in": -1.0}}, reasons.INVALID_METRIC),
    ({"source_rates": {}}, reasons.MISSING_SOURCE_RATE),
    ({"source_rates": {"in": math.nan}}, reasons.MISSING_SOURCE_RATE),
    ({"source_rates": {"in": 1000.0, "count": 5.0}}, reasons.UNKNOWN_SOURCE),
    ({"source_rates": {"in": 1000.0, "ghost": 5.0}}, reasons.UNKNOWN_SOURCE),
    ({"source_rates": {"in": 0.0}}, reasons.ZERO_SOURCE_RATE),
    ({"window_s": 9.9}, reasons.WINDOW_TOO_SHORT),
    ({"window_s": math.nan}, reasons.WINDOW_TOO_SHORT),
]

BAD_OPERATORS = [
    (1, {"id": None}, reasons.MISSING_FIELD),
    (1, {"type": ""}, reasons.MISSING_FIELD),
    (1, {"id": "in"}, reasons.INVALID_DAG),
    (0, {"type": "map"}, reasons.INVALID_DAG),
    (1, {"type": "FlatMap"}, reasons.INVALID_FEATURE),
    (1, {"window_type": "hopping"}, reasons.INVALID_FEATURE),
    (1, {"window_policy": "session"}, reasons.INVALID_FEATURE),
    (1, {"window_length": 0.0}, reasons.INVALID_FEATURE),
    (1, {"window_length": None}, reasons.INVALID_FEATURE),
    (1, {"window_slide": 11.0}, reasons.INVALID_FEATURE),
    (1, {"window_slide": None}, reasons.INVALID_FEATURE),
    (1, {"window_type": "tumbling"}, reasons.INVALID_FEATURE),
    (1, {"tuple_width_in": -1.0}, reasons.INVALID_FEATURE),
    (1, {"parallelism": 0}, reasons.INVALID_PARALLELISM),
    (2, {"parallelism": None}, reasons.INVALID_PARALLELISM),
    (1, {"records_in_per_s": -0.1}, reasons.INVALID_METRIC),
    (1, {"cpu_load": math.nan}, reasons.INVALID_METRIC),
    (1, {"busy_ms_per_s": 500.0}, reasons.TIMES_DO_NOT_ADD_UP),  # 500 + 590 + 10 = 1,100 ms per s
    (1, {"records_in_per_s": 1300.0}, reasons.INCONSISTENT_FLOW),  # 1,000 were sent, 20 % more are tolerated
]


@pytest.mark.parametrize(("fields", "reason"), BAD_FIELDS)
def test_bad_fields(good_run: Callable[..., Record], fields: Record, reason: str) -> None:
    first, middle, last = found(good_run(), good_run(**fields), good_run())
    assert reason in middle
    assert first == last == [], "its neighbours in the batch are not touched"


@pytest.mark.parametrize(("operator", "fields", "reason"), BAD_OPERATORS)
def test_bad_operators(good_run: Callable[..., Record], operator: int, fields: Record, reason: str) -> None:
    first, middle, last = found(good_run(), edit(good_run(), operator, **fields), good_run())
    assert reason in middle
    assert first == last == []


def test_all_reasons_are_named_at_once(good_run: Callable[..., Record]) -> None:
    bad = edit(good_run(window_s=1.0, source_rates={"in": 0.0}), 1, parallelism=0)
    assert found(bad) == [[reasons.INVALID_PARALLELISM, reasons.WINDOW_TOO_SHORT, reasons.ZERO_SOURCE_RATE]]


def test_nothing_came_out(good_run: Callable[..., Record]) -> None:
    dead = good_run(throughput_per_s=0.0)
    for position in range(3):
        dead = edit(dead, position, records_in_per_s=0.0, records_out_per_s=0.0)
    assert found(dead) == [[reasons.ZERO_THROUGHPUT]]


def test_empty_runs_and_no_runs(good_run: Callable[..., Record]) -> None:
    (empty,) = found(good_run(operators=[], edges=[], source_rates={}))
    assert empty == [reasons.INVALID_DAG]
    assert check(batch_of(), ValidationSettings())[reasons.INVALID_DAG].tolist() == []


def test_a_null_run_is_merely_missing() -> None:
    (missing,) = found(dict.fromkeys(RUN.fieldNames()))
    assert reasons.MISSING_FIELD in missing


def test_tolerated_reasons_do_not_reject(good_run: Callable[..., Record]) -> None:
    assert found(good_run(window_s=1.0), tolerate={reasons.WINDOW_TOO_SHORT}) == [[]]
    with pytest.raises(SettingsError, match=r"must be reasons that can be tolerated.*but got 'invalid_dag'"):
        ValidationSettings(tolerate=frozenset({reasons.INVALID_DAG}))


def test_every_reason_is_described() -> None:
    words = {value for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str)}
    assert words == set(reasons.DESCRIPTIONS)


IDS = st.sampled_from(["in", "count", "out", "", "more", None])
NUMBERS = st.sampled_from([None, 0.0, 1.0, -1.0, 10.0, 1000.0, math.nan, math.inf])


@st.composite
def broken(draw: st.DrawFn) -> Callable[[Record], Record]:
    """Any few edits of a good run, most of them harmful."""
    fields = draw(st.dictionaries(st.sampled_from(["window_s", "latency_ms", "throughput_per_s"]), NUMBERS, max_size=1))
    changes = draw(
        st.dictionaries(
            st.sampled_from(["window_length", "window_slide", "tuple_width_in", "records_in_per_s", "busy_ms_per_s"]),
            NUMBERS,
            max_size=2,
        )
    )
    texts = draw(
        st.dictionaries(
            st.sampled_from(["id", "type", "window_type", "window_policy"]),
            st.sampled_from([None, "", "in", "map", "source", "sliding", "tumbling", "time", "Odd"]),
            max_size=1,
        )
    )
    more_edges = draw(st.lists(st.builds(edge, IDS, IDS, st.sampled_from(["hash", "odd"])), max_size=2))
    position = draw(st.integers(0, 2))

    def apply(record: Record) -> Record:
        edited = edit({**record, **fields}, position, **changes, **texts)
        return {**edited, "edges": [*edited["edges"], *more_edges]}

    return apply


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(broken(), min_size=1, max_size=4))
def test_what_is_valid_can_be_read_back(
    good_run: Callable[..., Record], edits: list[Callable[[Record], Record]]
) -> None:
    """The law behind the rules: an accepted row is a ``Run`` whose dataflow can be built."""
    records = [apply(good_run()) for apply in edits]
    for record, why in zip(records, found(*records), strict=True):
        if not why:
            assert Run.model_validate(record).dataflow.sources


def test_lines_are_numbered_per_block_across_batches() -> None:
    counter = LineCounter()
    first = counter.number(pa.array(["a", "a", "b"]), pa.array([0, 0, 0]))
    second = counter.number(pa.array(["b", "b", "b", "a"]), pa.array([0, 0, 128, 0]))
    assert first.tolist() == [0, 1, 0]
    assert second.tolist() == [1, 2, 0, 2]
    assert counter.number(pa.array([], pa.string()), pa.array([], pa.int64())).tolist() == np.array([]).tolist()
