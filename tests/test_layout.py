"""A test stands where what it tests stands: each folder here is a room of ``src/streamtune``."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
ROOMS = TESTS.parent / "src" / "streamtune"
# Files that several rooms read (jobs), and tests of the project rather than of a room.
NO_ROOMS = {"docs", "examples", "faults", "fuzz_corpus", "jobs", "library", "releases"}


def folders(parent: Path) -> set[str]:
    """Folders with something in them that is in version control: caches and leftovers do not count."""
    return {
        path.name
        for path in parent.iterdir()
        if path.is_dir() and not path.name.startswith(("_", ".")) and any(is_source(file) for file in path.rglob("*"))
    }


def is_source(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def test_each_folder_of_tests_is_a_room() -> None:
    astray = folders(TESTS) - folders(ROOMS) - NO_ROOMS
    assert not astray, f"these folders of tests/ are no rooms: move their tests to the rooms that they test: {astray}"


def test_each_part_of_a_room_has_its_own_name_in_the_tests() -> None:
    """tests/engines/flink tests streamtune/engines/flink, and so on."""
    for room in folders(TESTS) & folders(ROOMS):
        astray = folders(TESTS / room) - folders(ROOMS / room)
        assert not astray, f"tests/{room} has folders that streamtune/{room} has not: {astray}"
