"""What can be set about the schedulers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from streamtune.settings import LARGEST_SEED, Settings


class GreedyPlacementSettings(Settings):
    """As in the thesis, Section 4.2 and footnote 11."""

    alpha: float = Field(default=0.0, ge=0, le=1, description="0: equally many instances everywhere; 1: any number")
    beta: float = Field(default=0.5, ge=0, le=1, description="share of machines to use; no effect with one worker each")
    gamma: float = Field(default=1.1, ge=1, allow_inf_nan=False, description="most load of a host over the mean")
    threshold: float = Field(
        default=0.01, ge=0, lt=1, description="least saving of traffic that is worth a new schedule"
    )
    relax: bool = Field(
        default=True,
        description="when no allowed way is left, place the pair by count alone; the original keeps the old schedule",
    )


class OursSettings(Settings):
    """How hard to look, and when a gain is worth moving for."""

    objective: Literal["bytes", "link"] = Field(
        default="bytes", description="bytes: fewest between hosts in all; link: fewest on the busiest host's link"
    )
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="of METIS and of the search")
    min_gain: float = Field(default=0.01, ge=0, lt=1, description="least saving of the objective for which tasks move")
    small: int = Field(
        default=1_000_000,
        ge=0,
        description="graphs of up to this many tasks × (tasks + hosts) are searched thoroughly",
    )
    effort: int = Field(default=600_000, ge=0, description="changes looked at in the thorough search, in all")
    patience: int = Field(
        default=2_000, ge=1, description="steps without a better placement after which a search gives up"
    )
    searches: int = Field(default=3, ge=1, description="how many of the best starts are searched from")
    passes: int = Field(default=12, ge=0, description="passes of improving moves over a large graph")
    link_steps: int = Field(
        default=400_000, ge=1, description="changes looked at for the busiest link, from each of two starts"
    )
    link_heat: float = Field(
        default=0.03, gt=0, lt=1, description="temperature at first of that search, as a share of the objective"
    )
    swaps_up_to: int = Field(
        default=50_000, ge=0, description="graphs of up to this many tasks are improved by swaps too"
    )
