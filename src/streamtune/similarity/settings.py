"""What can be set about the clustering of dataflows."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from streamtune.settings import LARGEST_SEED, Settings

DEFAULT_BUDGET = 2_000_000
# Larger dataflows are bounded, not searched.
SEARCHABLE_OPERATORS = 128
# The table of distances takes 6 bytes per pair and direction: 1.5 GB here.
MOST_EXACT_SHAPES = 16_000
Init = Literal["random", "k-means++"]


class DistanceSettings(Settings):
    """How hard an edit distance is searched for."""

    budget: int = Field(
        default=DEFAULT_BUDGET,
        ge=1,
        le=10**12,
        description="states the search may take; a million take a few seconds. Jobs of more than "
        f"{SEARCHABLE_OPERATORS} operators are bounded without a search",
    )


class KMeansSettings(Settings):
    """How clusters are sought."""

    tau: int = Field(default=5, ge=0, description="distance up to which two DAGs are similar (Definition 1)")
    init: Init = Field(default="k-means++", description="initial centres: spread out, or random as in the paper")
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="draws the initial centres")
    restarts: int = Field(default=10, ge=1, description="how often to start anew; the lowest inertia wins")
    max_iterations: int = Field(default=50, ge=1, description="assignments per start at most")
    max_k: int = Field(default=12, ge=1, description="largest number of clusters the elbow method looks at")
    exact_shapes: int = Field(
        default=MOST_EXACT_SHAPES,
        ge=1,
        le=MOST_EXACT_SHAPES,
        description="up to so many distinct shapes there is a table of all pairs in the driver; above, k and the first "
        "centres are sought on a sample and every shape then goes to its nearest centre",
    )
    sample_shapes: int = Field(default=1_000, ge=2, le=MOST_EXACT_SHAPES, description="shapes in that sample")
    refinements: int = Field(
        default=3, ge=0, description="how often at most the centres of a sample are moved by all the shapes"
    )
