"""The ranking of one entity over days: what rose, what fell, and which features moved with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from streamtune.sundog import storage
from streamtune.sundog.errors import SundogError
from streamtune.sundog.kernels.text import normalise
from streamtune.sundog.knowledge import load_knowledge
from streamtune.sundog.places import table_folder
from streamtune.sundog.tables import damaged, ranked_days

_TELLING = ("conditional_users", "conditional_events", "joint_users", "pmi_users", "kl_users")
_MOST_DAYS = 400


@dataclass(frozen=True)
class Standing:
    """A related entity on one day."""

    related: str
    name: str
    rank: int
    before: int | None
    score: float
    events: int
    users: int
    conditional: float

    @property
    def move(self) -> str:
        if self.before is None or self.before == self.rank:
            return "="
        return "▲" if self.rank < self.before else "▼"


@dataclass(frozen=True)
class EntityHistory:
    """Rankings of one entity, day by day (oldest first), and sentences about what moved on each day."""

    entity: str
    name: str
    window: int
    days: tuple[date, ...]
    standings: tuple[tuple[Standing, ...], ...]
    features: dict[str, list[dict[str, float]]]
    moved: tuple[tuple[str, ...], ...]

    @property
    def newest(self) -> tuple[Standing, ...]:
        return self.standings[-1]

    @property
    def reasons(self) -> tuple[str, ...]:
        """What moved on the newest day."""
        return self.moved[-1]

    def to_record(self) -> dict[str, Any]:
        rows = [
            {"day": day.isoformat(), "ranking": [asdict(standing) for standing in standings], "moved": list(moved)}
            for day, standings, moved in zip(self.days, self.standings, self.moved, strict=True)
        ]
        return {
            "entity": self.entity,
            "name": self.name,
            "window": self.window,
            "days": rows,
            "reasons": list(self.reasons),
        }


def find_entity(text: str, knowledge: Path | None) -> tuple[str, dict[str, str]]:
    """The id that is meant, and the first name of every entity where they are known."""
    if knowledge is None:
        return text, {}
    known = load_knowledge(knowledge)
    names = {key: of_entity[0] if of_entity else key for key, of_entity in zip(known.ids, known.names, strict=True)}
    if text in names:
        return text, names
    wanted = normalise(text)
    bearers = [
        key for key, of_entity in zip(known.ids, known.names, strict=True) if wanted in map(normalise, of_entity)
    ]
    if not bearers:
        raise SundogError(f"no entity has the id or the name '{text}' in {knowledge}: check the spelling")
    if len(bearers) > 1:
        raise SundogError(f"{len(bearers)} entities are called '{text}': give one of the ids {', '.join(bearers[:5])}")
    return bearers[0], names


def entity_history(out: str, entity: str, window: int, names: Mapping[str, str] | None = None) -> EntityHistory:
    """All rankings of an entity with one window."""
    names = names or {}
    days = ranked_days(out, window)[-_MOST_DAYS:]
    if not days:
        raise SundogError(f"there are no rankings with a window of {window} days in {out}: try another --window")
    standings: list[tuple[Standing, ...]] = []
    features: dict[str, list[dict[str, float]]] = {}
    before: dict[str, int] = {}
    for day in days:
        ranked, measured = (_rows(table_folder(out, table, day, window), entity) for table in ("rankings", "features"))
        told = measured.set_index("related")[list(_TELLING)]
        chance = dict(zip(told.index.astype(str), told["conditional_users"].to_numpy(), strict=True))
        standings.append(
            tuple(
                Standing(
                    str(row["related"]),
                    names.get(str(row["related"]), str(row["related"])),
                    int(row["rank"]),
                    before.get(str(row["related"])),
                    float(row["score"]),
                    int(row["events"]),
                    int(row["users"]),
                    float(chance[str(row["related"])]),
                )
                for _, row in ranked.sort_values("rank").iterrows()
            )
        )
        before = {standing.related: standing.rank for standing in standings[-1]}
        for related, values in zip(told.index.astype(str), told.to_numpy(np.float64), strict=True):
            measures = dict(zip(_TELLING, map(float, values), strict=True))
            features.setdefault(related, []).append({"day": float(day.toordinal()), **measures})
    if not any(standings):
        raise SundogError(f"'{entity}' has no ranking in {out}: check the id, or give --knowledge to go by name")
    moved = tuple(tuple(_moved(standings, features, days, place)) for place in range(len(days)))
    return EntityHistory(entity, names.get(entity, entity), window, tuple(days), tuple(standings), features, moved)


def _rows(folder: str, entity: str) -> pd.DataFrame:
    system, path = storage.locate(folder)
    try:
        table = ds.dataset(path, filesystem=system, format="parquet", partitioning=None)
        frame: pd.DataFrame = table.to_table(filter=ds.field("entity") == entity).to_pandas()
    except (pa.ArrowException, OSError) as error:
        raise damaged(folder, error) from error
    return frame


def _moved(
    standings: list[tuple[Standing, ...]], features: Mapping[str, list[dict[str, float]]], days: list[date], place: int
) -> list[str]:
    """What moved on a day against the one before, largest moves first, with the features that changed."""
    if place == 0:
        return []
    moved = [one for one in standings[place] if one.before is None or one.before != one.rank]
    moved.sort(key=lambda one: -(abs(one.before - one.rank) if one.before is not None else 100 - one.rank))
    told = []
    for one in moved[:5]:
        by_day = {row["day"]: row for row in features.get(one.related, [])}
        now, then = (by_day.get(float(day.toordinal())) for day in (days[place], days[place - 1]))
        what = (
            "is new at" if one.before is None else f"{'rose' if one.rank < one.before else 'fell'} from {one.before} to"
        )
        why = _changes(then, now) if now and then else "nobody searched for the two in the window before"
        told.append(f"{one.name} {what} {one.rank}: {why}")
    return told


def _changes(then: Mapping[str, float], now: Mapping[str, float]) -> str:
    parts = [f"{name} {then[name]:.4g} → {now[name]:.4g}" for name in _TELLING if then[name] != now[name]]
    return ", ".join(parts) or "its features did not change, those of others did"
