"""What a job taught before it was changed a little, in the names that its operators have now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamtune.dataflow import Observation


def inherited(seen: Observation, names: Mapping[str, str]) -> Observation | None:
    """An observation of the job as it was, in the names of now; None where it says nothing of it.

    What held the job up then may be gone, and without one of its sources the rates of now say nothing about then.
    """
    if seen.has_backpressure or seen.bottlenecks or not seen.source_rates.keys() <= names.keys():
        return None
    renamed: dict[str, Any] = {
        field: {names[key]: value for key, value in getattr(seen, field).items() if key in names}
        for field in ("source_rates", "operators", "rate_origins", "rate_sds")
    }
    edges = tuple(
        edge.model_copy(update={"source": names[edge.source], "target": names[edge.target]})
        for edge in seen.edges
        if edge.source in names and edge.target in names
    )
    return seen.model_copy(update={**renamed, "edges": edges, "instance_pairs": (), "hosts": {}})
