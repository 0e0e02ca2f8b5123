"""A real Flink: attach to its jobs, watch them, rescale them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamtune.lazy import lazily

if TYPE_CHECKING:
    from streamtune.engines.flink.client import FlinkClient
    from streamtune.engines.flink.engine import FlinkEngine
    from streamtune.engines.flink.overrides import Overrides, load_overrides
    from streamtune.engines.flink.rescaling import Program
    from streamtune.engines.flink.settings import FlinkSettings, RescaleSettings
else:
    __getattr__ = lazily(
        __name__,
        {
            "client": ["FlinkClient"],
            "engine": ["FlinkEngine"],
            "overrides": ["Overrides", "load_overrides"],
            "rescaling": ["Program"],
            "settings": ["FlinkSettings", "RescaleSettings"],
        },
    )

__all__ = [
    "FlinkClient",
    "FlinkEngine",
    "FlinkSettings",
    "Overrides",
    "Program",
    "RescaleSettings",
    "load_overrides",
]
