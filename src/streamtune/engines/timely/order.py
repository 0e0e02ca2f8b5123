"""``Order``: what a child process is to run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from streamtune.dataflow import Plan
from streamtune.dataflow.spec import JobSpec, parse_spec
from streamtune.engines.timely.settings import TimelySettings


@dataclass(frozen=True)
class Order:
    """A job with its physics, under a plan. ``records`` per source end the stream; without it there is no end."""

    spec: JobSpec
    plan: Plan
    rates: Mapping[str, float]
    settings: TimelySettings
    records: int | None = None
    keep_results: bool = False

    def to_json(self) -> str:
        """One line that ``from_json`` reads back."""
        return json.dumps(
            {
                "spec": self.spec.to_mapping(),
                "plan": dict(self.plan),
                "rates": dict(self.rates),
                "settings": self.settings.model_dump(mode="json"),
                "records": self.records,
                "keep_results": self.keep_results,
            }
        )

    @classmethod
    def from_json(cls, line: str) -> Order:
        raw = json.loads(line)
        return cls(
            parse_spec(raw["spec"]),
            Plan(raw["plan"]),
            raw["rates"],
            TimelySettings.model_validate(raw["settings"]),
            raw["records"],
            raw["keep_results"],
        )
