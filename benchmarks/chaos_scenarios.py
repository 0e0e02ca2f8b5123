"""The scenarios of ``flink_chaos.py``: each makes one thing go wrong while ``streamtune tune --watch`` is at work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from chaos_faults import (
    ClusterOverHosts,
    a_zookeeper,
    high_availability,
    link,
    on_host,
    over_hosts,
    unwritable,
)
from chaos_site import Stage, settings_of, wait_for

from streamtune.labs.flink import FlinkDistribution, LocalCluster
from streamtune.labs.hosts.network import HostNetwork

AWAY_S = 4.0
CUT_S = 20.0
SLOW_S = 15.0
SLOW_MBIT = 0.1
OLDEST_CHECKPOINT_S = 5.0


def until_measuring(stage: Stage) -> None:
    """Start ``tune`` and wait until it is in the middle of its first window."""
    tune = stage.start_tune()
    tune.wait_for("attached")
    time.sleep(6.0)  # 4 s until the job is settled, 6 s of measuring


def until_sent(stage: Stage) -> None:
    """Wait for the moment at which the first change has reached Flink."""
    stage.watch.wait_for("deploying")

    def sent() -> bool:
        return any(bounds.upper > 1 for bounds in stage.client.resource_requirements(stage.job_id).values())

    wait_for(sent, "the change", every_s=0.02)


def another_task_manager(stage: Stage, lost: int) -> None:
    stage.cluster.kill(f"taskmanager-{lost}")
    stage.fault(f"TaskManager {lost} is killed (-9)")
    time.sleep(AWAY_S)
    stage.cluster.start_task_manager(lost + 1)
    stage.fault("another TaskManager is started")


def changed_since(stage: Stage, events: int) -> None:
    """``tune`` goes on by itself: a change is made after the first ``events`` of its trail."""
    stage.watch.wait_for("deployed", after=events)


def killed_while_measuring(stage: Stage) -> None:
    stage.submit()
    until_measuring(stage)
    before = len(stage.watch.events())
    another_task_manager(stage, 1)
    stage.expect(not stage.watch.events("deploying"), "a change was made before the fault")
    stage.watch.wait_for("not_ready", after=before)
    changed_since(stage, before)


def killed_while_rescaling(stage: Stage) -> None:
    stage.submit()
    stage.start_tune()
    until_sent(stage)
    before = len(stage.watch.events())
    stage.expect(not stage.watch.events("deployed"), "the change was there before the fault")
    another_task_manager(stage, 1)
    stage.watch.wait_for("deployed", "failed", after=before)


def job_manager_lost(stage: Stage) -> None:
    """Without high availability the job is gone: said, waited for, and followed once it is there again."""
    stage.submit()
    until_measuring(stage)
    wait_for(lambda: stage.client.checkpoints(stage.job_id).counts.completed >= 3, "three checkpoints")
    checkpoint = latest_checkpoint(stage)
    old = stage.job_id
    stage.cluster.kill("jobmanager")
    stage.fault("the JobManager is killed (-9)")
    time.sleep(AWAY_S)
    stage.cluster.start_job_manager()
    stage.fault("the JobManager is started again")
    ended = stage.watch.wait_for("ended")
    stage.expect("is gone" in ended["error"], f"what was said of the lost job: {ended['error']}")
    wait_for(lambda: stage.client.overview().slots_total > 0, "the TaskManager's return")
    stage.submit(checkpoint())
    stage.fault("the job is submitted again from its last checkpoint")
    followed = stage.watch.wait_for("followed")
    stage.expect((followed["from"], followed["to"]) == (old, stage.job_id), f"followed {followed}")
    changed_since(stage, len(stage.watch.events()) - 1)


def latest_checkpoint(stage: Stage) -> Callable[[], str]:
    """The newest checkpoint that is whole on disk, asked for when the JobManager is gone."""
    folder = stage.cluster.folder / "checkpoints" / stage.job_id

    def newest() -> str:
        whole = [path.parent for path in folder.glob("chk-*/_metadata")]
        return max(whole, key=lambda path: int(path.name.removeprefix("chk-"))).as_uri()

    return newest


def job_manager_restarted(stage: Stage) -> None:
    """With high availability the same job goes on under the new JobManager."""
    stage.submit()
    until_measuring(stage)
    before = len(stage.watch.events())
    stage.cluster.kill("jobmanager")
    stage.fault("the JobManager is killed (-9)")
    time.sleep(AWAY_S)
    stage.cluster.start_job_manager()
    stage.fault("the JobManager is started again")
    changed_since(stage, before)
    stage.expect(not stage.watch.events("ended", "followed"), "the job was taken for lost")


def link_cut(stage: Stage) -> None:
    """The host of the job's tasks cannot be reached in the middle of a measurement; later it is there again."""
    stage.submit()
    until_measuring(stage)
    before = len(stage.watch.events())
    network, host = hosts_of(stage), stage.task_manager
    link(network, host, "down")
    stage.fault(f"the link of TaskManager {host}, where the job runs, is cut for {CUT_S:g} s")
    time.sleep(CUT_S)
    link(network, host, "up")
    stage.fault("the link is there again")
    wait_for(lambda: stage.client.overview().slots_total == 4, "the TaskManager's return")
    changed_since(stage, before)


