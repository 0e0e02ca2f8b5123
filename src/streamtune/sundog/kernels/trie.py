"""The dictionary of names as a trie of tokens, and the leftmost-longest search in it.

What this costs is looks into memory, so there are few. Two open hash tables hold pairs of words: a token's key beside
its number and its node below the root, and an edge (node, token) beside the node it leads to. The key of a token of up
to eight bytes is these bytes, so that it needs no comparison. A *step* is a node's number with two bits: whether names
go on from it, and whether names end at it. Only a node that is taken is asked for the entities that bear the name.
"""

# mypy: disable-error-code="no-any-return, return-value, assignment, arg-type"
# numba compiles what is annotated int here, whichever NumPy integer comes out of an array.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamtune.sundog.kernels.compilation import compiled, inlined, read_only
from streamtune.sundog.kernels.hashing import mixed
from streamtune.sundog.kernels.text import BROKEN, MOST_GROWTH, Folding, fold_bytes, folding

_LOW, _ALL = np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFFFFFFFFFF)
_0, _1, _2, _32 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(32)
_KEY_BYTES = 8
_SALT = np.uint64(0x9E3779B97F4A7C15)
_NOT_IN_UTF8 = np.uint64(0xFF << 56)
NONE = -1


class Trie(NamedTuple):
    """The dictionary.

    ``tokens[2 * i]`` is a key; ``tokens[2 * i + 1]`` has the token's number in its upper half, which is where its size
    and bytes stand in ``pool``, and the step from the root (0 for none) in the lower. ``edges[2 * i]`` is a node and
    the number of a token, ``edges[2 * i + 1]`` the step. ``bearer[n]`` is the entity whose name ends at node n; of
    several it is −1 − p, and ``shared[p]`` is their number, followed by them.
    """

    folding: Folding
    tokens: NDArray[np.uint64]
    pool: NDArray[np.uint64]
    edges: NDArray[np.uint64]
    bearer: NDArray[np.int32]
    shared: NDArray[np.int32]


def build_trie(names: list[str], entities: NDArray[np.int32]) -> tuple[Trie, int]:
    """The trie in which ``names[i]`` leads to ``entities[i]``, and how many names have no token at all."""
    raw = [name.encode("utf-8", "replace") for name in names]
    starts = np.zeros(len(raw) + 1, np.int64)
    np.cumsum([len(name) for name in raw], out=starts[1:])
    data = read_only(np.frombuffer(b"".join(raw), np.uint8))
    table = folding()
    longest = int(np.diff(starts).max(initial=1))
    room = 2 * int(starts[-1]) + 2  # a token has a byte of text at least, but for rare foldings, and an end
    parts = _build(table, data, starts, longest, room)
    while parts[0] < 0:
        room *= 4
        parts = _build(table, data, starts, longest, room)
    used, nodes, tokens, pool, edges, end_node = parts
    named = np.flatnonzero(end_node != NONE)
    # One entity may bear two names that fold to the same tokens.
    ends = np.unique(np.stack([end_node[named], entities[named]], axis=1), axis=0)
    bearer, shared = _bearers(ends[:, 0], ends[:, 1], nodes)
    is_end, goes_on = np.zeros(nodes, np.bool_), np.zeros(nodes, np.bool_)
    is_end[ends[:, 0]] = True
    goes_on[(edges[::2][edges[::2] != 0] >> _32).astype(np.int64)] = True
    trie = Trie(
        table,
        _compacted(tokens, goes_on, is_end),
        pool[:used].copy(),
        _compacted(edges, goes_on, is_end),
        bearer,
        shared,
    )
    return trie, len(raw) - len(named)


