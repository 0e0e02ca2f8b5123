"""The same computation as a plain Python batch: no instances, no marks, no order; windows by looking at all records.

What is shared with the engine is the data itself: records, keys and the identities of results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from streamtune.dataflow import Operator, Window
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.timely.records import Record, Selectivities, mix, salt, source_record

FUNCTIONS: dict[str, Callable[[list[int]], int]] = {"sum": sum, "max": max, "min": min, "count": len}


def results(spec: JobSpec, records: int, join_life_s: float) -> list[Record]:
    """Everything that reaches the sink from so many records of every source, sorted."""
    return sorted(_streams(spec, dict.fromkeys(spec.job.source_rates, records), join_life_s)["sink"])


def streams(spec: JobSpec, seconds: float, join_life_s: float) -> dict[str, list[Record]]:
    """What every operator gives in so many seconds of event time."""
    return _streams(spec, {key: round(rate * seconds) for key, rate in spec.job.source_rates.items()}, join_life_s)


def _streams(spec: JobSpec, records: Mapping[str, int], join_life_s: float) -> dict[str, list[Record]]:
    flow = spec.job.dataflow
    selectivities = Selectivities(flow, spec.physics or {}, join_life_s)
    selectivities.follow(spec.job.source_rates)
    found: dict[str, list[Record]] = {}
    for key in flow.order:
        operator = flow.operator(key)
        inputs = [found[before] for before in flow.predecessors(key)]
        if operator.is_source:
            found[key] = _source(operator, records[key], seed=0)
        elif operator.type == "sink":
            found[key] = [record for stream in inputs for record in stream]
        else:
            found[key] = _apply(operator, inputs, selectivities, join_life_s)
    return found


def _source(operator: Operator, records: int, seed: int) -> list[Record]:
    rate = operator.rate or 0.0
    return [source_record(salt(seed, "source", operator.id), n, int(n * 1e6 / rate)) for n in range(records)]


def _apply(
    operator: Operator, inputs: list[list[Record]], selectivities: Selectivities, join_life_s: float
) -> list[Record]:
    copies, own = selectivities.copies[operator.id], salt("operator", operator.id)
    found: list[Record] = []

    def key_of(record: Record) -> int:
        return mix(record[0] ^ salt("key", operator.id)) % selectivities.keys[operator.id]

    match operator.type:
        case "window_aggregate":
            assert operator.window is not None
            assert operator.aggregate is not None
            for end, inside in _windows(operator.window, inputs[0]):
                groups: dict[int, list[int]] = defaultdict(list)
                for record in inside:
                    groups[key_of(record)].append(record[2])
                for key, values in groups.items():
                    result = FUNCTIONS[operator.aggregate.function](values)
                    copies.emit((mix(own ^ mix(end) ^ key), end - 1, result), found)
        case "window_join":
            assert operator.window is not None
            tagged = [(record, side) for side, stream in enumerate(inputs) for record in stream]
            sides = dict(tagged)
            for end, inside in _windows(operator.window, [record for record, _ in tagged]):
                left = [record for record in inside if sides[record] == 0]
                right = [record for record in inside if sides[record] == 1]
                found += _pairs(own, left, right, key_of, lambda *_ignored, end=end: end - 1)
        case "join":
            near = [
                (one, other)
                for one, other in _matching(*inputs, key_of)
                if abs(one[1] - other[1]) <= join_life_s * 1_000_000
            ]
            found = [(_pair_id(own, one, other), max(one[1], other[1]), one[2] + other[2]) for one, other in near]
        case _:
            for record in inputs[0]:
                copies.emit(record, found)
    return found


def _windows(window: Window, records: Iterable[Record]) -> Iterable[tuple[int, list[Record]]]:
    length, slide = round(window.length * 1_000_000), round(window.period * 1_000_000)
    everything = list(records)
    latest = max(record[1] for record in everything)
    for start in range(-(length // slide + 1) * slide, latest + 1, slide):
        inside = [record for record in everything if start <= record[1] < start + length]
        if inside:
            yield start + length, inside


def _matching(
    left: list[Record], right: list[Record], key_of: Callable[[Record], int]
) -> Iterable[tuple[Record, Record]]:
    by_key: dict[int, list[Record]] = defaultdict(list)
    for record in right:
        by_key[key_of(record)].append(record)
    return [(one, other) for one in left for other in by_key[key_of(one)]]


def _pairs(
    own: int,
    left: list[Record],
    right: list[Record],
    key_of: Callable[[Record], int],
    time_of: Callable[..., int],
) -> list[Record]:
    return [
        (_pair_id(own, one, other), time_of(one, other), one[2] + other[2])
        for one, other in _matching(left, right, key_of)
    ]


def _pair_id(own: int, one: Record, other: Record) -> int:
    return mix(own ^ one[0] ^ mix(other[0]))
