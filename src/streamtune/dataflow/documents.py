"""YAML and JSON as people write them, read strictly: the one way in for specs, settings, overrides, rates and hosts.

A key that is given twice, a NaN in JSON, a document that is nested without end or that aliases blow up: each is refused
with its line, where it is known, instead of being taken for something else. Merge keys (``<<: *usual``) work.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import stat
import zlib
from pathlib import Path
from typing import Any, NoReturn

import yaml

from streamtune.errors import StreamTuneError

MOST_BYTES = 64 * 2**20
MOST_CSV_BYTES = 256 * 2**20
MOST_NODES = 1_000_000
MOST_LEVELS = 100  # of brackets; PyYAML looks ahead over all of them again and again
_MERGE = "tag:yaml.org,2002:merge"


class DocumentError(StreamTuneError):
    """A document that cannot be read. ``problem`` is the sentence without the name of the file."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


def read_document(path: Path, *, core: bool = False) -> Any:
    """The plain values in a file: JSON where its name ends in ``.json``, YAML else; ``core`` as in ``parse_yaml``."""
    text = read_text(path)
    return parse_json(text) if path.suffix == ".json" else parse_yaml(text, core=core)


def read_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """The text of a file that is not too large to be written by hand, without the mark that Windows puts first."""
    try:
        return read_bytes(path, most_bytes).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError("is not UTF-8 text: check the path") from error


