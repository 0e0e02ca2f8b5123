"""The study's names and parts, without running it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from streamtune.errors import StreamTuneError
from streamtune.experiments.names import SUNDOG, SUNDOG_REAL, check_experiments
from streamtune.experiments.sundog.arena import SundogArena, SundogStudy
from streamtune.experiments.sundog.experiments import chosen
from streamtune.experiments.sundog.rankings import p_value, setups


def arena(work: Path) -> SundogArena:
    return SundogArena(cast("Any", None), SundogStudy.quick(), work)


def test_every_name_has_an_experiment(tmp_path: Path) -> None:
    assert list(chosen(["sundog"], arena(tmp_path), tmp_path)) == [*SUNDOG, *SUNDOG_REAL]
    assert list(chosen(["sundog"], arena(tmp_path), None)) == SUNDOG


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["sundog-fig9"], "unknown experiment 'sundog-fig9'"),
        (["sundog", "fig6"], "different papers one after the other"),
        (["sundog-spark-commits"], "give its folder with --real-data"),
    ],
)
def test_bad_names_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(StreamTuneError, match=message):
        check_experiments(names)


def test_fifteen_rankings() -> None:
    made = setups((1, 7, 30))
    assert len(made) == len(set(made)) == 15, "thesis, Section 4.1: all 15 ranking files of a day"


def test_paired_t_test() -> None:
    # Differences 1, 2, 3: mean 2, standard error 1/√3, t = 3.464, two-sided with 2 degrees of freedom: p = 0.0742.
    assert p_value(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx(0.0742, abs=1e-4)
    assert p_value(np.ones(3), np.ones(3)) == 1.0
