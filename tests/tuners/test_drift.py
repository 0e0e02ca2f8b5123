"""Old observations must not freeze a belief: what changes after thousands of windows is noticed within three."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tuners.drifting import CHANGES, NOTHING, Change, followed, settled


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.what)
def test_a_change_after_two_thousand_windows_is_noticed_within_three(change: Change) -> None:
    """1,000 records/s at 125/s each need 8 (as do 2,000 at 250/s), at 500/s each 2; a third more is certainty."""
    noise = np.random.default_rng(0)
    degrees = followed(settled(noise), change, noise)
    assert change.least <= degrees[-1] <= math.ceil(change.least * 4 / 3) + 1, f"{change}: {degrees}"


@pytest.mark.slow
def test_what_does_not_change_is_not_changed() -> None:
    noise = np.random.default_rng(1)
    assert set(followed(settled(noise), NOTHING, noise)) <= {4, 5}
