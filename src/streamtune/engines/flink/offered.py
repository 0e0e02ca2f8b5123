"""What a source is offered, and how that is known: by its lag, by the time it lags behind, or as a guess.

A source that waits for input now and then takes all it is offered. One that is held up does not: how much waits is
known only where somebody counts it (``pendingRecords``), or where records carry their time. Without either, all that is
known is a range: at least what was taken, at most what it would have taken had it never been blocked. A blocked source
that catches up afterwards is offered the lower end, one that loses what it did not emit the upper end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from streamtune.dataflow import OperatorMetrics
from streamtune.dataflow.observation import RateOrigin

# Blocked for less than this, a source is not held up.
_FREE_SHARE = 0.02
# A source that waits for input for this share of its time is not behind for good.
_IDLE_SHARE = 0.05
# A source that is busy for more than this never waits for input.
_NEVER_WAITS = 0.97
# Event time that stands still says only that the source is far behind.
_MOST_BEHIND = 0.9
_TIME_LAG_SD = 0.05
# Standard deviation of a uniform distribution over its width.
_UNIFORM = 1 / math.sqrt(12)


@dataclass(frozen=True)
class Offered:
    """Records/s, how they are known, and the standard deviation of their logarithm."""

    rate_per_s: float
    origin: RateOrigin = "measured"
    sd: float = 0.0


def offered_rate(
    source: OperatorMetrics,
    lag_growth_per_s: float | None = None,
    time_lag_growth: float | None = None,
    *,
    largest_guess: float = 4.0,
) -> Offered:
    """Records/s offered to a source over one window; ``time_lag_growth`` is seconds of lag per second.

    Without any lag, a blocked source is guessed: the middle of the range, on a logarithmic scale. Of a source that
    never waits for input the share of blocked time says nothing, so no guess exceeds ``largest_guess`` times what it
    took.

    >>> held = OperatorMetrics(parallelism=1, records_in_per_s=60, records_out_per_s=60, busy_ms_per_s=100,
    ...                        idle_ms_per_s=0, backpressured_ms_per_s=900)
    >>> offered_rate(held, lag_growth_per_s=40.0)
    Offered(rate_per_s=100.0, origin='lag', sd=0.0)
    >>> offered_rate(held, time_lag_growth=0.4)
    Offered(rate_per_s=100.0, origin='lag', sd=0.05)
    >>> guess = offered_rate(held)
    >>> guess.rate_per_s, guess.origin, round(guess.sd, 2)
    (120.0, 'estimated', 0.4)

    One that is busy all the time takes what it can; that nobody waits behind it is a guess.

    >>> offered_rate(held.model_copy(update={"busy_ms_per_s": 1000, "backpressured_ms_per_s": 0}))
    Offered(rate_per_s=60.0, origin='estimated', sd=0.0)
    """
    taken = source.records_in_per_s
    if lag_growth_per_s is not None:
        return Offered(max(0.0, taken + lag_growth_per_s), "lag")
    blocked = source.backpressured_share if math.isfinite(source.backpressured_share) else _blocked(source)
    if time_lag_growth is not None:
        behind = min(max(time_lag_growth, -1.0), _MOST_BEHIND)
        return Offered(taken / (1 - behind) if behind > 0 else taken, "lag", _TIME_LAG_SD if behind > 0 else 0.0)
    idle = source.idle_ms_per_s / 1000
    if not blocked > _FREE_SHARE:
        # Busy all the time with what is chained to it, it may be offered more than it can read.
        return Offered(taken, "estimated" if source.busy_share > _NEVER_WAITS and idle < _FREE_SHARE else "measured")
    most = 1 / max(1 - blocked, 1 / largest_guess) if idle >= _IDLE_SHARE else largest_guess
    width = math.log(most)
    return Offered(taken * math.exp(width / 2), "estimated", width * _UNIFORM)


def _blocked(source: OperatorMetrics) -> float:
    """Sources of the old kind report no busy time, but how long they were blocked."""
    blocked = source.backpressured_ms_per_s / 1000
    return blocked if math.isfinite(blocked) else 0.0
