"""Every command line that ``--help``, the README and the documentation show, and how tests run it.

A new example needs nothing: it is found and run. One that cannot be run says why, in ``NOT_RUN`` below or, for a whole
block of a page, in a comment right before it: ``<!-- not run: it needs a YARN cluster -->``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from streamtune_docs.blocks import DOCS

from cli_fuzz import commands

ROOT = DOCS.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<why>.+?) -->\n)?^```(?:sh|bash)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)


class Needs(StrEnum):
    """What an example needs beside files."""

    LIBRARIES = "torch or a solver, seconds to load or to compile"
    SPARK = "Spark"
    FLINK = "a Flink server, here a fake one"


# What no pattern fits needs nothing but files.
NEEDS = (
    (Needs.FLINK, r"--engine flink|streamtune flink (status|plan|doctor|resume)|streamtune collect"),
    (Needs.SPARK, r"streamtune (history|cluster|pretrain|sundog (generate|run|stream|rank|train))|--forecast history"),
    (Needs.LIBRARIES, r"--(cost-)?model |streamtune (costmodel|model) show|streamtune (plan|place|provision|distance)"),
    (Needs.LIBRARIES, r"streamtune (autoconfig|recommend|sundog)|--(report|plot) "),
)

NOT_RUN = {
    r"make |source |\.venv/bin/": "it builds, tests or measures this checkout, this test included",
    r"streamtune demo": "it trains on Spark for minutes; `make demo` is the example, tests/experiments has its parts",
    r"streamtune model key": "it makes a file that must not be there yet; tests/cli/test_signed_models.py makes one",
    r"streamtune learn": "it needs an hour of a service's observations; tests/service/test_learn.py goes through it",
    r"streamtune serve": "it serves until Ctrl-C; tests/service starts it with --demo, a config file and PostgreSQL",
    r"streamtune bench ": "an experiment of minutes to hours; tests/experiments runs each one small",
    r"streamtune flink (up|submit|rates|down)": "tests/engines/flink/test_integration.py runs these on a real cluster",
    r"streamtune tune --engine flink +#": "it tunes the job of the real cluster of the lines before it",
    r"flink resume --forget": "nothing was interrupted; tests/cli/test_flink_watch.py forgets a job",
    r"--engine timely --changes": "a real Timely in real time; tests/cli/test_timely_tuning.py runs it with less time",
    r"costmodel (generate|train|fine-tune)": "thousands of plans, minutes; tests/models/costmodel runs it with fewer",
    r"history generate my-history --runs 10000": "10,000 simulated runs, a minute; the tutorial's 400 are run",
    r"sundog generate world": "a million lines, a minute; tests/sundog/test_commands.py generates a small world",
    r"sundog (run|stream|rank|train|evaluate|show) ": "days of logs, or the user's own; tests/sundog/test_commands.py"
    " goes through all these commands on a small world",
    r"--format pdsp": "PDSP-Bench's runs do not come with StreamTune; tests/history/test_pdsp.py has some of its lines",
    r"ingest my-history incoming/ --follow": "it goes on until Ctrl-C; tests/history/test_stream.py follows a folder",
    r"benchmarks/data/timely": "the repository's 240 real runs, in the how-to for Timely; `make build/timely-model`",
    r"autoconfig run .*--(spark-app|jar)": "it runs the user's own application; tests/autoconfig has one of each",
    r"provision sample C(MO|O)1 ": "real limits need root and control groups; tests/labs samples under them",
}


@dataclass(frozen=True)
class Example:
    """One line as somebody would type it."""

    origin: str
    line: str
    why_not: str | None = None

    @property
    def reason(self) -> str | None:
        """Why it is not run; None where it is."""
        return self.why_not or next((why for pattern, why in NOT_RUN.items() if re.search(pattern, self.line)), None)

    @property
    def needs(self) -> frozenset[Needs]:
        return frozenset(needs for needs, pattern in NEEDS if re.search(pattern, self.line))

    @property
    def calls(self) -> list[list[str]]:
        """The words of each command of the line; ``a && b`` has two."""
        return [shlex.split(part, comments=True) for part in self.line.split("&&")]


def examples() -> Iterator[Example]:
    """All of them, those of ``--help`` first; the same line counts once, whatever is said beside it."""
    seen: set[str] = set()
    for example in (*_of_help(), *_of_pages()):
        plain = " ".join(example.line.partition(" # ")[0].split())
        if plain not in seen:
            seen.add(plain)
            yield example


def _of_help() -> Iterator[Example]:
    for path, command in sorted(commands(), key=lambda entry: entry[0]):
        shown = "".join(re.split("Examples?:\n", command.help or "")[1:])
        for line in shown.splitlines():
            if line.strip():
                yield Example(f"streamtune {' '.join(path)} --help", line.strip())


def _of_pages() -> Iterator[Example]:
    for page in PAGES:
        for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            for line in _lines(block["text"]):
                yield Example(str(page.relative_to(ROOT)), line, block["why"])


def _lines(block: str) -> Iterator[str]:
    for line in block.replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line.strip()


def expanded(words: list[str], line: str, folder: Path) -> list[str]:
    """Patterns as a shell expands them: those that are not quoted, where there is something that fits."""
    found: list[str] = []
    for word in words:
        is_quoted = f"'{word}'" in line or f'"{word}"' in line
        names = sorted(str(path.relative_to(folder)) for path in folder.glob(word)) if "*" in word else []
        found += names if names and not is_quoted else [word]
    return found
