"""Does the graph help? The encoder and plain models, trained on the same runs and scored on the same unseen jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import xgboost as xgb
from sklearn.linear_model import LogisticRegression

from streamtune.models.encoder import GraphSet, NetworkSettings, Trained, TrainingSettings, scaled_log, train
from streamtune.models.encoder.evaluation import Scores, score, smallest_safe
from streamtune.models.encoder.training import validation_jobs
from streamtune.models.features import NUMBERS, FeatureEncoder

Floats = npt.NDArray[np.float32]
MAX_PARALLELISM = 100


@dataclass(frozen=True)
class Judged:
    """What a model says of operators that it never saw, beside what is true of them."""

    labels: npt.NDArray[np.int8]  # −1, 0, 1
    probability: npt.NDArray[np.float64]
    recommended: npt.NDArray[np.int64]
    needed: npt.NDArray[np.float64]

    @property
    def scores(self) -> Scores:
        return score(self.labels, self.probability, self.recommended, self.needed)

    def rows(self, places: npt.NDArray[np.int64]) -> Judged:
        return Judged(self.labels[places], self.probability[places], self.recommended[places], self.needed[places])

    @classmethod
    def pooled(cls, some: Sequence[Judged]) -> Judged:
        """Several of them as one: a median of everything, where a median of medians would be another number."""
        return cls(
            np.concatenate([one.labels for one in some]),
            np.concatenate([one.probability for one in some]),
            np.concatenate([one.recommended for one in some]),
            np.concatenate([one.needed for one in some]),
        )


@dataclass(frozen=True)
class LabelledRuns:
    """Featurised runs with what only an experiment knows: the true need of every operator (NaN where none is tuned)."""

    graphs: GraphSet
    needed: npt.NDArray[np.float64]
    total_rate: npt.NDArray[np.float64]  # R: all source rates of a run together

    def select(self, runs: npt.NDArray[np.int64]) -> LabelledRuns:
        nodes = np.concatenate([np.arange(self.graphs.starts[run], self.graphs.starts[run + 1]) for run in runs])
        return LabelledRuns(self.graphs.select(runs), self.needed[nodes], self.total_rate[runs])

    def without(self, columns: list[int]) -> LabelledRuns:
        """The same runs with some feature columns blanked."""
        features = self.graphs.features.copy()
        features[:, columns] = 0.0
        graphs = self.graphs
        blanked = GraphSet(
            features, graphs.parallelism, graphs.labels, graphs.edges, graphs.starts, graphs.edge_starts, graphs.jobs
        )
        return LabelledRuns(blanked, self.needed, self.total_rate)


def demand_columns(encoder: FeatureEncoder) -> list[int]:
    return [encoder.width - len(NUMBERS) + NUMBERS.index("demand")]


def dag_statistics(runs: LabelledRuns) -> Floats:
    """Per operator: the job's total source rate, its size, and the operator's degrees and depth."""
    graphs = runs.graphs
    count = len(graphs.features)
    sizes = np.diff(graphs.starts)
    before, after = graphs.edges
    depth = np.zeros(count)
    for _ in range(int(sizes.max(initial=1))):
        deeper = np.zeros(count)
        np.maximum.at(deeper, after, depth[before] + 1)
        if np.array_equal(deeper, depth):
            break
        depth = deeper
    columns = [
        np.repeat(np.log1p(runs.total_rate), sizes),
        np.repeat(sizes, sizes),
        np.bincount(after, minlength=count),
        np.bincount(before, minlength=count),
        depth,
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def majority(training: LabelledRuns, testing: LabelledRuns) -> Scores:
    """The share of bottlenecks in training for everybody; recommends 1, since bottlenecks are the minority."""
    labels = training.graphs.labels
    share = float((labels == 1).sum() / max(1, (labels >= 0).sum()))
    size = len(testing.graphs.labels)
    return score(testing.graphs.labels, np.full(size, share), np.ones(size), testing.needed)


def logistic(training: LabelledRuns, testing: LabelledRuns) -> Scores:
    """Logistic regression on an operator's own features and log p."""
    known = training.graphs.labels >= 0
    model = LogisticRegression(max_iter=2000)
    model.fit(_with_p(training.graphs.features, training.graphs.parallelism)[known], training.graphs.labels[known])
    return _judge_flat(lambda rows: model.predict_proba(rows)[:, 1], testing, testing.graphs.features).scores


def boosted(training: LabelledRuns, testing: LabelledRuns, *, statistics: bool, seed: int = 0) -> Scores:
    """XGBoost on unseen jobs."""
    return boosted_judged(training, testing, statistics=statistics, seed=seed).scores


