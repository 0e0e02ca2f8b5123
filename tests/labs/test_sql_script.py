"""SQL scripts as people write them."""

from __future__ import annotations

import pytest

from streamtune.errors import EngineError
from streamtune.labs.flink.sql_script import check_script, option_of, statements

SET = (
    "EXECUTE STATEMENT SET\nBEGIN\n  INSERT INTO a SELECT 1;\n  INSERT INTO b SELECT CASE WHEN x THEN 1 END FROM t;\n"
    "END"
)


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("", []),
        (" ;\n;", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("INSERT INTO t VALUES ('a;b', 'it''s;')", ["INSERT INTO t VALUES ('a;b', 'it''s;')"]),
        ("SELECT `a;b` /* no; */ FROM t;", ["SELECT `a;b`   FROM t"]),
        ("SELECT /*+ BROADCAST(t) */ a /* no */ FROM t;", ["SELECT /*+ BROADCAST(t) */ a   FROM t"]),
        ("SELECT * FROM s /*+ OPTIONS('a'='b;c*/') */;", ["SELECT * FROM s /*+ OPTIONS('a'='b;c*/') */"]),
        ("SELECT CASE WHEN a THEN 1 END; SELECT 2", ["SELECT CASE WHEN a THEN 1 END", "SELECT 2"]),
        (
            "BEGIN STATEMENT SET; INSERT INTO a SELECT 1; END;",
            ["EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; END"],
        ),
    ],
)
def test_statements(script: str, found: list[str]) -> None:
    assert statements(script) == found


def test_a_statement_set_is_one_statement() -> None:
    assert statements(f"CREATE TABLE a (x INT);\n{SET};\n")[0] == "CREATE TABLE a (x INT)"
    assert len(statements(f"CREATE TABLE a (x INT);\n{SET};\n")) == 2


@pytest.mark.parametrize(
    ("statement", "option"),
    [
        ("SET 'pipeline.name' = 'it''s mine'", ("pipeline.name", "it's mine")),
        ("set parallelism.default=4", ("parallelism.default", "4")),
        ("SET 'table.local-time-zone'='UTC'", ("table.local-time-zone", "UTC")),
        ("SET", None),
        ("SET 'a' = 'b' 'c'", None),
        ("INSERT INTO t SELECT 'SET a = b'", None),
    ],
)
def test_options(statement: str, option: tuple[str, str] | None) -> None:
    assert option_of(statement) == option


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("SET 'a' = 'b'", "is empty"),
        ("CREATE TABLE a (x INT)", "needs one INSERT, but has 0"),
        ("INSERT INTO a SELECT 1; INSERT INTO b SELECT 2", "has 2: several go into one job as a statement set"),
    ],
)
def test_a_script_is_one_job(script: str, words: str) -> None:
    """Flink started the first of two INSERTs, and then refused the whole: it ran on, and nobody said so."""
    with pytest.raises(EngineError, match=words):
        check_script(statements(script))
    for start in (SET, "INSERT INTO a SELECT 1", "EXECUTE INSERT INTO a SELECT 1"):
        check_script(statements(f"SET x = 1; CREATE TABLE a (x INT); {start};"))
