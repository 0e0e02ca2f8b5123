"""The first k of every group, against sorting everything."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamtune.sundog.kernels.compilation import read_only
from streamtune.sundog.kernels.ordering import first_of_groups

# Few different values, so that there are ties of every kind.
ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 3), st.integers(1, 3)), max_size=60
)


@given(ROWS, st.integers(1, 5))
def test_as_by_sorting(rows: list[tuple[int, float, int, int]], most: int) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    order = sorted(range(len(rows)), key=lambda n: (rows[n][0], -rows[n][1], -rows[n][2], -rows[n][3], n))
    expected: list[tuple[int, int]] = []
    for place, number in enumerate(order):
        rank = 1 + sum(rows[other][0] == rows[number][0] for other in order[:place])
        expected += [(number, rank)] if rank <= most else []
    kinds = (np.int32, np.float32, np.int64, np.int64)
    columns = [read_only(np.array([row[n] for row in rows], kind)) for n, kind in enumerate(kinds)]
    chosen, rank_of = first_of_groups(*columns, most)
    assert list(zip(chosen.tolist(), rank_of.tolist(), strict=True)) == expected
