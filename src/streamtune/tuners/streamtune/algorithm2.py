"""The paper's estimator: a classifier M_f on the encoder's vectors, refitted with every observation (Algorithm 2)."""

from __future__ import annotations

import numpy as np

from streamtune.dataflow import Job
from streamtune.errors import TuningError
from streamtune.models.bottleneck import make_classifier
from streamtune.tuners.streamtune.estimator import NeedEstimator, Situation, Verdict
from streamtune.tuners.streamtune.experience import Lesson
from streamtune.tuners.streamtune.pretrained import Pretrained
from streamtune.tuners.streamtune.settings import StreamTuneSettings


class ClassifierEstimator(NeedEstimator):
    """T = warm-up data of the nearest cluster ∪ own feedback; M_f is fitted to T whenever a plan is wanted."""

    def __init__(self, job: Job, settings: StreamTuneSettings, model: Pretrained | None) -> None:
        if model is None:
            raise TuningError("the classifier of Algorithm 2 needs a model: make one with 'streamtune pretrain'")
        self._job = job
        self._settings = settings
        self._model = model
        self._model_f = make_classifier(settings.classifier, settings.seed)
        self._vectors, self._degrees, self._labels = model.warmup(settings.warmup_rows, settings.seed)
        self._weights = np.ones(len(self._labels))
        self._is_fitted = False

    def learn(self, lesson: Lesson, situation: Situation) -> None:
        vectors = self._model.vectors(situation.source_rates, situation.selectivities, situation.edge_ratios)
        keys = [
            key
            for key, label in lesson.labels.items()
            if label >= 0 and key in lesson.observation.operators and not self._job.dataflow.operator(key).is_source
        ]
        if not keys:
            return
        self._vectors = np.concatenate([self._vectors, np.stack([vectors[key] for key in keys])])
        self._degrees = np.append(self._degrees, [lesson.observation.operators[key].parallelism for key in keys])
        self._labels = np.append(self._labels, [lesson.labels[key] for key in keys])
        self._weights = np.append(self._weights, np.full(len(keys), self._settings.feedback_weight))
        self._is_fitted = False

    def judge(self, situation: Situation) -> dict[str, Verdict]:
        if not self._is_fitted:
            self._model_f.fit(self._vectors, self._degrees, self._labels, self._weights)
            self._is_fitted = True
        vectors = self._model.vectors(situation.source_rates, situation.selectivities, situation.edge_ratios)
        verdicts = {}
        for operator in self._job.dataflow.operators:
            if operator.is_source:
                continue
            limit = self._job.limit_of(operator.id)
            chance = self._model_f.probability(np.tile(vectors[operator.id], (limit, 1)), np.arange(1, limit + 1))
            # M_f = 0 below the threshold, strictly.
            needed = float(np.nextafter(1 - self._settings.threshold, 1))
            verdicts[operator.id] = Verdict(1 - chance, needed, f"{self._settings.classifier} on the encoder's vector")
        return verdicts
