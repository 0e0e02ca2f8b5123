"""The public benchmark queries of the ZeroTune paper: spike detection and smart grid, as job specs.

- *Spike detection* (DSPBench): sensor readings are averaged per device over a moving window of 2 s, and a reading far
  above the average is reported.
- *Smart grid* (DEBS Grand Challenge 2014): loads of smart plugs, averaged over a sliding window of 10 s with a slide of
  3 s, per plug (local) or per house (global), to predict the next load.

Selectivities that the queries fix are set; all other physics is drawn by ``physics_model``. A time window of readings
emits one result per key and firing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamtune.dataflow.operator import Aggregate, Operator, Window

Node = tuple[Operator, Sequence[str]]
Query = tuple[list[Node], dict[str, float]]

_READING_WIDTH = 4.0
_PLUG_WIDTH = 7.0


def _operator(operator_id: str, kind: str, width_in: float | None, width_out: float) -> Operator:
    return Operator(id=operator_id, type=kind, tuple_width_in=width_in, tuple_width_out=width_out, tuple_type="double")


def _average(operator_id: str, width_in: float, window: Window, key_class: str) -> Operator:
    aggregate = Aggregate(function="avg", value_class="double", key_class=key_class)
    return _operator(operator_id, "window_aggregate", width_in, 3.0).model_copy(
        update={"window": window, "aggregate": aggregate}
    )


def spike_detection() -> Query:
    """Sensors → parse → moving average per device → spikes → sink."""
    window = Window(type="sliding", policy="time", length=2.0, slide=1.0)
    nodes: list[Node] = [
        (_operator("sensors", "source", None, _READING_WIDTH), ()),
        (_operator("parse", "map", _READING_WIDTH, _READING_WIDTH), ("sensors",)),
        (_average("moving_average", _READING_WIDTH, window, "string"), ("parse",)),
        (_operator("spikes", "filter", 3.0, 3.0), ("moving_average",)),
        (_operator("sink", "sink", 3.0, 0.0), ("spikes",)),
    ]
    return nodes, {"spikes": 0.05}


def smart_grid_local() -> Query:
    """Plug loads → load measurements only → average per plug → sink."""
    return _smart_grid("string")


def smart_grid_global() -> Query:
    """Plug loads → load measurements only → average per house, and over all houses → sink."""
    nodes, selectivities = _smart_grid("int")
    window = Window(type="sliding", policy="time", length=10.0, slide=3.0)
    sink, _ = nodes.pop()
    nodes.append((_average("all_houses", 3.0, window, "int"), ("average_load",)))
    return [*nodes, (sink, ("all_houses",))], selectivities


def _smart_grid(key_class: str) -> Query:
    window = Window(type="sliding", policy="time", length=10.0, slide=3.0)
    nodes: list[Node] = [
        (_operator("plugs", "source", None, _PLUG_WIDTH), ()),
        (_operator("loads_only", "filter", _PLUG_WIDTH, _PLUG_WIDTH), ("plugs",)),
        (_average("average_load", _PLUG_WIDTH, window, key_class), ("loads_only",)),
        (_operator("sink", "sink", 3.0, 0.0), ("average_load",)),
    ]
    return nodes, {"loads_only": 0.5}


QUERIES: dict[str, Callable[[], Query]] = {
    "spike-detection": spike_detection,
    "smart-grid-local": smart_grid_local,
    "smart-grid-global": smart_grid_global,
}