def _bearers(
    nodes: NDArray[np.int32], entities: NDArray[np.int32], size: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """``bearer`` and ``shared`` of a trie, from (node, entity), sorted."""
    bearer, shared = np.zeros(size, np.int32), list[NDArray[np.signedinteger]]()
    of_node, firsts, counts = np.unique(nodes, return_index=True, return_counts=True)
    bearer[of_node] = entities[firsts]
    length = 0
    for place in np.flatnonzero(counts > 1):
        bearer[of_node[place]] = -1 - length
        shared += [counts[place : place + 1], entities[firsts[place] : firsts[place] + counts[place]]]
        length += 1 + int(counts[place])
    return bearer, np.concatenate([*shared, np.empty(0, np.int32)]).astype(np.int32)


@compiled
def _table_size(entries: int) -> int:
    """Words of a table that is at most half full."""
    size = 16
    while size < 2 * entries:
        size *= 2
    return 2 * size


@compiled
def _compacted(table: NDArray[np.uint64], goes_on: NDArray[np.bool_], is_end: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """The same in a table no larger than it must be, with steps in the place of nodes."""
    entries = 0
    for slot in range(0, len(table), 2):
        entries += table[slot] != _0
    small = np.zeros(_table_size(entries), np.uint64)
    mask = np.uint64(len(small) // 2 - 1)
    for slot in range(0, len(table), 2):
        key, held = table[slot], table[slot + 1]
        if key == _0:
            continue
        node = np.int64(held & _LOW)
        step = np.uint64(node) << _2 | np.uint64(goes_on[node]) << _1 | np.uint64(is_end[node]) if node else _0
        place = mixed(key) & mask
        while small[_2 * place] != _0:
            place = (place + _1) & mask
        small[_2 * place], small[_2 * place + _1] = key, held >> _32 << _32 | step
    return small


@inlined
def _word(folded: NDArray[np.uint8], at: int, end: int) -> np.uint64:
    """Up to eight bytes of a token from ``at`` on as a number. Reads to ``at + 8``, whatever stands there."""
    word = _0
    for place in range(8):
        word |= np.uint64(folded[at + place]) << np.uint64(8 * place)
    return word if end - at >= 8 else word & _ALL >> np.uint64(8 * (8 - (end - at)))


@inlined
def token_key(folded: NDArray[np.uint8], begin: int, end: int) -> np.uint64:
    """Up to eight bytes as they are; else a hash of all, with a byte in it that is not in UTF-8."""
    key = _word(folded, begin, end)
    if end - begin > _KEY_BYTES:
        at = begin + 8
        while at < end:
            key = mixed(key + _SALT) ^ _word(folded, at, end)
            at += 8
        key = mixed(key) | _NOT_IN_UTF8
    return key


@inlined
def _find(table: NDArray[np.uint64], key: np.uint64) -> np.int64:
    """Where in the table the key stands first, or would stand."""
    mask = np.uint64(len(table) // 2 - 1)
    place = mixed(key) & mask
    while table[_2 * place] != key and table[_2 * place] != _0:
        place = (place + _1) & mask
    return np.int64(_2 * place)


@inlined
def _is_token(pool: NDArray[np.uint64], token: np.uint64, folded: NDArray[np.uint8], begin: int, end: int) -> bool:
    at = np.int64(token)
    same = pool[at] == np.uint64(end - begin)
    for number in range((end - begin + 7) // 8 if same else 0):
        same &= pool[at + 1 + number] == _word(folded, begin + 8 * number, end)
    return same


@compiled
def _find_token(
    table: NDArray[np.uint64], pool: NDArray[np.uint64], folded: NDArray[np.uint8], begin: int, end: int
) -> np.int64:
    """Where in the table the token stands, or would stand."""
    key = token_key(folded, begin, end)
    place = _find(table, key)
    while table[place] != _0 and not (
        table[place] == key and _is_token(pool, table[place + 1] >> _32, folded, begin, end)
    ):
        place = (place + 2) % len(table)
    return place


@compiled
def _build(
    table: Folding, data: NDArray[np.uint8], starts: NDArray[np.int64], longest: int, room: int
) -> tuple[int, int, NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int32]]:
    """Insert all names; −1 words where ``room`` was too small. Node 0 is the root and no edge leads to it."""
    names = len(starts) - 1
    folded = np.zeros(longest * MOST_GROWTH + 8, np.uint8)
    ends = np.empty(longest * MOST_GROWTH + 8, np.int32)
    total = 0  # tokens of all names: as many as there can be tokens, nodes and edges
    for name in range(names):
        total += max(0, fold_bytes(table, data, starts[name], starts[name + 1], folded, ends))
    tokens = np.zeros(_table_size(total + 1), np.uint64)
    edges = np.zeros(_table_size(total + 1), np.uint64)
    pool, used = np.empty(room, np.uint64), 1
    end_node = np.full(names, NONE, np.int32)
    nodes = 1
    for name in range(names):
        count = fold_bytes(table, data, starts[name], starts[name + 1], folded, ends)
        node, begin = 0, 0
        for number in range(max(0, count)):
            end = np.int64(ends[number])
            place = _find_token(tokens, pool, folded, begin, end)
            if tokens[place] == _0:
                if used + 1 + (end - begin + 7) // 8 > room:
                    return -1, 0, tokens, pool, edges, end_node
                tokens[place], tokens[place + 1] = token_key(folded, begin, end), np.uint64(used) << _32
                pool[used] = end - begin
                for at in range(begin, end, 8):
                    used += 1
                    pool[used] = _word(folded, at, end)
                used += 1
            held, slot = tokens, place
            if node:
                held, slot = edges, _add_edge(edges, node, tokens[place + 1] >> _32)
            if held[slot + 1] & _LOW == _0:
                held[slot + 1] |= np.uint64(nodes)
                nodes += 1
            node = np.int64(held[slot + 1] & _LOW)
            begin = end
        if count > 0:
            end_node[name] = node
    return used, nodes, tokens, pool, edges, end_node


@compiled
def _add_edge(table: NDArray[np.uint64], node: int, token: np.uint64) -> np.int64:
    key = np.uint64(node) << _32 | token
    place = _find(table, key)
    table[place] = key
    return place


@inlined
def find_entities(
    trie: Trie,
    data: NDArray[np.uint8],
    begin: int,
    end: int,
    folded: NDArray[np.uint8],
    ends: NDArray[np.int32],
    known: NDArray[np.uint64],
    found: NDArray[np.int32],
) -> int:
    """Entities named in UTF-8 ``data[begin:end]``, each once, into ``found``; how many, or ``BROKEN``.

    At the leftmost token at which a name begins the longest one is taken, and the search goes on behind it. A name that
    several entities bear names all of them. ``found`` must have room; more than it holds are counted but not kept.
    """
    count = fold_bytes(trie.folding, data, begin, end, folded, ends)
    if count == BROKEN:
        return BROKEN
    _look_up(trie.tokens, trie.pool, folded, ends, count, known)
    edges, bearers, shared = trie.edges, trie.bearer, trie.shared
    entities, at = 0, 0
    while at < count:
        node, after = _longest(edges, known, at, count)
        if node == NONE:
            at += 1
            continue
        at, bearer = after, np.int64(bearers[node])
        if bearer >= 0:
            entities = _add_once(found, entities, bearer)
        else:
            first = -1 - bearer
            for place in range(first + 1, first + 1 + shared[first]):
                entities = _add_once(found, entities, np.int64(shared[place]))
    return entities


@inlined
def _look_up(
    tokens: NDArray[np.uint64],
    pool: NDArray[np.uint64],
    folded: NDArray[np.uint8],
    ends: NDArray[np.int32],
    count: int,
    known: NDArray[np.uint64],
) -> None:
    """Into ``known`` what ``tokens`` has for each token, 0 for unknown ones.

    Three loops, so that the looks of the second, which go all over memory, do not wait for one another.
    """
    begin = 0
    for number in range(count):
        known[number] = token_key(folded, begin, np.int64(ends[number]))
        begin = np.int64(ends[number])
    for number in range(count):
        known[number] = tokens[_find(tokens, known[number]) + 1]
    begin = 0
    for number in range(count):
        end = np.int64(ends[number])
        is_hash = end - begin > _KEY_BYTES and known[number] != _0
        if is_hash and not _is_token(pool, known[number] >> _32, folded, begin, end):
            known[number] = tokens[_find_token(tokens, pool, folded, begin, end) + 1]
        begin = end


@inlined
def _longest(edges: NDArray[np.uint64], known: NDArray[np.uint64], at: int, count: int) -> tuple[int, int]:
    """The node at which the longest name that begins at token ``at`` ends, and the token behind it."""
    best, after = NONE, at
    step, place = known[at] & _LOW, at + 1
    while step != _0:
        node = step >> _2
        if step & _1 != _0:
            best, after = np.int64(node), place
        if step & _2 == _0 or place == count or known[place] == _0:
            break
        step = edges[_find(edges, node << _32 | known[place] >> _32) + 1]
        place += 1
    return best, after


@inlined
def _add_once(found: NDArray[np.int32], entities: int, entity: int) -> int:
    for place in range(min(entities, len(found))):
        if found[place] == entity:
            return entities
    if entities < len(found):
        found[entities] = entity
    return entities + 1
