"""The dictionary of names as a trie of tokens, and the leftmost-longest search in it.

A token's bytes lead to its number through an open hash table whose slots hold the upper half of the hash beside the
number, so that an unknown token costs one look. The root's children stand in an array by token; deeper edges
(node, token) → node in a second hash table. A node at which names end knows the entities that bear them.
"""

# mypy: disable-error-code="no-any-return, return-value, assignment, arg-type"
# numba compiles what is annotated int here, whichever NumPy integer comes out of an array.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamtune.sundog.kernels.compilation import compiled, read_only
from streamtune.sundog.kernels.hashing import hash_bytes, mixed
from streamtune.sundog.kernels.text import BROKEN, MOST_GROWTH, Folding, fold_bytes, folding

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
NONE = -1


class Trie(NamedTuple):
    """The dictionary; ``bearer[bearer_start[n]:bearer_start[n + 1]]`` are the entities whose names end at node n."""

    folding: Folding
    slot: NDArray[np.uint64]
    token_start: NDArray[np.int64]
    token_bytes: NDArray[np.uint8]
    root_child: NDArray[np.int32]
    edge_key: NDArray[np.uint64]
    edge_child: NDArray[np.int32]
    bearer_start: NDArray[np.int32]
    bearer: NDArray[np.int32]


def build_trie(names: list[str], entities: NDArray[np.int32]) -> tuple[Trie, int]:
    """The trie in which ``names[i]`` leads to ``entities[i]``, and how many names have no token at all."""
    raw = [name.encode("utf-8", "replace") for name in names]
    starts = np.zeros(len(raw) + 1, np.int64)
    np.cumsum([len(name) for name in raw], out=starts[1:])
    data = read_only(np.frombuffer(b"".join(raw), np.uint8))
    table = folding()
    longest = int(np.diff(starts).max(initial=1))
    room = int(starts[-1]) + len(raw) + 1  # a token has a byte of text at least, but for rare foldings
    parts = _build(table, data, starts, longest, room)
    while parts[0] < 0:
        room *= 4
        parts = _build(table, data, starts, longest, room)
    tokens, nodes, slot, token_start, token_bytes, root_child, edge_key, edge_child, end_node = parts
    named = np.flatnonzero(end_node != NONE)
    order = named[np.lexsort((entities[named], end_node[named]))]
    # One entity may bear two names that fold to the same tokens.
    pairs = np.stack([end_node[order].astype(np.int64), entities[order].astype(np.int64)], axis=1)
    kept = order[np.r_[True, (np.diff(pairs, axis=0) != 0).any(axis=1)]] if len(order) else order
    bearer_start = np.zeros(nodes + 1, np.int32)
    np.cumsum(np.bincount(end_node[kept], minlength=nodes), out=bearer_start[1:])
    trie = Trie(
        table,
        slot,
        token_start[: tokens + 1].copy(),
        token_bytes[: token_start[tokens]].copy(),
        root_child[:tokens].copy(),
        edge_key,
        edge_child,
        bearer_start,
        entities[kept].astype(np.int32),
    )
    return trie, len(raw) - len(named)


@compiled
def _find_token(
    slot: NDArray[np.uint64],
    token_start: NDArray[np.int64],
    token_bytes: NDArray[np.uint8],
    folded: NDArray[np.uint8],
    begin: int,
    end: int,
) -> tuple[int, int]:
    """The token's number or NONE, and its slot or the free one where it would stand."""
    mask = np.uint64(len(slot) - 1)
    hashed = hash_bytes(folded, begin, end)
    tag = hashed >> _32
    place = hashed & mask
    while True:
        held = slot[place]
        if held == np.uint64(0):
            return NONE, np.int64(place)
        if held >> _32 == tag:
            token = np.int64(held & _LOW) - 1
            first = token_start[token]
            if token_start[token + 1] - first == end - begin:
                same = True
                for offset in range(end - begin):
                    if token_bytes[first + offset] != folded[begin + offset]:
                        same = False
                        break
                if same:
                    return token, np.int64(place)
        place = (place + np.uint64(1)) & mask


@compiled
def _find_edge(edge_key: NDArray[np.uint64], node: int, token: int) -> int:
    """The slot of edge (node, token), or the free slot where it would stand."""
    mask = np.uint64(len(edge_key) - 1)
    key = np.uint64(node) << _32 | np.uint64(token)
    place = mixed(key) & mask
    while edge_key[place] != key and edge_key[place] != np.uint64(0):
        place = (place + np.uint64(1)) & mask
    return np.int64(place)


@compiled
def _table_size(entries: int) -> int:
    size = 16
    while size < 2 * entries:
        size *= 2
    return size


