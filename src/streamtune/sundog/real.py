"""Two sources of real, time-stamped co-occurrence as logs over a knowledge base.

MovieTweetings (Dooms et al.): a line is the films that one person rated on one day; films are related that share a
genre. Commits of apache/spark: a line is the files of a commit; files of one module (the first two folders) are
related. Only what occurs often enough to have a ranking becomes an entity. Neither has judgements: what occurs together
*afterwards* stands in for them.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

from streamtune.sundog.errors import SundogError


def write_movietweetings(source: Path, folder: Path, *, least_ratings: int = 25) -> int:
    """``knowledge`` and ``logs`` of MovieTweetings; the number of lines."""
    _require(source / "ratings.csv.gz", source / "movies.jsonl.gz")
    with gzip.open(source / "ratings.csv.gz", "rt", encoding="utf-8", newline="") as file:
        ratings = [(row["user"], row["movie"], int(row["unix_time"])) for row in csv.DictReader(file)]
    often = Counter(movie for _, movie, _ in ratings)
    films = [film for film in _json_lines(source / "movies.jsonl.gz") if often[film["movie"]] >= least_ratings]
    title = {film["movie"]: film["title"] for film in films}
    rated: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for user, movie, when in ratings:
        if movie in title:
            rated[user, _iso(when)[:10]].append((when, movie))
    lines = [
        {"user": user, "time": _iso(max(seen)[0]), "query": " ; ".join(title[movie] for _, movie in sorted(seen))}
        for (user, _), seen in sorted(rated.items())
    ]
    entities = [{"id": film["movie"], "names": [film["title"]], "type": "film"} for film in films]
    relations = (
        {"from": one["movie"], "to": other["movie"], "type": f"both {shared[0]}"}
        for one, other in combinations(films, 2)
        if (shared := sorted(set(one["genres"]) & set(other["genres"])))
    )
    return _write(folder, entities, relations, lines)


def write_commits(source: Path, folder: Path, *, least_commits: int = 25, most_files: int = 60) -> int:
    """``knowledge`` and ``logs`` of Spark's commits; those that touch very many files say nothing and are left out."""
    _require(source / "commits.jsonl.gz")
    commits = [commit for commit in _json_lines(source / "commits.jsonl.gz") if len(commit["files"]) <= most_files]
    often = Counter(file for commit in commits for file in set(commit["files"]))
    kept = {file for file, count in often.items() if count >= least_commits}
    modules: dict[str, list[str]] = defaultdict(list)
    for file in sorted(kept):
        modules["/".join(file.split("/")[:2])].append(file)
    lines = [
        {
            "user": commit["author"],
            "time": _iso(commit["unix_time"]),
            "query": " ; ".join(sorted(kept & set(commit["files"]))),
        }
        for commit in commits
        if kept & set(commit["files"])
    ]
    entities = [{"id": file, "names": [file], "type": file.rpartition(".")[2] or "file"} for file in sorted(kept)]
    relations = (
        {
            "from": one,
            "to": other,
            "type": "same folder" if one.rpartition("/")[0] == other.rpartition("/")[0] else "same module",
        }
        for files in modules.values()
        for one, other in combinations(files, 2)
    )
    return _write(folder, entities, relations, lines)


def _require(*files: Path) -> None:
    for file in files:
        if not file.is_file():
            raise SundogError(f"{file} is not there: the real data is kept beside the project, see its README")


def _json_lines(file: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _write(
    folder: Path, entities: Iterable[dict[str, Any]], relations: Iterable[dict[str, Any]], lines: list[dict[str, Any]]
) -> int:
    contents: dict[str, Iterable[dict[str, Any]]] = {
        "knowledge/entities.jsonl": entities,
        "knowledge/relations.jsonl": relations,
        "logs/lines.jsonl": sorted(lines, key=lambda line: (line["time"], line["user"])),
    }
    for name, records in contents.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w", encoding="utf-8") as out:
            out.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    return len(lines)
