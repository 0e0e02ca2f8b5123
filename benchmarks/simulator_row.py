"""StreamTune's own row of the simulator's main table, without the rivals: ``make bench-simulator-row``.

Eight workloads, 120 changes of rates each, three seeds with a history and a model of their own: the row "streamtune" of
``make bench-paper`` and of docs/results/tuner.md, for use after a change of the tuner. Resumable (``build/bench-row``).
Written to benchmarks/results/simulator-row.json, beside the stored row of the last ``make bench-paper``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from streamtune.experiments.paper.contest import Arena, Grid, Scale
from streamtune.experiments.paper.contestants import MAIN
from streamtune.experiments.paper.main_grid import MEASURES, OURS

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    scale = Scale()
    arena = Arena(scale, Path("build/bench-row"), lambda text: print(text, file=sys.stderr, flush=True))
    grid = Grid(arena.grid([one for one in MAIN if one.label == OURS]))
    row = {name: grid.spread(OURS, measure) for name, (measure, _) in MEASURES.items()}
    left = sum(one.backpressure for one in grid.judged[OURS])
    told = {"scale": scale.told(), "changes": len(grid.judged[OURS]), "left": left, "mean, least and most": row}
    (RESULTS / "simulator-row.json").write_text(json.dumps(told, indent=1) + "\n")
    print(json.dumps(told, indent=1))
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
