"""A real Flink, started once: the engine contract, plan import, rescaling, exactly-once, tuning, faults.

STREAMTUNE_FLINK_HOME chooses another Flink than the installed one; ``make test-flink-versions`` uses that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from engines.flink.real_cluster import SideBySide, Site
from engines.flink.scenarios import (
    ON_A_BROKEN_CLUSTER,
    ON_AN_ADAPTIVE_CLUSTER,
    a_task_manager_dies_in_a_live_rescale,
)
from streamtune.labs.flink import ClusterSettings, FlinkDistribution, LocalCluster
from streamtune.labs.flink.cluster import free_port

pytestmark = pytest.mark.slow

# Rates, latencies and times to come back are measured in real time: what a busy machine spoils is tried again.
# Whatever is right or wrong whatever the time it takes (a record lost, a plan misread) is not.
TIMELESS = {"exactly_once_live", "exactly_once_restart", "import_datastream", "limits", "failing_job"}


def scenarios(names: Iterable[str]) -> list[ParameterSet]:
    again = pytest.mark.flaky(reruns=1, only_rerun=["AssertionError"])
    return [pytest.param(name, marks=() if name in TIMELESS else again, id=name) for name in names]


def _chosen(request: pytest.FixtureRequest, names: list[str]) -> list[str]:
    """Only what was asked for on pytest's command line is started."""
    asked = {item.callspec.params["name"] for item in request.session.items if hasattr(item, "callspec")
             and "name" in item.callspec.params}  # fmt: skip
    return [name for name in names if name in asked]


@pytest.fixture(scope="module")
def side_by_side(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SideBySide]:
    distribution = FlinkDistribution.find()
    settings = ClusterSettings(port=free_port(), slots=120, network_mb=256, start_timeout_s=180)
    with LocalCluster.temporary(settings, distribution) as cluster:
        site = Site(cluster, distribution, tmp_path_factory.mktemp("flink"))
        chosen = {name: ON_AN_ADAPTIVE_CLUSTER[name] for name in _chosen(request, list(ON_AN_ADAPTIVE_CLUSTER))}
        with SideBySide(site, chosen) as running:
            yield running
        processes = cluster.processes()
    assert processes
    assert not any(process.is_running(cluster.folder) for process in processes)
    assert not cluster.folder.exists()


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    distribution = FlinkDistribution.find()
    settings = ClusterSettings(
        port=free_port(), slots=4, task_managers=2, scheduler="default", task_heap_mb=160, network_mb=32,
        start_timeout_s=180,
    )  # fmt: skip
    with LocalCluster.temporary(settings, distribution) as cluster:
        yield Site(cluster, distribution, Path(tmp_path_factory.mktemp("fragile")))


@pytest.mark.parametrize("name", scenarios(ON_AN_ADAPTIVE_CLUSTER))
def test_on_an_adaptive_cluster(side_by_side: SideBySide, name: str) -> None:
    side_by_side.wait(name)


def test_a_task_manager_dies_in_the_middle_of_a_live_rescale(side_by_side: SideBySide) -> None:
    a_task_manager_dies_in_a_live_rescale(side_by_side.site)


@pytest.mark.parametrize("name", scenarios(ON_A_BROKEN_CLUSTER))
def test_on_a_broken_cluster(fragile: Site, name: str) -> None:
    ON_A_BROKEN_CLUSTER[name](fragile)
