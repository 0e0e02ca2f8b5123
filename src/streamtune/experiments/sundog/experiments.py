"""Sundog's experiments by name, for ``streamtune bench sundog``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from streamtune.errors import StreamTuneError
from streamtune.experiments.paper.findings import Finding
from streamtune.experiments.sundog.arena import SundogArena
from streamtune.experiments.sundog.real_data import SOURCES, real_data
from streamtune.experiments.sundog.study import Judgements, fig3, fig4, table2, table4, table5, table6
from streamtune.experiments.sundog.trends import trends

ALL = "sundog"
_JUDGED: dict[str, Callable[[Judgements], Finding]] = {
    "sundog-table2": table2,
    "sundog-fig3": fig3,
    "sundog-table4": table4,
    "sundog-table5": table5,
    "sundog-table6": table6,
    "sundog-fig4": fig4,
}


def chosen(names: Sequence[str], arena: SundogArena, real: Path | None) -> dict[str, Callable[[], Finding]]:
    """The experiments asked for; ``sundog`` is all of them, real data included where there is any."""
    judgements = Judgements(arena)
    known: dict[str, Callable[[], Finding]] = {name: partial(made, judgements) for name, made in _JUDGED.items()}
    known["sundog-trends"] = partial(trends, arena)
    if real is not None:
        known |= {f"sundog-{source}": partial(real_data, arena, real, source) for source in SOURCES}
    wanted = list(known) if ALL in names else list(names)
    for name in wanted:
        if name not in known:
            hint = " (real data: give its folder with --real-data)" if name.removeprefix("sundog-") in SOURCES else ""
            raise StreamTuneError(f"unknown experiment '{name}'{hint}: choose among {', '.join((ALL, *known))}")
    return {name: known[name] for name in wanted}