def link_slow(stage: Stage) -> None:
    """All links are slow while a change is on its way."""
    stage.submit()
    stage.start_tune()
    until_sent(stage)
    network = hosts_of(stage)
    network.limit(SLOW_MBIT)
    stage.fault(f"all links take {1000 * SLOW_MBIT:g} kbit/s for {SLOW_S:g} s")
    time.sleep(SLOW_S)
    network.limit(100.0)
    stage.fault("the links are fast again")
    stage.watch.wait_for("deployed", "failed")


def hosts_of(stage: Stage) -> HostNetwork:
    assert isinstance(stage.cluster, ClusterOverHosts)
    return stage.cluster.network


def checkpoints_fail(stage: Stage) -> None:
    """No job is rescaled that could not go on from a young checkpoint; once it could, it is."""
    stage.submit()
    with unwritable(stage.cluster.folder / "checkpoints"):
        stage.fault("the folder of checkpoints is read-only")
        failed = stage.client.checkpoints(stage.job_id).counts.failed
        wait_for(lambda: stage.client.checkpoints(stage.job_id).counts.failed > failed, "a failed checkpoint")
        tune = stage.start_tune(max_checkpoint_age_s=OLDEST_CHECKPOINT_S)
        refused = tune.wait_for("refused")
        stage.expect("checkpoint" in refused["error"], f"refused because of {refused['error']}")
        time.sleep(2.0)
        before = len(tune.events())
        stage.expect(not tune.events("deployed"), "a change was made without a young checkpoint")
        stage.expect(set(stage.degrees.values()) == {1}, f"the job runs with {stage.degrees}")
    stage.fault("it can be written again")
    changed_since(stage, before)


def slots_vanish(stage: Stage) -> None:
    """Half of the slots go for good while a plan that needs more is on its way: another plan fits what is left."""
    stage.submit()
    stage.start_tune(timeout_s=12.0)
    until_sent(stage)
    before = len(stage.watch.events())
    stage.cluster.kill("taskmanager-2")
    stage.fault("TaskManager 2 is gone for good: 2 of 4 slots are left")
    failed = stage.watch.wait_for("failed", after=before)
    stage.expect("work" in failed["error"], f"what was said of the missing slots: {failed['error']}")
    changed_since(stage, before)
    wait_for(lambda: max(stage.degrees.values()) == 2, "a plan for the slots that are left")


@dataclass(frozen=True)
class Scenario:
    """What is done, on which cluster, to which job."""

    title: str
    play: Callable[[Stage], None]
    cluster: Callable[[Path], AbstractContextManager[LocalCluster]]
    records: int = 9000


@contextmanager
def plain(folder: Path, **settings: object) -> Iterator[LocalCluster]:
    with LocalCluster(folder / "cluster", settings_of(**settings), FlinkDistribution.find()) as cluster:
        yield cluster


@contextmanager
def two_task_managers(folder: Path) -> Iterator[LocalCluster]:
    with plain(folder, slots=2, task_managers=2) as cluster:
        yield cluster


@contextmanager
def with_high_availability(folder: Path) -> Iterator[LocalCluster]:
    distribution = FlinkDistribution.find()
    with (
        a_zookeeper(distribution, folder / "zookeeper") as port,
        plain(folder, options=high_availability(port, folder)) as cluster,
    ):
        yield cluster


@contextmanager
def on_hosts(folder: Path) -> Iterator[LocalCluster]:
    """A JobManager and two TaskManagers, each on a host of its own; a plan of more than two needs both."""
    with HostNetwork(3) as network, on_host(network, 0):
        settings = settings_of(slots=2, task_managers=2, options=over_hosts(network))
        cluster = ClusterOverHosts(folder / "cluster", settings, FlinkDistribution.find())
        cluster.network = network
        with cluster:
            yield cluster


SCENARIOS = {
    "tm-measuring": Scenario("TaskManager killed while measuring", killed_while_measuring, plain),
    "tm-rescaling": Scenario("TaskManager killed in a live rescale", killed_while_rescaling, plain),
    "jm-without-ha": Scenario("JobManager restarted, no high availability", job_manager_lost, plain),
    "jm-with-ha": Scenario("JobManager restarted, high availability", job_manager_restarted, with_high_availability),
    "link-cut": Scenario("network between hosts cut for 20 s", link_cut, on_hosts),
    "link-slow": Scenario("network between hosts slow for 15 s", link_slow, on_hosts),
    "checkpoints": Scenario("checkpoints fail", checkpoints_fail, plain),
    "slots": Scenario("slots vanish", slots_vanish, two_task_managers, records=7000),
}
