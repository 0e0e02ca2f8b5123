"""All instances of a running job with what they share: rates, key spaces, epochs and results."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from streamtune.engines.timely.feed import Feed, Timebase
from streamtune.engines.timely.instance import END_US, Instance, Route
from streamtune.engines.timely.operators import make_core
from streamtune.engines.timely.order import Order
from streamtune.engines.timely.placement import Placement, worker_keys
from streamtune.engines.timely.records import SECOND_US, Record, Selectivities, salt
from streamtune.engines.timely.service import ServiceClock

# From building the dataflow to the first record: time for all workers to come up.
_LEAD_S = 0.3


class EpochLog:
    """When every epoch had reached all last instances."""

    def __init__(self, last_instances: int) -> None:
        self._expected = last_instances
        self._lock = threading.Lock()
        self._reached: Counter[int] = Counter()
        self.completed: list[tuple[int, int]] = []
        self.is_finished = False

    def note(self, before_us: int, frontier_us: int, now_us: int, epoch_us: int) -> None:
        """One instance has advanced from ``before_us`` to ``frontier_us``, perhaps over several epochs."""
        with self._lock:
            if frontier_us == END_US:
                self._reached[END_US] += 1
                self.is_finished = self._reached[END_US] == self._expected
                return
            for end_us in range(before_us + epoch_us, frontier_us + 1, epoch_us):
                self._reached[end_us] += 1
                if self._reached[end_us] == self._expected:
                    del self._reached[end_us]
                    self.completed.append((end_us, now_us))


class Runtime:
    """Builds every instance once; Timely's workers then come for theirs."""

    def __init__(self, order: Order) -> None:
        self.job, self.plan, self.settings = order.spec.job, order.plan, order.settings
        self.flow = self.job.dataflow
        self._physics = order.spec.physics or {}
        self._order = order
        self.placement = Placement.of(self.flow, self.plan, self.settings.max_workers)
        self._doors = worker_keys(self.placement.workers)
        self.rates = dict(order.rates)
        self._selectivities = Selectivities(self.flow, self._physics, self.settings.join_life_s)
        self._selectivities.follow(self.rates)
        self.time = Timebase(_LEAD_S)
        self.epoch_us = round(self.settings.epoch_s * SECOND_US)
        self.results: list[Record] | None = [] if order.keep_results else None
        self.lasts = [operator.id for operator in self.flow.operators if not self.flow.successors(operator.id)]
        self.epochs = EpochLog(sum(self.plan[key] for key in self.lasts))
        self._channels = self._number_channels()
        self.feeds: dict[tuple[str, int], Feed] = {}
        self.instances: dict[tuple[str, int], Instance] = {}
        for operator in self.flow.operators:
            for index in range(self.plan[operator.id]):
                if operator.is_source:
                    self.feeds[operator.id, index] = self._feed(operator.id, index)
                else:
                    self.instances[operator.id, index] = self._instance(operator.id, index)
        self.threads: dict[tuple[str, int], int] = {}

    def _number_channels(self) -> dict[tuple[str, int], int]:
        places = ((key, index) for key in self.flow.order for index in range(self.plan[key]))
        return {place: number for number, place in enumerate(places)}

    def set_rates(self, rates: Mapping[str, float]) -> None:
        self._selectivities.follow(rates)
        self.rates.update(rates)

    def arrived(self, key: str, index: int) -> Instance:
        """The instance that a worker has received its first message for; notes on which thread that is."""
        self.threads[key, index] = threading.get_ident()
        return self.instances[key, index]

    @property
    def is_up(self) -> bool:
        return len(self.threads) == len(self.instances)

    def snapshot(self, epochs_from: int) -> dict[str, Any]:
        """All counters since the start, and the epochs completed since the last look."""
        entries: dict[str, dict[str, list[float]]] = {
            key: {"taken": [], "given": [], "busy_s": [], "waiting": []} for key in self.flow.index
        }
        for (key, _), one in [*self.feeds.items(), *self.instances.items()]:
            for name, values in entries[key].items():
                values.append(getattr(one, name))
        return {
            "now_us": self.time.now_us(),
            "is_up": self.is_up,
            "is_finished": self.epochs.is_finished,
            "epochs": self.epochs.completed[epochs_from:],
            "operators": entries,
        }

    def _routes(self, key: str, index: int) -> list[Route]:
        partitionings = {edge.target: edge.partitioning for edge in self.flow.edges if edge.source == key}
        return [
            Route(
                after,
                "hash" if self.flow.operator(after).is_keyed else partitionings[after],
                [self._doors[worker] for worker in self.placement.instances[after]],
                self._physics[after],
                self._selectivities,
                channel=self._channels[key, index],
                own_index=index,
                side=min(1, self.flow.predecessors(after).index(key)),
                key_salt=salt("key", after),
            )
            for after in self.flow.successors(key)
        ]

    def _clock(self, key: str, index: int) -> ServiceClock:
        seed = salt(self.settings.seed, "service", key, index)
        worker = self.placement.instances[key][index]
        return ServiceClock(
            self._physics[key],
            self.plan[key],
            self.settings.quantum_ms / 1000,
            seed,
            is_alone=worker not in self.placement.shared,
        )

    def _feed(self, key: str, index: int) -> Feed:
        return Feed(
            key,
            index,
            self.plan[key],
            self.rates,
            self._clock(key, index),
            self._selectivities.copies[key],
            self._routes(key, index),
            source_salt=salt(self.settings.seed, "source", key),
            epoch_us=self.epoch_us,
            last=self._order.records,
        )

    def _instance(self, key: str, index: int) -> Instance:
        operator, is_last = self.flow.operator(key), key in self.lasts
        windowed = operator.window is not None and operator.window.policy == "time"
        core = make_core(
            operator,
            self._selectivities.copies[key],
            join_life_s=self.settings.join_life_s,
            kept=self.results,
            is_last=is_last,
        )
        return Instance(
            core,
            self._clock(key, index),
            self._physics[key].fire_share if windowed and not is_last else 0.0,
            [
                self._channels[before, place]
                for before in self.flow.predecessors(key)
                for place in range(self.plan[before])
            ],
            self._routes(key, index),
            self._progress_of_last() if is_last else None,
        )

    def _progress_of_last(self) -> Callable[[int], None]:
        """Notes the epochs that one last instance passes."""
        before_us = 0

        def note(frontier_us: int) -> None:
            nonlocal before_us
            self.epochs.note(before_us, frontier_us, self.time.now_us(), self.epoch_us)
            before_us = frontier_us

        return note
