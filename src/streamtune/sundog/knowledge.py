"""The knowledge base: entities with names and types, and the relations between them.

A folder with two files of JSON lines::

    entities.jsonl    {"id": "Q1", "names": ["Brad Pitt"], "type": "person"}
    relations.jsonl   {"from": "Q1", "to": "Q2", "type": "acted in"}

Inside, an entity is its place among the sorted ids, a type its place among the sorted types plus one (the thesis'
dictionary encoding; 0 means no type), and a *pair* two entities that are related in either direction.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamtune.sundog.errors import SundogError
from streamtune.sundog.kernels.relations import Relations, build_relations
from streamtune.sundog.kernels.trie import Trie, build_trie

FALSE_POSITIVES = 0.01
MOST_KEYS = 2**32 - 1


class Matcher(NamedTuple):
    """What the scan of log lines needs, as plain arrays: broadcast to all workers."""

    trie: Trie
    relations: Relations
    entities: int


@dataclass(frozen=True)
class Pairs:
    """Related pairs, low < high, sorted; types of the relations low → high and high → low, 0 for none."""

    low: NDArray[np.int32]
    high: NDArray[np.int32]
    forward_type: NDArray[np.int16]
    backward_type: NDArray[np.int16]
    relations: NDArray[np.int16]


@dataclass(frozen=True)
class Knowledge:
    """A knowledge base in memory. ``fingerprint`` tells two of them apart."""

    ids: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    entity_type: NDArray[np.int16]
    entity_types: tuple[str, ...]
    relation_types: tuple[str, ...]
    pairs: Pairs
    fingerprint: str
    skipped_relations: int = 0

    @property
    def keys(self) -> int:
        """How many keys there are: everything, each entity, each pair."""
        return 1 + len(self.ids) + len(self.pairs.low)

    @cached_property
    def matcher(self) -> Matcher:
        """The compiled dictionary and relations."""
        names = [name for of_entity in self.names for name in of_entity]
        entities = np.repeat(np.arange(len(self.ids), dtype=np.int32), [len(of_entity) for of_entity in self.names])
        trie, _ = build_trie(names, entities)
        relations = build_relations(self.pairs.low, self.pairs.high, FALSE_POSITIVES)
        return Matcher(trie, relations, len(self.ids))

    def entity(self, name_or_id: str) -> int:
        """The number of an entity by its id."""
        place = int(np.searchsorted(np.array(self.ids), name_or_id))
        if place < len(self.ids) and self.ids[place] == name_or_id:
            return place
        raise SundogError(f"there is no entity '{name_or_id}' in the knowledge base: check the id")


def load_knowledge(folder: str | Path) -> Knowledge:
    """Read and check a knowledge base."""
    folder = Path(folder)
    if not folder.is_dir():
        raise SundogError(f"{folder} is not a folder: a knowledge base has entities.jsonl and relations.jsonl in it")
    entities = [_entity(record, place) for record, place in _records(folder / "entities.jsonl")]
    relations = [_relation(record, place) for record, place in _records(folder / "relations.jsonl")]
    return build_knowledge(entities, relations)


def build_knowledge(
    entities: Sequence[tuple[str, Sequence[str], str]], relations: Sequence[tuple[str, str, str]]
) -> Knowledge:
    """From (id, names, type) and (from, to, type). Relations of an entity with itself or an unknown one are skipped."""
    if not entities:
        raise SundogError("the knowledge base has no entities: add some to entities.jsonl")
    ordered = sorted(entities, key=lambda entity: entity[0])
    ids = tuple(entity[0] for entity in ordered)
    for one, other in pairwise(ids):
        if one == other:
            raise SundogError(f"entities.jsonl: entity '{one}' is there twice: give every entity an id of its own")
    entity_types = tuple(sorted({entity[2] for entity in ordered}))
    type_code = {name: code for code, name in enumerate(entity_types, start=1)}
    relation_types = tuple(sorted({relation[2] for relation in relations}))
    pairs, skipped = _pairs(dict(zip(ids, range(len(ids)), strict=True)), relations, relation_types)
    if 1 + len(ids) + len(pairs.low) > MOST_KEYS or max(len(entity_types), len(relation_types)) > 32767:
        raise SundogError(f"the knowledge base is too large: {len(ids)} entities, {len(pairs.low)} pairs")
    return Knowledge(
        ids=ids,
        names=tuple(tuple(entity[1]) for entity in ordered),
        entity_type=np.array([type_code[entity[2]] for entity in ordered], np.int16),
        entity_types=entity_types,
        relation_types=relation_types,
        pairs=pairs,
        fingerprint=_fingerprint(ordered, relations),
        skipped_relations=skipped,
    )


def _pairs(
    number: Mapping[str, int], relations: Sequence[tuple[str, str, str]], types: Sequence[str]
) -> tuple[Pairs, int]:
    code = {name: place for place, name in enumerate(types, start=1)}
    known = [
        (number[begin], number[end], code[kind])
        for begin, end, kind in relations
        if begin in number and end in number and begin != end
    ]
    rows = np.unique(np.array(known, np.int64).reshape(-1, 3), axis=0)
    low, high = np.minimum(rows[:, 0], rows[:, 1]), np.maximum(rows[:, 0], rows[:, 1])
    keys, place = np.unique(low << 32 | high, return_inverse=True)
    none = np.iinfo(np.int16).max
    forward, backward = np.full(len(keys), none, np.int16), np.full(len(keys), none, np.int16)
    ahead = rows[:, 0] == low  # several relations one way: the first type in order stands for them
    np.minimum.at(forward, place[ahead], rows[ahead, 2].astype(np.int16))
    np.minimum.at(backward, place[~ahead], rows[~ahead, 2].astype(np.int16))
    forward[forward == none] = 0
    backward[backward == none] = 0
    count = np.minimum(np.bincount(place, minlength=len(keys)), none).astype(np.int16)
    pairs = Pairs((keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32), forward, backward, count)
    return pairs, len(relations) - len(known)


def _fingerprint(entities: Sequence[tuple[str, Sequence[str], str]], relations: Sequence[tuple[str, str, str]]) -> str:
    digest = hashlib.sha256()
    for entity in entities:
        digest.update(json.dumps(entity).encode())
    for relation in sorted(set(relations)):
        digest.update(json.dumps(relation).encode())
    return digest.hexdigest()[:16]


def _records(file: Path) -> Iterator[tuple[dict[str, Any], str]]:
    if not file.is_file():
        raise SundogError(f"{file} is missing: a knowledge base has entities.jsonl and relations.jsonl in it")
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError) as error:
                    why = getattr(error, "msg", str(error).partition(";")[0])
                    raise SundogError(f"{file} line {number} is not valid JSON: {why}. Correct the line") from error
                if not isinstance(record, dict):
                    raise SundogError(f"{file} line {number}: expected an object, but got {line.strip()[:60]!r}")
                yield record, f"{file} line {number}"
    except UnicodeDecodeError as error:
        raise SundogError(f"{file} is not UTF-8: {error.reason} at byte {error.start}") from error


def _text(record: Mapping[str, Any], field: str, place: str) -> str:
    value = record.get(field)
    if not isinstance(value, str) or not value:
        raise SundogError(f"{place}: '{field}' must be a text that is not empty, but got {value!r}")
    return value


def _entity(record: Mapping[str, Any], place: str) -> tuple[str, tuple[str, ...], str]:
    names = record.get("names")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SundogError(f"{place}: 'names' must be a list of texts, but got {names!r}")
    return _text(record, "id", place), tuple(names), _text(record, "type", place)


def _relation(record: Mapping[str, Any], place: str) -> tuple[str, str, str]:
    return _text(record, "from", place), _text(record, "to", place), _text(record, "type", place)
