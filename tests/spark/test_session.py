"""Settings of the session; none of these tests starts Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamtune.errors import EngineError
from streamtune.labs.flink.distribution import check_java
from streamtune.spark import session as session_module
from streamtune.spark.errors import StorageError
from streamtune.spark.session import parse_conf
from streamtune.spark.settings import SparkSettings


def test_all_cores_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    effective = SparkSettings().effective
    assert effective["spark.master"] == "local[*]"
    assert effective["spark.sql.session.timeZone"] == "UTC"


def test_spark_submit_keeps_its_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4711")
    effective = SparkSettings().effective
    assert "spark.master" not in effective
    assert "spark.driver.host" not in effective, "what suits one machine must not reach a cluster"


def test_own_properties_win() -> None:
    settings = SparkSettings(master="spark://host:7077", conf={"spark.sql.session.timeZone": "Europe/Berlin"})
    assert settings.effective["spark.sql.session.timeZone"] == "Europe/Berlin"
    assert settings.effective["spark.master"] == "spark://host:7077"
    assert SparkSettings(master="local[2]", conf={"spark.master": "local[1]"}).effective["spark.master"] == "local[1]"


@pytest.mark.parametrize("pair", ["spark.executor.memory", "=4g", ""])
def test_a_bad_property_is_named(pair: str) -> None:
    with pytest.raises(StorageError, match="key=value"):
        parse_conf([pair])


def test_a_value_may_hold_an_equals_sign() -> None:
    assert parse_conf(["spark.driver.extraJavaOptions=-Da=b"]) == {"spark.driver.extraJavaOptions": "-Da=b"}


def test_missing_java_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(StorageError, match="openjdk-17"):
        session_module._require_java()


def test_a_java_that_may_not_run_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PermissionError was a traceback, with Spark and with Flink; a file that is not a program was one too."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_bytes(b"\x7fELF, and no more")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for mode in (0o644, 0o755):
        java.chmod(mode)
        with pytest.raises(StorageError, match="bin/java cannot be executed"):
            session_module._require_java()
        with pytest.raises(EngineError, match="bin/java cannot be executed"):
            check_java()


def test_old_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(StorageError, match=r'version "11\.0\.2"'):
        session_module._require_java()
