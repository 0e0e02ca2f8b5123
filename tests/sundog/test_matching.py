"""Text to tokens, names in tokens, times, JSON lines: each against a slow reference."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamtune.sundog.kernels import json_lines
from streamtune.sundog.kernels.compilation import read_only
from streamtune.sundog.kernels.relations import build_relations, may_be_related, number_of_pair
from streamtune.sundog.kernels.text import BROKEN, MOST_GROWTH, fold_bytes, folding, normalise
from streamtune.sundog.kernels.times import UNSURE, day_of, parse_day
from streamtune.sundog.kernels.trie import build_trie, find_entities, token_key
from streamtune.sundog.readers import parse_line
from sundog.brute_force import match, tokens

SCRIPTS = st.characters(max_codepoint=0x1FFFF, exclude_categories=["Cs", "Cn", "Co"])


def as_bytes(text: str | bytes) -> np.ndarray:
    raw = text.encode() if isinstance(text, str) else text
    return read_only(np.frombuffer(raw, np.uint8))


def room(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    space = size * MOST_GROWTH + 8
    return np.empty(space, np.uint8), np.empty(space, np.int32), np.empty(space, np.uint64)


def folded(text: str | bytes) -> list[str] | int:
    data = as_bytes(text)
    out, ends, _ = room(len(data))
    count = fold_bytes(folding(), data, 0, len(data), out, ends)
    if count == BROKEN:
        return BROKEN
    begins = [0, *ends[: max(0, count - 1)]]
    return [out[begin:end].tobytes().decode() for begin, end in zip(begins, ends[:count], strict=False)]


@given(st.text(SCRIPTS, max_size=30))
@example("Ångström ÅÅ å a\u030a")
@example("ﷺ ½ ǅ İstanbul STRASSE straße ﬁn")
@example("हिन्दी עִבְרִית 한국어 日本語")
def test_the_kernel_folds_like_the_reference(text: str) -> None:
    assert folded(text) == normalise(text).split() == tokens(text)


@given(st.binary(max_size=12))
def test_what_is_not_utf8_is_found(raw: bytes) -> None:
    try:
        raw.decode()
        assert folded(raw) != BROKEN
    except UnicodeDecodeError:
        assert folded(raw) == BROKEN


WORDS = st.lists(
    st.sampled_from(["a", "b", "Å", "c", "dd", "é", "eightabc", "ninebytes", "ninebytez", "seventeenbytesabc"]),
    min_size=0, max_size=4,
).map(" ".join)  # fmt: skip


@given(st.lists(st.tuples(WORDS, st.integers(0, 5)), max_size=12), st.lists(WORDS, max_size=5))
@settings(max_examples=300)
def test_matching_is_leftmost_longest_as_by_brute_force(names: list[tuple[str, int]], queries: list[str]) -> None:
    trie, nameless = build_trie([name for name, _ in names], np.array([entity for _, entity in names], np.int32))
    assert nameless == sum(not tokens(name) for name, _ in names)
    for query in [*queries, " x ".join(queries), " ".join(queries)]:
        data = as_bytes(query)
        out, ends, known = room(len(data))
        found = np.empty(64, np.int32)
        count = find_entities(trie, data, 0, len(data), out, ends, known, found)
        assert count == len(set(found[:count])), "an entity counts once a line"
        assert set(map(int, found[:count])) == match(query, names)


@pytest.mark.slow
def test_a_large_random_dictionary() -> None:
    random = np.random.default_rng(0)
    names = [" ".join(f"w{word}" for word in random.integers(0, 300, random.integers(1, 5))) for _ in range(3000)]
    entities = np.arange(3000, dtype=np.int32)
    trie, _ = build_trie(names, entities)
    for _ in range(60):
        query = " ".join(f"w{word}" for word in random.integers(0, 300, 12))
        data, found = as_bytes(query), np.empty(64, np.int32)
        count = find_entities(trie, data, 0, len(data), *room(len(data)), found)
        assert set(map(int, found[:count])) == match(query, list(zip(names, entities.tolist(), strict=True)))


def test_long_tokens_with_equal_hashes() -> None:
    """Found by inverting the hash: all 56 bits that are kept of it are the same."""
    one, other = "04xx6hjf2t8fb2o4", "04xx6hjflf46dcdg"
    keys = {int(token_key(as_bytes(token + " " * 8), 0, len(token))) for token in (one, other)}
    assert len(keys) == 1
    query = f"{other} {one} {other}x {other[:8]}"
    for names in ([(one, 1)], [(other, 2)], [(one, 1), (other, 2)], [(f"{one} {other}", 3), (one, 4)]):
        trie, _ = build_trie([name for name, _ in names], np.array([entity for _, entity in names], np.int32))
        data, found = as_bytes(query), np.empty(64, np.int32)
        count = find_entities(trie, data, 0, len(data), *room(len(data)), found)
        assert set(map(int, found[:count])) == match(query, names)


def test_bloom_filter_and_exact_table() -> None:
    random = np.random.default_rng(1)
    pairs = np.unique(np.sort(random.integers(0, 40_000, (50_000, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    low, high = pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.int32)
    relations = build_relations(low, high, 0.01)
    for number in range(0, len(low), 97):
        assert may_be_related(relations, high[number], low[number])
        assert number_of_pair(relations, high[number], low[number]) == number
    known = set(map(tuple, pairs.tolist()))
    others = [pair for pair in map(tuple, random.integers(40_000, 80_000, (20_000, 2)).tolist()) if pair not in known]
    passed = sum(may_be_related(relations, *pair) for pair in others)
    assert passed / len(others) <= 0.01, "no more false positives than stated"
    assert all(number_of_pair(relations, *pair) == -1 for pair in others[:2000])


TIMES = st.one_of(
    st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29)).map(lambda time: time.isoformat()),
    st.datetimes(min_value=datetime(1900, 1, 1), timezones=st.timezones()).map(lambda t: t.isoformat(" ", "seconds")),
    st.from_regex(
        r"20[01][0-9]-[01][0-9]-[0-3][0-9]"
        r"([T ?][0-2][0-9]:[0-6][0-9](:[0-6][0-9](\.[0-9]+)?)?(Z|[+-][0-2][0-9](:?[0-6][0-9])?)?)?",
        fullmatch=True,
    ),
)  # fmt: skip


@given(TIMES)
@example("2016-02-29T23:59:59-00:30")
@example("2015-02-29")
@example("2014-01-20T10:00:00,5Z")
@settings(max_examples=400)
def test_days_as_python_reads_them(text: str) -> None:
    data = as_bytes(text)
    fast, slow = parse_day(data, 0, len(data)), day_of(text)
    assert fast in (slow, UNSURE)
    if slow is not None and len(text) in (10, 19, 20, 25):
        assert fast == slow, "the usual forms need no help from Python"


def test_a_day_is_utc() -> None:
    since = datetime(2014, 1, 21, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    assert day_of("2014-01-20T23:30:00-01:00") == day_of("2014-01-21") == since.days


FIELDS = st.dictionaries(
    st.sampled_from(["user", "time", "query", "other", "ü"]),
    st.one_of(st.text(max_size=8), st.integers(), st.booleans(), st.none(), st.floats(), st.lists(st.integers())),
)


@given(st.lists(st.tuples(FIELDS, st.booleans(), st.integers(0, 9), st.booleans()), max_size=5))
@settings(max_examples=300)
def test_json_lines_as_python_reads_them(records: list[tuple[dict[str, object], bool, int, bool]]) -> None:
    lines = []
    for record, escaped, cut, spaced in records:
        line = json.dumps(record, ensure_ascii=escaped, separators=(" , ", " : ") if spaced else None)
        lines.append(line[:-cut] if cut and cut < 4 else line)
    raw = "\n".join(line.replace("\n", "") for line in lines).encode("utf-8", "replace")
    data = as_bytes(raw)
    starts = json_lines.line_starts(data)
    text, state, begins, ends = json_lines.parse_lines(data, starts)
    for line in range(len(starts) - 1):
        if state[line] == json_lines.READ:
            expected, reason = parse_line(raw[starts[line] : starts[line + 1]])
            assert reason is None
            got = [text[begins[field, line] : ends[field, line]].tobytes() for field in range(3)]
            assert [part.decode() for part in got] == [part.decode() for part in expected]


@pytest.mark.parametrize(
    "line",
    [
        '{"user":"u","time":"2014-01-20","query":"caf\\u00e9 \\ud83d\\ude00 \\"x\\""}',
        ' { "query" : "a" , "n" : -12 , "ok" : true , "user" : 7 , "time" : "t" } ',
        '{"user":"u","time":"t","query":"twice","query":"last"}',
    ],
)
def test_usual_lines_need_no_help(line: str) -> None:
    data = as_bytes(line)
    _, state, _, _ = json_lines.parse_lines(data, json_lines.line_starts(data))
    assert state.tolist() == [json_lines.READ]
