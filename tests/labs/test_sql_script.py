"""SQL scripts as people write them."""

from __future__ import annotations

import pytest

from streamtune.labs.flink.sql_script import statements

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
