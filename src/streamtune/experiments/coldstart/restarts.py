"""``bench coldstart-zerotune``: from cold to settled, against ZeroTune's advice, without the encoders of ``coldstart``.

ZeroTune's cost model takes minutes of training per platform, clusters and encoders take many more; they say nothing
where past operators do.
"""

from __future__ import annotations

from streamtune.experiments.coldstart.arena import ColdArena
from streamtune.experiments.coldstart.bench import by_kind, restart_checks, told
from streamtune.experiments.coldstart.ways import ONE_DS2, OURS, ZEROTUNE, ZEROTUNE_FRUGAL
from streamtune.experiments.paper.contest import Arena
from streamtune.experiments.paper.findings import Finding


def against_zerotune(arena: Arena) -> Finding:
    """Our first plans and the two rivals of the target, from the same history."""
    cold = ColdArena(arena)
    judged = {
        way.label: [one for seed in cold.seeds for one in cold.played(way, seed)]
        for way in (ONE_DS2, ZEROTUNE, ZEROTUNE_FRUGAL, OURS)
    }
    return Finding(
        name="coldstart-zerotune",
        title="From cold to settled, against ZeroTune's advice",
        setting=told(arena.scale),
        paper="ZeroTune predicts costs of a plan before it runs; after its advice our tuner goes on without any past.",
        tables=by_kind(judged),
        checks=tuple(restart_checks(judged)),
    )
