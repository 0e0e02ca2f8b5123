"""The generator's truth, and that what was planted comes out of the pipeline."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

from streamtune.errors import StreamTuneError
from streamtune.settings import SettingsError
from streamtune.sundog.generator import Drawer, generate, plan
from streamtune.sundog.knowledge import load_knowledge
from streamtune.sundog.pipeline import Sundog
from streamtune.sundog.places import day_number
from streamtune.sundog.real import write_commits, write_movietweetings
from streamtune.sundog.settings import LogSettings, WorldSettings
from streamtune.sundog.world import Truth, build_world

SMALL = WorldSettings(entities=60, days=4, seed=1)
TODAY = date(2014, 1, 20)


def truth(ages: list[int], amplitude: float = 10.0) -> Truth:
    """Entity a with relations to b … f, whose events began so many days ago."""
    count = len(ages)
    return Truth(
        np.array(["a"] * 5),
        np.array(list("bcdef")),
        np.array([1.0, 0.3, 0.1, 0.03, 0.01]),
        np.arange(count),
        day_number(TODAY) - np.array(ages, np.int64),
        np.full(count, amplitude),
        np.full(count, 4.0),
    )


def test_grades_without_events_follow_the_base() -> None:
    grades = truth([]).grades(TODAY)
    assert [grades["a", other][0] for other in "bcdef"] == [4, 3, 2, 1, 0], "1, 30, 10, 3 and 1 % of the best"
    assert [grades["a", other][1] for other in "bcdef"] == [1, 1, 0, 0, 0], "popular, or outdated"
    assert all(grades[other, "a"] == (4, 1) for other in "bcdef"), "the only relation is the best one"


def test_recency_is_the_age_of_events_that_still_count() -> None:
    # A lift of 10 · exp(−age / 4): 10, 7.8, 2.9 (5 days), 0.3 (14 days, below one half), and one of last year.
    grades = truth([0, 1, 5, 14, 364]).grades(TODAY)
    assert [grades["a", other][1] for other in "bcdef"] == [4, 4, 3, 2, 2]
    assert truth([366]).grades(TODAY)["a", "b"][1] == 1, "more than a year ago"
    assert truth([-1]).grades(TODAY)["a", "b"][1] == 1, "tomorrow's news"


def test_interest_rises_and_falls() -> None:
    interest = [truth([2]).interest(day_number(TODAY) + shift)[0] for shift in (-3, -2, 0, 30)]
    assert interest[0] == 1.0
    assert interest[1] == pytest.approx(11.0)
    assert interest[2] == pytest.approx(1 + 10 * np.exp(-0.5))
    assert interest[3] == pytest.approx(1.0, abs=0.01)


def test_truth_survives_its_folder(tmp_path: Path) -> None:
    world = build_world(SMALL)
    world.write(tmp_path)
    again = Truth.read(tmp_path / "truth")
    assert again.grades(SMALL.start) == world.truth.grades(SMALL.start)
    with pytest.raises(StreamTuneError, match="no planted truth"):
        Truth.read(tmp_path)


def test_the_same_seed_gives_the_same_lines() -> None:
    world = build_world(SMALL)
    drawn = [Drawer(build_world(settings), LogSettings()).lines(SMALL.start, 0, 50) for settings in (SMALL, SMALL)]
    assert drawn[0] == drawn[1]
    other = Drawer(build_world(SMALL.model_copy(update={"seed": 2})), LogSettings()).lines(SMALL.start, 0, 50)
    assert other != drawn[0]
    assert world.names[:3] == (("Å",),) * 3
    days = [entry[0] for entry in plan(SMALL, LogSettings(lines=10, file_lines=2))]
    assert sum(entry[2] for entry in plan(SMALL, LogSettings(lines=10, file_lines=2))) == 10
    assert set(days) == {SMALL.start + timedelta(days=number) for number in range(4)}


def test_shares_must_fit() -> None:
    with pytest.raises(SettingsError, match=r"at most 1 together, but got 1\.35"):
        LogSettings(noise_share=0.9, single_share=0.4)


@pytest.mark.spark
def test_what_was_planted_comes_out(spark: SparkSession, tmp_path: Path) -> None:
    lines = generate(spark, tmp_path, SMALL, LogSettings(lines=6000, users=300, broken_share=0.01))
    assert lines == 6000
    sundog = Sundog(spark, load_knowledge(tmp_path / "knowledge"), str(tmp_path / "out"))
    report = sundog.run([str(tmp_path / "logs")], [SMALL.start + timedelta(days=3)], [4])
    assert report.counts.lines == 6000
    assert 20 <= report.counts.broken <= 120
    assert set(report.reasons) == {"not_json", "no_user", "bad_time"}
    table = pd.read_parquet(tmp_path / "out" / "features")
    world = build_world(SMALL)
    number = {key: place for place, key in enumerate(world.ids)}
    interest = sum(world.truth.interest(day_number(SMALL.start) + day) for day in range(4))
    planted = {(low, high): value for low, high, value in zip(world.low, world.high, interest, strict=True)}
    known = [
        (planted[number[one], number[other]], events)
        for one, other, events in zip(table["entity"], table["related"], table["events"], strict=True)
        if number[one] < number[other] and min(number[one], number[other]) >= SMALL.villages
    ]
    assert np.corrcoef(np.array(known).T)[0, 1] > 0.9, "people search in proportion to interest"


DATA = Path(__file__).parents[2].parent / "shared" / "data"


@pytest.mark.parametrize(
    ("write", "name"), [(write_movietweetings, "movietweetings"), (write_commits, "spark-commits")]
)
@pytest.mark.slow
def test_real_sources(tmp_path: Path, write: object, name: str) -> None:
    if not (DATA / name).is_dir():
        pytest.skip(f"the real data is not at {DATA / name}: it is kept beside the project")
    lines = write(DATA / name, tmp_path)  # type: ignore[operator]
    knowledge = load_knowledge(tmp_path / "knowledge")
    assert lines > 10_000
    assert len(knowledge.ids) > 500
    assert knowledge.skipped_relations == 0
    with (tmp_path / "logs" / "lines.jsonl").open() as file:
        first = json.loads(file.readline())
    assert set(first) == {"user", "time", "query"}


def test_absent_real_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(StreamTuneError, match=r"ratings.csv.gz is not there"):
        write_movietweetings(tmp_path, tmp_path / "out")
