"""What the operators of generated jobs cost: a formula over their Table I features, times a random residual.

The features inform but do not suffice, as in reality: the residual is what a running job itself must teach.

**Service time** of one record on one instance, in µs::

    service_us = base(type) · record(tuple_type) · (tuple_width_in / 3)^0.2
                 · window(type, window) · function · class · key · exp(0.3·z),      z ~ N(0, 1) cut to |z| ≤ 2

    window     = (length / reference)^a · (length / slide)^b                        1 without a window
                 reference: 1 s (time) or 25 tuples (count); a, b = 0.25, 0.8 for window_aggregate (a record
                 updates length / slide overlapping windows), 0.15, 0.6 for window_join

=================  ========   ===========  ======   ======================  ====   ===========  ====   =====
type               base, µs   tuple_type   record   function                ×      class, key   key    class
=================  ========   ===========  ======   ======================  ====   ===========  ====   =====
source             0.30       long         0.6      count, min, max, sum    1      int, long    1      1
map                2.6        row          1        avg                     1.15   double       1.05   1.025
flat_map           3.0        int          165                                     string       1.15   1.075
filter             2.8        double       185
aggregate          3.2        string       205
window_aggregate   1.9
window_join        11
join               17
sink               0.25
=================  ========   ===========  ======   ======================  ====   ===========  ====   =====

The cut keeps nearly every job within its maximum parallelism; it brings the residual's standard deviation to 0.26.
A source, which reads nothing, counts its width out.

The factor between ``row`` and the generic tuples is forced by Table II of the StreamTune paper and is a calibration,
not a measurement: with the same 80-core machines, 7 M bids/s pass Q1's map at 10·W_u, while a PQP three-way join gets
2,500 records/s per source. Nexmark records are thus taken as binary rows under generated code, PQP's as generic tuples
that are serialised field by field and interpreted. Types, functions and classes outside the table count as a map, a
row and 1.

**Selectivity** (records out per record in)::

    filter                       uniform(0.3, 0.6)       the predicate's literal: no Table I feature tells
    flat_map                     uniform(1.2, 2.5)
    window_aggregate, count      1 / period              what a count window emits (ZeroTune, Exp. 3)
    window_aggregate, time       0.05 · period_s^-0.7 · exp(0.3·z), at most 1: longer windows gather more per group
    window_join                  1.1 · (length / reference)^0.15 · exp(0.2·z), within 0.3 … 1.8
    join                         0.5 · exp(0.2·z), within 0.2 … 1
    all others                   1

Where a query's text fixes the share (Nexmark's predicates), the caller passes it instead.

**Scaling.** ``contention`` has median 0.002 (stateless) or 0.003 (keyed), within 0.001 … 0.01; ``coherency`` has
median 4e-6 or 8e-6, at most 5e-5, so that capacity rises up to parallelism 140; both lognormal with σ = 0.5. ``skew``
is 0 unless the operator is keyed, then lognormal (σ = 0.6) around 0.02 for number keys and 0.035 for strings, at most
0.10. ``cv`` is uniform within 0.1 … 0.3, keyed operators 0.1 more. ``fire_share`` is min(0.2, 0.8 / period_s), half of
it for incremental aggregates, and 0 without a window: a firing never takes more than 0.8 s of an instance's time.

Nothing depends on a source rate, a name or a template; ``workload.assemble`` draws again in the rare case that a job
could not be served at all.
"""

from __future__ import annotations

import math

import numpy as np

from streamtune.dataflow.operator import Operator, Window
from streamtune.dataflow.physics import OperatorPhysics

RESIDUAL_SIGMA = 0.3
RESIDUAL_CUT = 2.0

_BASE_US = {
    "source": 0.30,
    "map": 2.6,
    "flat_map": 3.0,
    "filter": 2.8,
    "aggregate": 3.2,
    "window_aggregate": 1.9,
    "window_join": 11.0,
    "join": 17.0,
    "sink": 0.25,
}
_RECORD_FACTOR = {"long": 0.6, "row": 1.0, "int": 165.0, "double": 185.0, "string": 205.0}
_FUNCTION_FACTOR = {"count": 1.0, "min": 1.0, "max": 1.0, "sum": 1.0, "avg": 1.15}
_CLASS_EXCESS = {"int": 0.0, "long": 0.0, "double": 0.05, "string": 0.15}
_LENGTH_EXPONENT = {"window_aggregate": 0.25, "window_join": 0.15}

_REFERENCE_WIDTH = 3.0
_WIDTH_EXPONENT = 0.2
_OVERLAP_EXPONENT = {"window_aggregate": 0.8, "window_join": 0.6}
_REFERENCE_LENGTH = {"time": 1.0, "count": 25.0}

_FILTER_SELECTIVITY = (0.3, 0.6)
_FLAT_MAP_SELECTIVITY = (1.2, 2.5)

CONTENTION_BOUNDS = (0.001, 0.01)
COHERENCY_LIMIT = 5e-5
SKEW_LIMIT = 0.10
FIRE_SHARE_LIMIT = 0.2
FIRE_SECONDS_LIMIT = 0.8


