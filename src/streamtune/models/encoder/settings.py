"""What can be set about encoders; loads no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from streamtune.settings import LARGEST_SEED, Settings

Fusion = Literal["late", "every"]


class NetworkSettings(Settings):
    """The shape of the network."""

    width: int = Field(default=16, ge=2, description="dimension of an embedding")
    iterations: int = Field(default=1, ge=0, description="T: message-passing iterations")
    dropout: float = Field(default=0.6, ge=0, lt=1, description="share of activations dropped while training")
    fusion: Fusion = Field(
        default="late",
        description="late: parallelism is fused once, after the last iteration; every: Eq. 3 taken literally, which "
        "leaks an operator's parallelism back through its neighbours (ablation)",
    )


class TrainingSettings(Settings):
    """How an encoder is trained."""

    network: NetworkSettings = Field(default_factory=NetworkSettings, description="the shape of the network")
    epochs: int = Field(default=20, ge=1, description="passes over the training runs at most")
    patience: int = Field(default=6, ge=1, description="epochs without a better validation loss before stopping")
    batch_runs: int = Field(default=128, ge=1, description="runs per step")
    learning_rate: float = Field(default=3e-3, gt=0, description="peak of the one-cycle schedule (AdamW)")
    weight_decay: float = Field(default=1e-3, ge=0, description="of AdamW")
    validation_share: float = Field(default=0.15, gt=0, lt=1, description="share of the jobs kept for early stopping")
    max_positive_weight: float = Field(default=8.0, ge=1, description="most that a bottleneck weighs over the rest")
    tuning_rate: float = Field(
        default=0.2, gt=0, le=1, description="part of the learning rate when training goes on from given weights"
    )
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="of weights, order and dropout")
    threads: int = Field(default=1, ge=1, description="threads of torch; one per Spark task")
