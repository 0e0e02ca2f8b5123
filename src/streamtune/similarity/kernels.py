"""The compiled search behind every distance: depth-first branch and bound with iterative deepening.

A state is a partial mapping of the nodes of the smaller graph (rows) to nodes of the larger one (columns); a mapped
node is an *anchor*. With unit costs an optimal mapping uses every row, because deleting one node and inserting
another never beats mapping one to the other. Three bounds prune, cheapest first:

1. filters on a whole pair: sizes, type multisets, undirected degrees (``filter_bound``);
2. the anchored label-set bound LSa of Chang et al., *Speeding Up GED Verification for Graph Similarity Search*
   (ICDE 2020), carried over to directed edges (``label_set_bound``);
3. an anchored branch-match bound, the cheapest assignment of the unmapped nodes (``assignment_bound``). Theirs, BMa,
   cannot see that filter → map differs from map → filter when all degrees agree. Ours lends a part of a type change
   to the neighbours, which do see it; ``inner_cost`` has the argument why the sum never exceeds the distance.

A child inherits its parent's dual solution, so that few rows must be matched again. Reduced costs bound all children
at once and pick the row with the fewest of them. The search raises a threshold from the lower bound upwards (Korf's
IDA*) instead of keeping A*'s queue: the same states up to a constant factor, in a few kilobytes.

A relation is 0 without an edge, 1 for an edge to the other node and 2 for one from it; for a mapped pair of nodes the
three are mutually at distance 1.
"""

# mypy: disable-error-code="no-any-return, no-untyped-call"
# numba compiles what is annotated int here, whichever NumPy integer comes out of an array.

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from streamtune.similarity.compilation import compiled, population_count
from streamtune.similarity.layout import UNKNOWN, Graphs, Search, new_search

FREE = -1  # a node without a partner
FORWARD, BACKWARD = 1, 2

SMALL, LARGE = 0, 1  # the sides of a pair: rows and columns
ROWS, SIZE, EDGES, SHARES = range(4)  # Search.pair: nodes of either graph, edges of both, parts of a type change
TYPE, DEGREE, MATE, OUT, IN = range(5)  # Search.node; OUT and IN count edges to unmapped nodes
MAPPED_COST, OBJECTIVE, CHILD_ROW, CHILD_COUNT, CHILD_NEXT = range(5)  # Search.level
ROW_DUAL, COLUMN_DUAL, ROW_MATCH, COLUMN_MATCH, CHILD_COLUMN, CHILD_KEY = range(6)  # Search.slot
DISTANCE, CLOSED, VIA = range(3)  # Search.scratch

_INT = numba.int64
_INTS = numba.int64[:, ::1]
_TWO = numba.types.UniTuple(_INT, 2)
_THREE = numba.types.UniTuple(_INT, 3)
_VOID = numba.void
_GRAPHS = numba.typeof(
    Graphs(
        node_start=np.zeros(1, np.int64),
        node_type=np.zeros(1, np.int32),
        degree=np.zeros(1, np.int32),
        edge_start=np.zeros(1, np.int64),
        edge=np.zeros((1, 2), np.int32),
        type_count=np.zeros((1, 1), np.int32),
    )
)
_SEARCH = numba.typeof(new_search(1, 1, 1))


@compiled(_INT(_INT, _INT, _INT, _INT))
def crossing_cost(out_a: int, in_a: int, out_b: int, in_b: int) -> int:
    """The fewest operations that turn ``out_a`` out- and ``in_a`` in-edges of a node into ``out_b`` and ``in_b``.

    Not |Δout| + |Δin|: a reversal repairs both sides with one operation.
    """
    return max(out_a + in_a, out_b + in_b) - min(out_a, out_b) - min(in_a, in_b)


