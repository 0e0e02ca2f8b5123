"""M_f(h, p): classifiers that say whether an operator is a bottleneck, each in a file of its own."""

from streamtune.errors import TuningError
from streamtune.models.bottleneck.base import BottleneckClassifier, SafeDegrees, smallest_safe
from streamtune.models.bottleneck.boosting import MonotoneBoosting
from streamtune.models.bottleneck.network import PlainNetwork
from streamtune.models.bottleneck.svm import MonotoneSVM

CLASSIFIERS: dict[str, type[BottleneckClassifier]] = {
    model.name: model for model in (MonotoneSVM, MonotoneBoosting, PlainNetwork)
}


def make_classifier(name: str, seed: int = 0) -> BottleneckClassifier:
    """The classifier of that name with its default settings.

    >>> make_classifier("xgboost").is_monotone
    True
    """
    if name not in CLASSIFIERS:
        raise TuningError(f"unknown classifier '{name}': choose one of {', '.join(sorted(CLASSIFIERS))}")
    return CLASSIFIERS[name](seed)


__all__ = [
    "CLASSIFIERS",
    "BottleneckClassifier",
    "MonotoneBoosting",
    "MonotoneSVM",
    "PlainNetwork",
    "SafeDegrees",
    "make_classifier",
    "smallest_safe",
]
