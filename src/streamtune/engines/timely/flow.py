"""A job as a bytewax dataflow: messages of records, routed to the workers that the placement names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow, Stream
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition

from streamtune.engines.timely.feed import Feed
from streamtune.engines.timely.instance import Addressed, Instance, Message
from streamtune.engines.timely.runtime import Runtime


class _Partition(StatelessSourcePartition[Addressed]):
    """A source instance on its worker; ``feed`` is None on workers that have none."""

    def __init__(self, feed: Feed | None, runtime: Runtime) -> None:
        self._feed, self._runtime = feed, runtime
        self._every = timedelta(milliseconds=runtime.settings.poll_ms)
        self._next = datetime.now(UTC)

    def next_batch(self) -> Iterable[Addressed]:
        if self._feed is None:
            raise StopIteration
        now = datetime.now(UTC)
        sent = self._feed.poll(self._runtime.time.now_us())
        # A source that is behind continues immediately.
        self._next = now if self._feed.waiting else max(now, self._next + self._every)
        return sent

    def next_awake(self) -> datetime | None:
        return self._next


class _Source(DynamicSource[Addressed]):
    def __init__(self, key: str, runtime: Runtime) -> None:
        self._key, self._runtime = key, runtime

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Partition:  # noqa: ARG002 - as bytewax calls it
        places = self._runtime.placement.instances[self._key]
        index = places.index(worker_index) if worker_index in places else None
        return _Partition(None if index is None else self._runtime.feeds[self._key, index], self._runtime)


class _Logic(StatefulBatchLogic[Message, Addressed, None]):
    """Runs an instance in Timely's turns. The first message says which instance it is."""

    def __init__(self, key: str, runtime: Runtime) -> None:
        self._key, self._runtime = key, runtime
        self._instance: Instance | None = None

    def on_batch(self, values: list[Message]) -> tuple[Iterable[Addressed], bool]:
        if self._instance is None:
            self._instance = self._runtime.arrived(self._key, values[0].target)
        for message in values:
            self._instance.accept(message)
        return self._instance.work(), StatefulBatchLogic.RETAIN

    def on_notify(self) -> tuple[Iterable[Addressed], bool]:
        return self._instance.work() if self._instance else [], StatefulBatchLogic.RETAIN

    def notify_at(self) -> datetime | None:
        return datetime.now(UTC) if self._instance is not None and self._instance.wants_a_turn else None

    def snapshot(self) -> None:
        return None


class _NothingPartition(StatelessSinkPartition[Any]):
    def write_batch(self, items: list[Any]) -> None:
        """Last instances have counted and kept what they got; nothing leaves them."""


class _Nothing(DynamicSink[Any]):
    def build(self, step_id: str, worker_index: int, worker_count: int) -> _NothingPartition:  # noqa: ARG002 - as bytewax calls it
        return _NothingPartition()


def build_flow(runtime: Runtime) -> Dataflow:
    """The dataflow of a job. Step names are positions: operator ids may hold what bytewax does not allow in names."""
    flow = Dataflow("streamtune")
    outputs: dict[str, Stream[Any]] = {}
    for key in runtime.flow.order:
        name = f"op{runtime.flow.index[key]}"
        before = runtime.flow.predecessors(key)
        if not before:
            outputs[key] = op.input(name, flow, _Source(key, runtime))
            continue
        arriving = [
            op.flat_map_batch(f"{name}_from{runtime.flow.index[one]}", outputs[one], _for(key, from_source=not more))
            for one, more in ((one, runtime.flow.predecessors(one)) for one in before)
        ]
        merged = op.merge(f"{name}_in", *arriving) if len(arriving) > 1 else arriving[0]
        outputs[key] = op.stateful_batch(name, merged, _logic(key, runtime))
    for key in runtime.lasts:
        op.output(f"op{runtime.flow.index[key]}_out", outputs[key], _Nothing())
    return flow


def _logic(key: str, runtime: Runtime) -> Callable[[None], _Logic]:
    return lambda _nothing_to_resume: _Logic(key, runtime)


def _for(key: str, *, from_source: bool) -> Callable[[list[Any]], Iterable[tuple[str, Message]]]:
    """Keeps what is addressed to an operator. A stateful step puts its own key in front of what it gives."""
    if from_source:
        return lambda batch: [(door, message) for target, door, message in batch if target == key]
    return lambda batch: [(door, message) for _, (target, door, message) in batch if target == key]
