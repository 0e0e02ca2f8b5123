"""METIS itself (Karypis and Kumar), as it comes inside pymetis: k-way and recursive, several constraints at once.

``pymetis.part_graph`` has one weight per vertex and no bound per constraint. The library it carries has both, so it is
called directly (``METIS_PartGraphKway`` of the METIS 5 manual); where its symbols are hidden, pymetis' own function
serves with the first constraint alone.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from streamtune.placement.graph import Adjacency, Floats, Ints, PlacementError
from streamtune.placement.quiet import quiet_stdout

_OPTIONS = 40  # METIS_NOPTIONS
_OK = 1
_EDGE_SCALE = 1_000_000
_VERTEX_SCALE = 1_000


@lru_cache(maxsize=1)
def _library() -> Any | None:
    import pymetis._internal as internal

    library = ctypes.CDLL(internal.__file__)
    return library if hasattr(library, "METIS_PartGraphKway") else None


def _options(seed: int, volume: bool, ufactor: int, cuts: int) -> Any:
    import pymetis

    options = pymetis.Options(seed=seed % 2**31, numbering=0, ufactor=ufactor, ncuts=cuts)
    if volume:
        options.objtype = int(pymetis.ObjType.VOL)
    return options


def partition(
    adjacency: Adjacency,
    weights: Floats,
    parts: int,
    *,
    shares: Floats | None = None,
    imbalance: float | Floats = 1.03,
    recursive: bool = False,
    volume: bool = False,
    seed: int = 0,
    cuts: int = 1,
) -> Ints:
    """Parts 0 … parts − 1 of all vertices. ``weights`` is n × c (c constraints), ``shares`` parts × c.

    >>> path = Adjacency(np.array([0, 1, 3, 5, 6]), np.array([1, 0, 2, 1, 3, 2]), np.array([9.0, 9, 1, 1, 9, 9]))
    >>> found = partition(path, np.ones((4, 1)), 2)
    >>> bool(found[0] == found[1] and found[2] == found[3] and found[0] != found[2])
    True
    """
    count = adjacency.indptr.size - 1
    if parts == 1:
        return np.zeros(count, dtype=np.int64)
    weighted = _whole(weights)
    edges = _whole_edges(adjacency.weights)
    constraints = weighted.shape[1]
    bounds = np.maximum(1.001, np.broadcast_to(imbalance, constraints)).astype(np.float32)
    ufactor = max(1, round((float(bounds[0]) - 1) * 1000))
    options = _options(seed, volume, ufactor, cuts)
    library = _library()
    if library is None:
        return _by_pymetis(adjacency, weighted, edges, parts, shares, recursive, options)
    target = None if shares is None else np.ascontiguousarray(shares / shares.sum(axis=0), dtype=np.float32)
    found, cut = np.zeros(count, dtype=np.int64), np.zeros(1, dtype=np.int64)
    sizes = [np.array([value], dtype=np.int64) for value in (count, constraints, parts)]
    call = library.METIS_PartGraphRecursive if recursive else library.METIS_PartGraphKway
    call.restype = ctypes.c_int
    arrays = (sizes[0], sizes[1], adjacency.indptr, adjacency.indices, weighted, None, edges, sizes[2], target, bounds)
    with quiet_stdout():
        status = call(*map(_pointer, (*arrays, _raw_options(library, options), cut, found)))
    if status != _OK:
        raise PlacementError(f"METIS could not partition {count} tasks into {parts} parts (status {status})")
    return found


def _raw_options(library: Any, options: Any) -> Ints:
    import pymetis

    raw = np.zeros(_OPTIONS, dtype=np.int64)
    library.METIS_SetDefaultOptions(_pointer(raw))
    for key in ("SEED", "NUMBERING", "UFACTOR", "NCUTS", "OBJTYPE"):
        place = int(getattr(pymetis.OptionKey, key))
        value = options._get(place)
        if value != -1:
            raw[place] = value
    return raw


def _pointer(array: npt.NDArray[Any] | None) -> Any:
    return None if array is None else array.ctypes.data_as(ctypes.c_void_p)


def _by_pymetis(
    adjacency: Adjacency, weights: Ints, edges: Ints, parts: int, shares: Floats | None, recursive: bool, options: Any
) -> Ints:
    import pymetis

    graph = pymetis.CSRAdjacency(adjacency.indptr, adjacency.indices)
    wanted = None if shares is None else (shares[:, 0] / shares[:, 0].sum()).tolist()
    first = np.ascontiguousarray(weights[:, 0])
    result = pymetis.part_graph(
        parts, graph, vweights=first, eweights=edges, tpwgts=wanted, recursive=recursive, options=options
    )
    return np.asarray(result.vertex_part, dtype=np.int64)


def _whole(weights: Floats) -> Ints:
    """METIS takes whole numbers; 1,000 steps per mean weight lose less than its own tolerance."""
    means = weights.mean(axis=0)
    scaled = np.rint(weights / np.where(means > 0, means, 1.0) * _VERTEX_SCALE)
    scaled[:, means == 0] = 1
    return np.ascontiguousarray(scaled, dtype=np.int64)


def _whole_edges(weights: Floats) -> Ints:
    if weights.size == 0:
        return np.zeros(0, dtype=np.int64)
    whole: Ints = np.maximum(1, np.rint(weights / weights.max() * _EDGE_SCALE)).astype(np.int64)
    return whole
