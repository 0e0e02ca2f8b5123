"""A made-up world with planted truth: entities, relations, and how interest in them rises and falls.

Interest in pair p on day d is ``base[p] · (1 + Σ amplitude · shape(d − start))`` over the events of the pair; an event
lifts interest at once and lets it decay (``shape(t) = exp(−t / decay)`` for t ≥ 0). People search in proportion to
interest, so what an editor would be asked is known:

=====  ==================  =======================================================================================
grade  relevance           interest today against the strongest relation of the entity (share of the best)
=====  ==================  =======================================================================================
4      Super Related       at least 50 %
3      Closely Related     at least 20 %
2      Mostly Related      at least 7 %
1      Somewhat Related    at least 2 %
0      Embarrassing        less
=====  ==================  =======================================================================================

=====  ==================  =======================================================================================
grade  recency             an event *counts* while it lifts interest by at least half of the base
=====  ==================  =======================================================================================
4      Super Recent        an event that counts began today or yesterday
3      Very Recent         one that counts began in the past week
2      Recent              an event began in the past year, but no longer counts or is older than a week
1      Reasonable          no event, but the base is at least 20 % of the strongest base of the entity
0      Outdated            neither
=====  ==================  =======================================================================================
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from streamtune.sundog.errors import SundogError
from streamtune.sundog.places import day_number
from streamtune.sundog.settings import WorldSettings

Floats = NDArray[np.float64]

RELEVANCE = ("Embarrassing", "Somewhat Related", "Mostly Related", "Closely Related", "Super Related")
RECENCY = ("Outdated", "Reasonable", "Recent", "Very Recent", "Super Recent")
_SHARES = np.array([0.02, 0.07, 0.2, 0.5])
_POPULAR = 0.2
_COUNTS = 0.5
_TYPES = ("person", "film", "team", "place", "song")
_RELATIONS = ("acted in", "plays for", "located in", "married to", "performed", "rival of")
_SYLLABLES = [first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou"]
_ACCENTS = str.maketrans("aeiouAEIOU", "áèîöûÁÈÎÖÛ")


@dataclass(frozen=True)
class Truth:
    """Planted interest: pairs (by entity ids) with their base, and events with start (a day number) and decay."""

    entity: NDArray[np.str_]
    related: NDArray[np.str_]
    base: Floats
    event_pair: NDArray[np.int64]
    event_start: NDArray[np.int64]
    event_amplitude: Floats
    event_decay: Floats

    def lifts(self, day: int) -> Floats:
        """What each event adds on a day, as a multiple of its pair's base."""
        age = day - self.event_start
        return np.where(age >= 0, self.event_amplitude * np.exp(-np.maximum(age, 0) / self.event_decay), 0.0)

    def interest(self, day: int) -> Floats:
        """Interest in every pair on a day."""
        lift = np.bincount(self.event_pair, self.lifts(day), minlength=len(self.base))
        return self.base * (1.0 + lift)

    def grades(self, day: date) -> dict[tuple[str, str], tuple[int, int]]:
        """Relevance and recency of every related pair on a day, in both directions."""
        number = day_number(day)
        both = [*zip(self.entity, self.related, strict=True), *zip(self.related, self.entity, strict=True)]
        relevance = np.searchsorted(_SHARES, self._share(self.interest(number)), side="right")
        recency = np.tile(self._recency(number), 2)
        popular = self._share(self.base) >= _POPULAR
        recency = np.where(recency > 0, recency, popular.astype(np.int64))
        return {
            (str(one), str(other)): (int(first), int(second))
            for (one, other), first, second in zip(both, relevance, recency, strict=True)
        }

    def _share(self, strength: Floats) -> Floats:
        """Of both directions: strength against the strongest relation of the first entity."""
        first = np.concatenate([self.entity, self.related])
        _, group = np.unique(first, return_inverse=True)
        best = np.zeros(group.max(initial=-1) + 1)
        both = np.tile(strength, 2)
        np.maximum.at(best, group, both)
        return both / best[group]

    def _recency(self, day: int) -> NDArray[np.int64]:
        """Grades 2 to 4 of pairs with an event, else 0."""
        age, lift = day - self.event_start, self.lifts(day)
        grade = np.where((age >= 0) & (age <= 365), 2, 0)
        grade = np.where((lift >= _COUNTS) & (age >= 0) & (age <= 7), 3, grade)
        grade = np.where((lift >= _COUNTS) & (age >= 0) & (age <= 1), 4, grade)
        found = np.zeros(len(self.base), np.int64)
        np.maximum.at(found, self.event_pair, grade)
        return found

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        pairs = {"entity": self.entity.tolist(), "related": self.related.tolist(), "base": self.base}
        events = {
            "pair": self.event_pair,
            "start": self.event_start,
            "amplitude": self.event_amplitude,
            "decay": self.event_decay,
        }
        pq.write_table(pa.table(pairs), folder / "pairs.parquet")
        pq.write_table(pa.table(events), folder / "events.parquet")

    @classmethod
    def read(cls, folder: Path) -> Truth:
        if not (folder / "pairs.parquet").is_file():
            raise SundogError(f"{folder} holds no planted truth: give the 'truth' folder that generate made")
        pairs, events = pq.read_table(folder / "pairs.parquet"), pq.read_table(folder / "events.parquet")
        return cls(
            np.array(pairs["entity"].to_pylist()),
            np.array(pairs["related"].to_pylist()),
            *(pairs["base"].to_numpy(),),
            *(events[name].to_numpy() for name in ("pair", "start", "amplitude", "decay")),
        )


