"""As a stranger would check it: own logs in the documented formats, the fixed command, and thirty lines of brute force.

One run on Spark holds many cases: random dictionaries whose words share no letters with one another's, and one with
everything that is awkward.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import unicodedata
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from streamtune.cli.sundog import app

pytestmark = pytest.mark.spark

Record = dict[str, Any]
AS_OF, WINDOW = date(2014, 1, 19), 7
AWKWARD: dict[str, list[str]] = {
    "ny": ["New York", "NYC"], "nyc": ["New York City"], "york": ["York"], "hall": ["City Hall"], "city": ["city"],
    "å-1": ["Å"], "å-2": ["Å", "Å i Lofoten"], "lofoten": ["Lofoten"], "beyoncé": ["Beyoncé"], "new": ["New"],
    "jay": ["Jay-Z", "JAY Z"], "7": ["7"], "7-up": ["7 Up"], "straße": ["Straße"], "none": ["!!!"],
    "quote": ['The "X"'],
}  # fmt: skip
AWKWARD_PAIRS = [
    ("hall", "ny"), ("nyc", "hall"), ("york", "ny"), ("city", "hall"), ("å-1", "å-2"), ("å-2", "lofoten"),
    ("jay", "beyoncé"), ("beyoncé", "jay"), ("7", "7-up"), ("straße", "ny"), ("new", "york"), ("york", "atlantis"),
    ("york", "york"), ("quote", "jay"),
]  # fmt: skip
SAID = [
    "new york city hall", "New YORK, city-hall", "nyc", "BEYONCE", "Beyonce\u0301", "jay z", "JAY_Z", "a", "Å",
    "å i lofoten", "a i lofotens", "york york", "newyork", "new", "STRASSE", "straße", "7 up", "7", "77", "", "   ",
    '"the x"', "the 'X'", "日本", "lofoten", "new  york\tcity", "new york\u00a0city", "york\u200bnew", "the\nx",
    "\\", "ﬁn", "½",
]  # fmt: skip
TIMES = [
    "2014-01-13T00:00:00Z", "2014-01-12T23:59:59.999999Z", "2014-01-13T00:00:00.000001Z", "2014-01-19T23:59:59.999Z",
    "2014-01-20T00:00:00Z", "2014-01-20T01:59:59+02:00", "2014-01-20T02:00:00+02:00", "2014-01-13T01:59:59.5+02:00",
    "2014-01-13T02:00:00+02:00", "2014-01-12T22:00:00-02:00", "2014-01-12T21:59:59-0200", "2014-01-19", "2014-01-20",
    "20140119T235959Z", "2014-01-16 12:00:00", "2014-01-16T12:00", "2014-01-16T12:00:00,25Z", "2014-W03-1T00:00:00Z",
    "2014-01-12T18:30:00-05:30", "1969-12-31T23:59:59Z", "2014-01-13T05:29:59+05:30", "2014-01-13T05:30:00+05:30",
]  # fmt: skip
USERS: list[Any] = ["ann", "Ann", "7", 7, "007", "ünal", "🦊", " ann", 12345678901234567890, -1, *"abcdefgh"]
BROKEN: list[tuple[str, str]] = [
    ("no json", "not_json"), ('{"user": "a", "time": "2014-01-16", "query": "nyc"', "not_json"), ('["a"]', "not_json"),
    ('{"time": "2014-01-16", "query": "nyc"}', "no_user"),
    ('{"user": "", "time": "2014-01-16", "query": "nyc"}', "no_user"),
    ('{"user": "a", "query": "nyc"}', "no_time"), ('{"user": "a", "time": "2014-01-16"}', "no_query"),
    ('{"user": "a", "time": "2014-01-16", "query": null}', "no_query"),
    ('{"user": "a", "time": "2014-02-30", "query": "nyc"}', "bad_time"),
    ('{"user": "a", "time": "yesterday", "query": "nyc"}', "bad_time"),
    ('{"user": "a", "time": "2014-01-16T25:00:00Z", "query": "nyc"}', "bad_time"),
    ('{"user": "a", "time": 1389830400, "query": "nyc"}', "wrong_type"),
    ('{"user": 1.5, "time": "2014-01-16", "query": "nyc"}', "wrong_type"),
    ('{"user": "a", "time": "2014-01-16", "query": ["nyc"]}', "wrong_type"),
]  # fmt: skip


# --- brute force: nothing of streamtune below this line until the test


def split(text: str) -> tuple[str, ...]:
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold()).replace("\u200b", "")
    return tuple(re.findall(r"[^\W_]+", "".join(sign for sign in plain if not unicodedata.combining(sign))))


def named(query: str, names: dict[tuple[str, ...], set[str]]) -> set[str]:
    words, at, found, longest = split(query), 0, set[str](), max(map(len, names))
    while at < len(words):
        size = next((size for size in range(longest, 0, -1) if words[at : at + size] in names), 0)
        found |= names[words[at : at + size]] if size else set()
        at += size or 1
    return found


def day_of(time: str) -> date:
    read = datetime.fromisoformat(time)
    return (read.astimezone(UTC) if read.tzinfo else read).date()


def expected_rows(lines: list[Record], entities: dict[str, list[str]], pairs: list[tuple[str, str]]) -> dict[Any, Any]:
    names: dict[tuple[str, ...], set[str]] = {}
    for entity, called in entities.items():
        for name in filter(None, map(split, called)):
            names.setdefault(name, set()).add(entity)
    related = {pair for pair in pairs if pair[0] != pair[1]} | {(b, a) for a, b in pairs if a != b}
    events, users = Counter[Any](), dict[Any, set[str]]()
    for line in lines:
        if AS_OF - timedelta(days=WINDOW) < day_of(line["time"]) <= AS_OF:
            found = named(line["query"], names)
            for key in [*found, *(pair for pair in permutations(found, 2) if pair in related)]:
                events[key] += 1
                users.setdefault(key, set()).add(str(line["user"]))
    keys = [key for key in events if isinstance(key, tuple)]
    return {
        key: [number for part in (key, *key) for number in (events[part], len(users[part]))] for key in sorted(keys)
    }


# --- cases


def random_dictionary(case: int) -> tuple[dict[str, list[str]], list[tuple[str, str]], list[str]]:
    """Names that overlap and share beginnings, of three words that no other case has; and what people type."""
    draw = random.Random(case)
    words = [f"{stem}{case}" for stem in ("w", "é", "longerthaneight")]

    def phrase(most: int) -> str:
        return draw.choice([" ", "-", ", "]).join(draw.choices(words, k=draw.randrange(1, most)))

    entities = {f"c{case}-{number}": [phrase(5) for _ in range(draw.randrange(1, 3))] for number in range(12)}
    pairs = [(draw.choice(list(entities)), draw.choice(list(entities))) for _ in range(20)]
    return entities, pairs, [phrase(9).upper() if draw.random() < 0.3 else phrase(9) for _ in range(40)]


def make_case() -> tuple[dict[str, list[str]], list[tuple[str, str]], list[Record]]:
    draw = random.Random(0)
    entities, pairs = dict(AWKWARD), list(AWKWARD_PAIRS)
    queries = [*SAID, *(" ".join(draw.choices(SAID, k=3)) for _ in range(900))]
    for case in range(20):
        more, others, typed = random_dictionary(case)
        entities |= more
        pairs += others
        queries += typed
    lines = [{"user": draw.choice(USERS), "time": draw.choice(TIMES), "query": query} for query in queries]
    draw.shuffle(lines)
    return entities, pairs, lines


def write_logs(folder: Path, lines: list[Record]) -> None:
    """A third each as JSON lines (some with other fields, escapes and blank lines), gzipped, and as Parquet."""
    folder.mkdir()
    parts = [lines[number::3] for number in range(3)]
    text = [json.dumps({"x": [1, {"user": 0}], **line} if n % 7 == 0 else line, ensure_ascii=n % 2 == 0)
            for n, line in enumerate(parts[0])]  # fmt: skip
    text = [piece for n, line in enumerate(text) for piece in ([line, ""] if n % 50 == 0 else [line])]
    (folder / "a.jsonl").write_bytes("\r\n".join([*text, *(line for line, _ in BROKEN)]).encode())
    with gzip.open(folder / "b.log.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in parts[1])
    half = len(parts[2]) // 2
    whole = pa.table({name: [str(line[name]) for line in parts[2][:half]] for name in ("user", "time", "query")})
    nothing = pa.table(
        {"user": ["a", None, "b"], "time": ["2014-01-16", "2014-01-16", None], "query": [None, "nyc", "nyc"]}
    )
    pq.write_table(pa.concat_tables([whole, nothing]), folder / "c.parquet", row_group_size=50)
    stamps = [datetime.fromisoformat(line["time"]) for line in parts[2][half:]]
    known = [(stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).astimezone(UTC) for stamp in stamps]
    columns = {name: [str(line[name]) for line in parts[2][half:]] for name in ("user", "query")}
    pq.write_table(pa.table({**columns, "time": pa.array(known, pa.timestamp("us", "UTC"))}), folder / "d.parquet")


@pytest.mark.usefixtures("spark")
def test_every_column_as_by_brute_force(tmp_path: Path) -> None:
    entities, pairs, lines = make_case()
    kb, logs, out = tmp_path / "kb", tmp_path / "logs", tmp_path / "out"
    kb.mkdir()
    records = [{"id": key, "names": names, "type": "thing"} for key, names in entities.items()]
    (kb / "entities.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    records = [{"from": one, "to": other, "type": "knows"} for one, other in pairs]
    (kb / "relations.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    write_logs(logs, lines)
    asked = ["run", str(logs), "--knowledge", str(kb), "--as-of", str(AS_OF), "--window", str(WINDOW)]
    answer = CliRunner().invoke(app, [*asked, "--out", str(out), "--top", "1000", "--json"], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output

    expected = expected_rows(lines, entities, pairs)
    assert len(expected) > 250
    columns = ["events", "users", "entity_events", "entity_users", "related_events", "related_users"]
    for table in ("features", "rankings"):
        rows = pd.read_parquet(out / table)
        assert not rows.duplicated(["entity", "related"]).any()
        found = zip(rows["entity"], rows["related"], rows[columns].to_numpy().tolist(), strict=True)
        assert {(one, other): numbers for one, other, numbers in found} == expected
    order = rows.sort_values(["entity", "rank"])
    assert (order.groupby("entity")["rank"].diff().dropna() == 1).all()
    assert (order.groupby("entity")["score"].diff().dropna() <= 0).all()

    told = json.loads(answer.stdout)["counts"]
    names = {split(name): {key} for key, called in entities.items() for name in called if split(name)}
    reasons = Counter(reason for _, reason in BROKEN) + Counter(["no_user", "no_time", "no_query"])
    assert (
        told["lines"] == len(lines) + len(BROKEN) + 3 == told["broken"] + told["without_entity"] + told["with_entity"]
    )
    assert told["with_entity"] == sum(bool(named(line["query"], names)) for line in lines)
    quarantine = pd.read_parquet(out / "quarantine")
    assert Counter(quarantine["reason"]) == reasons
    raw = quarantine[quarantine["file"].str.endswith("a.jsonl")].sort_values("position")
    assert list(zip(raw["raw"], raw["reason"], strict=True)) == BROKEN
