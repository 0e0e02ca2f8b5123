"""Defects that hostile testing found (issue 16), each as it was found."""

from __future__ import annotations

import json
import os
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from cli_fuzz import outcome, write_inputs
from streamtune.cli import net
from streamtune.control.audit import AuditTrail, read_audit
from streamtune.engines.simulator import simulate_once
from streamtune.errors import StreamTuneError
from streamtune.outputs import check_output, check_outputs, check_picture, write_whole
from streamtune.tuners.streamtune.memory import Memory
from streamtune.workloads import load

# Commands of the newer rooms that read a document: before and after its name.
NEW_READERS = [
    ("place --graph", " --hosts 2"),
    ("place --graph graph.json --hosts 2 --current", ""),
    ("plan good.yaml --forecast", ""),
    ("plan good.yaml --forecast rates.csv --capacity count=100 --prices", ""),
    ("provision plan", ""),
    ("provision train", " --out new"),
    ("autoconfig run", ""),
    ("sundog evaluate folder --as-of 2013-12-20 --labels", ""),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write_inputs(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("oracle nexmark-q5 --rate nanx", "must be a finite number, but got 'nan'"),
        ("oracle nexmark-q5 --rate infx", "must be a finite number, but got 'inf'"),
        ("recommend nexmark-q5 --rate -1x", "at least 0, but got -"),
        ("simulate nexmark-q5 --settle-s nan", "--settle-s"),
        ("simulate nexmark-q5 --window-s 0.01", "1"),
        ("simulate nexmark-q5 --window-s nan", "--window-s"),
        ("simulate nexmark-q5 --window-s inf", "--window-s"),
        ("simulate nexmark-q5 --window-s 1e12", "86400"),
        ("simulate nexmark-q5 --rate bids=1,bids=2", "'bids' is given twice"),
        ("simulate nexmark-q5 --plan sink=nan", "must be a finite number"),
        ("simulate nexmark-q5 --plan sink=inf", "must be a finite number"),
        ("simulate nexmark-q5 --plan sink=²", "expected a number"),
        ("simulate nexmark-q5 --plan ²", "name=number pairs"),
        ("validate twice.json", "key 'name' is given twice"),
        ("validate deep.yaml", "nested too deep"),
        ("validate deep.json", "nested too deep"),
        ("validate bytes.yaml", "is not UTF-8"),
        ("validate bomb.yaml", "its aliases make it too large"),
        ("tune good.yaml --tuner ds2 --report folder", "it is a folder"),
        ("tune good.yaml --tuner ds2 --audit /dev/full", "it is a device"),
        ("tune good.yaml --state damaged.db", "cannot be used"),
        ("recommend good.yaml --plot noext", "no suffix"),
        ("recommend good.yaml --plot x.txt", "'.txt'"),
        ("bench fig8 fig6", "fig8 runs on a real Timely, by itself"),
        ("bench nope", "unknown experiment 'nope'"),
        ("history ingest new nope.jsonl", "no file or folder 'nope.jsonl'"),
        ("history ingest new good.yaml --tolerate nope", "reasons that can be tolerated"),
        ("history label nope", "there is no history at 'nope'"),
        ("advise good.yaml --cost-model nope --hosts 999999999x16", "hosts at most"),
        *((f"{start} /dev/zero{end}", "it is a device") for start, end in NEW_READERS),
        *((f"{start} deep.yaml{end}", "") for start, end in NEW_READERS),
        *((f"{start} bytes.yaml{end}", "") for start, end in NEW_READERS),
        ("place --graph twice.json --hosts 2", "key 'name' is given twice"),
        ("place --graph graph.json --hosts ²", "expected a number such as 10"),
        ("place --graph graph.json --hosts 2 --plot x.txt", "'.txt'"),
        ("place --graph graph.json --hosts 2 --out /dev/full", "it is a device"),
        ("plan good.yaml --forecast rates.csv --picture /dev/full.txt", "'.txt'"),
        ("provision sample CO1 --simulated --algorithm fssa:² --out x.json", "fssa:STEP"),
        ("provision sample CO1 --simulated --steps 2 --out /dev/full", "it is a device"),
        ("sundog show E1 --out folder --page /dev/full", "it is a device"),
    ],
)
def test_refused_with_a_sentence(line: str, says: str, folder: Path) -> None:
    code, text = outcome(line.split(), folder)
    assert code == 2, text
    assert says in " ".join(text.split())
    assert "Traceback" not in text