@compiled(_INT(_GRAPHS, _INT, _INT, _INT))
def filter_bound(graphs: Graphs, small: int, large: int, limit: int) -> int:
    """What sizes, type multisets and undirected degrees demand; stops at the first of them that exceeds ``limit``.

    A reversal changes no undirected degree, any other edge operation two of them by one.
    """
    first, other = graphs.node_start[small], graphs.node_start[large]
    rows, columns = graphs.node_start[small + 1] - first, graphs.node_start[large + 1] - other
    small_edges = graphs.edge_start[small + 1] - graphs.edge_start[small]
    large_edges = graphs.edge_start[large + 1] - graphs.edge_start[large]
    bound = columns - rows + abs(small_edges - large_edges)
    if bound > limit:
        return bound
    common = 0
    for code in range(graphs.type_count.shape[1]):
        common += min(graphs.type_count[small, code], graphs.type_count[large, code])
    bound += rows - common
    if bound > limit:
        return bound
    difference = 0
    for rank in range(columns):
        degree = graphs.degree[first + rank] if rank < rows else 0
        difference += abs(degree - graphs.degree[other + rank])
    return columns - common + (difference + 1) // 2


@compiled(_INT(_SEARCH, _INT, _INT, _INT))
def kind_place(search: Search, side: int, node: int, neighbour: int) -> int:
    """The lower of the two bits that a neighbour of this type and direction has in ``types_around``."""
    return (search.node[TYPE, side, neighbour] & 15) * 4 + 2 * (search.relation[side, node, neighbour] == FORWARD)


@compiled(_INT(_SEARCH, _INT, _INT))
def types_around(search: Search, side: int, node: int) -> int:
    """The multiset of (direction, type) over a node's neighbours as bits: the n-th of a kind sets its n-th bit.

    There is room for two of a kind and 16 types. Further types share bits, which makes more neighbours look alike and
    the bound only lower; kinds with more than two members get no bits, and what has none is never seen as different.
    """
    bits = 0
    crowded = 0
    for rank in range(search.node[DEGREE, side, node]):
        first = 1 << kind_place(search, side, node, search.neighbour[side, node, rank])
        crowded |= bits & (first << 1)
        bits |= first + (bits & first)
    return bits & ~(crowded | (crowded >> 1))


@compiled(_VOID(_GRAPHS, _SEARCH, _INT, _INT))
def load(graphs: Graphs, search: Search, side: int, graph: int) -> None:
    """Copy a graph into ``side``; nodes beyond its own stand for insertions: no type, no edges."""
    first = graphs.node_start[graph]
    count = graphs.node_start[graph + 1] - first
    size = search.pair[SIZE]
    for node in range(size):
        search.node[TYPE, side, node] = graphs.node_type[first + node] if node < count else -1
        search.node[MATE, side, node] = FREE
        search.node[DEGREE, side, node] = 0
        search.node[OUT, side, node] = 0
        search.node[IN, side, node] = 0
        for other in range(size):
            search.relation[side, node, other] = 0
    for index in range(graphs.edge_start[graph], graphs.edge_start[graph + 1]):
        tail, head = graphs.edge[index, 0], graphs.edge[index, 1]
        search.relation[side, tail, head] = FORWARD
        search.relation[side, head, tail] = BACKWARD
        search.neighbour[side, tail, search.node[DEGREE, side, tail]] = head
        search.neighbour[side, head, search.node[DEGREE, side, head]] = tail
        search.node[DEGREE, side, tail] += 1
        search.node[DEGREE, side, head] += 1
        search.node[OUT, side, tail] += 1
        search.node[IN, side, head] += 1
    for code in range(graphs.type_count.shape[1]):
        search.type_left[side, code] = graphs.type_count[graph, code]
    for node in range(size):
        search.around[0, side, node] = types_around(search, side, node)


@compiled(_INT(numba.boolean, _INT, _INT, _INT, _INT, _INT, _INT, _INT))
def inner_cost(
    same_type: bool,
    row_out: int,
    row_in: int,
    row_bits: int,
    column_out: int,
    column_in: int,
    column_bits: int,
    shares: int,
) -> int:
    """What mapping a row to a column costs apart from anchors, in units of 1 / (2 · shares) operation.

    An operation on an edge between unmapped nodes counts half at either end. A type change counts 1 − kept / shares
    here and 1 / shares at the other end of each edge that stays as it is; at most ``kept`` edges stay and ``kept`` is
    at most ``shares``, so it never counts more than once. The neighbour cannot tell who changed its type, but at most
    ``alike`` of the edges that stay can lead to a node of the same type. Since 1 / shares ≤ 1/2, giving up an edge
    instead never makes the sum smaller.
    """
    kept = min(row_out, column_out) + min(row_in, column_in)
    changed = max(row_out + row_in, column_out + column_in) - kept
    unseen = row_out + row_in - population_count(row_bits) + column_out + column_in - population_count(column_bits)
    alike = min(kept, population_count(row_bits & column_bits) + unseen)
    return shares * changed + 2 * (kept - alike) + (0 if same_type else 2 * (shares - kept))


