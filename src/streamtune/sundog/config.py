"""What can be set about Sundog's pipeline."""

from __future__ import annotations

from pydantic import Field

from streamtune.settings import Settings


class SundogSettings(Settings):
    """Sizes of the work; results do not depend on them."""

    buckets: int = Field(default=8, ge=1, le=4096, description="parts into which keys are divided; fixed by a state")
    slice_bytes: int = Field(default=96 << 20, ge=1, description="bytes of JSON lines that one task reads at a time")
    slice_rows: int = Field(default=1_000_000, ge=1, description="rows of Parquet that one task reads at a time")
    top: int = Field(default=10, ge=1, description="related entities in the ranking of one entity")
    compact_after: int = Field(default=64, ge=2, description="parts in the state after which they are merged into one")
    retention_days: int | None = Field(
        default=None, ge=1, description="days behind the newest one that the state keeps; all of them if not set"
    )
