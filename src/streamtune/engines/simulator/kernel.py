"""The compiled time step: records as a fluid over bounded buffers.

One step of ``step_s`` seconds serves the operators from the sinks to the sources, so that room freed downstream can
be used upstream at once. An operator takes records from its input buffers as fast as its capacity allows, and stops
where an output buffer is full: the rest of its step is backpressured time if it still had records to serve, idle time
if not. Buffers fill, and so backpressure spreads upstream without any rule that says so.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# Columns of the per-operator accumulators.
BUSY, BLOCKED, TAKEN, EMITTED = range(4)
_TINY = 1e-9


@njit(cache=True, nogil=True)
def run_steps(
    noise: np.ndarray,  # (steps, 3, n) standard normal: fast, slow, source rate
    step_s: float,
    start_s: float,  # seconds since records began to flow, at the first step
    warmup_s: float,
    warmup_slowdown: float,
    order: np.ndarray,  # (n) sinks first
    capacity: np.ndarray,  # (n) records/s of the operator at its parallelism, hottest subtask included
    selectivity: np.ndarray,  # (n)
    hot_factor: np.ndarray,  # (n)
    fast_cv: np.ndarray,  # (n)
    drift_cv: float,
    drift_keep: float,  # autocorrelation of the slow variation over one step
    source_rate: np.ndarray,  # (n) records/s, 0 for operators other than sources
    is_source: np.ndarray,  # (n) bool
    rate_cv: float,
    backlog_s: float,
    period_s: np.ndarray,  # (n) seconds between firings, 0 where nothing fires
    fire_share: np.ndarray,  # (n)
    in_start: np.ndarray,  # (n + 1) CSR over in_edges
    in_edges: np.ndarray,
    out_start: np.ndarray,  # (n + 1) CSR over out_edges
    out_edges: np.ndarray,
    edge_share: np.ndarray,  # (e) part of the writer's output that goes over an edge
    room_total: np.ndarray,  # (e) records an edge's buffer holds
    queue: np.ndarray,  # (e) state: records waiting on an edge
    lag: np.ndarray,  # (n) state: records waiting in front of a source
    drift: np.ndarray,  # (n) state: slow variation
    gathered: np.ndarray,  # (n) state: records in the window since it last fired
    to_fire: np.ndarray,  # (n) state: records whose firing work is still to do
    sums: np.ndarray,  # (n, 4) busy_s (hottest subtask), blocked_s, taken, emitted
    queue_sum: np.ndarray,  # (e) integral of the queue over time
    lag_sum: np.ndarray,  # (n) integral of the lag over time
    flow: np.ndarray,  # (e) records taken from an edge
) -> None:
    slow_push = drift_cv * math.sqrt(max(0.0, 1.0 - drift_keep * drift_keep))
    for step in range(noise.shape[0]):
        now = start_s + step * step_s
        warm = 1.0 if warmup_s <= 0 else 1.0 - warmup_slowdown * math.exp(-now / warmup_s)
        for position in range(order.shape[0]):
            v = order[position]
            drift[v] = drift_keep * drift[v] + slow_push * noise[step, 1, v]
            cv = fast_cv[v]
            slower = math.exp(cv * noise[step, 0, v] - 0.5 * cv * cv + drift[v] - 0.5 * drift_cv * drift_cv)
            speed = capacity[v] * warm / slower
            room = np.inf
            for k in range(out_start[v], out_start[v + 1]):
                edge = out_edges[k]
                room = min(room, max(0.0, room_total[edge] - queue[edge]) / edge_share[edge])

            time_left = step_s
            emitted = 0.0
            blocked = False
            if period_s[v] > 0.0:
                if math.floor((now + step_s) / period_s[v] + _TINY) > math.floor(now / period_s[v] + _TINY):
                    to_fire[v] += gathered[v]
                    gathered[v] = 0.0
                if to_fire[v] > 0.0:
                    share = fire_share[v]
                    work = to_fire[v]
                    if share > 0.0:
                        work = min(work, time_left * speed / share)
                    if selectivity[v] > 0.0 and work * selectivity[v] > room:
                        work = room / selectivity[v]
                        blocked = True
                    to_fire[v] -= work
                    emitted += work * selectivity[v]
                    time_left = max(0.0, time_left - work * share / speed)

            taken = 0.0
            if not blocked:
                per_record = (1.0 - fire_share[v]) / speed if period_s[v] > 0.0 else 1.0 / speed
                able = time_left / per_record
                if is_source[v]:
                    rate = source_rate[v] * max(0.0, 1.0 + rate_cv * noise[step, 2, v])
                    waiting = lag[v] + rate * step_s
                else:
                    waiting = 0.0
                    for k in range(in_start[v], in_start[v + 1]):
                        waiting += queue[in_edges[k]]
                taken = min(waiting, able)
                if period_s[v] <= 0.0 and selectivity[v] > 0.0 and taken * selectivity[v] > room - emitted:
                    taken = max(0.0, room - emitted) / selectivity[v]
                    blocked = True
                time_left = max(0.0, time_left - taken * per_record)
                if is_source[v]:
                    lag[v] = min(waiting - taken, backlog_s * source_rate[v])
                elif taken > 0.0:
                    for k in range(in_start[v], in_start[v + 1]):
                        edge = in_edges[k]
                        part = taken * (queue[edge] / waiting)
                        queue[edge] = max(0.0, queue[edge] - part)
                        flow[edge] += part
                if period_s[v] > 0.0:
                    gathered[v] += taken
                else:
                    emitted += taken * selectivity[v]
            elif is_source[v]:
                lag[v] = min(lag[v] + source_rate[v] * step_s, backlog_s * source_rate[v])

            for k in range(out_start[v], out_start[v + 1]):
                queue[out_edges[k]] += emitted * edge_share[out_edges[k]]
            busy = step_s - time_left
            sums[v, BUSY] += busy
            if blocked:
                sums[v, BLOCKED] += step_s - busy / hot_factor[v]
            sums[v, TAKEN] += taken
            sums[v, EMITTED] += emitted
            lag_sum[v] += lag[v] * step_s
        for edge in range(queue.shape[0]):
            queue_sum[edge] += queue[edge] * step_s
