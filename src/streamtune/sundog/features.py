"""Phase 2: features of a pair from its counts.

Thesis, Section 3.1, and Blanco et al., *Entity recommendations in web search* (ISWC 2013), to which it refers.

An entity is a yes-or-no variable of a line (or of a user): A is "the line names the entity", B "it names the related
one". With N lines in all, a and b of them with A and B, and n with both::

    joint                 p(A, B) = n / N
    probability           p(A) = a / N,  p(B) = b / N
    conditional           p(B | A) = n / a,   reverse p(A | B) = n / b
    pmi                   ln p(A, B) / (p(A) p(B))
    mutual_information    Σ p(x, y) ln p(x, y) / (p(x) p(y)) over yes and no of both
    kl                    KL(B given A ‖ B), how much A tells about B; reverse KL(A given B ‖ A)
    entropy               H(A), H(B), joint H(A, B), conditional H(B | A) = H(A, B) − H(A)

each by events and by users, in nats. Linear combinations: means of both directions, and of events and users.
Semi-static features are codes of entity and relation types, and the number of relations between the two.
Numbers of users are estimates: n is taken as at most a and b, and N as at least a + b − n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_BLOCK = 8192  # rows worked on at a time, so that what lies between stays in the processor's cache

_PER_NORM = (
    "joint",
    "entity_probability",
    "related_probability",
    "conditional",
    "reverse_conditional",
    "pmi",
    "mutual_information",
    "kl",
    "reverse_kl",
    "entity_entropy",
    "related_entropy",
    "joint_entropy",
    "conditional_entropy",
)
NORMS = ("events", "users")
CO_OCCURRENCE = tuple(f"{name}_{norm}" for norm in NORMS for name in _PER_NORM)
COMBINED = (
    "both_conditionals_events",
    "both_conditionals_users",
    "conditional_mean",
    "reverse_conditional_mean",
    "joint_mean",
)
SEMI_STATIC = ("entity_type", "related_type", "relation_type", "reverse_relation_type", "relations")
FEATURES = (*CO_OCCURRENCE, *COMBINED, *SEMI_STATIC)


@dataclass(frozen=True)
class PairCounts:
    """Counts of directed pairs in a window, and the codes of their types; all arrays of one length."""

    events: NDArray[np.int64]
    users: NDArray[np.int64]
    entity_events: NDArray[np.int64]
    entity_users: NDArray[np.int64]
    related_events: NDArray[np.int64]
    related_users: NDArray[np.int64]
    entity_type: NDArray[np.int16]
    related_type: NDArray[np.int16]
    relation_type: NDArray[np.int16]
    reverse_relation_type: NDArray[np.int16]
    relations: NDArray[np.int16]


def compute_features(counts: PairCounts, all_events: int, all_users: int) -> NDArray[np.float32]:
    """One column per name in ``FEATURES``, one row per pair, column by column in memory."""
    matrix = np.empty((len(counts.events), len(FEATURES)), np.float32, order="F")
    for begin in range(0, len(matrix), _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        by_events = _of_norm(counts.events[rows], counts.entity_events[rows], counts.related_events[rows], all_events)
        by_users = _of_norm(counts.users[rows], counts.entity_users[rows], counts.related_users[rows], all_users)
        columns = {f"{name}_events": column for name, column in by_events.items()}
        columns |= {f"{name}_users": column for name, column in by_users.items()}
        for norm, values in (("events", by_events), ("users", by_users)):
            columns[f"both_conditionals_{norm}"] = (values["conditional"] + values["reverse_conditional"]) / 2
        for name in ("conditional", "reverse_conditional", "joint"):
            columns[f"{name}_mean"] = (by_events[name] + by_users[name]) / 2
        for number, name in enumerate(FEATURES):
            matrix[rows, number] = columns[name] if name in columns else getattr(counts, name)[rows]
    return matrix


def _of_norm(
    pair: NDArray[np.int64], entity: NDArray[np.int64], related: NDArray[np.int64], total: int
) -> dict[str, Floats]:
    a, b = entity.astype(np.float64), related.astype(np.float64)
    n = np.minimum(pair, np.minimum(entity, related)).astype(np.float64)
    whole = np.maximum(float(total), a + b - n)
    joint, p_a, p_b = n / whole, a / whole, b / whole
    only_a, only_b = (a - n) / whole, (b - n) / whole
    neither = np.maximum(whole - a - b + n, 0.0) / whole
    log_joint, log_a, log_b, log_only_a, log_only_b = map(_log, (joint, p_a, p_b, only_a, only_b))
    log_not_a, log_not_b = _log(1.0 - p_a), _log(1.0 - p_b)
    entropy_a, entropy_b = -p_a * log_a - (1.0 - p_a) * log_not_a, -p_b * log_b - (1.0 - p_b) * log_not_b
    joint_entropy = -joint * log_joint - only_a * log_only_a - only_b * log_only_b - neither * _log(neither)
    pmi, given_a, given_b = log_joint - log_a - log_b, n / a, n / b
    return {
        "joint": joint,
        "entity_probability": p_a,
        "related_probability": p_b,
        "conditional": given_a,
        "reverse_conditional": given_b,
        "pmi": pmi,
        "mutual_information": np.maximum(entropy_a + entropy_b - joint_entropy, 0.0),
        # p(no B | A) = p(A, no B) / p(A). Where it is 0, so is its logarithm's factor; where p(no B) is 0, so is it.
        "kl": np.maximum(given_a * pmi + (1.0 - given_a) * (log_only_a - log_a - log_not_b), 0.0),
        "reverse_kl": np.maximum(given_b * pmi + (1.0 - given_b) * (log_only_b - log_b - log_not_a), 0.0),
        "entity_entropy": entropy_a,
        "related_entropy": entropy_b,
        "joint_entropy": joint_entropy,
        "conditional_entropy": np.maximum(joint_entropy - entropy_a, 0.0),
    }


def _log(p: Floats) -> Floats:
    """ln p, and 0 at 0, where it is multiplied by 0."""
    return np.log(p + (p <= 0.0))