def read_bytes(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """All of a file; devices, endless ones among them, and files above the limit are refused."""
    try:
        kind = path.stat().st_mode
        if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
            raise DocumentError("cannot be read: it is a device. Check the path")
        with path.open("rb") as file:
            content = file.read(most_bytes + 1)
    except OSError as error:
        raise DocumentError(f"cannot be read: {error.strerror}. Check the path") from error
    except ValueError as error:  # a zero byte in the name
        raise DocumentError(f"cannot be read: {error}. Check the path") from error
    if len(content) > most_bytes:
        raise DocumentError(f"has more than {most_bytes // 2**20} MB: give a smaller file")
    return content


def read_rows(path: Path) -> list[tuple[int, list[str]]]:
    """The rows of a CSV file (also .gz), each with the line it ends in; an empty line is an empty row.

    Empty lines at the end are none.
    """
    content = read_bytes(path, MOST_CSV_BYTES)
    try:
        text = (_unpacked(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
        reader = csv.reader(io.StringIO(text))
        rows = [(reader.line_num, row) for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DocumentError(f"is not a CSV file: {_sentence(error)}") from error
    while rows and not "".join(rows[-1][1]).strip() and len(rows[-1][1]) < 2:
        rows.pop()
    return rows


def is_heading(cell: str) -> bool:
    """A word above a column of numbers; neither a number with a slip in it nor nothing at all.

    >>> [is_heading(cell) for cell in ("rate", "(1/s)", "12o", "-", "")]
    [True, True, False, False, False]
    """
    cell = cell.strip()
    return any(letter.isalpha() for letter in cell) and cell[0] not in "+-.0123456789"


def _unpacked(content: bytes) -> bytes:
    try:
        with gzip.open(io.BytesIO(content)) as file:
            found = file.read(MOST_CSV_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DocumentError(f"is not a whole gzip file: {_sentence(error)}") from error
    if len(found) > MOST_CSV_BYTES:
        raise DocumentError(f"has more than {MOST_CSV_BYTES // 2**20} MB when unpacked: give a smaller file")
    return found


def parse_json(text: str) -> Any:
    """Strict JSON.

    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    streamtune.dataflow.documents.DocumentError: is not valid JSON: key 'a' is given twice
    """
    try:
        found = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
        return in_whole_letters(found, text)
    except json.JSONDecodeError as error:
        raise DocumentError(f"is not valid JSON: {error.msg} in line {error.lineno}") from error
    except RecursionError as error:
        raise DocumentError("is nested too deep: make it flatter") from error
    except ValueError as error:  # a number of thousands of digits
        raise DocumentError(f"is not valid JSON: {_sentence(error)}") from error


def parse_yaml(text: str, *, core: bool = False) -> Any:
    """Strict YAML; ``core``: by the core schema of YAML 1.2, where ``on`` and ``no`` are texts and ``1e-3`` a number.

    >>> parse_yaml("[on, no, 1e-3, 2024-01-01, 1:30, 010, true]", core=True)
    ['on', 'no', 0.001, '2024-01-01', '1:30', 10, True]

    >>> parse_yaml("usual: &usual {p: 2, q: 1}\\nmine: {<<: *usual, p: 3}")["mine"]
    {'p': 3, 'q': 1}
    >>> parse_yaml("a: 1\\na: 2")
    Traceback (most recent call last):
    streamtune.dataflow.documents.DocumentError: is not valid YAML: key 'a' is given twice in line 2
    """
    try:
        return in_whole_letters((_CoreLoader if core else _StrictLoader)(text).get_single_data(), text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" in line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be parsed"
        raise DocumentError(f"is not valid YAML: {problem}{place}") from error
    except RecursionError as error:
        raise DocumentError("is nested too deep: make it flatter") from error
    except (ValueError, OverflowError, TypeError, AttributeError) as error:  # values that PyYAML cannot make: !!int "x"
        raise DocumentError(f"is not valid YAML: {_sentence(error)}") from error


def in_whole_letters(found: Any, text: str) -> Any:
    r"""Refuse halves of letters: ``"\ud83d"`` alone can be escaped, but neither be written to a file nor be sent.

    >>> parse_json(r'["\ud83d"]')
    Traceback (most recent call last):
    streamtune.dataflow.documents.DocumentError: has half a letter, '\ud83d': write the letter itself
    """
    waiting = [found] if "\\u" in text or "\\U" in text else []
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            half = next((letter for letter in one if "\ud800" <= letter <= "\udfff"), None)
            if half is not None:
                raise DocumentError(f"has half a letter, {half!r}: write the letter itself")
        elif isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            waiting += one
    return found


def _sentence(error: Exception) -> str:
    return str(error).partition("\n")[0].partition(";")[0]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise DocumentError(f"is not valid JSON: key '{twice}' is given twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise DocumentError(f"is not valid JSON: {name} is not a JSON number")


class _StrictLoader(yaml.SafeLoader):
    """PyYAML's safe loader, except that a key given twice is an error, and so are aliases and brackets without end."""

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:  # noqa: N803 - PyYAML calls it so
        if self.flow_level >= MOST_LEVELS:
            raise DocumentError("is nested too deep: make it flatter")
        super().fetch_flow_collection_start(TokenClass)

    def compose_document(self) -> yaml.Node | None:
        node: yaml.Node | None = super().compose_document()
        if node is not None and _size(node, {}) > MOST_NODES:
            raise yaml.composer.ComposerError(None, None, "its aliases make it too large", None)
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        # Before merge keys are resolved: what a mapping overrides of a merged one is not given twice.
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if key.value in seen:
                    raise yaml.composer.ComposerError(None, None, f"key '{key.value}' is given twice", key.start_mark)
                seen.add(key.value)
        return node


class _CoreLoader(_StrictLoader):
    """The core schema of YAML 1.2 (Section 10.3.2): nothing but null, true, false and numbers is not a text."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as PyYAML declares it; its own, not its base's

    def construct_whole(self, node: yaml.ScalarNode) -> int:
        text = str(self.construct_scalar(node))
        return int(text, 0) if text[:2] in {"0o", "0x"} else int(text)


for _tag, _pattern, _first in (
    (_MERGE, r"<<", "<"),
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("tag:yaml.org,2002:int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
):
    _CoreLoader.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), list(_first))
_CoreLoader.add_constructor("tag:yaml.org,2002:int", _CoreLoader.construct_whole)


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Nodes of a document with every alias written out; one that contains itself is refused."""
    if id(node) in known:
        if not known[id(node)]:
            raise yaml.composer.ComposerError(None, None, "an alias refers to what it stands in", node.start_mark)
        return known[id(node)]
    known[id(node)] = 0
    size = 1
    if isinstance(node, yaml.MappingNode):
        size += sum(_size(key, known) + _size(value, known) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        size += sum(_size(one, known) for one in node.value)
    known[id(node)] = size
    return size
