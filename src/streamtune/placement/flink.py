"""Placement and Flink: where Flink itself puts subtasks, what can be told it, and what cannot.

True of Flink (tried on 2.3): subtask i of all vertices of a slot sharing group runs in one slot, so what goes from
i to i is local already. A single subtask of a parallel operator cannot be steered to a host. A slot sharing group can:
a job in which every task instance is an operator of its own with parallelism 1 can be placed exactly.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamtune.placement.graph import CommunicationGraph, Ints, PlacementError
from streamtune.placement.interface import findings, with_pins
from streamtune.placement.problem import Placement, Problem

SECONDS_PER_MONTH = 30 * 86_400


class FlinkDefault:
    """What Flink does by itself: slot i holds subtask i of every operator, and slots are dealt to the hosts in turn."""

    name = "flink"

    def place(self, problem: Problem) -> Placement:
        start = time.perf_counter()
        part = with_pins(problem, instance_numbers(problem.graph) % len(problem.hosts))
        return problem.place(part, self.name, time.perf_counter() - start, notes=findings(problem, part))


def instance_numbers(graph: CommunicationGraph) -> Ints:
    """The number of each task among the instances of its operator."""
    if graph.operators is None:
        raise PlacementError(
            "scheduler 'flink' needs to know the operator of every task: add \"operator\" to the tasks"
        )
    seen: dict[str, int] = {}
    numbers = np.empty(len(graph), dtype=np.int64)
    for place, operator in enumerate(graph.operators):
        numbers[place] = seen.get(operator, 0)
        seen[operator] = int(numbers[place]) + 1
    return numbers


def slot_sharing_groups(placed: Placement) -> dict[str, Any]:
    """What has to go into an unrolled Flink job and its TaskManagers so that it runs as placed.

    One slot per TaskManager; the external resource pins a group to one particular host. The default scheduler honours
    both, the adaptive one keeps the groups together and ignores the pins.
    """
    groups: dict[str, list[str]] = {name: [] for name in placed.problem.hosts.names}
    for task, host in placed.assignment.items():
        groups[host].append(task)
    used = {host: tasks for host, tasks in groups.items() if tasks}
    return {
        "groups": {
            host: {
                "tasks": tasks,
                "external_resource": _resource(host),
                "java": f'SlotSharingGroup.newBuilder("{host}").setCpuCores(0.1).setTaskHeapMemoryMB(48)'
                f'.setExternalResource("{_resource(host)}", 1.0).build()',
                "taskmanager": {
                    "external-resources": _resource(host),
                    f"external-resource.{_resource(host)}.amount": "1",
                    "taskmanager.numberOfTaskSlots": "1",
                },
            }
            for host, tasks in used.items()
        },
        "task_groups": placed.assignment,
        "how": "One operator of parallelism 1 per task, chaining off: operator.slotSharingGroup(<its group>). "
        "jobmanager.scheduler must be 'default': the adaptive scheduler ignores the pins.",
    }


def _resource(host: str) -> str:
    return "host" + "".join(letter if letter.isalnum() else "_" for letter in host)


@dataclass(frozen=True)
class Advice:
    """One thing that can be done, and what it would save (bytes/s between hosts) where that can be said."""

    text: str
    saves_bytes_per_s: float | None = None


def advice(
    placed: Placement, all_to_all: Sequence[tuple[str, str]] = (), keyed_alike: Sequence[tuple[str, str]] = ()
) -> list[Advice]:
    """What can truly be done for an ordinary Flink job whose default placement this is."""
    graph, hosts = placed.problem.graph, placed.problem.hosts
    found = [
        Advice(
            "Flink already puts subtask i of all operators into one slot: what goes from i to i is local "
            f"({_share(1 - placed.remote_share)} of the bytes here). Single subtasks cannot be pinned to a host."
        )
    ]
    fewer = len(hosts) // 2
    if fewer >= 1 and placed.remote_bytes_per_s > 0:
        numbers = instance_numbers(graph) % fewer
        remote = float(graph.bytes_per_s[numbers[graph.sources] != numbers[graph.targets]].sum())
        saved = placed.remote_bytes_per_s - remote
        text = f"Run fewer, larger TaskManagers: {fewer} instead of {len(hosts)} with as many slots in all."
        found.append(Advice(text, saved))
    found.extend(_reshuffles(placed, keyed_alike))
    if len(hosts.zone_names) > 1 and placed.cross_zone_bytes_per_s > 0:
        text = "Keep all TaskManagers of the job in one zone (node affinity): nothing crosses zones then."
        found.append(Advice(text, placed.cross_zone_bytes_per_s))
    if all_to_all:
        pairs = ", ".join(f"{a} → {b}" for a, b in all_to_all[:5])
        found.append(
            Advice(f"All-to-all exchanges ({pairs}) send 1 − 1/hosts of their bytes over the network under it.")
        )
    found.append(
        Advice(
            "Leave operators that exchange much in one slot sharing group (the default). A group of its own for one "
            "gives it slots of its own, and all that reaches it may become remote."
        )
    )
    found.append(
        Advice(
            "To place instances exactly, unroll the job: one operator of parallelism 1 per instance, chaining off, "
            "a slot sharing group per host (--slot-groups); the default scheduler honours it, the adaptive one does "
            "not pin."
        )
    )
    return found


def _reshuffles(placed: Placement, keyed_alike: Sequence[tuple[str, str]]) -> list[Advice]:
    """Hash exchanges between operators that are keyed already: worth nothing if the key is the same one."""
    graph = placed.problem.graph
    operators = np.array(graph.operators)
    found = []
    for a, b in keyed_alike:
        edge = (operators[graph.sources] == a) & (operators[graph.targets] == b)
        remote = edge & (placed.part[graph.sources] != placed.part[graph.targets])
        text = (
            f"If {a} and {b} use the same key, do not shuffle again between them "
            "(DataStreamUtils.reinterpretAsKeyedStream): it becomes a forward exchange."
        )
        found.append(Advice(text, float(graph.bytes_per_s[remote].sum())))
    return found


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"
