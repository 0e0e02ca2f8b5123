"""What can be set about cost models and the plans they advise; loads no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from streamtune.settings import LARGEST_SEED, Settings

FeatureSet = Literal["all", "known_jobs", "operator", "parallelism_and_resource", "table_one"]
Loss = Literal["log", "q_error"]
Readout = Literal["paths", "sink"]


class CostNetworkSettings(Settings):
    """The shape of the network."""

    width: int = Field(default=48, ge=2, description="dimension of a node's state (the paper: 128)")
    head_layers: int = Field(default=2, ge=1, description="hidden layers of the final MLPs")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="share of activations dropped while training")
    readout: Readout = Field(default="paths", description="paths: along the dataflow; sink: the paper's")


class CostTrainingSettings(Settings):
    """How one network is trained."""

    network: CostNetworkSettings = Field(default_factory=CostNetworkSettings, description="the network's shape")
    loss: Loss = Field(
        default="log",
        description="log: absolute error of the logarithm, smoothed near 0; q_error: the paper's mean q-error",
    )
    # 0: on the validation part 0.1 and 0.3 gave worse latencies, in the tail too (bench zerotune-ablation).
    q_error_weight: float = Field(
        default=0.0, ge=0, description="log: weight of the mean q-error beside it, which cares for the worst plans"
    )
    epochs: int = Field(default=40, ge=1, description="passes over the training plans")
    patience: int = Field(default=12, ge=1, description="epochs without a better validation score before stopping")
    batch_plans: int = Field(default=128, ge=1, description="plans per step (the paper: 32)")
    learning_rate: float = Field(default=3e-3, gt=0, description="peak of the one-cycle schedule of AdamW")
    weight_decay: float = Field(default=1e-4, ge=0, description="of AdamW")
    hidden_selectivity: float = Field(
        default=0.25, ge=0, le=1, description="share of the plans whose selectivities are hidden, as before a first run"
    )
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="of weights, order and dropout")
    threads: int = Field(default=1, ge=1, description="threads of torch")


class CostModelSettings(Settings):
    """How a cost model is made."""

    training: CostTrainingSettings = Field(
        default_factory=CostTrainingSettings, description="how each network is trained"
    )
    members: int = Field(default=3, ge=1, description="networks of the ensemble; their disagreement is the spread")
    feature_set: FeatureSet = Field(default="all", description="which features are used (ablation)")


class FineTuneSettings(Settings):
    """How a model goes on learning from a few runs of what is new to it (ZeroTune Section V-A2)."""

    shots: int = Field(default=500, ge=2, description="plans to learn from at most")
    epochs: int = Field(default=30, ge=1, description="passes over them")
    learning_rate: float = Field(default=5e-4, gt=0, description="peak of the one-cycle schedule of AdamW")
    validation_share: float = Field(default=0.2, gt=0, le=0.5, description="share of the plans to stop by")


class AdviceSettings(Settings):
    """What counts as a good plan, and how many are looked at."""

    latency_weight: float = Field(default=0.5, ge=0, le=1, description="wt of Eq. 1: latency against throughput")
    resource_weight: float = Field(default=0.15, ge=0, description="wr: what the total parallelism counts; 0 is Eq. 1")
    candidates: int = Field(default=512, ge=1, description="plans that are compared")
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="draws the candidates")
