"""Job specs and config files by structure, for Hypothesis: the right keys, and mostly values of the right kind."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from streamtune.config import all_sections
from streamtune.dataflow.operator import KNOWN_TYPES

Document = dict[str, Any]

_SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6))
ANYTHING = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


def _mostly(sound: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(sound, sound, sound, sound, ANYTHING)


_IDS = st.sampled_from(("a", "b", "c", "d"))
_NUMBERS = st.floats(0.001, 1e6) | st.integers(1, 500)
_WINDOWS = st.fixed_dictionaries(
    {"type": _mostly(st.sampled_from(("sliding", "tumbling", "session"))), "length": _mostly(_NUMBERS)},
    optional={"policy": _mostly(st.sampled_from(("time", "count"))), "slide": _mostly(_NUMBERS)},
)
_INPUTS = st.lists(_mostly(_IDS | st.fixed_dictionaries({"from": _IDS, "partitioning": st.just("hash")})), max_size=2)
_OPERATORS = st.fixed_dictionaries(
    {"id": _mostly(_IDS), "type": _mostly(st.sampled_from(KNOWN_TYPES))},
    optional={
        "inputs": _mostly(_INPUTS),
        "rate": _mostly(_NUMBERS),
        "window": _mostly(_WINDOWS),
        "parallelism": _mostly(st.integers(1, 200)),
        "max_parallelism": _mostly(st.integers(1, 200)),
        "tuple_width_out": _mostly(_NUMBERS),
    },
)
_PHYSICS = st.fixed_dictionaries(
    {"service_us": _mostly(_NUMBERS)}, optional={"selectivity": _mostly(_NUMBERS), "skew": _mostly(_NUMBERS)}
)
SPECS: st.SearchStrategy[Document] = st.fixed_dictionaries(
    {"name": _mostly(st.text(min_size=1, max_size=6)), "operators": _mostly(st.lists(_OPERATORS, max_size=4))},
    optional={
        "max_parallelism": _mostly(st.integers(1, 500)),
        "physics": _mostly(st.dictionaries(_IDS, _PHYSICS, max_size=4)),
    },
)


@st.composite
def configs(draw: st.DrawFn) -> Document:
    """One to three sections with some of their fields; most values are none that the field takes."""
    found: Document = {}
    for name in draw(st.lists(st.sampled_from(sorted(all_sections())), min_size=1, max_size=3, unique=True)):
        fields = sorted(all_sections()[name].model_fields)
        chosen = draw(st.lists(st.sampled_from(fields), max_size=3, unique=True)) if fields else []
        values = {field: draw(_NUMBERS | ANYTHING) for field in chosen}
        above, _, below = name.partition(".")
        if not below:
            found[above] = {**found.get(above, {}), **values}
        else:
            found.setdefault(above, {})[below] = values
    return found