@pytest.mark.parametrize("line", ["simulate markup.yaml", "oracle markup.yaml", "validate markup.yaml"])
def test_names_are_shown_and_not_obeyed(line: str, folder: Path) -> None:
    code, text = outcome(line.split(), folder)
    assert code == 0, text
    assert "[/]" in text
    assert "\x1b[31m" not in text


def test_an_argument_with_a_zero_byte_is_refused(folder: Path) -> None:
    """No shell can pass one on; ``run`` can be called by anybody, and each path was a ValueError of its own."""
    for line in (["sundog", "show", "a\0b"], ["place", "--graph", "a\0b"], ["autoconfig", "show", "\0"]):
        code, text = outcome(line, folder)
        assert (code, "must not have a zero byte" in " ".join(text.split())) == (2, True)


def test_merge_keys_work(folder: Path) -> None:
    (folder / "merge.yaml").write_text(
        "name: merged\noperators:\n- &usual {id: lines, type: source, rate: 5}\n- {<<: *usual, id: more, rate: 7}\n"
    )
    code, text = outcome(["validate", "merge.yaml", "--json"], folder)
    assert code == 0
    assert json.loads(text)["jobs"][0]["sources"] == 2


@pytest.mark.parametrize("place", ["/dev/full", "folder", "to-device", "pipe"])
def test_only_ordinary_files_are_written(place: str, folder: Path) -> None:
    (folder / "to-device").symlink_to("/dev/null")
    os.mkfifo(folder / "pipe")
    with pytest.raises(StreamTuneError, match="cannot be written: it is a"):
        check_output(folder / place)
    with pytest.raises(StreamTuneError, match="cannot be written: it is a"):
        write_whole(folder / place, "x")
    assert Path("/dev/full").is_char_device()


def test_a_link_to_a_file_stays_a_link(folder: Path) -> None:
    (folder / "real.html").write_text("old")
    (folder / "link.html").symlink_to("real.html")
    write_whole(folder / "link.html", "new")
    assert (folder / "link.html").is_symlink()
    assert (folder / "real.html").read_text() == "new"


def test_two_outputs_need_two_files(folder: Path) -> None:
    with pytest.raises(StreamTuneError, match="both name"):
        check_outputs((("--report", folder / "a"), ("--audit", folder / "a")))
    with pytest.raises(StreamTuneError, match="the suffix says the format"):
        check_picture(folder / "a.docx")


def test_a_full_disk_during_the_audit_is_one_sentence(folder: Path) -> None:
    trail = AuditTrail(folder / "audit.jsonl")
    trail.close()
    trail._descriptor = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(StreamTuneError, match="No space left on device"):
        trail.write("observed", {})
    trail.close()