@compiled
def _build(
    table: Folding, data: NDArray[np.uint8], starts: NDArray[np.int64], longest: int, room: int
) -> tuple[
    int,
    int,
    NDArray[np.uint64],
    NDArray[np.int64],
    NDArray[np.uint8],
    NDArray[np.int32],
    NDArray[np.uint64],
    NDArray[np.int32],
    NDArray[np.int32],
]:
    """Insert all names; −1 tokens where ``room`` was too small. Node 0 is the root and no edge leads to it."""
    names = len(starts) - 1
    folded = np.empty(longest * MOST_GROWTH + 8, np.uint8)
    ends = np.empty(longest * MOST_GROWTH + 8, np.int32)
    total = 0  # tokens of all names: as many as there can be tokens, nodes and edges
    for name in range(names):
        total += max(0, fold_bytes(table, data, starts[name], starts[name + 1], folded, ends))
    slot = np.zeros(_table_size(total + 1), np.uint64)
    edge_key = np.zeros(_table_size(total + 1), np.uint64)
    edge_child = np.zeros(len(edge_key), np.int32)
    token_start = np.zeros(total + 2, np.int64)
    token_bytes = np.empty(room, np.uint8)
    root_child = np.full(total + 1, NONE, np.int32)
    end_node = np.full(names, NONE, np.int32)
    tokens, nodes = 0, 1
    for name in range(names):
        count = fold_bytes(table, data, starts[name], starts[name + 1], folded, ends)
        node, begin = 0, 0
        for number in range(max(0, count)):
            end = ends[number]
            token, place = _find_token(slot, token_start, token_bytes, folded, begin, end)
            if token == NONE:
                token = tokens
                size = end - begin
                if token_start[token] + size > room:
                    return -1, 0, slot, token_start, token_bytes, root_child, edge_key, edge_child, end_node
                slot[place] = (hash_bytes(folded, begin, end) >> _32) << _32 | np.uint64(token + 1)
                token_bytes[token_start[token] : token_start[token] + size] = folded[begin:end]
                token_start[token + 1] = token_start[token] + size
                tokens += 1
            if node == 0:
                if root_child[token] == NONE:
                    root_child[token] = nodes
                    nodes += 1
                node = np.int64(root_child[token])
            else:
                edge = _find_edge(edge_key, node, token)
                if edge_key[edge] == np.uint64(0):
                    edge_key[edge] = np.uint64(node) << _32 | np.uint64(token)
                    edge_child[edge] = nodes
                    nodes += 1
                node = np.int64(edge_child[edge])
            begin = end
        if count > 0:
            end_node[name] = node
    return tokens, nodes, slot, token_start, token_bytes, root_child, edge_key, edge_child, end_node


@compiled
def find_entities(
    trie: Trie,
    data: NDArray[np.uint8],
    begin: int,
    end: int,
    folded: NDArray[np.uint8],
    ends: NDArray[np.int32],
    token: NDArray[np.int32],
    found: NDArray[np.int32],
) -> int:
    """Entities named in UTF-8 ``data[begin:end]``, each once, into ``found``; how many, or ``BROKEN``.

    At the leftmost token at which a name begins the longest one is taken, and the search goes on behind it. A name that
    several entities bear names all of them. ``found`` must have room; more than it holds are counted but not kept.
    """
    count = fold_bytes(trie.folding, data, begin, end, folded, ends)
    if count == BROKEN:
        return BROKEN
    start = 0
    for number in range(count):
        token[number], _ = _find_token(
            trie.slot, trie.token_start, trie.token_bytes, folded, start, np.int64(ends[number])
        )
        start = np.int64(ends[number])
    entities, at = 0, 0
    while at < count:
        node, after = _longest(trie, token, at, count)
        if node == NONE:
            at += 1
            continue
        for place in range(trie.bearer_start[node], trie.bearer_start[node + 1]):
            entities = _add_once(found, entities, trie.bearer[place])
        at = after
    return entities


@compiled
def _longest(trie: Trie, token: NDArray[np.int32], at: int, count: int) -> tuple[int, int]:
    """The node at which the longest name that begins at token ``at`` ends, and the token behind it."""
    best, after, node = NONE, at, 0
    for place in range(at, count):
        known = np.int64(token[place])
        if known == NONE:
            break
        if node == 0:
            node = np.int64(trie.root_child[known])
            if node == NONE:
                break
        else:
            edge = _find_edge(trie.edge_key, node, known)
            if trie.edge_key[edge] == np.uint64(0):
                break
            node = np.int64(trie.edge_child[edge])
        if trie.bearer_start[node + 1] > trie.bearer_start[node]:
            best, after = node, place + 1
    return best, after


@compiled
def _add_once(found: NDArray[np.int32], entities: int, entity: int) -> int:
    for place in range(min(entities, len(found))):
        if found[place] == entity:
            return entities
    if entities < len(found):
        found[entities] = entity
    return entities + 1
