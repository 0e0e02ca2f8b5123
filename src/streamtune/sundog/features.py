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
    by_events = _of_norm(counts.events, counts.entity_events, counts.related_events, all_events)
    by_users = _of_norm(counts.users, counts.entity_users, counts.related_users, all_users)
    columns = {f"{name}_events": column for name, column in by_events.items()}
    columns |= {f"{name}_users": column for name, column in by_users.items()}
    for norm, values in (("events", by_events), ("users", by_users)):
        columns[f"both_conditionals_{norm}"] = (values["conditional"] + values["reverse_conditional"]) / 2
    for name in ("conditional", "reverse_conditional", "joint"):
        columns[f"{name}_mean"] = (by_events[name] + by_users[name]) / 2
    for number, name in enumerate(FEATURES):
        matrix[:, number] = columns[name] if name in columns else getattr(counts, name)
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
    entropy_a, entropy_b = _bernoulli_entropy(p_a), _bernoulli_entropy(p_b)
    joint_entropy = _plogp(joint) + _plogp(only_a) + _plogp(only_b) + _plogp(neither)
    return {
        "joint": joint,
        "entity_probability": p_a,
        "related_probability": p_b,
        "conditional": n / a,
        "reverse_conditional": n / b,
        "pmi": np.log(joint) - np.log(p_a) - np.log(p_b),
        "mutual_information": np.maximum(entropy_a + entropy_b - joint_entropy, 0.0),
        "kl": _bernoulli_divergence(n / a, p_b),
        "reverse_kl": _bernoulli_divergence(n / b, p_a),
        "entity_entropy": entropy_a,
        "related_entropy": entropy_b,
        "joint_entropy": joint_entropy,
        "conditional_entropy": np.maximum(joint_entropy - entropy_a, 0.0),
    }


def _plogp(p: Floats) -> Floats:
    """−p ln p, 0 at 0."""
    return 0.0 - p * np.log(np.where(p > 0, p, 1.0))


def _bernoulli_entropy(p: Floats) -> Floats:
    return _plogp(p) + _plogp(1.0 - p)


def _bernoulli_divergence(p: Floats, q: Floats) -> Floats:
    """KL(p ‖ q) of two yes-or-no variables. Where q is 1, p is too, since n ≤ a and b ≤ N, and nothing is added."""
    no_p, no_q = 1.0 - p, 1.0 - q
    yes = p * (np.log(np.where(p > 0, p, 1.0)) - np.log(q))
    no = no_p * (np.log(np.where(no_p > 0, no_p, 1.0)) - np.log(np.where(no_q > 0, no_q, 1.0)))
    divergence: Floats = np.maximum(yes + no, 0.0)
    return divergence