def generator(seed: int, *purpose: int) -> np.random.Generator:
    """A random generator that depends on the given numbers alone, not on process or platform.

    Every purpose has a stream of its own: what one part of a workload draws never shifts what another gets.

    >>> generator(1, 2).integers(1000) == generator(1, 2).integers(1000)
    np.True_
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=purpose)))


def expected_service_us(operator: Operator) -> float:
    """The formula above without its residual: the median service time of such an operator.

    >>> expected_service_us(Operator(id="f", type="filter", tuple_type="row", tuple_width_in=3))
    2.8
    """
    width = operator.tuple_width_in or operator.tuple_width_out or _REFERENCE_WIDTH
    return (
        _BASE_US.get(operator.type, _BASE_US["map"])
        * _RECORD_FACTOR.get(operator.tuple_type or "row", 1.0)
        * math.pow(width / _REFERENCE_WIDTH, _WIDTH_EXPONENT)
        * _window_factor(operator.type, operator.window)
        * _function_factor(operator)
    )


def expected_selectivity(operator: Operator) -> float:
    """Mean (uniform draws) or median (lognormal draws) of the selectivity law above."""
    window = operator.window
    match operator.type:
        case "filter":
            return sum(_FILTER_SELECTIVITY) / 2
        case "flat_map":
            return sum(_FLAT_MAP_SELECTIVITY) / 2
        case "join":
            return 0.5
        case "window_aggregate" if window is not None:
            return 1.0 / window.period if window.policy == "count" else min(1.0, 0.05 * math.pow(window.period, -0.7))
        case "window_join" if window is not None:
            return 1.1 * math.pow(window.length / _REFERENCE_LENGTH[window.policy], 0.15)
        case _:
            return 1.0


def draw_physics(operator: Operator, rng: np.random.Generator, *, selectivity: float | None = None) -> OperatorPhysics:
    """The formula with its residuals drawn from ``rng``; ``selectivity`` where the query fixes it."""
    # Always the same number of draws per operator, so that a fixed selectivity leaves all else as it was.
    service_us = expected_service_us(operator) * math.exp(RESIDUAL_SIGMA * _cut_normal(rng))
    drawn = _draw_selectivity(operator, rng)
    contention, coherency = _draw_scaling(operator, rng)
    return OperatorPhysics(
        service_us=significant(service_us),
        selectivity=significant(drawn if selectivity is None else selectivity),
        contention=significant(contention),
        coherency=significant(coherency),
        skew=significant(_draw_skew(operator, rng), 2),
        cv=significant(rng.uniform(0.1, 0.3) + (0.1 if operator.is_keyed else 0.0), 2),
        fire_share=significant(_fire_share(operator), 2),
    )


def significant(value: float, digits: int = 3) -> float:
    """Rounded to significant digits: readable specs, and no last-bit differences between platforms.

    >>> significant(1234.5), significant(0.00123456)
    (1230.0, 0.00123)
    """
    return float(f"{value:.{digits}g}")


def _window_factor(kind: str, window: Window | None) -> float:
    if window is None:
        return 1.0
    length = window.length / _REFERENCE_LENGTH[window.policy]
    overlap = window.length / window.period
    return math.pow(length, _LENGTH_EXPONENT.get(kind, 0.0)) * math.pow(overlap, _OVERLAP_EXPONENT.get(kind, 0.0))


def _function_factor(operator: Operator) -> float:
    factor = 1.0
    if operator.aggregate is not None:
        factor *= _FUNCTION_FACTOR.get(operator.aggregate.function, 1.0)
        factor *= 1.0 + _CLASS_EXCESS.get(operator.aggregate.value_class, 0.0) / 2
    key_class = _key_class(operator)
    return factor * (1.0 + _CLASS_EXCESS.get(key_class, 0.0)) if key_class else factor


def _key_class(operator: Operator) -> str | None:
    if operator.join is not None:
        return operator.join.key_class
    return operator.aggregate.key_class if operator.aggregate is not None else None


def _cut_normal(rng: np.random.Generator) -> float:
    """A standard normal cut to ±RESIDUAL_CUT: beyond it jobs would seldom fit the maximum parallelism."""
    while True:
        value = float(rng.standard_normal())
        if abs(value) <= RESIDUAL_CUT:
            return value


def _draw_selectivity(operator: Operator, rng: np.random.Generator) -> float:
    share, z = float(rng.uniform()), _cut_normal(rng)
    expected = expected_selectivity(operator)
    window = operator.window
    match operator.type:
        case "filter" | "flat_map":
            low, high = _FILTER_SELECTIVITY if operator.type == "filter" else _FLAT_MAP_SELECTIVITY
            return low + (high - low) * share
        case "join":
            return min(1.0, max(0.2, expected * math.exp(0.2 * z)))
        case "window_aggregate" if window is not None and window.policy == "time":
            return min(1.0, expected * math.exp(0.3 * z))
        case "window_join":
            return min(1.8, max(0.3, expected * math.exp(0.2 * z)))
        case _:
            return expected


def _draw_scaling(operator: Operator, rng: np.random.Generator) -> tuple[float, float]:
    contention, coherency = (0.003, 8e-6) if operator.is_keyed else (0.002, 4e-6)
    low, high = CONTENTION_BOUNDS
    contention *= math.exp(0.5 * float(rng.standard_normal()))
    coherency *= math.exp(0.5 * float(rng.standard_normal()))
    return min(high, max(low, contention)), min(COHERENCY_LIMIT, coherency)


def _draw_skew(operator: Operator, rng: np.random.Generator) -> float:
    """Only hash-partitioned operators have a hottest subtask."""
    z = float(rng.standard_normal())
    if not operator.is_keyed:
        return 0.0
    median = 0.035 if _key_class(operator) == "string" else 0.02
    return min(SKEW_LIMIT, median * math.exp(0.6 * z))


def _fire_share(operator: Operator) -> float:
    window = operator.window
    if window is None:
        return 0.0
    limit = FIRE_SHARE_LIMIT
    if window.policy == "time":
        limit = min(limit, FIRE_SECONDS_LIMIT / window.period)
    return limit / 2 if operator.type == "window_aggregate" else limit
