"""Check a built site: ``python docs/check_site.py build/docs`` lists broken links and what is loaded from outside."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from streamtune_docs.site import problems


def main() -> int:
    site = Path(sys.argv[1])
    found = problems(site)
    print("\n".join(found) or f"{site}: every internal link leads somewhere, and nothing is loaded from outside")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
