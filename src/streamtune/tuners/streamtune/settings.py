"""What can be set about StreamTune; every step beyond the paper is a setting of its own."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from streamtune.models.transfer.settings import KinSettings
from streamtune.settings import LARGEST_SEED, Settings, with_default

Estimator = Literal["posterior", "classifier"]
ClassifierName = Literal["svm", "xgboost", "nn"]


class StreamTuneSettings(Settings):
    """The defaults are our own method; ``paper()`` is Algorithm 2 as printed."""

    estimator: Estimator = Field(
        default="posterior",
        description="posterior: a belief about each operator's capacity curve; classifier: M_f of the paper",
    )
    quantile: float = Field(
        default=0.90, ge=0.5, lt=1, description="posterior: how sure to be that an operator keeps up"
    )
    quantile_without_backpressure: float = Field(
        default=0.5,
        ge=0.5,
        lt=1,
        description="posterior: the same on engines without backpressure, whose rule forgives the last 15 %",
    )
    use_busy: bool = Field(default=True, description="posterior: learn from busy shares, not from labels alone")
    use_history: bool = Field(default=True, description="posterior: capacity curves of the history as prior")
    use_features: bool = Field(
        default=True, description="prior, first level: what past operators with such a type and features did"
    )
    use_cluster: bool = Field(default=True, description="prior, second level: how the job's cluster differs")
    use_relatives: bool = Field(
        default=True, description="prior, third level: operators of related jobs, mapped by edit distance, lend"
    )
    use_own_past: bool = Field(default=True, description="prior, fourth level: the job's own earlier runs lend")
    kin: KinSettings = Field(default_factory=KinSettings, description="where relatives are looked for")
    first_certainty: float = Field(
        default=0.8, gt=0, lt=1, description="how sure to be that a first plan keeps up, all operators together"
    )
    surprise: float = Field(
        default=4.0,
        gt=0,
        description="posterior: standard deviations from which on a reading sets the past of its operator aside",
    )
    use_encoder: bool = Field(
        default=True, description="posterior: the encoder's threshold as prior, where no past operator lends"
    )
    encoder_sd: float = Field(default=0.35, gt=0, description="posterior: error of the encoder's threshold, log scale")
    drift_sd: float = Field(default=0.004, ge=0, description="posterior: what is forgotten with every observation")
    classifier: ClassifierName = Field(default="svm", description="classifier: which model is M_f")
    threshold: float = Field(
        default=0.5, gt=0, lt=1, description="classifier: a bottleneck probability below it is safe (safety margin)"
    )
    feedback_weight: float = Field(
        default=20.0, gt=0, description="classifier: what an observation of the running job weighs over warm-up data"
    )
    warmup_rows: int = Field(default=600, ge=10, description="classifier: labelled operators taken as warm-up data")
    binding: bool = Field(
        default=True,
        description="what was seen binds: no parallelism seen as a bottleneck again, none above one seen safe",
    )
    ignored_drop: int = Field(default=1, ge=0, description="a plan that lowers nothing by more is not worth a restart")
    target_utilisation: float = Field(
        default=1.0, gt=0, le=1, description="busy share that plans aim at; 1 is just enough, with the wanted certainty"
    )
    utilisation_band: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="a plan without backpressure stays while busy shares are so near the target",
    )
    catch_up_s: float | None = Field(
        default=None, gt=0, description="work off backlog, and what a restart leaves, within this time; none: no hurry"
    )
    restart_s: float = Field(default=0.0, ge=0, description="downtime of a rescale that catch_up_s has to make up for")
    tune_sources: bool = Field(default=False, description="posterior: recommend for sources too")
    far_distance: int = Field(
        default=8, ge=0, description="edit distance to the nearest cluster above which a job counts as unknown"
    )
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="of the classifier")

    @classmethod
    def paper(cls, classifier: ClassifierName = "svm") -> StreamTuneSettings:
        """Algorithm 2 as printed."""
        return PaperStreamTuneSettings(classifier=classifier)


class PaperStreamTuneSettings(StreamTuneSettings):
    """Algorithm 2 as printed: feedback merely joins the warm-up data, nothing binds, every change is deployed."""

    estimator: Estimator = with_default(StreamTuneSettings, "estimator", "classifier")
    feedback_weight: float = with_default(StreamTuneSettings, "feedback_weight", 1.0)
    binding: bool = with_default(StreamTuneSettings, "binding", False)
    ignored_drop: int = with_default(StreamTuneSettings, "ignored_drop", 0)