@compiled(_VOID(_SEARCH))
def prepare_root(search: Search) -> None:
    """The assignment problem with nothing mapped, all edges inner and all duals zero."""
    search.level[0, MAPPED_COST] = 0
    search.level[0, OBJECTIVE] = 0
    size = search.pair[SIZE]
    for row in range(size):
        search.slot[0, ROW_DUAL, row] = 0
        search.slot[0, COLUMN_DUAL, row] = 0
        search.slot[0, ROW_MATCH, row] = FREE
        search.slot[0, COLUMN_MATCH, row] = FREE
        for column in range(size):
            search.anchored[0, row, column] = 0
            search.cost[0, row, column] = inner_cost(
                search.node[TYPE, SMALL, row] == search.node[TYPE, LARGE, column],
                search.node[OUT, SMALL, row],
                search.node[IN, SMALL, row],
                search.around[0, SMALL, row],
                search.node[OUT, LARGE, column],
                search.node[IN, LARGE, column],
                search.around[0, LARGE, column],
                search.pair[SHARES],
            )


@compiled(_VOID(_GRAPHS, _SEARCH, _INT, _INT))
def open_pair(graphs: Graphs, search: Search, small: int, large: int) -> None:
    """Make the search memory ready for a pair of graphs, neither empty, the first not the larger one."""
    first, other = graphs.node_start[small], graphs.node_start[large]
    search.pair[ROWS] = graphs.node_start[small + 1] - first
    search.pair[SIZE] = graphs.node_start[large + 1] - other
    edges = graphs.edge_start[small + 1] - graphs.edge_start[small]
    search.pair[EDGES] = edges + graphs.edge_start[large + 1] - graphs.edge_start[large]
    search.pair[SHARES] = max(2, min(graphs.degree[first], graphs.degree[other]))
    load(graphs, search, SMALL, small)
    load(graphs, search, LARGE, large)
    prepare_root(search)


@compiled(_VOID(_SEARCH, _INT, _INT, _INT))
def shift_edges(search: Search, side: int, node: int, step: int) -> None:
    """Take ``node`` out of (−1) or back into (+1) the unmapped nodes that its neighbours and its type count.

    An out-edge of the node is an in-edge of its neighbour: the flip is what makes the counts right.
    """
    for rank in range(search.node[DEGREE, side, node]):
        other = search.neighbour[side, node, rank]
        if search.relation[side, node, other] == FORWARD:
            search.node[IN, side, other] += step
        else:
            search.node[OUT, side, other] += step
    search.type_left[side, search.node[TYPE, side, node]] += step


@compiled(_VOID(_SEARCH, _INT, _INT, _INT))
def anchor(search: Search, depth: int, row: int, column: int) -> None:
    """Map ``row`` to ``column``: the state at ``depth`` becomes its child at ``depth + 1``, assignment aside."""
    cost = search.level[depth, MAPPED_COST]
    cost += search.node[TYPE, SMALL, row] != search.node[TYPE, LARGE, column]
    for rank in range(search.node[DEGREE, SMALL, row]):
        other = search.neighbour[SMALL, row, rank]
        image = search.node[MATE, SMALL, other]
        cost += image >= 0 and search.relation[SMALL, row, other] != search.relation[LARGE, column, image]
    for rank in range(search.node[DEGREE, LARGE, column]):
        preimage = search.node[MATE, LARGE, search.neighbour[LARGE, column, rank]]
        cost += preimage >= 0 and search.relation[SMALL, row, preimage] == 0
    search.level[depth + 1, MAPPED_COST] = cost
    search.node[MATE, SMALL, row] = column
    search.node[MATE, LARGE, column] = row
    shift_edges(search, SMALL, row, -1)
    shift_edges(search, LARGE, column, -1)


@compiled(_VOID(_SEARCH, _INT))
def release(search: Search, row: int) -> None:
    """Undo ``anchor``."""
    column = search.node[MATE, SMALL, row]
    search.node[MATE, SMALL, row] = FREE
    search.node[MATE, LARGE, column] = FREE
    shift_edges(search, SMALL, row, 1)
    shift_edges(search, LARGE, column, 1)


