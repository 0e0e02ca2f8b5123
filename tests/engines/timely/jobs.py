"""Small jobs for the tests on the real engine."""

from __future__ import annotations

from streamtune.dataflow.spec import JobSpec, parse_spec

LIGHT = {"service_us": 20}


def chain(service_us: float = 2000, rate: float = 3000, *, name: str = "chain") -> JobSpec:
    """Source → map of a given service time → sink."""
    return parse_spec(
        {
            "name": name,
            "operators": [
                {"id": "numbers", "type": "source", "rate": rate},
                {"id": "work", "type": "map", "inputs": ["numbers"]},
                {"id": "sink", "type": "sink", "inputs": ["work"]},
            ],
            "max_parallelism": 40,
            "physics": {"numbers": LIGHT, "work": {"service_us": service_us}, "sink": LIGHT},
        }
    )


def two_chains(service_us: float = 2000, rate: float = 3000) -> JobSpec:
    """Source → map → map → sink, both maps equally slow."""
    return parse_spec(
        {
            "name": "two-chains",
            "operators": [
                {"id": "numbers", "type": "source", "rate": rate},
                {"id": "left", "type": "map", "inputs": ["numbers"]},
                {"id": "right", "type": "map", "inputs": ["numbers"]},
                {"id": "sink", "type": "sink", "inputs": ["left", "right"]},
            ],
            "physics": {
                "numbers": LIGHT,
                "left": {"service_us": service_us},
                "right": {"service_us": service_us},
                "sink": LIGHT,
            },
        }
    )


def windows_and_joins() -> JobSpec:
    """All stateful operators whose results do not depend on the order of arrival, some behind others."""
    sliding = {"type": "sliding", "length": "1s", "slide": "250ms"}
    tumbling = {"type": "tumbling", "length": "500ms"}
    return parse_spec(
        {
            "name": "windows-and-joins",
            "operators": [
                {"id": "a", "type": "source", "rate": 400},
                {"id": "b", "type": "source", "rate": 300},
                {"id": "some", "type": "filter", "inputs": ["a"]},
                {"id": "more", "type": "flat_map", "inputs": ["b"]},
                {
                    "id": "sums",
                    "type": "window_aggregate",
                    "inputs": ["more"],
                    "window": tumbling,
                    "aggregate": {"function": "sum", "class": "long", "key_class": "long"},
                },
                {
                    "id": "highest",
                    "type": "window_aggregate",
                    "inputs": ["some"],
                    "window": sliding,
                    "aggregate": {"function": "max", "class": "long", "key_class": "long"},
                },
                {
                    "id": "both",
                    "type": "window_join",
                    "inputs": ["some", "more"],
                    "window": sliding,
                    "join": {"key_class": "long"},
                },
                {"id": "matches", "type": "join", "inputs": ["highest", "sums"], "join": {"key_class": "long"}},
                {"id": "sink", "type": "sink", "inputs": ["sums", "both", "matches"]},
            ],
            "physics": {
                "a": LIGHT,
                "b": LIGHT,
                "some": {"service_us": 50, "selectivity": 0.5},
                "more": {"service_us": 50, "selectivity": 1.5},
                "sums": {"service_us": 100, "selectivity": 0.4, "skew": 0.3},
                "highest": {"service_us": 100, "selectivity": 0.3},
                "both": {"service_us": 200, "selectivity": 0.8, "cv": 0.3},
                "matches": {"service_us": 100, "selectivity": 0.5},
                "sink": LIGHT,
            },
        }
    )
