"""Runs on real hosts are kept one by one: a kill or the end of a slice loses at most the one that is under way."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamtune.experiments.placement.journal import Journal, OutOfTimeError


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "journal.jsonl"
    first = Journal(file)
    assert first.measured({"hosts": 4, "design": "a"}, lambda: {"bytes": 7.0}) == {"bytes": 7.0}
    again = Journal(file)
    assert again.measured({"design": "a", "hosts": 4}, lambda: pytest.fail("measured twice")) == {"bytes": 7.0}
    assert again.matching(hosts=4) == [({"hosts": 4, "design": "a"}, {"bytes": 7.0})]
    assert again.matching(hosts=10) == []


def test_a_line_cut_short_by_a_kill_is_measured_again(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    Journal(file).measured({"n": 1}, lambda: {"x": 1})
    with file.open("a", encoding="utf-8") as open_file:
        open_file.write('{"key": {"n": 2}, "val')
    journal = Journal(file)
    assert journal.get({"n": 1}) == {"x": 1}
    assert journal.get({"n": 2}) is None
    journal.measured({"n": 2}, lambda: {"x": 2})
    assert Journal(file).get({"n": 2}) == {"x": 2}


def test_a_slice_ends_between_two_runs(tmp_path: Path) -> None:
    now = [0.0]
    journal = Journal(tmp_path / "journal.jsonl", minutes=1, clock=lambda: now[0])
    journal.measured({"n": 1}, lambda: {"x": 1})
    now[0] = 61.0
    with pytest.raises(OutOfTimeError, match="run the same command again"):
        journal.measured({"n": 2}, lambda: pytest.fail("the time was up"))
    assert journal.measured({"n": 1}, lambda: pytest.fail("known")) == {"x": 1}
