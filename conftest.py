"""What kind of test each one is, which of them run side by side, and what no test may do unannounced.

Kinds are markers. Most are assigned here, by the fixtures a test uses, and a test that starts a JVM or a real engine
without its marker fails. ``--part`` chooses what ``tests/run.py`` (``make test``, ``make test-fast``) runs in one go.
"""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

# A fixture that starts something says which kind of test uses it.
KIND_OF_FIXTURE = {"spark": "spark", "side_by_side": "realtime", "fragile": "realtime"}
STARTERS = frozenset({"spark", "jvm", "realtime"})
# Kinds that start a JVM or a real engine, or take long: not for the inner loop.
NOT_FAST = STARTERS | {"slow"}
PARTS = {
    "fast": "pure logic: starts no JVM and no real engine",
    "beside": "everything that may run beside other tests",
    "alone": "tests that measure a real engine in real time",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    what = "; ".join(f"{name}: {text}" for name, text in PARTS.items())
    parser.addoption("--part", choices=list(PARTS), help=f"run one part of the tests ({what})")


def belongs_to(part: str, kinds: set[str]) -> bool:
    """Whether a test with these markers is in this part."""
    if part == "fast":
        return kinds.isdisjoint(NOT_FAST)
    return ("realtime" in kinds) == (part == "alone")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for name in set(getattr(item, "fixturenames", ())) & KIND_OF_FIXTURE.keys():
            item.add_marker(KIND_OF_FIXTURE[name])
    part: str | None = config.getoption("--part")
    if part is not None:
        chosen = [item for item in items if belongs_to(part, kinds_of(item))]
        config.hook.pytest_deselected(items=[item for item in items if not belongs_to(part, kinds_of(item))])
        items[:] = chosen
    # The longest group first, so that the other worker can take all the rest meanwhile.
    items.sort(key=lambda item: "spark" not in kinds_of(item))
    if hasattr(config, "workerinput"):
        groups = {item.nodeid: group for item in items if (group := group_of(item)) is not None}
        Path(config.workerinput[GROUPS_FILE]).write_text(json.dumps(groups), encoding="utf-8")


def kinds_of(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers()}


def group_of(item: pytest.Item) -> str | None:
    """Tests of one group run on one worker: all that need Spark share one session, and so one JVM."""
    mark = item.get_closest_marker("xdist_group")
    if mark is not None:
        return str(mark.args[0] if mark.args else mark.kwargs["name"])
    return "spark" if item.get_closest_marker("spark") is not None else None


# xdist's own groups (--dist loadgroup) do not hold with pytest 9.2: xdist 3.8 hands a group over in the private
# attribute that used to be a test's id, and pytest no longer reads it, so that every test was on its own, in silence
# (pytest-xdist #1386). Here the workers write the groups to a file, and the scheduler reads it. tests/test_run.py
# proves that it holds.
GROUPS_FILE = "streamtune_groups_file"
_GROUPS_FOLDER = pytest.StashKey[TemporaryDirectory[str]]()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    if _GROUPS_FOLDER not in node.config.stash:
        node.config.stash[_GROUPS_FOLDER] = TemporaryDirectory(prefix="streamtune-groups-")
    folder = node.config.stash[_GROUPS_FOLDER]
    node.workerinput[GROUPS_FILE] = str(Path(folder.name) / node.workerinput["workerid"])


def pytest_unconfigure(config: pytest.Config) -> None:
    if _GROUPS_FOLDER in config.stash:
        config.stash[_GROUPS_FOLDER].cleanup()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """With ``--dist loadscope``: tests go by their group, and those without one by their file.

    What a file's tests share (a trained model, a data set) is then made once.
    """
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class GroupsAndFiles(LoadScopeScheduling):
        groups: Mapping[str, str] = {}

        def schedule(self) -> None:
            if not self.groups:  # all workers have collected the same tests by now: any of their files will do
                file = next(iter(self.registered_collections)).workerinput[GROUPS_FILE]
                self.groups = json.loads(Path(file).read_text(encoding="utf-8"))
            super().schedule()

        def _split_scope(self, nodeid: str) -> str:
            return self.groups.get(nodeid, nodeid.split("::", 1)[0])

    return GroupsAndFiles(config, log)


class Watch:
    """Lets a test start a JVM or a real engine only if its markers say so.

    Not by an audit hook: a trace function is installed under every audit hook, in Python, and two threads that begin at
    once then fail with "another trace function is being installed" when coverage is measured.
    """

    def __init__(self) -> None:
        self.unmarked: str | None = None  # the test that runs now, if it may start nothing
        start = subprocess.Popen.__init__

        @functools.wraps(start)
        def looked_at(process: Any, args: Any, *others: Any, **options: Any) -> None:
            self.look(args)
            start(process, args, *others, **options)

        # Every way to start a process ends here; mypy forbids to replace a method, which is what is meant.
        subprocess.Popen.__init__ = looked_at  # type: ignore[method-assign]

    def look(self, command: str | Sequence[Any]) -> None:
        if self.unmarked is not None:
            what = started(command)
            if what is not None:
                raise RuntimeError(
                    f"{self.unmarked} starts {what}, but has no marker that says so: "
                    "use the fixture 'spark', or mark it realtime (a real engine) or jvm (another Java process)"
                )


def started(command: str | Sequence[Any]) -> str | None:
    """What this command starts, if it is a JVM or a real engine.

    >>> started(["/usr/bin/java", "-cp", "flink.jar", "Main"]), started(["java", "-version"]), started("ls")
    ('java', None, None)
    """
    words = [command] if isinstance(command, str) else [str(word) for word in command]
    program = Path(words[0]).name
    if program in ("java", "javac", "spark-submit", "spark-class") and "-version" not in words:
        return program
    return "a Timely worker" if "streamtune.engines.timely.worker" in words else None


_WATCH = Watch()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _WATCH.unmarked = item.nodeid if kinds_of(item).isdisjoint(STARTERS) else None
    try:
        return (yield)
    finally:
        _WATCH.unmarked = None