@dataclass(frozen=True)
class World:
    """A knowledge base with its truth. Pairs are numbers of entities here."""

    settings: WorldSettings
    ids: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    types: tuple[str, ...]
    weight: Floats
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    relation: tuple[str, ...]
    truth: Truth

    def write(self, folder: Path) -> None:
        """The folders ``knowledge`` and ``truth``."""
        knowledge = folder / "knowledge"
        knowledge.mkdir(parents=True, exist_ok=True)
        entities = zip(self.ids, self.names, self.types, strict=True)
        (knowledge / "entities.jsonl").write_text(
            "".join(
                json.dumps({"id": key, "names": list(names), "type": kind}, ensure_ascii=False) + "\n"
                for key, names, kind in entities
            ),
            encoding="utf-8",
        )
        ends = zip(self.low, self.high, self.relation, strict=True)
        (knowledge / "relations.jsonl").write_text(
            "".join(
                json.dumps({"from": self.ids[low], "to": self.ids[high], "type": kind}) + "\n"
                for low, high, kind in ends
            ),
            encoding="utf-8",
        )
        self.truth.write(folder / "truth")


def build_world(settings: WorldSettings) -> World:
    """Everything that follows from the settings."""
    random = np.random.default_rng([settings.seed, 1])
    size = settings.entities
    ids = tuple(f"E{number:07d}" for number in range(size))
    weight: Floats = np.power(1.0 + random.permutation(size), -settings.popularity).astype(np.float64)
    low, high = _relations(random, weight, round(settings.relations_per_entity * size / 2))
    base = np.exp(random.normal(0.0, 1.0, len(low))) * np.sqrt(weight[low] * weight[high])
    truth = _truth(random, settings, np.array(ids)[low], np.array(ids)[high], base / base.sum())
    kinds = random.integers(0, len(_TYPES), size)
    types = tuple("place" if number < settings.villages else _TYPES[kind] for number, kind in enumerate(kinds))
    relation = tuple(_RELATIONS[kind] for kind in random.integers(0, len(_RELATIONS), len(low)))
    return World(settings, ids, _names(random, settings), types, weight, low, high, relation, truth)


def words(random: np.random.Generator, count: int) -> list[str]:
    """So many different words."""
    found: dict[str, None] = {}
    while len(found) < count:
        size = random.integers(2, 5, 2 * count)
        draws = random.integers(0, len(_SYLLABLES), (2 * count, 4))
        for length, draw in zip(size, draws, strict=True):
            found["".join(_SYLLABLES[place] for place in draw[:length])] = None
    return list(found)[:count]


def _names(random: np.random.Generator, settings: WorldSettings) -> tuple[tuple[str, ...], ...]:
    vocabulary = words(random, max(200, settings.entities))
    tokens = random.choice([1, 2, 3], settings.entities, p=[0.15, 0.6, 0.25])
    names: list[tuple[str, ...]] = []
    for number in range(settings.entities):
        draw = random.random()
        if number < settings.villages:
            names.append(("Å",))
        elif number > settings.villages and draw < settings.shared_names:
            names.append((names[int(random.integers(settings.villages, number))][0],))
        elif number > settings.villages and draw < settings.shared_names + settings.longer_names:
            shorter = names[int(random.integers(settings.villages, number))][0]
            names.append((f"{shorter} {vocabulary[int(random.integers(len(vocabulary)))].title()}",))
        else:
            parts = [vocabulary[place].title() for place in random.integers(0, len(vocabulary), tokens[number])]
            name = " ".join(parts)
            names.append((name, "".join(part[0] for part in parts) + vocabulary[number]) if draw > 0.7 else (name,))
    return tuple(names)


def _relations(random: np.random.Generator, weight: Floats, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    chance = np.sqrt(weight) / np.sqrt(weight).sum()
    one = random.permutation(np.resize(np.arange(len(weight)), count))
    other = random.choice(len(weight), count, p=chance)
    pairs = np.unique(np.stack([np.minimum(one, other), np.maximum(one, other)], axis=1)[one != other], axis=0)
    return pairs[:, 0], pairs[:, 1]


def _truth(
    random: np.random.Generator, settings: WorldSettings, low: NDArray[np.str_], high: NDArray[np.str_], base: Floats
) -> Truth:
    before = 30  # events of the month before the log still lift interest in it
    span = settings.days + before
    count = int(random.poisson(settings.events_per_day * span * len(base)))
    # Well-known pairs make the news more often.
    pair = random.choice(len(base), count, p=np.sqrt(base) / np.sqrt(base).sum())
    first = day_number(settings.start) - before
    return Truth(
        low,
        high,
        base,
        pair.astype(np.int64),
        first + random.integers(0, span, count),
        settings.amplitude * np.exp(random.normal(0.0, 0.8, count)),
        0.5 + random.exponential(settings.decay_days, count),
    )


def accented(text: str) -> str:
    """The same to Sundog, not to the eye."""
    return text.translate(_ACCENTS)


def last_day(settings: WorldSettings) -> date:
    return settings.start + timedelta(days=settings.days - 1)
