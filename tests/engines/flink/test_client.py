"""The REST client against a server that misbehaves in every way REST servers do."""

from __future__ import annotations

import pytest

from engines.flink.fake_flink import JOB, Answer, FakeFlink, hang
from streamtune.engines.flink import FlinkClient
from streamtune.engines.flink.client import FlinkNotFoundError, FlinkRefusedError, FlinkUnreachableError
from streamtune.engines.flink.responses import Bounds, FlinkGarbledError, Response, Savepoint, SavepointId, parse
from streamtune.errors import EngineError


def client_of(fake: FakeFlink, pauses: list[float] | None = None, **options: float) -> FlinkClient:
    kept = [] if pauses is None else pauses
    return FlinkClient(fake.url, sleep=kept.append, timeout_s=options.get("timeout_s", 5.0), retries=3)


def test_a_typed_answer_ignores_what_it_does_not_know(fake: FakeFlink) -> None:
    overview = client_of(fake).overview()
    assert (overview.slots_total, overview.slots_available, overview.version) == (20, 19, "2.3.0")


def test_server_errors_are_tried_again_with_growing_pauses(fake: FakeFlink) -> None:
    left = [500, 503]
    fake.intercept = lambda _method, _path: (left.pop(0), {"errors": ["busy"]}) if left else None
    pauses: list[float] = []
    assert client_of(fake, pauses).overview().taskmanagers == 1
    assert pauses == [0.25, 0.5]


def test_a_server_that_keeps_failing_is_unreachable(fake: FakeFlink) -> None:
    fake.intercept = lambda _method, _path: (500, b"<html>oops</html>")
    pauses: list[float] = []
    with pytest.raises(FlinkUnreachableError, match=r"500: <html>oops"):
        client_of(fake, pauses).overview()
    assert pauses == [0.25, 0.5, 1.0]


def test_not_found_is_final_and_says_what_flink_said(fake: FakeFlink) -> None:
    client = client_of(fake)
    with pytest.raises(FlinkNotFoundError, match="Could not find job"):
        client.job("f" * 32)
    assert client.calls == 1


@pytest.mark.parametrize("content", [b"<html>login</html>", b'{"slots-total": ', b"\xff\xfe", b"[]", b"{}", b"null"])
def test_garbage_is_an_error_that_doubts_the_address(fake: FakeFlink, content: bytes) -> None:
    fake.intercept = lambda _method, _path: (200, content)
    with pytest.raises(FlinkGarbledError, match="Flink REST endpoint"):
        client_of(fake).overview()


def _any_of(annotation: object) -> object:
    """A value that a required field takes."""
    known: dict[object, object] = {int: 1, str: "x", SavepointId: {"id": "x"}}
    return known.get(annotation, {"lowerBound": 1, "upperBound": 1} if annotation is Bounds else [])


@pytest.mark.parametrize("kind", [one for one in Response.__subclasses__() if one is not Savepoint])
def test_null_in_an_optional_field_is_as_if_it_were_not_there(kind: type[Response]) -> None:
    """Flink writes null for what it does not have, in some versions and places: one ended the reading of a job."""
    fields = kind.model_fields
    needed = {(one.alias or name): _any_of(one.annotation) for name, one in fields.items() if one.is_required()}
    nulls: dict[str, object] = {one.alias or name: None for name, one in fields.items() if not one.is_required()}
    assert repr(parse(kind, {**nulls, **needed}, "test")) == repr(parse(kind, needed, "test"))
    for name in needed:
        with pytest.raises(FlinkGarbledError, match=name):
            parse(kind, {**needed, name: None}, "test")


def test_a_hanging_server_times_out(fake: FakeFlink) -> None:
    fake.intercept = hang(0.6)
    with pytest.raises(FlinkUnreachableError, match="did not answer in time"):
        client_of(fake, timeout_s=0.1).overview()


def test_nobody_there() -> None:
    with FakeFlink() as gone:
        url = gone.url
    with pytest.raises(FlinkUnreachableError, match="cannot be reached"):
        FlinkClient(url, sleep=lambda _s: None).overview()


def test_a_submission_is_never_sent_twice(fake: FakeFlink) -> None:
    fake.intercept = lambda _method, _path: (500, {"errors": ["busy"]})
    client = client_of(fake)
    with pytest.raises(FlinkUnreachableError):
        client.run_jar("jar")
    assert client.calls == 1


def test_a_refusal_that_flink_sends_as_500_is_not_retried(fake: FakeFlink) -> None:
    fake.scheduler = "default"
    client = client_of(fake)
    with pytest.raises(FlinkRefusedError, match="not an adaptive scheduler"):
        client.resource_requirements(JOB)
    assert client.calls == 1


def test_requirements_go_and_come_back(fake: FakeFlink) -> None:
    client = client_of(fake)
    wanted = {key: Bounds(lower=1, upper=7) for key in client.resource_requirements(JOB)}
    client.set_resource_requirements(JOB, wanted)
    assert client.resource_requirements(JOB) == wanted


def test_the_cause_of_a_failure_is_the_innermost(fake: FakeFlink) -> None:
    assert client_of(fake).failure(JOB) == "y.Z: / by zero"


def test_an_address_without_scheme_is_refused() -> None:
    with pytest.raises(EngineError, match="must start with http"):
        FlinkClient("localhost:8081")


@pytest.mark.parametrize("nan", ["NaN", None])
def test_nan_comes_in_several_spellings(fake: FakeFlink, nan: str | None) -> None:
    def blank(_method: str, path: str) -> Answer | None:
        if not path.endswith(JOB):
            return None
        details = fake._details()
        details["vertices"][0]["metrics"]["accumulated-busy-time"] = nan
        return 200, details

    fake.intercept = blank
    busy_ms = client_of(fake).job(JOB).vertices[0].metrics.busy_ms
    assert busy_ms != busy_ms


@pytest.mark.parametrize(
    ("path", "payload"),
    [
        (f"/jobs/{JOB}/exceptions", {"exceptionHistory": [1]}),
        (f"/jobs/{JOB}/exceptions", {"exceptionHistory": {"entries": [{"stacktrace": 5}]}}),
        (f"/jobs/{JOB}/savepoints/t1", {"status": {"id": "COMPLETED"}, "operation": "done"}),
        (f"/jobs/{JOB}/savepoints/t1", {"status": 7}),
        (f"/jobs/{JOB}/checkpoints", {"counts": {"failed": 10**40}}),
        ("/overview", b"9" * 5000),
        ("/overview", b"[" * 100_000),
        ("/overview", rb'{"flink-version": "\ud83d"}'),
        ("/overview", b'{"flink-version": "\xed\xb3\xbf"}'),
    ],
)
def test_an_answer_that_does_not_fit_names_the_call(fake: FakeFlink, path: str, payload: object) -> None:
    fake.intercept = lambda _method, asked: (200, payload) if asked.partition("?")[0] == path else None
    client = client_of(fake)
    reads = (
        client.overview,
        lambda: client.failure(JOB),
        lambda: client.checkpoints(JOB),
        lambda: client.savepoint(JOB, "t1"),
    )
    wrong = []
    for read in reads:
        try:
            read()
        except FlinkGarbledError as error:
            wrong.append(str(error))
    assert len(wrong) == 1
    assert f"GET {fake.url}{path}" in wrong[0]


def test_a_refusal_that_lists_no_errors_is_told_all_the_same(fake: FakeFlink) -> None:
    fake.intercept = lambda _method, _path: (400, {"errors": 5})
    with pytest.raises(FlinkRefusedError, match="errors"):
        client_of(fake).overview()