@compiled(_INT(_SEARCH, _INT))
def label_set_bound(search: Search, depth: int) -> int:
    """LSa: mapped cost, types of the unmapped nodes, cross edges per anchor, inner edges whatever their direction."""
    common = 0
    for code in range(search.type_left.shape[1]):
        common += min(search.type_left[SMALL, code], search.type_left[LARGE, code])
    crossing = 0
    inner = 0
    size = search.pair[SIZE]
    for node in range(size):
        column = search.node[MATE, SMALL, node]
        if column >= 0:
            crossing += crossing_cost(
                search.node[OUT, SMALL, node],
                search.node[IN, SMALL, node],
                search.node[OUT, LARGE, column],
                search.node[IN, LARGE, column],
            )
        else:
            inner += search.node[OUT, SMALL, node]
        if search.node[MATE, LARGE, node] < 0:
            inner -= search.node[OUT, LARGE, node]
    return search.level[depth, MAPPED_COST] + size - depth - common + crossing + abs(inner)


@compiled(_VOID(_SEARCH, _INT, _INT, _INT))
def inherit_types_around(search: Search, depth: int, row: int, column: int) -> None:
    """``types_around`` of all nodes of the child at ``depth``: the parent's, but for neighbours of the new anchor."""
    for node in range(search.pair[SIZE]):
        search.around[depth, SMALL, node] = search.around[depth - 1, SMALL, node]
        search.around[depth, LARGE, node] = search.around[depth - 1, LARGE, node]
    for side in range(2):
        node = row if side == SMALL else column
        for rank in range(search.node[DEGREE, side, node]):
            other = search.neighbour[side, node, rank]
            place = kind_place(search, side, other, node)
            pair_of_bits = (search.around[depth, side, other] >> place) & 3
            search.around[depth, side, other] ^= (pair_of_bits ^ (pair_of_bits >> 1)) << place


@compiled(_INT(_SEARCH, _INT, _INT, _INT, _INT))
def inherit_row_costs(search: Search, depth: int, other: int, edge: int, column: int) -> int:
    """Costs of the row ``other``, whose ``edge`` leads to the new anchor at ``column``; the least growth, or 0."""
    size, shares = search.pair[SIZE], search.pair[SHARES]
    kind, row_bits = search.node[TYPE, SMALL, other], search.around[depth, SMALL, other]
    row_out, row_in = search.node[OUT, SMALL, other], search.node[IN, SMALL, other]
    least = 0
    if edge == 0:
        for index in range(size):
            search.anchored[depth, other, index] = search.anchored[depth - 1, other, index]
        for index in range(size):
            search.cost[depth, other, index] = search.cost[depth - 1, other, index]
        for rank in range(search.node[DEGREE, LARGE, column]):
            index = search.neighbour[LARGE, column, rank]
            if search.node[MATE, LARGE, index] >= 0:
                continue
            anchored = search.anchored[depth, other, index] + 2 * shares
            search.anchored[depth, other, index] = anchored
            search.cost[depth, other, index] = anchored + inner_cost(
                kind == search.node[TYPE, LARGE, index],
                row_out,
                row_in,
                row_bits,
                search.node[OUT, LARGE, index],
                search.node[IN, LARGE, index],
                search.around[depth, LARGE, index],
                shares,
            )
        return 0
    for index in range(size):
        mismatch = 2 * shares if search.relation[LARGE, column, index] != edge else 0
        anchored = search.anchored[depth - 1, other, index] + mismatch
        search.anchored[depth, other, index] = anchored
        cost = anchored + inner_cost(
            kind == search.node[TYPE, LARGE, index],
            row_out,
            row_in,
            row_bits,
            search.node[OUT, LARGE, index],
            search.node[IN, LARGE, index],
            search.around[depth, LARGE, index],
            shares,
        )
        search.cost[depth, other, index] = cost
        if search.node[MATE, LARGE, index] < 0:
            least = min(least, cost - search.cost[depth - 1, other, index])
    return least


