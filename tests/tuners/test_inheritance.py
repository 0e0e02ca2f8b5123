"""A job that was changed a little and submitted again keeps what it taught."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from streamtune.control.audit import AuditTrail
from streamtune.control.controller import Controller
from streamtune.control.supervisor import Supervisor
from streamtune.dataflow import Dataflow, Edge, Job, Observation, Operator
from streamtune.engines.base import Deployment
from streamtune.engines.simulator import Simulator
from streamtune.similarity.continuity import still_there
from streamtune.tuners.streamtune import Memory, StreamTune
from streamtune.tuners.streamtune.inheritance import inherited
from tuners.sightings import metrics, sighting


def chain(*operators: tuple[str, str]) -> Job:
    """source → the named operators, each of its type."""
    found = (Operator(id="source", type="source", rate=2000), *(Operator(id=key, type=kind) for key, kind in operators))
    edges = tuple(Edge(a.id, b.id, b.default_partitioning) for a, b in pairwise(found))
    return Job("orders", Dataflow(found, edges), 64)


BEFORE = chain(("parse", "map"), ("enrich", "join"))
LONGER = chain(("clean", "filter"), ("parse", "map"), ("enrich", "join"))
RENAMED = chain(("parse", "map"), ("enrich-with-users", "join"))
REPLACED = chain(("parse", "filter"), ("count", "aggregate"), ("top", "rank"))


def seen(job: Job, instances: int, busy: float, blocked: float = 0.0) -> Observation:
    behind = [operator.id for operator in job.dataflow.operators if not operator.is_source]
    operators = {"source": metrics(1, 2000, 50, blocked=blocked)}
    return sighting(operators | {key: metrics(instances, 2000, busy) for key in behind}, offered=2000)


def taught(memory: Memory | None = None) -> StreamTune:
    tuner = StreamTune(BEFORE, memory=memory)
    tuner.learn(seen(BEFORE, 10, 700))
    return tuner


def told(tuner: StreamTune, key: str) -> tuple[str, int]:
    """What is thought of an operator at the usual rate."""
    verdict = tuner.verdicts(seen(tuner.job, 1, 100))[key]
    return verdict.told, verdict.degree


def test_from_its_state_file(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    before = taught(Memory(file, BEFORE))
    now = StreamTune(LONGER, memory=Memory(file, LONGER))
    assert told(now, "enrich") == told(before, "enrich")
    assert told(StreamTune(LONGER), "enrich") != told(before, "enrich")
    assert told(now, "clean") == told(StreamTune(LONGER), "clean"), "it is new, and nothing is known of it"
    now.learn(seen(LONGER, 10, 700))
    assert len(Memory(file, LONGER).load()) == 2, "what is its own, and what it inherited, each time it is opened"
    assert Memory(file, REPLACED).load() == []


def test_a_renamed_operator_is_found_by_the_cheapest_edit() -> None:
    assert still_there(BEFORE.dataflow, RENAMED.dataflow)["enrich"] == "enrich-with-users"
    now = StreamTune(RENAMED)
    now.inherit(taught())
    assert told(now, "enrich-with-users") == told(taught(), "enrich")


def test_what_held_the_job_up_may_be_gone() -> None:
    names = still_there(BEFORE.dataflow, LONGER.dataflow)
    assert inherited(seen(BEFORE, 1, 1000, blocked=900), names) is None
    found = inherited(seen(BEFORE, 10, 700), names)
    assert found is not None
    assert set(found.operators) == {"source", "parse", "enrich"}
    assert inherited(seen(BEFORE, 10, 700), {"parse": "parse"}) is None, "its source is another one"


def test_a_watch_that_follows_it_goes_on_with_what_it_learnt() -> None:
    engine = Simulator({})
    learnt = Controller(engine, taught(), audit=AuditTrail(None))
    supervisor = Supervisor()
    job = supervisor.add(
        learnt,
        Deployment("old", BEFORE, BEFORE.initial_plan),
        remake=lambda found, guards: Controller(engine, StreamTune(found.job), guards),
    )
    supervisor._follow(job, Deployment("new", LONGER, LONGER.initial_plan))
    assert isinstance(job.controller.tuner, StreamTune)
    assert told(job.controller.tuner, "enrich") == told(taught(), "enrich")
