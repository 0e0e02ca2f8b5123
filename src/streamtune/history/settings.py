"""What can be set about the steps of the data pipeline; loads neither Spark nor Arrow."""

from __future__ import annotations

from pydantic import Field, field_validator

from streamtune.history import reasons
from streamtune.settings import Settings, SettingsError

DEFAULT_TEST_SHARE = 0.2
FORMATS = ("runs", "pdsp")
PDSP_WINDOW_S = 60.0


class ValidationSettings(Settings):
    """How strict validation is."""

    min_window_s: float = Field(default=10.0, ge=0, description="shortest measuring window that is trusted")
    time_tolerance_ms: float = Field(
        default=50.0, ge=0, description="by how much busy + idle + backpressured may miss 1,000 ms per s"
    )
    flow_tolerance: float = Field(
        default=0.20, ge=0, description="by how much an operator's input may exceed what its predecessors send"
    )
    max_line_mb: float = Field(default=16.0, gt=0, description="longest line that is read, in MiB")
    tolerate: frozenset[str] = Field(default=frozenset(), description="reasons that do not reject")

    @field_validator("tolerate")
    @classmethod
    def _only_what_can_be(cls, tolerate: frozenset[str]) -> frozenset[str]:
        for reason in tolerate - reasons.TOLERABLE:
            known = ", ".join(sorted(reasons.TOLERABLE))
            raise ValueError(f"must be reasons that can be tolerated ({known}), but got '{reason}'")
        return tolerate


def default_validation(format_name: str) -> ValidationSettings:
    """How strict a format of files is checked: PDSP-Bench measured for minutes, a shorter run was cut short."""
    if format_name not in FORMATS:
        raise SettingsError(f"unknown input format '{format_name}': use one of {', '.join(FORMATS)}")
    return ValidationSettings(min_window_s=PDSP_WINDOW_S) if format_name == "pdsp" else ValidationSettings()


class FollowSettings(Settings):
    """How a folder is followed."""

    once: bool = Field(default=False, description="stop when all files that are there have been read")
    every_s: float = Field(default=10.0, gt=0, description="seconds between two looks into the folder")
    max_files: int = Field(default=1000, ge=1, description="most files in one micro-batch")
    checkpoint: str | None = Field(default=None, description="where progress is kept; in the history by default")


class FeaturiseSettings(Settings):
    """How features are made."""

    test_share: float = Field(default=DEFAULT_TEST_SHARE, ge=0, lt=1, description="share of the jobs kept for testing")