@compiled(_INT(_SEARCH, _INT, _INT, _INT, _INT))
def inherit_row(search: Search, depth: int, other: int, row: int, column: int) -> int:
    """One row of the child's assignment problem; how much it adds to the parent's dual objective.

    A cost falls where a type change that a neighbour had seen is now paid in full by the mapped nodes: then the row's
    dual falls with it, to stay feasible. The row keeps its match while that is tight; else its dual rises until a
    column is.
    """
    parent_dual = search.slot[depth - 1, ROW_DUAL, other]
    dual = parent_dual + inherit_row_costs(search, depth, other, search.relation[SMALL, row, other], column)
    match = search.slot[depth - 1, ROW_MATCH, other]
    if search.cost[depth, other, match] == dual + search.slot[depth, COLUMN_DUAL, match]:
        search.slot[depth, COLUMN_MATCH, match] = other
    else:
        match = FREE
        dual = UNKNOWN
        for index in range(search.pair[SIZE]):
            dual = min(dual, search.cost[depth, other, index] - search.slot[depth, COLUMN_DUAL, index])
    search.slot[depth, ROW_MATCH, other] = match
    search.slot[depth, ROW_DUAL, other] = dual
    return dual - parent_dual


@compiled(_VOID(_SEARCH, _INT, _INT, _INT, _INT))
def inherit(search: Search, depth: int, row: int, column: int, threshold: int) -> None:
    """The assignment problem of the child at ``depth`` that has just mapped ``row`` to ``column``.

    The rows beside the new anchor come first: often they alone raise the objective above ``threshold``, and then the
    others are not needed any more.
    """
    inherit_types_around(search, depth, row, column)
    objective = search.level[depth - 1, OBJECTIVE]
    objective -= search.slot[depth - 1, ROW_DUAL, row] + search.slot[depth - 1, COLUMN_DUAL, column]
    for index in range(search.pair[SIZE]):
        search.slot[depth, COLUMN_DUAL, index] = search.slot[depth - 1, COLUMN_DUAL, index]
        search.slot[depth, COLUMN_MATCH, index] = FREE
    search.slot[depth, COLUMN_DUAL, column] = -UNKNOWN  # out of reach from now on
    for rank in range(search.node[DEGREE, SMALL, row]):
        other = search.neighbour[SMALL, row, rank]
        if search.node[MATE, SMALL, other] < 0:
            objective += inherit_row(search, depth, other, row, column)
    if objective <= 2 * search.pair[SHARES] * (threshold - search.level[depth, MAPPED_COST]):
        for other in range(search.pair[SIZE]):
            if search.node[MATE, SMALL, other] < 0 and search.relation[SMALL, row, other] == 0:
                objective += inherit_row(search, depth, other, row, column)
    search.level[depth, OBJECTIVE] = objective


@compiled(_TWO(_SEARCH, _INT, _INT, _INT))
def shortest_path(search: Search, depth: int, row: int, slack: int) -> tuple[int, int]:
    """Dijkstra over reduced costs from an unmatched row to the nearest unmatched column: that column, and how far.

    Gives up (column −1) as soon as the way is longer than ``slack``.
    """
    size = search.pair[SIZE]
    for column in range(size):
        search.scratch[CLOSED, column] = 0
        search.scratch[DISTANCE, column] = UNKNOWN
    current = row
    reached = 0
    while True:
        shift = reached - search.slot[depth, ROW_DUAL, current]
        nearest = -1
        reached = UNKNOWN
        for column in range(size):
            if search.scratch[CLOSED, column]:
                continue
            length = shift + search.cost[depth, current, column] - search.slot[depth, COLUMN_DUAL, column]
            if length < search.scratch[DISTANCE, column]:
                search.scratch[DISTANCE, column] = length
                search.scratch[VIA, column] = current
            if search.scratch[DISTANCE, column] < reached:
                reached = search.scratch[DISTANCE, column]
                nearest = column
        if reached > slack:
            return -1, reached
        current = search.slot[depth, COLUMN_MATCH, nearest]
        if current < 0:
            return nearest, reached
        search.scratch[CLOSED, nearest] = 1