def boosted_judged(
    training: LabelledRuns,
    testing: LabelledRuns,
    *,
    statistics: bool,
    seed: int = 0,
    limit: int = MAX_PARALLELISM,
) -> Judged:
    """XGBoost with a monotone constraint on p, stopped early on held-out jobs as the encoder is."""

    def columns(runs: LabelledRuns) -> Floats:
        own = runs.graphs.features
        return np.concatenate([own, dag_statistics(runs)], axis=1) if statistics else own

    rows = _with_p(columns(training), training.graphs.parallelism)
    labels = training.graphs.labels
    held_out = validation_jobs(training.graphs.jobs, TrainingSettings().validation_share)
    of_run = np.array([job in held_out for job in training.graphs.jobs])
    watched = np.repeat(of_run, np.diff(training.graphs.starts)) & (labels >= 0)
    learning = ~np.repeat(of_run, np.diff(training.graphs.starts)) & (labels >= 0)
    model = xgb.XGBClassifier(
        n_estimators=800,
        max_depth=6,
        learning_rate=0.08,
        subsample=0.8,
        monotone_constraints=(*[0] * (rows.shape[1] - 1), -1),
        early_stopping_rounds=40,
        eval_metric="logloss",
        random_state=seed,
        n_jobs=1,
    )
    model.fit(rows[learning], labels[learning], eval_set=[(rows[watched], labels[watched])], verbose=False)
    return _judge_flat(lambda flat: model.predict_proba(flat)[:, 1], testing, columns(testing), limit)


def encoder_scores(trained: Trained, testing: LabelledRuns) -> Scores:
    """A network on unseen jobs."""
    return encoder_judged(trained, testing).scores


def encoder_judged(trained: Trained, testing: LabelledRuns, limit: int = MAX_PARALLELISM) -> Judged:
    return Judged(testing.graphs.labels, *encoder_outputs(trained, testing.graphs, limit), testing.needed)


def encoder_outputs(
    trained: Trained, graphs: GraphSet, limit: int = MAX_PARALLELISM
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Probability at the parallelism that ran, and the least parallelism judged safe."""
    batch = graphs.batch()
    agnostic = trained.embed(batch)

    def probability_at(p: int) -> npt.NDArray[np.float64]:
        log_p = torch.full((len(agnostic),), float(scaled_log(p)))
        return trained.probability_at(agnostic, log_p).numpy().astype(np.float64)

    return trained.probability(batch).numpy().astype(np.float64), smallest_safe(probability_at, limit)


def train_encoder(training: LabelledRuns, seed: int = 0, **network: object) -> Trained:
    """An encoder with default settings but for the network's options given."""
    settings = TrainingSettings(seed=seed, network=NetworkSettings.model_validate(network))
    return train(training.graphs, settings)


def compare(
    training: LabelledRuns, testing: LabelledRuns, encoder: FeatureEncoder, seed: int = 0
) -> Mapping[str, Scores]:
    """All rows of the table that says whether the graph helps."""
    demand = demand_columns(encoder)
    plain_training, plain_testing = training.without(demand), testing.without(demand)
    rows: dict[str, Callable[[], Scores]] = {
        "majority": lambda: majority(training, testing),
        "logistic regression, own features": lambda: logistic(plain_training, plain_testing),
        "XGBoost, own features": lambda: boosted(plain_training, plain_testing, statistics=False, seed=seed),
        "XGBoost, own + total rate + DAG statistics": lambda: boosted(
            plain_training, plain_testing, statistics=True, seed=seed
        ),
        "XGBoost, own + demand": lambda: boosted(training, testing, statistics=False, seed=seed),
        "XGBoost, own + demand + total rate + DAG statistics": lambda: boosted(
            training, testing, statistics=True, seed=seed
        ),
        "encoder without demand (the paper's features)": lambda: encoder_scores(
            train_encoder(plain_training, seed), plain_testing
        ),
        "encoder without message passing (T = 0)": lambda: encoder_scores(
            train_encoder(training, seed, iterations=0), testing
        ),
        "encoder, fused after every iteration (Eq. 3 literally)": lambda: encoder_scores(
            train_encoder(training, seed, fusion="every"), testing
        ),
        "encoder, global": lambda: encoder_scores(train_encoder(training, seed), testing),
    }
    return {name: make() for name, make in rows.items()}


def _with_p(rows: Floats, parallelism: npt.ArrayLike) -> Floats:
    return np.concatenate([rows, scaled_log(parallelism)[:, None]], axis=1)


def _judge_flat(
    probability: Callable[[Floats], npt.NDArray[np.floating]],
    testing: LabelledRuns,
    rows: Floats,
    limit: int = MAX_PARALLELISM,
) -> Judged:
    size = len(rows)
    recommended = smallest_safe(lambda p: probability(_with_p(rows, np.full(size, p))), limit)
    ran = probability(_with_p(rows, testing.graphs.parallelism))
    return Judged(testing.graphs.labels, ran.astype(np.float64), recommended, testing.needed)
