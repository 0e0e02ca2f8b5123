"""A simulated platform for experiments: its simulator, its history, and the models pre-trained on that history."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from streamtune.engines.simulator import SimulatorSettings
from streamtune.engines.simulator.settings import MeasurementError
from streamtune.labs.settings import GenerateSettings
from streamtune.models.bundle import ModelBundle
from streamtune.models.costmodel.model import CostModel
from streamtune.models.costmodel.settings import CostModelSettings, CostTrainingSettings
from streamtune.sealed import MANIFEST
from streamtune.similarity.settings import KMeansSettings
from streamtune.training.settings import PretrainSettings

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Platform:
    """Everything that a seed and a measurement error stand for. The same biases hold in its history and in tuning.

    ``exclude`` names workloads that its history has never seen; ``clustering`` says how its shapes are clustered.
    """

    seed: int = 0
    runs: int = 10_000
    random_jobs: int = 200
    bias_sigma: float = MeasurementError().bias_sigma
    noise_sigma: float = MeasurementError().noise_sigma
    exclude: tuple[str, ...] = ()
    relatives_share: float = 0.0
    clusters: bool = True
    clustering: KMeansSettings = field(default_factory=KMeansSettings)
    pretraining: PretrainSettings = field(default_factory=PretrainSettings)

    @property
    def error(self) -> MeasurementError:
        return MeasurementError(bias_sigma=self.bias_sigma, noise_sigma=self.noise_sigma, seed=self.seed)

    @property
    def simulator(self) -> SimulatorSettings:
        return SimulatorSettings(error=self.error)

    @property
    def generation(self) -> GenerateSettings:
        return GenerateSettings(
            runs=self.runs,
            random_jobs=self.random_jobs,
            seed=self.seed,
            error=self.error,
            exclude=self.exclude,
            relatives_share=self.relatives_share,
        )

    @property
    def name(self) -> str:
        """Changes with anything that the model depends on."""
        text = f"{self.generation.model_dump_json()}{self.clusters}{self.pretraining.model_dump_json()}"
        if self.clustering != KMeansSettings():
            text += self.clustering.model_dump_json()
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def cost_model(self, work: Path, tell: Tell = lambda _text: None) -> CostModel:
        """ZeroTune's model of the same history; made once and then found again in ``work``."""
        path = work / f"costs-{self.name}"
        if not path.exists():
            history = work / f"cost-history-{self.name}"
            _make_cost_model(self, history, path, tell)
            shutil.rmtree(history, ignore_errors=True)
        return CostModel.load(path)

    def model(self, work: Path, tell: Tell = lambda _text: None) -> ModelBundle:
        """The platform's model; made once and then found again in ``work``."""
        path = work / f"model-{self.name}"
        if not (path / MANIFEST).exists():
            history = work / f"history-{self.name}"
            _make_model(self, history, path, tell)
            shutil.rmtree(history, ignore_errors=True)
        return ModelBundle.load(path)


def _make_cost_model(platform: Platform, location: Path, out: Path, tell: Tell) -> None:
    from streamtune.history.store import History
    from streamtune.labs.histories import generate
    from streamtune.spark.session import build_session
    from streamtune.spark.settings import SparkSettings
    from streamtune.training.costmodel import optisample_of_history, plans_of_history, train_on_spark

    spark = build_session(SparkSettings(app_name="streamtune-bench"))
    history = History(spark, str(location))
    tell(f"a history of {platform.runs:,} runs for the cost model (platform seed {platform.seed})")
    generate(history, platform.generation)
    plans_of_history(history, "simulator")
    tell("training the cost model on Spark")
    settings = CostModelSettings(training=CostTrainingSettings(seed=platform.seed))
    optisample = optisample_of_history(history, "simulator")
    train_on_spark(history, out, settings_json=settings.model_dump_json(), optisample=optisample)


def _make_model(platform: Platform, location: Path, out: Path, tell: Tell) -> None:
    from streamtune.history.cluster import assignment, centres, cluster
    from streamtune.history.featurise import featurise
    from streamtune.history.label import label
    from streamtune.history.store import History
    from streamtune.labs.histories import generate
    from streamtune.spark.session import build_session
    from streamtune.spark.settings import SparkSettings
    from streamtune.training.pretrain import Clustering, pretrain

    spark = build_session(SparkSettings(app_name="streamtune-bench"))
    history = History(spark, str(location))
    tell(f"a history of {platform.runs:,} runs (platform seed {platform.seed})")
    generate(history, platform.generation)
    label(history)
    featurise(history)
    clustering = None
    if platform.clusters:
        tell("clustering its dataflows by edit distance")
        folder = location / "clusters"
        cluster(history, folder, settings=platform.clustering)
        clustering = Clustering(assignment(history, folder), centres(folder))
    tell("pre-training on Spark")
    pretrain(history, out, clustering=clustering, settings=platform.pretraining)
