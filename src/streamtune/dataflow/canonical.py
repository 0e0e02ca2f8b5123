"""Canonical form of a typed DAG by colour refinement and individualisation.

Two graphs have the same form exactly if they are isomorphic. The search is the classic one behind nauty (McKay and
Piperno, *Practical graph isomorphism II*, 2014): refine colours until stable, single out one node of the first
ambiguous colour, repeat, and keep the smallest leaf; automorphisms found on the way cut the branches that symmetry
makes equal. Written by hand because the libraries that have it (igraph's BLISS, pynauty) are under the GPL.
"""

from __future__ import annotations

from collections.abc import Sequence

Leaf = tuple[tuple[int, int], ...]


def canonical_form(types: Sequence[str], edges: Sequence[tuple[int, int]]) -> str:
    """Types in canonical order, then edges between canonical positions.

    >>> canonical_form(["sink", "source"], [(1, 0)]) == canonical_form(["source", "sink"], [(0, 1)])
    True
    """
    search = _Search(types, edges)
    search.run()
    order = search.best_order
    named = ",".join(types[node] for node in order)
    return f"{named}|{';'.join(f'{a}>{b}' for a, b in search.best_leaf)}"


class _Search:
    def __init__(self, types: Sequence[str], edges: Sequence[tuple[int, int]]) -> None:
        self.size = len(types)
        self.edges = edges
        self.after: list[list[int]] = [[] for _ in types]
        self.before: list[list[int]] = [[] for _ in types]
        for a, b in edges:
            self.after[a].append(b)
            self.before[b].append(a)
        ranks = {kind: rank for rank, kind in enumerate(sorted(set(types)))}
        self.start = [ranks[kind] for kind in types]
        self.best_leaf: Leaf = ()
        self.best_order: list[int] = []
        self.first_leaf: Leaf | None = None
        self.first_order: list[int] = []
        self.automorphisms: list[list[int]] = []

    def run(self) -> None:
        self._descend(self._refine(self.start), [])

    def _refine(self, colours: list[int]) -> list[int]:
        """Split colours by the colours of predecessors and successors until nothing splits any more."""
        count = len(set(colours))
        while True:
            signatures = [
                (
                    colours[node],
                    tuple(sorted(colours[other] for other in self.before[node])),
                    tuple(sorted(colours[other] for other in self.after[node])),
                )
                for node in range(self.size)
            ]
            ranks = {signature: rank for rank, signature in enumerate(sorted(set(signatures)))}
            colours = [ranks[signature] for signature in signatures]
            if len(ranks) == count:
                return colours
            count = len(ranks)

    def _descend(self, colours: list[int], path: list[int]) -> int | None:
        """Search below ``path``; a returned depth means: symmetry found, jump back to that depth."""
        cell = self._first_ambiguous(colours)
        if not cell:
            return self._visit_leaf(colours, path)
        explored: list[int] = []
        for node in cell:
            if explored and self._same_orbit(node, explored, path):
                continue
            explored.append(node)
            singled = [colour * 2 + 1 for colour in colours]
            singled[node] -= 1
            jump = self._descend(self._refine(singled), [*path, node])
            if jump is not None and jump < len(path):
                return jump
        return None

    def _first_ambiguous(self, colours: list[int]) -> list[int]:
        members: dict[int, list[int]] = {}
        for node, colour in enumerate(colours):
            members.setdefault(colour, []).append(node)
        ambiguous = [(len(nodes), colour) for colour, nodes in members.items() if len(nodes) > 1]
        return members[min(ambiguous)[1]] if ambiguous else []

    def _visit_leaf(self, colours: list[int], path: list[int]) -> int | None:
        leaf = tuple(sorted((colours[a], colours[b]) for a, b in self.edges))
        order = sorted(range(self.size), key=colours.__getitem__)
        if self.first_leaf is None:
            self.first_leaf, self.first_order, self.first_path = leaf, order, path
            self.best_leaf, self.best_order, self.best_path = leaf, order, path
            return None
        for known, known_order, known_path in (
            (self.first_leaf, self.first_order, self.first_path),
            (self.best_leaf, self.best_order, self.best_path),
        ):
            if leaf == known:
                mapping = [0] * self.size
                for here, there in zip(known_order, order, strict=True):
                    mapping[here] = there
                self.automorphisms.append(mapping)
                return next(
                    (depth for depth, (a, b) in enumerate(zip(known_path, path, strict=False)) if a != b), len(path)
                )
        if leaf < self.best_leaf:
            self.best_leaf, self.best_order, self.best_path = leaf, order, path
        return None

    def _same_orbit(self, node: int, explored: list[int], path: list[int]) -> bool:
        """Whether a known symmetry that fixes ``path`` maps ``node`` onto an explored one."""
        parent = list(range(self.size))

        def find(x: int) -> int:
            while parent[x] != x:
                parent[x] = parent[parent[x]]
                x = parent[x]
            return x

        for mapping in self.automorphisms:
            if all(mapping[fixed] == fixed for fixed in path):
                for x in range(self.size):
                    parent[find(x)] = find(mapping[x])
        root = find(node)
        return any(find(other) == root for other in explored)
