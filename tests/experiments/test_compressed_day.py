"""A day in minutes: the foresight thinks in the trace's time, prices keep their proportion to changes."""

from __future__ import annotations

import numpy as np
import pytest

from streamtune.experiments.provisioning import compressed
from streamtune.experiments.provisioning.compressed import CompressedDay, CompressedForesight, CompressedStudy
from streamtune.experiments.provisioning.days import Setting
from streamtune.forecasts.selection import BackTest
from streamtune.forecasts.series import RateSeries


class Remembers:
    """Says what it was asked about."""

    step_s = 900.0

    def coming(self, past: RateSeries) -> np.ndarray:
        self.past = past
        return past.values[-1:]


def test_the_foresight_is_asked_in_the_traces_own_time() -> None:
    inner = Remembers()
    foresight = CompressedForesight(inner, CompressedStudy(minutes=12).compression)
    foresight.coming(RateSeries(np.array([1.0, 2.0]), foresight.step_s, start_s=3600.0))
    assert foresight.step_s == 7.5
    assert (inner.past.step_s, inner.past.start_s, inner.past.end_s) == (900.0, 3600.0, 5400.0)


def test_a_short_day_on_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three days of a step between two rates: DS2 goes along, and the books have the whole last day."""
    hours = np.arange(3 * 24)
    values = np.where(hours % 24 < 12, 1.0, 3.0)
    monkeypatch.setattr(compressed, "epochs_of", lambda _trace, epoch_s: RateSeries(values, epoch_s))
    naive = BackTest("naive", 0.0, {}, {}, 1, ())
    monkeypatch.setattr(compressed, "choose", lambda _past, _settings: [naive])
    study = CompressedStudy(minutes=2, epoch_s=3600.0)
    day = CompressedDay.of("steps", 2, 1, study)
    assert day.rates[-1] / day.rates[0] == pytest.approx(3.0)
    ledger = compressed.simulated_day(day, Setting("ds2"), study)
    assert ledger.minutes >= 24 * 5
    assert ledger.changes >= 1
