"""Splitting a SQL script into statements: at semicolons, but not in texts, comments and statement sets.

Options (``SET 'key' = 'value'``) are Flink's SQL client's, not the table environment's: they are found here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from streamtune.errors import EngineError

# What a semicolon may hide in, and the semicolon itself. A hint, /*+ … */, is no comment: Flink reads it.
_TOKEN = re.compile(
    r"--[^\n]*|/\*(?!\+).*?\*/|'(?:[^']|'')*'|`[^`]*`|\"(?:[^\"]|\"\")*\"|;|\b(?:BEGIN|CASE|END)\b", re.S | re.I
)
_SET = re.compile(r"\s*(?:EXECUTE\s+STATEMENT\s+SET|BEGIN\s+STATEMENT\s+SET\s*;)", re.I)

_OPTION = re.compile(r"SET\s+('?)([\w.-]+)\1\s*=\s*(?:'((?:[^']|'')*)'|(\S+))", re.S | re.I)

_STARTS_A_JOB = re.compile(r"(?:EXECUTE\s+)?(?:INSERT|STATEMENT\s+SET)\b", re.I)


def statements(script: str) -> list[str]:
    """The statements of a script, without their last semicolons and without comments.

    A statement set (``EXECUTE STATEMENT SET BEGIN … END``) is one statement, with all the semicolons in it.

    >>> statements("CREATE TABLE t (a STRING); -- one;\\nINSERT INTO t VALUES (';');")
    ['CREATE TABLE t (a STRING)', "INSERT INTO t VALUES (';')"]
    >>> statements("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END;")
    ['EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END']
    >>> statements("INSERT INTO t SELECT /*+ OPTIONS('a'='b;c') */ * FROM s /* why; */;")
    ["INSERT INTO t SELECT /*+ OPTIONS('a'='b;c') */ * FROM s"]
    """
    found: list[str] = []
    current: list[str] = []
    place, depth = 0, 0
    for match in _TOKEN.finditer(script):
        current.append(script[place : match.start()])
        place = match.end()
        token = match[0]
        if token.startswith(("--", "/*")):
            current.append(" ")
            continue
        word = token.upper()
        if (word == "BEGIN" and _SET.match("".join(current) + script[match.start() :])) or (word == "CASE" and depth):
            depth += 1
        elif word == "END" and depth:
            depth -= 1
        if token == ";" and not depth:
            found.append("".join(current))
            current = []
        else:
            current.append(token)
    found.append("".join(current) + script[place:])
    return [text for text in (_of_set(one.strip()) for one in found) if text]


def _of_set(statement: str) -> str:
    """The older spelling, BEGIN STATEMENT SET; … END, as the one that Flink's table environment takes."""
    return re.sub(r"^BEGIN\s+STATEMENT\s+SET\s*;", "EXECUTE STATEMENT SET BEGIN", statement, flags=re.I)


def option_of(statement: str) -> tuple[str, str] | None:
    """The option that a statement sets, with or without quotes, and its value; None for all other statements.

    >>> option_of("SET 'execution.checkpointing.interval' = '10 s'")
    ('execution.checkpointing.interval', '10 s')
    >>> option_of("INSERT INTO t VALUES (1)")
    """
    match = _OPTION.fullmatch(statement)
    if match is None:
        return None
    return match[2], match[4] if match[3] is None else match[3].replace("''", "'")


def check_script(found: Sequence[str]) -> None:
    """Refuse what would start no job, or a second one that Flink refuses when the first runs already."""
    if all(option_of(one) for one in found):
        raise EngineError("the SQL script is empty: it needs CREATE TABLE statements and one INSERT")
    jobs = sum(_STARTS_A_JOB.match(one) is not None for one in found)
    if jobs != 1:
        raise EngineError(
            f"the SQL script needs one INSERT, but has {jobs}: several go into one job as a statement set "
            "(EXECUTE STATEMENT SET BEGIN …; …; END)"
        )
