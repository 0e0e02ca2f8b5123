"""Nexmark Q1, Q2, Q3, Q5 and Q8 with the source-rate units of Table II (Flink column) of the StreamTune paper.

What comes from where:

- W_u per source: Table II. Window sizes (10 s, sliding by 2 s in Q5): the Nexmark queries.
- Operators: Section V-A. Q1 a map, Q2 a filter, Q3 an incremental (record-at-a-time) join, Q5 a sliding and Q8 a
  tumbling window join. Q5 is the diamond of the Nexmark definition: bids per auction are counted per window, the
  maximum of the counts is taken, and both are joined on the window to name the hottest auctions. The paper calls Q5
  a sliding window join, and only this form contains one.
- Selectivities are set, not drawn, where the query says what passes: Q3 keeps one category of five and three states
  of six. For Q2 (a few auctions out of many), Q5 (one maximum per window; the join keeps the hottest) and Q8 (few
  sellers are new within the same 10 s) the values are plausible choices. All other physics is drawn by
  ``physics_model``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from streamtune.dataflow.operator import Aggregate, Join, Operator, Window
from streamtune.workloads.workload import Workload, assemble

_STREAM = 1

BID_WIDTH, AUCTION_WIDTH, PERSON_WIDTH = 7, 10, 8
_SLIDING = Window(type="sliding", length=10.0, slide=2.0)
_TUMBLING = Window(type="tumbling", length=10.0)

Node = tuple[Operator, Sequence[str]]


@dataclass(frozen=True)
class _Query:
    nodes: Callable[[], list[Node]]
    units: Mapping[str, float]
    selectivities: Mapping[str, float] = field(default_factory=dict)


def names() -> list[str]:
    return [f"nexmark-{query}" for query in _QUERIES]


def build(query: str, seed: int = 0) -> Workload:
    """One of q1, q2, q3, q5, q8; ``seed`` draws the residuals of its physics."""
    definition = _QUERIES[query]
    seed_path = (seed, _STREAM, int(query[1:]))
    return assemble(
        f"nexmark-{query}", "nexmark", definition.nodes(), definition.units, seed_path, definition.selectivities
    )


def _row(operator_id: str, kind: str, width_in: int, width_out: int) -> Operator:
    return Operator(id=operator_id, type=kind, tuple_width_in=width_in, tuple_width_out=width_out, tuple_type="row")


def _source(operator_id: str, width: int) -> Operator:
    return Operator(id=operator_id, type="source", tuple_width_out=width, tuple_type="row")


def _q1() -> list[Node]:
    return [
        (_source("bids", BID_WIDTH), ()),
        (_row("to_euro", "map", BID_WIDTH, BID_WIDTH), ("bids",)),
        (_row("sink", "sink", BID_WIDTH, 0), ("to_euro",)),
    ]


def _q2() -> list[Node]:
    return [
        (_source("bids", BID_WIDTH), ()),
        (_row("chosen_auctions", "filter", BID_WIDTH, BID_WIDTH), ("bids",)),
        (_row("sink", "sink", BID_WIDTH, 0), ("chosen_auctions",)),
    ]


def _q3() -> list[Node]:
    matches = Operator(
        id="sellers",
        type="join",
        join=Join(key_class="long"),
        tuple_width_in=(AUCTION_WIDTH + PERSON_WIDTH) / 2,
        tuple_width_out=4,
        tuple_type="row",
    )
    return [
        (_source("auctions", AUCTION_WIDTH), ()),
        (_source("persons", PERSON_WIDTH), ()),
        (_row("one_category", "filter", AUCTION_WIDTH, AUCTION_WIDTH), ("auctions",)),
        (_row("three_states", "filter", PERSON_WIDTH, PERSON_WIDTH), ("persons",)),
        (matches, ("one_category", "three_states")),
        (_row("sink", "sink", 4, 0), ("sellers",)),
    ]


def _q5() -> list[Node]:
    counts = Operator(
        id="bids_per_auction",
        type="window_aggregate",
        window=_SLIDING,
        aggregate=Aggregate(function="count", value_class="long", key_class="long"),
        tuple_width_in=BID_WIDTH,
        tuple_width_out=3,
        tuple_type="row",
    )
    maximum = Operator(
        id="most_bids",
        type="window_aggregate",
        window=_SLIDING,
        aggregate=Aggregate(function="max", value_class="long", key_class="long"),
        tuple_width_in=3,
        tuple_width_out=2,
        tuple_type="long",
    )
    hottest = Operator(
        id="hot_items",
        type="window_join",
        window=_SLIDING,
        join=Join(key_class="long"),
        tuple_width_in=3,
        tuple_width_out=3,
        tuple_type="long",
    )
    return [
        (_source("bids", BID_WIDTH), ()),
        (counts, ("bids",)),
        (maximum, ("bids_per_auction",)),
        (hottest, ("bids_per_auction", "most_bids")),
        (_row("sink", "sink", 3, 0), ("hot_items",)),
    ]


def _q8() -> list[Node]:
    new_sellers = Operator(
        id="new_sellers",
        type="window_join",
        window=_TUMBLING,
        join=Join(key_class="long"),
        tuple_width_in=(AUCTION_WIDTH + PERSON_WIDTH) / 2,
        tuple_width_out=3,
        tuple_type="row",
    )
    return [
        (_source("auctions", AUCTION_WIDTH), ()),
        (_source("persons", PERSON_WIDTH), ()),
        (new_sellers, ("auctions", "persons")),
        (_row("sink", "sink", 3, 0), ("new_sellers",)),
    ]


_QUERIES = {
    "q1": _Query(_q1, {"bids": 700_000.0}),
    "q2": _Query(_q2, {"bids": 900_000.0}, {"chosen_auctions": 0.05}),
    "q3": _Query(_q3, {"auctions": 200_000.0, "persons": 40_000.0}, {"one_category": 0.2, "three_states": 0.5}),
    "q5": _Query(_q5, {"bids": 80_000.0}, {"most_bids": 0.001, "hot_items": 0.01}),
    "q8": _Query(_q8, {"auctions": 100_000.0, "persons": 60_000.0}, {"new_sellers": 0.02}),
}
