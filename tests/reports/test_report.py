"""The report: its figures are the story's, it stands alone, and nothing a user names can break it."""

from __future__ import annotations

import itertools
import math
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamtune.control.story import Change, Step, TuningStory
from streamtune.dataflow import Observation, OperatorMetrics
from streamtune.errors import StreamTuneError
from streamtune.reports import charts, report
from streamtune.reports.pages import ReportError
from streamtune.reports.report import Figures, render_report, write_report

VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})
CHAIN = (("bids", "source"), ("count", "window_aggregate"), ("sink", "sink"))
CHAIN_EDGES = (("bids", "count"), ("count", "sink"))


class Page(HTMLParser):
    """Reads a page, insisting that every element is closed by its own tag."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.values: list[str] = []
        self.rows: list[list[str]] = []
        self.texts: list[str] = []
        self._open: list[tuple[str, str]] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag in VOID:
            return
        classes = dict(attrs).get("class") or ""
        self._open.append((tag, classes))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if "value" in classes.split():
            self.values.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1][0] == tag, f"</{tag}> inside <{self._open[-1][0]}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        tags = [tag for tag, _ in self._open]
        if "script" in tags or "style" in tags:
            return
        self.texts.append(data)
        if "td" in tags or "th" in tags:
            self.rows[-1][-1] += data
        if any("value" in classes.split() for _, classes in self._open):
            self.values[-1] += data

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def make_story(
    totals: Sequence[int] = (4, 6),
    *,
    operators: Sequence[tuple[str, str]] = CHAIN,
    edges: Sequence[tuple[str, str]] = CHAIN_EDGES,
    oracle: bool = True,
    backpressured: frozenset[int] = frozenset(),
    busy_ms: float = 800.0,
    job: str = "job",
    tuner: str = "ds2",
    seed: int = 0,
) -> TuningStory:
    """A story in which change i ends at parallelism ``totals[i]`` of the second operator, after one reconfiguration.

    Every change takes two measurements of 60 s, 180 s apart. The oracle needs one instance more.
    """
    names = [operator for operator, _ in operators]
    sources = [operator for operator, kind in operators if kind == "source"]
    tuned = names[min(1, len(names) - 1)]
    start = datetime(2026, 1, 1, tzinfo=UTC)
    steps, changes, before = [], [], 1
    for number, degree in enumerate(totals):
        rates = dict.fromkeys(sources, 1000.0 * degree)
        for reconfigured in (False, True):
            running = degree if reconfigured else before
            at_s = 60.0 + 180.0 * len(steps)
            held_ms = 150.0 if reconfigured and number in backpressured else 20.0
            metrics = {
                name: OperatorMetrics(
                    parallelism=running if name == tuned else 1,
                    records_in_per_s=1000.0,
                    records_out_per_s=1000.0,
                    busy_ms_per_s=busy_ms,
                    idle_ms_per_s=1000.0 - busy_ms - held_ms,
                    backpressured_ms_per_s=held_ms,
                )
                for name in names
            }
            seen = Observation(
                observed_at=start + timedelta(seconds=at_s), window_s=60.0, source_rates=rates, operators=metrics
            )
            steps.append(Step(time_s=at_s, change=number, reconfigured=reconfigured, observation=seen))
        before = degree
        plan = {name: degree if name == tuned else 1 for name in names}
        best = {name: degree + 1 if name == tuned else 1 for name in names}
        changes.append(
            Change(
                rates=rates,
                reconfigurations=1,
                backpressure=number in backpressured,
                backpressure_seen=int(number in backpressured),
                stop_reason="bound" if number in backpressured else "no_backpressure",
                plan=plan,
                total_parallelism=sum(plan.values()),
                oracle_total=sum(best.values()) if oracle else None,
                oracle_plan=best if oracle else None,
            )
        )
    return TuningStory(
        job=job,
        tuner=tuner,
        engine="simulator",
        seed=seed,
        operators=tuple(operators),
        edges=tuple(edges),
        changes=tuple(changes),
        steps=tuple(steps),
    )


def wide_story(changes: int) -> TuningStory:
    """20 operators: three sources, a diamond at every layer, and wires that skip layers."""
    names = [f"operator_{number}" for number in range(20)]
    kinds = ["source"] * 3 + ["map"] * 16 + ["sink"]
    edges = [(names[number], names[number + 3]) for number in range(16)]
    edges += [(names[number], names[number + 4]) for number in range(15)]
    edges += [(names[0], names[19]), (names[16], names[19]), (names[17], names[19]), (names[18], names[19])]
    totals = [1 + number % 17 for number in range(changes)]
    return make_story(totals, operators=tuple(zip(names, kinds, strict=True)), edges=dict.fromkeys(edges))


def svgs(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(part) for part in re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)]


def changes_tables(page: Page) -> list[list[str]]:
    """The rows of the tables of changes, which alone start with a number."""
    return [row for row in page.rows if row[0].isdigit()]


ODD_STORIES = {
    "one change": lambda: make_story([4]),
    "120 changes": lambda: make_story([1 + number % 30 for number in range(120)]),
    "no oracle": lambda: make_story([4, 6, 2], oracle=False),
    "one operator": lambda: make_story([2, 3], operators=[("only", "source")], edges=[]),
    "20 operators": lambda: wide_story(10),
    "no busy time": lambda: make_story([2, 3], busy_ms=math.nan),
    "no load": lambda: make_story([1], busy_ms=0.0),
}


@pytest.mark.parametrize("name", ODD_STORIES)
def test_every_story_gives_a_well_formed_page_that_stands_alone(name: str) -> None:
    page = render_report([ODD_STORIES[name]()], title="A report", command="streamtune demo")
    parsed = Page(page)
    assert len(svgs(page)) == parsed.tags.count("svg") > 0
    for outside in ("http:", "https:", " src=", "@import", "url(", "<link"):
        assert outside not in page
    assert re.findall(r"\b(nan|inf|None|Undefined)\b", parsed.text) == []
    assert "streamtune demo" in parsed.text


def test_key_figures_are_the_storys() -> None:
    # Totals 1 + p + 1 are 6, 8, 4; the oracle's 7, 9, 5: 18 / 21 = 0.857. One reconfiguration per change.
    # Time: 60 s at 3 instances, then 180 s each at 6, 6, 8, 8, 4: 180 + 180 · 32 = 5,940 instance-s in 960 s.
    story = make_story([4, 6, 2], backpressured=frozenset({1}))
    figures = Figures.of([story])
    assert figures.over_oracle == pytest.approx(18 / 21) == story.over_oracle
    assert figures.instance_s == pytest.approx(5940)
    assert figures.mean_instances == pytest.approx(5940 / 960)
    page = Page(render_report([story], title="A report"))
    assert page.values == ["1.00", "1 of 3", "0.86 ×", "6.2"]
    assert (
        "ds2 followed 3 rate changes of job with 1.00 reconfigurations each; 1 of 3 ended with backpressure, "
        "at 0.86 × the oracle's parallelism." in page.text
    )


@settings(deadline=None, max_examples=25)
@given(
    totals=st.lists(st.integers(1, 90), min_size=1, max_size=30),
    backpressured=st.sets(st.integers(0, 29)),
    oracle=st.booleans(),
)
def test_table_and_figures_agree_with_any_story(totals: list[int], backpressured: set[int], oracle: bool) -> None:
    held = frozenset(number for number in backpressured if number < len(totals))
    story = make_story(totals, backpressured=held, oracle=oracle)
    page = Page(render_report([story], title="A report"))
    expected = [
        [
            str(number),
            f"{change.rates['bids']:,.0f}",
            str(change.reconfigurations),
            "yes" if change.backpressure else "no",
            str(change.total_parallelism),
            str(change.oracle_total) if oracle else "–",
            f"{change.total_parallelism / (change.oracle_total or 1):.2f} ×" if oracle else "–",
            report.STOP_REASONS[change.stop_reason],
        ]
        for number, change in enumerate(story.changes, start=1)
    ]
    assert changes_tables(page) == expected
    assert page.values[0] == f"{story.reconfigurations_per_change:.2f}"
    assert page.values[1] == f"{story.backpressure_after_tuning} of {len(totals)}"
    assert page.values[2] == (f"{story.over_oracle:.2f} ×" if story.over_oracle is not None else "–")
    # A long table is folded, a short one is not.
    assert page.text.count("Show all") == (len(totals) > report.LONGEST_OPEN_TABLE)


def test_dataflow_shows_the_highest_rate_as_last_measured() -> None:
    story = make_story([4, 9, 2], backpressured=frozenset({1}))
    page = Page(render_report([story], title="A report"))
    assert "Change 2 of 3: bids 9,000 records/s" in page.text
    row = next(row for row in page.rows if row[0] == "count")
    assert row == ["count", "window_aggregate", "9", "10", "80\u00a0%", "15\u00a0%", "1,000", "1,000"]
    # Box by box: 1 instance where the oracle needs 1, 9 where it needs 10.
    assert "9 oracle 10 (−1)" in page.text


def test_several_tuners_stand_side_by_side_and_the_better_comes_first() -> None:
    worse = make_story([4, 6], backpressured=frozenset({0}), tuner="ds2")
    better = make_story([4, 6], tuner="streamtune")
    page = Page(render_report([worse, better], title="A report"))
    assert page.values[2:4] == ["1 of 2", "0 of 2"]
    verdict = next(text for text in page.texts if "followed" in text)
    assert verdict.startswith("streamtune followed 2 rate changes of job")
    assert "Against it ds2: 1.00 reconfigurations, 1 of 2 with backpressure, 0.88 ×" in verdict


def test_stories_of_one_tuner_are_told_apart() -> None:
    seeds = Page(render_report([make_story(seed=0), make_story(seed=1)], title="A report"))
    assert "ds2 seed 0" in seeds.text
    assert "ds2 seed 1" in seeds.text
    settings_only = Page(render_report([make_story(), make_story()], title="A report"))
    assert "ds2 #1" in settings_only.text
    assert "ds2 #2" in settings_only.text


def test_jobs_and_rate_sequences_get_sections_of_their_own_and_figures_are_pooled() -> None:
    stories = [make_story([4, 6], job="a"), make_story([4, 6, 2], job="b"), make_story([5], job="b")]
    page = Page(render_report(stories, title="A report"))
    assert page.tags.count("h2") == 3
    assert page.values[1] == "0 of 6"
    # (6 + 8) + (6 + 8 + 4) + 7 = 39 instances; the oracle needs one more in each of the six changes.
    assert page.values[2] == f"{39 / 45:.2f} ×"


HOSTILE = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>&amp;"


def test_names_cannot_become_markup() -> None:
    operators = [(HOSTILE, "source"), (HOSTILE + "2", "map"), ("sink", "sink")]
    edges = [(HOSTILE, HOSTILE + "2"), (HOSTILE + "2", "sink")]
    story = make_story([2, 3], operators=operators, edges=edges, job=HOSTILE, tuner=HOSTILE)
    text = render_report([story], title=HOSTILE, command=HOSTILE)
    page = Page(text)
    assert "<script>alert" not in text
    assert page.tags.count("script") == 1  # our own
    assert "img" not in page.tags
    assert page.texts.count(HOSTILE) >= 3
    assert len(svgs(text)) == page.tags.count("svg")


@settings(deadline=None, max_examples=25)
@given(name=st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=40))
def test_any_name_keeps_the_page_well_formed(name: str) -> None:
    story = make_story([2], operators=[(name, "source"), (f"{name}'", "sink")], edges=[(name, f"{name}'")], job=name)
    page = render_report([story], title=name)
    assert len(svgs(page)) == Page(page).tags.count("svg")


def test_120_changes_of_20_operators_render_within_a_second() -> None:
    story = wide_story(120)
    started = time.process_time()
    render_report([story], title="A report")
    assert time.process_time() - started < 1.0


def test_the_same_story_gives_the_same_page() -> None:
    assert render_report([make_story()], title="A") == render_report([make_story()], title="A")


def test_report_without_content_is_refused() -> None:
    with pytest.raises(ReportError, match="at least one tuning story"):
        render_report([], title="A report")
    with pytest.raises(ReportError, match="'ds2' on 'job' has no change: tune over at least one rate"):
        render_report([make_story([])], title="A report")
    story = make_story([4, 6])
    with pytest.raises(ReportError, match="no observation of change 2"):
        render_report([story.model_copy(update={"steps": story.steps[:2]})], title="A report")


def test_write_replaces_the_file_at_once(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")
    write_report(target, [make_story()], title="A report")
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("place", ["missing/report.html", "."])
def test_unwritable_place_is_one_clear_error(tmp_path: Path, place: str) -> None:
    with pytest.raises(StreamTuneError, match=r"the report cannot be written: .*Choose a"):
        write_report(tmp_path / place, [make_story()], title="A report")
    assert list(tmp_path.rglob("*")) == []


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """WCAG 2.2: (lighter + 0.05) / (darker + 0.05)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_have_the_contrast_wcag_asks_for(scheme: int) -> None:
    blocks = re.findall(r":root \{(.*?)\}", render_report([make_story()], title="A"), flags=re.DOTALL)
    colour = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", blocks[scheme]))
    text = [
        ("ink", "page"),
        ("ink", "card"),
        ("soft", "page"),
        ("soft", "card"),
        ("alarm", "card"),
        ("series0", "card"),
    ]
    text += [("ink", f"load{level}") for level in range(5)]
    shapes = [(f"series{number}", "card") for number in range(6)] + [("oracle", "card"), ("wire", "card")]
    shapes += [(bar, f"load{level}") for bar in ("bar", "alarm") for level in range(4)] + [("bar", "load4")]
    assert {pair: contrast(*map(colour.get, pair)) for pair in text if contrast(*map(colour.get, pair)) < 4.5} == {}
    assert {pair: contrast(*map(colour.get, pair)) for pair in shapes if contrast(*map(colour.get, pair)) < 3.0} == {}


