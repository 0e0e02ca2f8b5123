"""The records that flow through an emulated job, and the keys they have at each operator.

A record is drawn from the seed, its source and its number alone, and whatever an operator derives from it depends on
that record and the operator alone: results do not depend on parallelism, timing or arrival order.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

from streamtune.dataflow import Dataflow, Operator
from streamtune.dataflow.operator import JOIN_TYPES
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.readings.demand import input_rates

# Identity (64 random bits), event time in µs since the start of the job, value.
Record = tuple[int, int, int]

SECOND_US = 1_000_000
_WORD = (1 << 64) - 1
_ODD = 0x9E3779B97F4A7C15
_SPREAD_KEYS = 1024
_FEWEST_KEYS = 512
_ALMOST_UNIQUE = 64
_NEARLY_ALL = 0.99


def mix(value: int) -> int:
    """A bijection of 64-bit words that scatters them evenly (the finaliser of SplitMix64, Steele et al. 2014).

    >>> mix(1) != mix(2), 0 <= mix(3) < 2**64
    (True, True)
    """
    value = (value + _ODD) & _WORD
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _WORD
    return value ^ (value >> 31)


def salt(*parts: object) -> int:
    """64 bits that depend on the parts alone, not on process or platform."""
    text = "\x1f".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def source_record(source_salt: int, number: int, time_us: int) -> Record:
    """Record ``number`` of a source."""
    ident = mix(source_salt ^ number)
    return ident, time_us, ident & 0xFF


class Copies:
    """How many records leave for one: ``factor`` on average, decided by the record itself.

    >>> Copies(7, 2.0).of((1, 0, 5))
    2
    """

    def __init__(self, salt_of_it: int, factor: float = 1.0) -> None:
        self._salt = salt_of_it
        self.set_factor(factor)

    def set_factor(self, factor: float) -> None:
        self._whole = math.floor(factor)
        self._chance = int((factor - self._whole) * (1 << 64))
        self._is_one = factor == 1.0

    def of(self, record: Record) -> int:
        if not self._chance:
            return self._whole
        return self._whole + (mix(record[0] ^ self._salt) < self._chance)

    def emit(self, record: Record, out: list[Record]) -> None:
        """Append the copies of a record; from the second one on they have identities of their own."""
        if self._is_one:
            out.append(record)
            return
        ident, time_us, value = record
        out.extend((mix(ident + number) if number else ident, time_us, value) for number in range(self.of(record)))


class Selectivities:
    """How many keys each keyed operator has, and how many copies of each result leave, to meet its selectivity.

    Keys and copies follow the rate, as Nexmark's active auctions do: selectivity is then a property of the operator,
    whatever the rate, just as in the simulator.

    - ``window_aggregate`` over n records in K equally likely keys has K·(1 − exp(−n/K)) results per window. There are
      at least ``_FEWEST_KEYS``, so that instances are evenly loaded; if that gives too many results, a part of them
      leaves, as with HAVING.
    - ``window_join`` of m and n records of a window gives m·n/K pairs.
    - ``join``, and joins over windows of so many records, match records at most ``life`` apart: λ₁·λ₂·2·life/K pairs
      per second.
    - Everything else emits per record.
    """

    def __init__(self, flow: Dataflow, physics: Mapping[str, OperatorPhysics], join_life_s: float) -> None:
        self._flow = flow
        self._wanted = {key: truth.selectivity for key, truth in physics.items()}
        self._join_life_s = join_life_s
        self.keys: dict[str, int] = {}
        self.copies = {key: Copies(salt("copies", key), wanted) for key, wanted in self._wanted.items()}

    def follow(self, rates: Mapping[str, float]) -> None:
        """Fit keys and copies to the rates that the sources offer now."""
        arriving = input_rates(self._flow, self._wanted, rates)
        sent = {key: rate * self._wanted[key] for key, rate in arriving.items()}
        keys: dict[str, int] = {}
        for operator in self._flow.operators:
            if operator.is_keyed:
                inputs = [sent[before] for before in self._flow.predecessors(operator.id)]
                keys[operator.id], factor = self._fit(operator, inputs)
                self.copies[operator.id].set_factor(factor)
        self.keys = keys

    def _fit(self, operator: Operator, inputs: list[float]) -> tuple[int, float]:
        """Keys, and copies per result."""
        wanted, window = self._wanted[operator.id], operator.window
        by_time = window is not None and window.policy == "time"
        if operator.type in JOIN_TYPES:
            seconds = 2 * self._join_life_s
            if operator.type == "window_join" and window is not None and by_time:
                seconds = window.length**2 / window.period
            return _pair_keys(inputs, seconds, wanted * sum(inputs)), 1.0
        if operator.type != "window_aggregate" or window is None:
            return _SPREAD_KEYS, wanted
        if not by_time:
            return _SPREAD_KEYS, wanted * window.period
        records = sum(inputs) * window.length
        ratio = wanted * window.period / window.length
        keys = group_keys(records, ratio)
        results = -math.expm1(-records / keys) * keys
        return keys, ratio * records / results if results else 1.0


def _pair_keys(inputs: list[float], seconds: float, pairs_per_s: float) -> int:
    left, right = (inputs[0], sum(inputs[1:])) if len(inputs) > 1 else (inputs[0] / 2, inputs[0] / 2)
    return max(1, round(left * right * seconds / pairs_per_s)) if pairs_per_s > 0 else _SPREAD_KEYS


def group_keys(records: float, ratio: float) -> int:
    """The number of equally likely keys of which ``records`` draws touch ``ratio``·records on average.

    >>> round(1000 * (1 - math.exp(-5000 / 1000)))  # five draws per key touch nearly all of 1,000
    993
    >>> group_keys(5000, 0.1986)
    1000
    """
    if records <= 0 or ratio <= 0:
        return _FEWEST_KEYS
    if ratio >= _NEARLY_ALL:
        return max(_FEWEST_KEYS, round(_ALMOST_UNIQUE * records))
    low, high = 1e-6, 1 / ratio + 1.0  # (1 − e^−x)/x falls from 1, and is below 1/x
    for _ in range(60):
        middle = (low + high) / 2
        if -math.expm1(-middle) / middle > ratio:
            low = middle
        else:
            high = middle
    return max(_FEWEST_KEYS, round(records / high))
