"""The store keeps its promises on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import select, text

from streamtune.service.errors import LeaseHeldError, RequestError, ServiceError, StoreError
from streamtune.service.settings import RetentionSettings
from streamtune.service.store import Store, tables
from streamtune.service.store.claims import Claim
from streamtune.service.store.jobs import ObservationRow
from streamtune.service.store.models import ModelRow
from streamtune.service.views import Decision, Outcome, Status

NOW = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


def decision(number: int, status: Status = "proposed", job: str = "q5", at: datetime = NOW) -> Decision:
    return Decision(
        id=f"{number:04x}",
        job=job,
        time=at,
        status=status,
        before={"a": 1},
        after={"a": 2},
        summary="a 1 → 2",
        tuner="ds2",
        policy="*",
        by="serve",
    )


def row(minute: int, **more: object) -> ObservationRow:
    values = {
        "job": "q5", "time": NOW + timedelta(minutes=minute), "window_s": 60.0, "rate": 1.5, "backpressure": None,
        "backpressured": False, "instances": 10, "recommended": None, "autoscaler": 13, "parallelism": {"a": 10},
    }  # fmt: skip
    return ObservationRow(**{**values, **more})  # type: ignore[arg-type]


@pytest.fixture
def with_job(store: Store) -> Store:
    store.jobs.seen("q5", "one", "q5", "flink", NOW)
    return store


def test_the_migrations_make_the_tables_that_the_code_uses(store: Store) -> None:
    with store.database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, tables.metadata) == []


def test_a_store_is_opened_again_and_by_many_at_once(store_url: str) -> None:
    problems: list[Exception] = []

    def open_it() -> None:
        try:
            Store(store_url).close()
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_store_of_a_newer_release_is_refused(store_url: str) -> None:
    opened = Store(store_url)
    with opened.database.write() as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
    opened.close()
    with pytest.raises(StoreError, match="newer StreamTune"):
        Store(store_url)


def test_what_was_set_about_a_job_stays(with_job: Store) -> None:
    with_job.jobs.set_paused("q5", True)
    with_job.jobs.set_bounds("q5", {"a": {"min": 1, "max": 4}})
    again = with_job.jobs.seen("q5", "one", "q5", "flink", NOW + timedelta(hours=1))
    assert (again.paused, again.bounds) == (True, {"a": {"min": 1, "max": 4}})


def test_observations_are_thinned_evenly_and_end_with_the_newest(with_job: Store) -> None:
    with_job.jobs.record([row(minute) for minute in range(100)], {"q5": {"name": "q5"}})
    with_job.jobs.record([row(99)], {})  # the same moment again is one observation
    found = with_job.jobs.observations("q5", None, None, 10)
    assert len(found) == 10
    assert found[-1].time == NOW + timedelta(minutes=99)
    assert {(b.time - a.time).total_seconds() for a, b in itertools.pairwise(found)} == {600.0}
    few = with_job.jobs.observations("q5", NOW + timedelta(minutes=10), NOW + timedelta(minutes=12), 10)
    assert [one.time.minute for one in few] == [10, 11, 12]


def test_savings_are_instance_hours(with_job: Store) -> None:
    with_job.jobs.record([row(minute) for minute in range(60)], {})
    assert with_job.jobs.saved_since("q5", NOW) == pytest.approx(3.0)  # 3 fewer for 60 minutes


def test_a_starved_job_saves_nothing(with_job: Store) -> None:
    with_job.jobs.record([replace(row(minute), backpressured=minute >= 20) for minute in range(60)], {})
    assert with_job.jobs.saved_since("q5", NOW) == pytest.approx(1.0)  # 3 fewer for the 20 minutes without backpressure


def test_a_job_has_one_open_decision_at_most(with_job: Store) -> None:
    with_job.decisions.add(decision(1), "first")
    with_job.decisions.add(decision(2, at=NOW + timedelta(minutes=1)), "second")
    assert [(one.id, one.status) for one in with_job.decisions.of_job("q5")] == [
        ("0002", "proposed"), ("0001", "expired"),
    ]  # fmt: skip
    assert with_job.decisions.open_ones() == {"q5": ("0002", "proposed")}


def test_decisions_come_in_pages_newest_first(with_job: Store) -> None:
    for number in range(7):  # three of them at one moment
        with_job.decisions.add(decision(number, "refused", at=NOW + timedelta(minutes=min(number, 4))), "")
    first = with_job.decisions.of_job("q5", limit=3)
    rest = with_job.decisions.of_job("q5", limit=10, before=first[-1].id)
    assert [one.id for one in [*first, *rest]] == [f"{number:04x}" for number in (6, 5, 4, 3, 2, 1, 0)]


def test_only_one_of_many_applies_an_approved_decision(with_job: Store) -> None:
    with_job.decisions.add(decision(1), "proposed")
    with_job.decisions.answer("q5", "0001", "approved", "alice", NOW)
    with_job.leases.take("q5", "serve", NOW, 60)
    began: list[str] = []

    def begin() -> None:
        began.append(with_job.decisions.begin(decision(1), "serve", NOW, lease_now=NOW, lease_s=60))

    threads = [threading.Thread(target=begin) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(began) == ["begun"] + ["taken"] * 5


def test_services_that_decide_at_the_same_moment_keep_one_budget(store: Store) -> None:
    """Eight jobs have 10 instances each and want 20, the budget is 100: whoever comes first, two of them get it."""
    names = [f"job-{number}" for number in range(8)]
    for number, name in enumerate(names):
        store.jobs.seen(name, "main", name, "flink", NOW)
        one = decision(number, "approved").model_copy(update={"job": name, "before": {"a": 10}, "after": {"a": 20}})
        store.decisions.add(one, "")
        store.leases.take(name, "serve", NOW, 60)
    store.claims.note(dict.fromkeys(names, ("payments", 10)))
    assert store.claims.left("payments", {"payments": 100}) == 20
    began: dict[str, str] = {}

    def begin(name: str) -> None:
        (one,) = store.decisions.of_job(name)
        claim = Claim("payments", 100, 10, 20)
        began[name] = store.decisions.begin(one, "serve", NOW, lease_now=NOW, lease_s=60, claim=claim)

    threads = [threading.Thread(target=begin, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(began.values()) == ["begun"] * 2 + ["over_budget"] * 6
    assert store.claims.left("payments", {"payments": 100}) == 0
    for name in names:  # one that was refused is not counted as a change, and is not under way
        (one,) = store.decisions.of_job(name)
        assert one.status == ("applying" if began[name] == "begun" else "approved")
        assert bool(store.decisions.changes_since(name, NOW - timedelta(days=1))) == (began[name] == "begun")


def test_what_is_seen_does_not_undo_a_claim_under_way(with_job: Store) -> None:
    budgets = {"payments": 30}
    with_job.claims.note({"q5": ("payments", 10)})
    with_job.decisions.add(decision(1, "approved").model_copy(update={"after": {"a": 25}}), "")
    with_job.leases.take("q5", "serve", NOW, 60)
    claim = Claim("payments", 30, 10, 25)
    assert with_job.decisions.begin(decision(1), "serve", NOW, lease_now=NOW, lease_s=60, claim=claim) == "begun"
    with_job.claims.note({"q5": ("payments", 10)})  # an observation that began before
    assert with_job.claims.left("payments", budgets) == 5
    with_job.decisions.finish("0001", "applied", "serve", "", NOW, None)
    with_job.claims.note({"q5": ("payments", 24)})
    assert with_job.claims.left("payments", budgets) == 6
    with_job.claims.drop(["q5"])
    assert with_job.claims.left("payments", budgets) == 30
    assert with_job.claims.left(None, budgets) is None


def test_nothing_is_applied_without_the_lease(with_job: Store) -> None:
    with_job.decisions.add(decision(1, "approved"), "")
    with pytest.raises(LeaseHeldError):
        with_job.decisions.begin(decision(1), "serve", NOW, lease_now=NOW, lease_s=60)
    with_job.leases.take("q5", "other", NOW, 60)
    with pytest.raises(LeaseHeldError, match="other"):
        with_job.decisions.begin(decision(1), "serve", NOW, lease_now=NOW, lease_s=60)
    found = with_job.decisions.get("q5", "0001")
    assert found is not None
    assert found.status == "approved"


def test_every_step_of_a_decision_is_kept(with_job: Store) -> None:
    with_job.decisions.add(decision(1), "proposed")
    with_job.decisions.answer("q5", "0001", "approved", "alice", NOW)
    with_job.leases.take("q5", "serve", NOW, 60)
    with_job.decisions.begin(decision(1), "serve", NOW, lease_now=NOW, lease_s=60)
    with_job.decisions.finish("0001", "applied", "serve", "done", NOW, {"bids": 5.0})
    outcome = Outcome(time=NOW, text="no backpressure", backpressured=False, instances=2)
    with_job.decisions.set_outcome("0001", outcome)
    found = with_job.decisions.get("q5", "0001")
    assert found is not None
    assert [step.status for step in found.history] == ["proposed", "approved", "applying", "applied"]
    assert found.history[1].by == "alice"
    assert found.outcome == outcome
    assert with_job.decisions.changes_since("q5", NOW) == [NOW]
    kept = with_job.jobs.get("q5")
    assert kept is not None
    assert kept.tuned_for == {"bids": 5.0}


def test_an_answer_is_given_once(with_job: Store) -> None:
    with_job.decisions.add(decision(1), "")
    with_job.decisions.answer("q5", "0001", "rejected", "alice", NOW)
    with pytest.raises(RequestError, match="rejected already"):
        with_job.decisions.answer("q5", "0001", "approved", "bob", NOW)
    with pytest.raises(RequestError, match="no decision"):
        with_job.decisions.answer("q5", "ffff", "approved", "bob", NOW)


def test_a_lease_has_one_holder_however_many_ask(store: Store) -> None:
    got: list[str] = []

    def take(name: str) -> None:
        # Held, or two first rows at the same moment, of which one is refused by the key.
        with suppress(LeaseHeldError, StoreError):
            got.append(store.leases.take("q5", name, NOW, 60).holder)

    threads = [threading.Thread(target=take, args=(f"serve-{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1
    assert store.leases.all(NOW)["q5"].holder == got[0]


def test_a_lease_runs_out_is_renewed_and_given_back(store: Store) -> None:
    store.leases.take("q5", "a", NOW, 60)
    with pytest.raises(LeaseHeldError, match="a until 2026-03-02 10:01:00"):
        store.leases.take("q5", "b", NOW + timedelta(seconds=59), 60)
    store.leases.renew("a", NOW + timedelta(seconds=50), 60)
    with pytest.raises(LeaseHeldError):
        store.leases.take("q5", "b", NOW + timedelta(seconds=70), 60)
    later = NOW + timedelta(seconds=120)
    store.leases.renew("a", later, 60)  # too late: what has run out is not renewed
    assert store.leases.take("q5", "b", later, 60).term == 2
    store.leases.release("a")
    assert store.leases.all(later)["q5"].holder == "b"
    store.leases.release("b")
    assert store.leases.all(later) == {}


def model(version: str, status: str = "candidate") -> ModelRow:
    number = int(version[1:])
    return ModelRow(
        version, NOW + timedelta(days=number), Path(f"/models/{version}"), {"runs": number}, {}, status, None, ""
    )


def test_one_model_runs_and_one_can_go_back(store: Store) -> None:
    for version in ("m1", "m2", "m3"):
        store.models.register(model(version))
    with pytest.raises(RequestError, match="no model ran before"):
        store.models.roll_back(NOW)
    for hour, version in enumerate(("m1", "m2", "m3")):
        store.models.promote(version, NOW + timedelta(hours=hour))
    assert [(one.version, one.status) for one in store.models.all()] == [
        ("m3", "running"), ("m2", "retired"), ("m1", "retired"),
    ]  # fmt: skip
    assert store.models.roll_back(NOW + timedelta(hours=4)) == "m2"
    assert store.models.roll_back(NOW + timedelta(hours=5)) == "m1"  # and not back to what was rolled back
    running = store.models.running()
    assert running is not None
    assert running.version == "m1"
    with pytest.raises(RequestError, match="running already"):
        store.models.promote("m1", NOW)
    with pytest.raises(RequestError, match="no model 'm9'"):
        store.models.promote("m9", NOW)


def test_tokens_are_hashed_found_revoked_and_grow_old(store: Store) -> None:
    alice, text_of_alice = store.tokens.create("alice", "operator", NOW)
    _, text_of_bob = store.tokens.create("bob", "viewer", NOW, NOW + timedelta(days=1))
    with store.database.read() as connection:
        kept = str(connection.execute(select(tables.tokens)).all())
    assert text_of_alice.split("_", 2)[2] not in kept  # the secret itself may have underscores
    assert store.tokens.find(text_of_alice, NOW) == alice
    for wrong in ("", "st", "st__", text_of_alice + "x", text_of_alice[:-1], "st_' or 1=1 --_x", "x" * 1000, "st_é_é"):
        assert store.tokens.find(wrong, NOW) is None
    assert store.tokens.find(text_of_bob, NOW + timedelta(days=2)) is None
    with pytest.raises(ServiceError, match="there is a token called 'alice'"):
        store.tokens.create("alice", "viewer", NOW)
    store.tokens.revoke("alice", NOW)
    assert store.tokens.find(text_of_alice, NOW) is None
    with pytest.raises(ServiceError, match="no token 'alice' is in use"):
        store.tokens.revoke("alice", NOW)


def test_what_is_old_goes_and_what_is_under_way_stays(with_job: Store) -> None:
    old = NOW - timedelta(days=1000)
    with_job.jobs.record([row(0), row(0, time=old)], {})
    with_job.decisions.add(decision(1, "applied", at=old), "")
    with_job.decisions.add(decision(2, "proposed", at=old), "")
    with_job.audit.write(old, "alice", "pause", "q5")
    with_job.outbox.add("http://x", "decision", "{}", old)
    gone = with_job.forget(NOW, RetentionSettings())
    assert gone == {"observations": 1, "decisions": 1, "audit": 1, "outbox": 0}
    assert [one.id for one in with_job.decisions.of_job("q5")] == ["0002"]


def test_messages_wait_until_they_are_sent_or_given_up(store: Store) -> None:
    store.outbox.add("http://x", "decision", "{}", NOW)
    (message,) = store.outbox.due(NOW)
    store.outbox.failed(message, "no route", NOW + timedelta(minutes=1))
    assert store.outbox.due(NOW) == []
    (again,) = store.outbox.due(NOW + timedelta(minutes=2))
    assert again.attempts == 1
    store.outbox.failed(again, "no route", None)
    assert store.outbox.waiting() == 0


@pytest.mark.parametrize("url", ["", "file.db", "mysql://x/y", "sqlite://", "sqlite:///:memory:", "postgresql", "\x00"])
def test_what_is_not_a_store_is_refused_in_a_sentence(url: str) -> None:
    with pytest.raises(StoreError, match="the store must be"):
        Store(url)


def test_a_store_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="must be a file"):
        Store(f"sqlite:///{tmp_path}")
    (tmp_path / "text.db").write_text("this is not a database, but it is long enough to be taken for one" * 20)
    with pytest.raises(StoreError, match="cannot be used: file is not a database"):
        Store(f"sqlite:///{tmp_path}/text.db")
    with pytest.raises(StoreError, match="cannot be used"):
        Store("postgresql://nobody:secret@127.0.0.1:1/none")


def test_the_store_is_for_its_user_alone(tmp_path: Path) -> None:
    Store(f"sqlite:///{tmp_path}/service.db").close()
    assert (tmp_path / "service.db").stat().st_mode & 0o077 == 0