@given(high=st.floats(1e-3, 1e9), count=st.integers(1, 10), whole=st.booleans())
def test_ticks_are_round_evenly_spaced_and_reach_the_top(high: float, count: int, whole: bool) -> None:
    ticks = charts.round_ticks(high, count, whole=whole)
    step = ticks[1]
    assert ticks[0] == 0
    assert ticks[-1] >= high * (1 - 1e-9)
    assert ticks[-1] - step < high * (1 + 1e-9)
    assert len(ticks) <= count + 2
    assert all(math.isclose(b - a, step, rel_tol=1e-6) for a, b in itertools.pairwise(ticks))
    assert f"{step:e}"[0] in "125"
    if whole:
        assert all(float(tick).is_integer() for tick in ticks)


def test_intervals_tile_the_story() -> None:
    parts = charts.intervals(make_story([4, 6]))
    assert [(part.start_s, part.end_s) for part in parts] == [(0, 60), (60, 240), (240, 420), (420, 600)]


def test_neighbouring_backpressure_is_one_band_and_every_reconfiguration_one_mark() -> None:
    # Changes 1 and 2 end backpressured; between them lies the clean first measurement of change 2.
    story = make_story([4, 6, 3], backpressured=frozenset({0, 1}))
    chart = charts.time_chart(story, charts.TimeScale.over([story]), "series0", "ds2")
    unit = charts.SPAN_X / 960
    assert [(band.x, band.width) for band in chart.backpressure] == [
        (pytest.approx(60 * unit), pytest.approx(180 * unit)),
        (pytest.approx(420 * unit), pytest.approx(180 * unit)),
    ]
    assert list(chart.reconfigurations) == pytest.approx([60 * unit, 420 * unit, 780 * unit])
