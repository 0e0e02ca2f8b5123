"""What can be set about the past that a bundle keeps, and about what a job takes from it; loads nothing."""

from __future__ import annotations

from pydantic import Field

from streamtune.settings import Settings


class PastSettings(Settings):
    """How much of a history's past a bundle keeps, operator by operator."""

    most_jobs: int = Field(
        default=2_000, ge=0, description="versions of jobs whose operators are kept, the latest first; 0 keeps none"
    )
    kin_sample: int = Field(
        default=300, ge=0, description="past jobs that are compared with the others to learn what kinship is worth"
    )


class KinSettings(Settings):
    """Where a job looks for relatives, and how much it takes from them."""

    candidates: int = Field(default=24, ge=1, description="past jobs whose dataflow is compared by edit distance")
    most_distance: int = Field(default=5, ge=0, description="edits beyond which a past job is not a relative")
    most_relatives: int = Field(default=8, ge=1, description="relatives that lend to one operator")
    states: int = Field(default=3_000, ge=1, description="states that the search for one mapping may take")
    own_correlation: float = Field(
        default=0.98, gt=0, lt=1, description="how much of what sets an operator apart is the same in its own past"
    )
