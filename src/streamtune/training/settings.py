"""What can be set about making a model from a history; loads neither Spark nor torch."""

from __future__ import annotations

from pydantic import Field

from streamtune.models.encoder.settings import TrainingSettings
from streamtune.models.transfer.settings import PastSettings
from streamtune.settings import Settings


class PretrainSettings(Settings):
    """How a model is made from a history."""

    training: TrainingSettings = Field(default_factory=TrainingSettings, description="how each encoder is trained")
    min_runs_to_cluster: int = Field(
        default=1000, ge=0, description="fewer runs than this: one global encoder and no clusters (Section VII)"
    )
    min_cluster_runs: int = Field(default=200, ge=1, description="a smaller cluster gets no encoder of its own")
    warmup_runs: int = Field(default=400, ge=1, description="runs kept per encoder as warm-up data")
    from_global: bool = Field(
        default=True, description="clusters go on from the global encoder's weights; if not, each starts from scratch"
    )
    past: PastSettings = Field(
        default_factory=PastSettings, description="past operators kept in the bundle, for jobs that have not run yet"
    )
    attempts: int = Field(default=2, ge=1, description="how often a cluster is tried before it is given up")