@compiled(_INT(_SEARCH, _INT, _INT, _INT))
def augment(search: Search, depth: int, row: int, slack: int) -> int:
    """Match one more row along the shortest path (Jonker and Volgenant 1987); the growth of the dual objective."""
    column, length = shortest_path(search, depth, row, slack)
    if column < 0:
        return length
    search.slot[depth, ROW_DUAL, row] += length
    for other in range(search.pair[SIZE]):
        if search.scratch[CLOSED, other]:
            gain = length - search.scratch[DISTANCE, other]
            search.slot[depth, COLUMN_DUAL, other] -= gain
            search.slot[depth, ROW_DUAL, search.slot[depth, COLUMN_MATCH, other]] += gain
    current = -1
    while current != row:
        current = search.scratch[VIA, column]
        following = search.slot[depth, ROW_MATCH, current]
        search.slot[depth, COLUMN_MATCH, column] = current
        search.slot[depth, ROW_MATCH, current] = column
        column = following
    return length


@compiled(_INT(_SEARCH, _INT, _INT))
def assignment_bound(search: Search, depth: int, threshold: int) -> int:
    """Mapped cost plus the cheapest assignment of the unmapped nodes; stops early above ``threshold``."""
    units = 2 * search.pair[SHARES]
    mapped = search.level[depth, MAPPED_COST]
    objective = search.level[depth, OBJECTIVE]
    ceiling = units * (threshold - mapped)
    for row in range(search.pair[SIZE]):
        if objective > ceiling:
            break
        if search.node[MATE, SMALL, row] < 0 and search.slot[depth, ROW_MATCH, row] < 0:
            objective += augment(search, depth, row, ceiling - objective)
    search.level[depth, OBJECTIVE] = objective
    return mapped + (objective + units - 1) // units


@compiled(_INT(_SEARCH, _INT, _INT))
def completed_cost(search: Search, depth: int, upper: int) -> int:
    """The cost of the full mapping that the assignment suggests, kept as ``best`` if it is below ``upper``.

    Each edge that is met again saves its deletion and its insertion, each one met reversed one of the two.
    """
    rows = search.pair[ROWS]
    for row in range(rows):
        image = search.node[MATE, SMALL, row]
        search.scratch[VIA, row] = image if image >= 0 else search.slot[depth, ROW_MATCH, row]
    cost = search.pair[SIZE] - rows + search.pair[EDGES]
    for row in range(rows):
        column = search.scratch[VIA, row]
        cost += search.node[TYPE, SMALL, row] != search.node[TYPE, LARGE, column]
        for rank in range(search.node[DEGREE, SMALL, row]):
            other = search.neighbour[SMALL, row, rank]
            if other > row:
                found = search.relation[LARGE, column, search.scratch[VIA, other]]
                cost -= found != 0
                cost -= found == search.relation[SMALL, row, other]
    if cost < upper:
        for row in range(rows):
            search.best[row] = search.scratch[VIA, row]
    return min(cost, upper)


@compiled(_INT(_SEARCH, _INT, _INT))
def choose_row(search: Search, depth: int, slack: int) -> int:
    """The unmapped row with the fewest columns it can still take, per inner edge it would anchor."""
    size = search.pair[SIZE]
    chosen = -1
    chosen_score = UNKNOWN
    for row in range(search.pair[ROWS]):
        if search.node[MATE, SMALL, row] >= 0:
            continue
        count = 0
        room = slack + search.slot[depth, ROW_DUAL, row]
        for column in range(size):
            count += search.cost[depth, row, column] - search.slot[depth, COLUMN_DUAL, column] <= room
        score = (count << 10) // (1 + search.node[OUT, SMALL, row] + search.node[IN, SMALL, row])
        if score < chosen_score:
            chosen, chosen_score = row, score
    return chosen


@compiled(_INT(_SEARCH, _INT, _INT))
def list_children(search: Search, depth: int, threshold: int) -> int:
    """Fill the children of the state, best first; the least bound among those cut off."""
    units = 2 * search.pair[SHARES]
    mapped, objective = search.level[depth, MAPPED_COST], search.level[depth, OBJECTIVE]
    slack = units * (threshold - mapped) - objective
    row = choose_row(search, depth, slack)
    kept = 0
    least_cut = UNKNOWN
    for column in range(search.pair[SIZE]):
        reduced = search.cost[depth, row, column] - search.slot[depth, COLUMN_DUAL, column]
        reduced -= search.slot[depth, ROW_DUAL, row]
        if reduced > slack:
            least_cut = min(least_cut, reduced)
            continue
        at = kept
        while at > 0 and search.slot[depth, CHILD_KEY, at - 1] > reduced:
            search.slot[depth, CHILD_KEY, at] = search.slot[depth, CHILD_KEY, at - 1]
            search.slot[depth, CHILD_COLUMN, at] = search.slot[depth, CHILD_COLUMN, at - 1]
            at -= 1
        search.slot[depth, CHILD_KEY, at] = reduced
        search.slot[depth, CHILD_COLUMN, at] = column
        kept += 1
    search.level[depth, CHILD_ROW] = row
    search.level[depth, CHILD_COUNT] = kept
    search.level[depth, CHILD_NEXT] = 0
    return mapped + (objective + least_cut + units - 1) // units


