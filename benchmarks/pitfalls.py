"""Makes each pitfall of the edit distance in a copy of the kernel and checks that a test fails. About five minutes.

python benchmarks/pitfalls.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What is made wrong: a file of the room, the right text, the wrong text.
PITFALLS = {
    "a reversal costs two": (
        "kernels.py",
        "cost += image >= 0 and search.relation[SMALL, row, other] != search.relation[LARGE, column, image]",
        "cost += image >= 0 and 2 * (search.relation[SMALL, row, other] != search.relation[LARGE, column, image])",
    ),
    "crossing edges: |Δout| + |Δin|": (
        "kernels.py",
        "return max(out_a + in_a, out_b + in_b) - min(out_a, out_b) - min(in_a, in_b)",
        "return abs(out_a - out_b) + abs(in_a - in_b)",
    ),
    "edges between unmapped nodes do not count": (
        "kernels.py",
        "common + crossing + abs(inner)",
        "common + crossing + 0 * abs(inner)",
    ),
    "no flip when a node leaves an anchor's crossing set": (
        "kernels.py",
        "== FORWARD:\n            search.node[IN, side, other] += step",
        "!= FORWARD:\n            search.node[IN, side, other] += step",
    ),
    "the degree filter looks at directed degrees": (
        "packed.py",
        "+ edge).ravel(), minlength=len(names))",
        "+ edge[:, :1]).ravel(), minlength=len(names)) * 2",
    ),
    "empty graphs reach the search": (
        "kernels.py",
        "if graphs.node_start[a + 1] == graphs.node_start[a]:",
        "if graphs.node_start[a + 1] < graphs.node_start[a]:",
    ),
}


def fails(file: str, right: str, wrong: str) -> bool:
    """Whether the tests of pitfalls or exactness notice."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        target = copy / "streamtune" / "similarity" / file
        text = target.read_text(encoding="utf-8")
        if right not in text:
            raise SystemExit(f"{file} has changed: '{right}' is not in it any more")
        target.write_text(text.replace(right, wrong), encoding="utf-8")
        tests = ["tests/similarity/test_pitfalls.py", "tests/similarity/test_exactness.py"]
        environment = {**os.environ, "PYTHONPATH": str(copy), "NUMBA_CACHE_DIR": str(Path(folder) / "numba")}
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False).returncode == 1


def main() -> None:
    missed = []
    for name, change in PITFALLS.items():
        noticed = fails(*change)
        print(f"{'noticed' if noticed else 'NOT NOTICED'}: {name}", flush=True)
        missed += [] if noticed else [name]
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
