"""Service by sleeping, on a clock that oversleeps: rates and busy time stay those of the physics."""

from __future__ import annotations

import pytest

from streamtune.dataflow.physics import OperatorPhysics
from streamtune.engines.timely import service
from streamtune.engines.timely.service import ServiceClock


class DrowsyTime:
    """Time that passes only in sleeps, each of which takes too long."""

    def __init__(self, too_long_s: float) -> None:
        self.now_s = 0.0
        self._too_long_s = too_long_s

    def perf_counter(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds + self._too_long_s


@pytest.fixture(params=[0.0, 0.002, 0.020], ids=lambda too_long_s: f"{too_long_s * 1000:g}ms")
def drowsy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> DrowsyTime:
    found = DrowsyTime(request.param)
    monkeypatch.setattr(service, "time", found)
    return found


def test_an_instance_with_little_to_do_is_busy_for_as_long_as_its_records_take(drowsy: DrowsyTime) -> None:
    """100 turns of 5 records of 2 ms are one second of work, and at most 5 ms more that nobody has asked for yet."""
    clock = ServiceClock(OperatorPhysics(service_us=2000), 1, quantum_s=0.02, seed=0)
    for _ in range(100):
        clock.serve(5)
        clock.end(clock.begin(), more_waits=False)
        drowsy.now_s += 0.1
    assert clock.busy_s == pytest.approx(1.0, abs=0.0051)


def test_an_instance_that_falls_behind_serves_at_its_rate_and_is_busy_all_the_time(drowsy: DrowsyTime) -> None:
    """500 records/s for 10 s, however late each sleep ends."""
    clock = ServiceClock(OperatorPhysics(service_us=2000), 1, quantum_s=0.02, seed=0)
    served = 0
    while drowsy.now_s < 10:
        began_s = clock.begin()
        room = clock.room()
        clock.serve(room)
        served += room
        clock.end(began_s, more_waits=True)
    assert served == pytest.approx(500 * drowsy.now_s, rel=0.01)
    assert clock.busy_s == pytest.approx(drowsy.now_s, rel=0.01)