@compiled(_THREE(_SEARCH, _INT, _INT, _INT))
def search_below(search: Search, threshold: int, upper: int, budget: int) -> tuple[int, int, int]:
    """All mappings of cost ≤ ``threshold``, until one is found: (least bound above it, best cost, states)."""
    for row in range(search.pair[ROWS]):
        if search.node[MATE, SMALL, row] >= 0:
            release(search, row)
    beyond = list_children(search, 0, threshold)
    depth = 0
    states = 0
    while depth >= 0:
        row = search.level[depth, CHILD_ROW]
        if search.node[MATE, SMALL, row] >= 0:
            release(search, row)
        if search.level[depth, CHILD_NEXT] == search.level[depth, CHILD_COUNT]:
            depth -= 1
            continue
        column = search.slot[depth, CHILD_COLUMN, search.level[depth, CHILD_NEXT]]
        search.level[depth, CHILD_NEXT] += 1
        anchor(search, depth, row, column)
        bound = label_set_bound(search, depth + 1)
        if bound <= threshold:
            states += 1
            inherit(search, depth + 1, row, column, threshold)
            bound = assignment_bound(search, depth + 1, threshold)
        if bound > threshold:
            beyond = min(beyond, bound)
            continue
        depth += 1
        upper = completed_cost(search, depth, upper)
        if upper <= threshold or states >= budget:
            break
        beyond = min(beyond, list_children(search, depth, threshold))
    return beyond, upper, states


@compiled(_THREE(_GRAPHS, _SEARCH, _INT, _INT, _INT, numba.boolean, _INT))
def pair_bounds(
    graphs: Graphs, search: Search, a: int, b: int, limit: int, verify: bool, budget: int
) -> tuple[int, int, int]:
    """(lower, upper, states): equal bounds are the distance; a lower bound above ``limit`` ends the search.

    With ``verify`` only the question "at most ``limit``?" is answered: one search with that threshold.
    """
    if graphs.node_start[a + 1] - graphs.node_start[a] > graphs.node_start[b + 1] - graphs.node_start[b]:
        a, b = b, a
    lower = filter_bound(graphs, a, b, limit)
    if graphs.node_start[a + 1] == graphs.node_start[a]:
        return lower, lower, 0  # out of nothing all operators and edges are inserted: what the filter counts first
    if lower > limit:
        return lower, UNKNOWN, 0
    open_pair(graphs, search, a, b)
    lower = max(lower, assignment_bound(search, 0, limit))
    if lower > limit:
        return lower, UNKNOWN, 1
    upper = completed_cost(search, 0, UNKNOWN)
    states = 1
    while lower < upper and lower <= limit and states < budget:
        threshold = limit if verify else min(limit, lower + (upper - lower) // 4)
        if upper <= threshold:
            break
        beyond, upper, expanded = search_below(search, threshold, upper, budget - states)
        states += expanded
        if upper > threshold and states < budget:
            lower = min(beyond, upper)
    return lower, upper, states


@compiled(_VOID(_GRAPHS, _SEARCH, _INTS, _INT, numba.boolean, _INT, _INTS), entry=True)
def many_bounds(
    graphs: Graphs,
    search: Search,
    pairs: NDArray[np.int64],
    limit: int,
    verify: bool,
    budget: int,
    result: NDArray[np.int64],
) -> None:
    """``pair_bounds`` for each row (a, b) of ``pairs``, into the rows of ``result``."""
    for index in range(len(pairs)):
        a, b = pairs[index, 0], pairs[index, 1]
        lower, upper, states = pair_bounds(graphs, search, a, b, limit, verify, budget)
        result[index, 0] = lower
        result[index, 1] = upper
        result[index, 2] = states