def test_a_full_disk_at_the_end_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After all the work: nothing half written stays, and what was there before is still there."""
    target = folder / "report.html"
    target.write_text("old")

    def full(_self: Path, _content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StreamTuneError, match=r"report\.html cannot be written: No space left on device"):
        write_whole(target, "new")
    assert target.read_text() == "old"
    assert [path.name for path in folder.glob(".report*")] == []


def test_an_audit_trail_with_odd_bytes_is_read(folder: Path) -> None:
    (folder / "audit.jsonl").write_bytes(b'{"event": "a"}\n\xff\xfe\n[1]\n{"event": "b"}\n{"ev')
    assert [event["event"] for event in read_audit(folder / "audit.jsonl")] == ["a", "b"]


def test_a_state_file_damaged_behind_its_header(folder: Path) -> None:
    job, path = load("nexmark-q1").spec.job, folder / "state.db"
    Memory(path, job)
    content = bytearray(path.read_bytes())
    content[100:] = b"\xab" * (len(content) - 100)
    path.write_bytes(content)
    with pytest.raises(StreamTuneError, match="cannot be used"):
        Memory(path, job)


def test_a_state_file_with_another_table_of_that_name(folder: Path) -> None:
    import sqlite3

    with sqlite3.connect(folder / "other.db") as connection:
        connection.execute("create table observations (x text)")
    with pytest.raises(StreamTuneError, match="was not made by StreamTune"):
        Memory(folder / "other.db", load("nexmark-q1").spec.job)


def test_a_defect_says_so_and_keeps_its_details(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> Any:
        raise KeyError("[/] oops")

    assert net.caught(broken, ["tune"]) == 1
    said = capsys.readouterr().err
    assert "this is a defect of StreamTune" in said
    assert "Traceback" not in said
    kept = list((folder / "state" / "streamtune").glob("crash-*.txt"))
    assert len(kept) == 1
    assert "Traceback" in kept[0].read_text()


def test_stopped_and_full() -> None:
    def stopped() -> Any:
        raise KeyboardInterrupt

    def full() -> Any:
        raise OSError(28, "No space left on device", "/x")

    assert net.caught(stopped, []) == 130
    assert net.caught(full, []) == 2


def test_tune_and_compare_mean_the_same_autoscaler(folder: Path) -> None:
    words = ["good.yaml", "--changes", "3", "--json"]
    _, tuned = outcome(["tune", *words, "--tuner", "flink-autoscaler"], folder)
    _, compared = outcome(["compare", *words, "--tuners", "flink-autoscaler"], folder)
    one, (other,) = (json.loads(text[text.index(sign) :]) for text, sign in ((tuned, "{"), (compared, "[")))
    assert one == other


@pytest.mark.parametrize(
    "line", ["simulate nexmark-q1", "oracle nexmark-q1", "workloads show nexmark-q1", "recommend nexmark-q1 --rate 2x"]
)
def test_the_name_of_an_operator_survives_a_narrow_terminal(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    code, text = outcome(line.split(), folder, longest_s=0)
    assert code == 0, text
    ids = load("nexmark-q1").spec.job.dataflow.index
    assert all(name[:8] in text for name in ids)


def test_distance_takes_built_in_names_and_gives_no_advice_that_changes_nothing(folder: Path) -> None:
    code, text = outcome(["distance", "nexmark-q5", "good.yaml"], folder, longest_s=0)
    assert (code, text.startswith("distance ")) == (0, True), text
    chain = [
        "{id: o0, type: source, rate: 1}",
        *(f"{{id: o{n}, type: map, inputs: [o{n - 1}]}}" for n in range(1, 140)),
    ]
    (folder / "long.yaml").write_text("name: long\noperators:\n" + "".join(f"- {one}\n" for one in chain))
    (folder / "other.yaml").write_text((folder / "long.yaml").read_text().replace("type: map", "type: filter", 40))
    code, text = outcome(["distance", "long.yaml", "other.yaml", "--budget", "5"], folder, longest_s=0)
    assert code == 0, text
    assert "whatever --budget says" in text
    assert "may settle it" not in text


def test_a_disk_that_fills_up_under_the_state_file_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's own limit of pages stands for the disk; what was kept before is still there."""
    import sqlite3

    spec, connect = load("nexmark-q1").spec, sqlite3.connect
    assert spec.physics is not None
    seen = simulate_once(spec.job, spec.physics, spec.job.initial_plan, spec.job.source_rates)
    memory = Memory(folder / "state.db", spec.job)
    memory.add(seen)

    def full(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.execute("pragma max_page_count = 1")  # no more than there are now
        return connection

    monkeypatch.setattr(sqlite3, "connect", full)
    with pytest.raises(StreamTuneError, match="cannot be used: database or disk is full"):
        deque((memory.add(seen) for _ in range(50)), maxlen=0)
    monkeypatch.setattr(sqlite3, "connect", connect)
    assert len(memory.load()) >= 1
