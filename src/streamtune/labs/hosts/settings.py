"""What can be set about a Flink over several hosts."""

from __future__ import annotations

from pydantic import Field

from streamtune.settings import Settings


class FlinkHostSettings(Settings):
    """Small enough for ten TaskManagers on one machine."""

    task_heap_mb: int = Field(default=96, ge=64, description="heap of each TaskManager for the job")
    network_mb: int = Field(default=32, ge=16, description="network buffers of each TaskManager")
    start_timeout_s: float = Field(default=180.0, gt=0, description="how long the start may take")
    pinned: bool = Field(default=True, description="pin groups to particular hosts; otherwise groups stay together")
