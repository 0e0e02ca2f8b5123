"""The balance of threads, cores and throughput on shared hosts, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

_ENOUGH = 1e-6


@njit(cache=True, nogil=True)
def settle(
    order: np.ndarray,  # (n) sinks first
    in_start: np.ndarray,  # (n + 1) CSR over in_edges
    in_edges: np.ndarray,
    out_start: np.ndarray,  # (n + 1) CSR over out_edges
    out_edges: np.ndarray,
    edge_source: np.ndarray,  # (e)
    edge_target: np.ndarray,  # (e)
    load: np.ndarray,  # (n) of the operator's chain: busy instances ÷ instances at reference speed, at full demand
    heads: np.ndarray,  # (n)
    emitted: np.ndarray,  # (n) records/s at full demand
    placed: np.ndarray,  # (n, h) instances
    clock: np.ndarray,  # (h) speed of a core
    cores: np.ndarray,  # (h)
    link: float,  # share of the demand that the links carry
    rounds: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Speed of every operator's slowest instance, and the share of its demand that reaches it.

    What limits an operator limits all that feed it; what gets through makes threads busy; busy threads share cores.
    """
    n, h = placed.shape
    share = np.ones(h)
    speed = np.ones(n)
    passing = np.ones(n)
    flow = np.ones(n)
    for _ in range(rounds):
        for v in range(n):
            slowest = np.inf
            for host in range(h):
                if placed[v, host] > 0:
                    slowest = min(slowest, clock[host] * share[host])
            speed[v] = slowest
        for position in range(n):
            v = order[position]
            able = min(1.0, link)
            if load[v] > 0.0:
                able = min(able, speed[v] / load[v])
            for k in range(out_start[v], out_start[v + 1]):
                able = min(able, passing[edge_target[out_edges[k]]])
            passing[v] = able
        for position in range(n - 1, -1, -1):
            v = order[position]
            if in_start[v] == in_start[v + 1]:
                flow[v] = passing[v]
                continue
            wanted, got = 0.0, 0.0
            for k in range(in_start[v], in_start[v + 1]):
                u = edge_source[in_edges[k]]
                wanted += emitted[u]
                got += emitted[u] * flow[u]
            flow[v] = got / wanted if wanted > 0.0 else 1.0
        moved = 0.0
        for host in range(h):
            running = 0.0
            for v in range(n):
                if heads[v] == v:
                    running += placed[v, host] * min(1.0, flow[v] * load[v] / speed[v])
            settled = min(1.0, cores[host] / running) if running > 0.0 else 1.0
            moved = max(moved, abs(settled - share[host]))
            share[host] = np.sqrt(share[host] * settled)  # halfway, in logarithms: the plain step can swing
        if moved < _ENOUGH:
            break
    return speed, flow
