"""Bring the generated parts of the documentation up to date: ``python docs/generate.py`` (``--check`` only looks)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from streamtune_docs.blocks import DOCS, filled, stale_pages


def main() -> int:
    stale = stale_pages()
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(DOCS.parent)} is stale: run 'python docs/generate.py'")
        return 1 if stale else 0
    for path in stale:
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"written: {path.relative_to(DOCS.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
