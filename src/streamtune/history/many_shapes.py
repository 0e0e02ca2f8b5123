"""Clusters of more shapes than there is room for a table of all pairs.

1. A sample of the shapes, drawn by their runs, is clustered as a small history is: it gives k and the first centres.
2. Every shape goes to its nearest centre, and each centre moves to the similarity centre of its cluster
   (``CentreDistances``), a few times or until the centres stay.

Memory in the driver and work grow with the number of shapes, not with its square.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from pyspark.sql import SparkSession

from streamtune.history.pair_work import SparkPairBounds
from streamtune.history.shapes import dataflow_of
from streamtune.similarity import pack
from streamtune.similarity.centre_distances import CentreDistances
from streamtune.similarity.distance_table import DistanceTable
from streamtune.similarity.kmeans import Clusters, Elbow, WeightedShapes, kmeans, kmeans_from, kmeans_with_elbow
from streamtune.similarity.sampling import weighted_sample
from streamtune.similarity.settings import KMeansSettings

Progress = Callable[[str], None]


def cluster_many_shapes(
    shapes: WeightedShapes,
    bounds: SparkPairBounds,
    spark: SparkSession,
    k: int | None,
    settings: KMeansSettings,
    progress: Progress,
) -> tuple[Elbow, CentreDistances]:
    """The clusters of all shapes with the curve of the sample, and what is known of distances to centres."""
    chosen, weights = weighted_sample(
        shapes.weights, max(settings.sample_shapes, k or 1), np.random.default_rng(settings.seed)
    )
    progress(f"seeking centres on {len(chosen):,} of {len(shapes):,} shapes")
    curve, centres = _centres_of(shapes.part(chosen, weights), spark, k, settings)
    table = CentreDistances(len(shapes), bounds, bounds.similar_weights, settings.seed, progress)
    first = [int(chosen[centre]) for centre in centres.centres]
    found = kmeans_from(first, shapes, table, settings.tau, settings.refinements)
    return Elbow(found, curve), table


def _centres_of(
    sample: WeightedShapes, spark: SparkSession, k: int | None, settings: KMeansSettings
) -> tuple[tuple[float, ...], Clusters]:
    bounds = SparkPairBounds(spark, pack(map(dataflow_of, sample.forms)))
    try:
        table = DistanceTable(len(sample), bounds)
        if k is not None:
            return (), kmeans(sample, table, k, settings)
        found = kmeans_with_elbow(sample, table, settings)
        return found.curve, found.clusters
    finally:
        bounds.close()
