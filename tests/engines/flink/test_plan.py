"""Plans of real shapes become dataflows: nothing guessed, nothing lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtune.dataflow.spec import JobSpec, parse_spec
from streamtune.engines.flink.descriptions import chained_names, describe
from streamtune.engines.flink.overrides import Overrides, load_overrides
from streamtune.engines.flink.plan import import_job, slots_needed
from streamtune.engines.flink.responses import JobDetails, parse
from streamtune.errors import EngineError

# As Flink's planner writes it (2.3), shortened in the middle of its lists.
SQL_SOURCE = (
    "[1]:TableSourceScan(table=[[default_catalog, default_database, bids]], fields=[item, price])<br/>"
    "+- [2]:Calc(select=[item, PROCTIME() AS ts], where=[(item &gt; 2)])<br/>"
)
SQL_WINDOW = (
    "[4]:WindowAggregate(groupBy=[item], window=[HOP(time_col=[ts], size=[10 s], slide=[2 s])], "
    "select=[item, COUNT(*) AS EXPR$1, start('w$') AS window_start, end('w$') AS window_end])<br/>"
    "+- [5]:Calc(select=[item, EXPR$1, window_end])<br/>"
)
SQL_JOIN = (
    "[9]:WindowJoin(leftWindow=[TUMBLE(win_start=[s], win_end=[e], size=[1 min])], rightWindow=[TUMBLE(win_start=[s0], "
    "win_end=[e0], size=[1 min])], joinType=[InnerJoin], where=[(id = seller)], select=[id, s, e, seller, s0, e0])"
)


def details(*vertices: dict[str, Any], name: str = "job") -> JobDetails:
    """Vertices as dictionaries: id, name, and optionally inputs, description, p, max_p, group."""
    payload = {
        "jid": "j",
        "name": name,
        "state": "RUNNING",
        "vertices": [
            {
                "id": one["id"],
                "name": one["name"],
                "parallelism": one.get("p", 1),
                "maxParallelism": one.get("max_p", 128),
                "status": "RUNNING",
                **({"slotSharingGroupId": one["group"]} if "group" in one else {}),
            }
            for one in vertices
        ],
        "plan": {
            "nodes": [
                {
                    "id": one["id"],
                    "parallelism": one.get("p", 1),
                    "description": one.get("description", one["name"]),
                    "inputs": [{"id": key, "ship_strategy": way} for key, way in one.get("inputs", [])],
                }
                for one in vertices
            ]
        },
    }
    return parse(JobDetails, payload, "test")


DATASTREAM = details(
    {"id": "v1", "name": "Source: bids -> Filter", "p": 2},
    {"id": "v2", "name": "Window(SlidingEventTimeWindows(10000, 2000), EventTimeTrigger, Count) -> Map",
     "inputs": [("v1", "HASH")], "p": 5, "max_p": 64},
    {"id": "v3", "name": "enrich", "inputs": [("v2", "RESCALE")]},
    {"id": "v4", "name": "Sink: out: Writer", "inputs": [("v3", "FORWARD")]},
)  # fmt: skip

SQL = details(
    {"id": "v1", "name": "Source: bids[1] -> Calc[2]", "description": SQL_SOURCE},
    {"id": "v2", "name": "WindowAggregate[4] -> Calc[5]", "description": SQL_WINDOW, "inputs": [("v1", "HASH")]},
    {"id": "v3", "name": "WindowJoin[9]", "description": SQL_JOIN, "inputs": [("v1", "HASH"), ("v2", "HASH")]},
    {"id": "v4", "name": "Sink: hot[10]", "inputs": [("v3", "FORWARD")]},
)


def test_a_datastream_job() -> None:
    imported = import_job(DATASTREAM)
    flow = imported.job.dataflow
    assert flow.types == ("source", "window_aggregate", "unknown", "sink")
    assert [edge.partitioning for edge in flow.edges] == ["hash", "rebalance", "forward"]
    assert imported.plan.total == 9
    window = flow.operators[1].window
    assert window is not None
    assert (window.type, window.length, window.slide) == ("sliding", 10.0, 2.0)
    assert imported.vertex_of["bids"] == "v1"
    assert imported.operator_of["v3"] == "enrich"


def test_a_sql_job() -> None:
    source, windowed, join, sink = import_job(SQL).job.dataflow.operators
    assert (source.type, source.tuple_width_out, source.tuple_type) == ("source", 2, "row")
    assert windowed.aggregate is not None
    assert (windowed.aggregate.function, windowed.aggregate.value_class) == ("count", "long")
    assert windowed.tuple_width_in == 2
    assert windowed.tuple_width_out == 3
    assert join.type == "window_join"
    assert join.window is not None
    assert (join.window.type, join.window.length) == ("tumbling", 60.0)
    assert join.tuple_width_in == (2 + 3) / 2
    assert sink.type == "sink"


def test_key_groups_and_users_bound_the_job() -> None:
    """Slots do not: they come and go, and guards ask for them anew."""
    job = import_job(DATASTREAM).job
    assert sorted({job.limit_of(key) for key in job.dataflow.index}) == [64, 128]  # each vertex has its own key groups
    assert import_job(DATASTREAM, overrides=Overrides(max_parallelism=7)).job.max_parallelism == 7
    # What runs is never called impossible.
    assert import_job(DATASTREAM, overrides=Overrides(max_parallelism=3)).job.max_parallelism == 5


def test_key_groups_that_flink_does_not_tell_are_those_it_takes_by_itself() -> None:
    job = import_job(details({"id": "v1", "name": "Source: a", "p": 90, "max_p": -1})).job
    assert job.limit_of("a") == 256


def test_overrides_by_operator_or_vertex_id(tmp_path: Path) -> None:
    path = tmp_path / "known.yaml"
    path.write_text(
        "operators:\n"
        "  enrich: {type: join, join: {key_class: long}}\n"
        "  v1: {rate: 4000, tuple_width_out: 7}\n"
        "exclude: [v4]\n"
    )
    imported = import_job(DATASTREAM, overrides=load_overrides(path))
    flow = imported.job.dataflow
    assert flow.operator("enrich").type == "join"
    assert imported.job.source_rates == {"bids": 4000.0}
    assert flow.operators[1].tuple_width_in == 7
    assert imported.exclude == {"out-Writer"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("operators: {enrich: {typ: join}}", "operators.enrich.typ"),
        ("operators: {enrich: {window: {type: tumbling, length: 3 weeks}}}", "unknown unit"),
        ("max_parallelism: 0", "max_parallelism"),
        ("[", "not valid YAML"),
        ("- 1", "the file"),
    ],
)
def test_bad_overrides_name_the_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(EngineError, match=message):
        load_overrides(path)


def test_overrides_for_nobody_are_an_error() -> None:
    with pytest.raises(EngineError, match="name 'enirch', but the operators of the job are bids"):
        import_job(DATASTREAM, overrides=Overrides(exclude=("enirch",)))


def test_a_job_may_describe_itself() -> None:
    spec = parse_spec(
        {
            "name": "job",
            "operators": [
                {"id": "bids", "type": "source", "rate": 10},
                {"id": "enrich", "type": "flat_map", "inputs": ["bids"], "tuple_width_in": 3},
            ],
        }
    )
    published = json.dumps(JobSpec(spec.job).to_mapping())
    flow = import_job(DATASTREAM, published=published).job.dataflow
    assert (flow.operator("enrich").type, flow.operator("enrich").tuple_width_in) == ("flat_map", 3)
    assert import_job(DATASTREAM, published="{broken").job.dataflow.types == import_job(DATASTREAM).job.dataflow.types


def test_a_writer_whose_committer_stands_alone_says_so() -> None:
    """A sink has no readers in a dataflow, so what the committer reads is none."""
    imported = import_job(
        details(
            {"id": "v1", "name": "Source: a"},
            {"id": "v2", "name": "out: Writer", "inputs": [("v1", "REBALANCE")]},
            {"id": "v3", "name": "out: Committer", "inputs": [("v2", "FORWARD")]},
            {"id": "v4", "name": "out: Global Committer", "inputs": [("v3", "FORWARD")]},
        )
    )
    assert imported.job.dataflow.types == ("source", "unknown", "unknown", "sink")
    assert imported.read_from["out-Writer"] == "out: Writer, a sink's writer, which others read"


def test_the_number_of_a_vertex_is_no_part_of_its_id() -> None:
    """With pipeline.vertex-name-include-index-prefix; a changed job numbers its vertices otherwise."""
    plain = import_job(SQL)
    shapes = [
        {"id": vertex.id, "name": f"[vertex-{number}]{vertex.name}", "description": node.description,
         "inputs": [(entry.id, entry.ship_strategy) for entry in node.inputs]}
        for number, (vertex, node) in enumerate(zip(SQL.vertices, SQL.plan.nodes, strict=True))
    ]  # fmt: skip
    numbered = import_job(details(*shapes))
    assert numbered.vertex_of == plain.vertex_of
    assert numbered.job.dataflow.types == plain.job.dataflow.types


def test_names_that_occur_twice_are_numbered_and_a_self_join_is_one_edge() -> None:
    twice = details(
        {"id": "v1", "name": "Source: a"},
        {"id": "v2", "name": "Map", "inputs": [("v1", "REBALANCE"), ("v1", "HASH")]},
        {"id": "v3", "name": "Map", "inputs": [("v2", "REBALANCE")]},
    )
    flow = import_job(twice).job.dataflow
    assert tuple(flow.index) == ("a", "Map", "Map-2")
    assert len(flow.edges) == 2


def test_slots_are_shared_within_a_group_only() -> None:
    job = details(
        {"id": "a", "name": "Source: a", "p": 3, "group": "g1"},
        {"id": "b", "name": "b", "p": 5, "group": "g1", "inputs": [("a", "HASH")]},
        {"id": "c", "name": "c", "p": 2, "group": "g2", "inputs": [("b", "HASH")]},
    )
    assert slots_needed(job, {}) == 5 + 2
    assert slots_needed(job, {"c": 9}) == 5 + 9


def test_a_job_without_a_plan_is_refused() -> None:
    empty = parse(JobDetails, {"jid": "j", "name": "n", "state": "INITIALIZING", "vertices": []}, "test")
    with pytest.raises(EngineError, match="no plan yet"):
        import_job(empty)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Source: x", "source"),
        ("Sink: x", "sink"),
        ("Flat Map", "flat_map"),
        ("filter bids", "filter"),
        ("Keyed Aggregation", "aggregate"),
        ("GroupAggregate[3]", "aggregate"),
        ("Join[7]", "join"),
        ("IntervalJoin[7]", "join"),
        ("KeyedProcess", "process"),
        ("mapper of things", "unknown"),
        ("", "unknown"),
    ],
)
def test_kinds_by_name(name: str, kind: str) -> None:
    assert describe(name, "").kind == kind


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("A -> (B -> (C, D -> E), F)", ["A", "B", "C", "D", "E", "F"]),
        ("enrich (a, b) -> Map", ["enrich (a, b)", "Map"]),
        ("Interval Join [0, 1], Map", ["Interval Join [0, 1]", "Map"]),
        ("TableToDataStream(type=ROW<`a` INT, `b` STRING>, rowtime=false)",) * 2,
        # What a user never closed, or closed and never opened, hides nothing.
        ("sad :-( -> (Map, Filter)", ["sad :-(", "Map", "Filter"]),
        ("happy :-) -> Map", ["happy :-)", "Map"]),
        ("[1, 2) -> Map, Filter", ["[1", "2)", "Map", "Filter"]),
        ("[vertex-12]Source: bids[1] -> Calc[2]", ["Source: bids[1]", "Calc[2]"]),
    ],
)
def test_names_are_cut_outside_of_brackets(name: str, names: list[str] | str) -> None:
    assert chained_names(name) == ([names] if isinstance(names, str) else names)


# Names as Flink could print them: letters, and arguments in brackets that are closed.
OPERATORS = st.recursive(
    st.text("abc", min_size=1, max_size=5),
    lambda inner: st.tuples(st.sampled_from(("()", "[]", "{}")), st.lists(inner, max_size=3)).map(
        lambda one: f"f{one[0][0]}{', '.join(one[1])}{one[0][1]}"
    ),
)
CHAINS = st.recursive(
    OPERATORS.map(lambda name: (name, [name])),
    lambda inner: st.tuples(OPERATORS, st.lists(inner, min_size=1, max_size=3)).map(
        lambda one: (
            f"{one[0]} -> {one[1][0][0]}" if len(one[1]) == 1 else f"{one[0]} -> ({', '.join(b[0] for b in one[1])})",
            [one[0], *(name for branch in one[1] for name in branch[1])],
        )
    ),
)


@given(CHAINS, st.sampled_from(("", "[vertex-0]", "[vertex-17]")))
def test_every_chain_is_taken_apart_into_its_operators(chain: tuple[str, list[str]], prefix: str) -> None:
    written, operators = chain
    assert chained_names(prefix + written) == operators


@given(st.text(max_size=200), st.text(max_size=400))
def test_no_text_breaks_the_reader(name: str, description: str) -> None:
    """Names are what users chose: anything may be in them."""
    describe(name, description)
    chained_names(name)


@given(st.integers(1, 6), st.data())
def test_any_dag_is_imported_with_its_shape(size: int, data: st.DataObject) -> None:
    vertices = []
    for position in range(size):
        inputs = data.draw(st.lists(st.integers(0, position - 1), unique=True)) if position else []
        vertices.append(
            {
                "id": f"v{position}",
                "name": data.draw(st.sampled_from(("Map", "Filter", "x"))),
                "inputs": [(f"v{one}", "HASH") for one in inputs],
                "p": data.draw(st.integers(1, 9)),
            }
        )
    imported = import_job(details(*vertices))
    assert len(imported.job.dataflow.edges) == sum(len(one["inputs"]) for one in vertices)
    assert [imported.plan[key] for key in imported.job.dataflow.index] == [one["p"] for one in vertices]
