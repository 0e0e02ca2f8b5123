"""Graph edit distance between dataflows, similarity search and similarity centre: pure graph mathematics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamtune.lazy import lazily

if TYPE_CHECKING:
    from streamtune.similarity.distance import (
        BEYOND_LIMIT,
        DEFAULT_BUDGET,
        EditDistance,
        EditDistances,
        UndecidedDistanceError,
        best_mapping,
        edit_distance,
        edit_distance_bounds,
        edit_distances,
        measure_pairs,
        within,
    )
    from streamtune.similarity.layout import SEARCHABLE_OPERATORS
    from streamtune.similarity.packed import PackedDataflows, pack, pack_structures
    from streamtune.similarity.script import (
        ChangeType,
        DeleteEdge,
        DeleteOperator,
        EditOperation,
        InsertEdge,
        InsertOperator,
        ReverseEdge,
        apply_script,
        edit_script,
        script_of_mapping,
    )
    from streamtune.similarity.search import (
        Shapes,
        SimilarityCentre,
        SimilarPairs,
        distinct_shapes,
        similar_packed_pairs,
        similar_pairs,
        similarity_centre,
    )
else:
    __getattr__ = lazily(
        __name__,
        {
            "distance": [
                "BEYOND_LIMIT",
                "DEFAULT_BUDGET",
                "EditDistance",
                "EditDistances",
                "UndecidedDistanceError",
                "best_mapping",
                "edit_distance",
                "edit_distance_bounds",
                "edit_distances",
                "measure_pairs",
                "within",
            ],
            "layout": ["SEARCHABLE_OPERATORS"],
            "packed": ["PackedDataflows", "pack", "pack_structures"],
            "script": [
                "ChangeType",
                "DeleteEdge",
                "DeleteOperator",
                "EditOperation",
                "InsertEdge",
                "InsertOperator",
                "ReverseEdge",
                "apply_script",
                "edit_script",
                "script_of_mapping",
            ],
            "search": [
                "Shapes",
                "SimilarityCentre",
                "SimilarPairs",
                "distinct_shapes",
                "similar_packed_pairs",
                "similar_pairs",
                "similarity_centre",
            ],
        },
    )

__all__ = [
    "BEYOND_LIMIT",
    "DEFAULT_BUDGET",
    "SEARCHABLE_OPERATORS",
    "ChangeType",
    "DeleteEdge",
    "DeleteOperator",
    "EditDistance",
    "EditDistances",
    "EditOperation",
    "InsertEdge",
    "InsertOperator",
    "PackedDataflows",
    "ReverseEdge",
    "Shapes",
    "SimilarPairs",
    "SimilarityCentre",
    "UndecidedDistanceError",
    "apply_script",
    "best_mapping",
    "distinct_shapes",
    "edit_distance",
    "edit_distance_bounds",
    "edit_distances",
    "edit_script",
    "measure_pairs",
    "pack",
    "pack_structures",
    "script_of_mapping",
    "similar_packed_pairs",
    "similar_pairs",
    "similarity_centre",
    "within",
]
