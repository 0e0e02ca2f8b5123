"""Every command that takes a model goes by the setting ``signatures``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from streamtune.cli import run


@pytest.fixture
def signed(small_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder with a config that requires signatures, keys, a signed model and an unsigned one."""
    shutil.copytree(small_model, tmp_path / "signed")
    shutil.copytree(small_model, tmp_path / "unsigned")
    keys = tmp_path / "keys.txt"
    (tmp_path / "streamtune.yaml").write_text(f"signatures: {{keys: '{keys}', required: true}}\n")
    assert run(["model", "key", str(keys), "--json"]) == 0
    name = json.loads(capsys.readouterr().out)["key"]
    assert run(["model", "sign", str(tmp_path / "signed"), "--keys", str(keys)]) == 0
    assert name in capsys.readouterr().out
    assert keys.read_text().split()[-1] not in capsys.readouterr().out, "a key is never shown"
    return tmp_path


COMMANDS = {
    "tune": ["tune", "nexmark-q1", "--changes", "1", "--model"],
    "recommend": ["recommend", "nexmark-q1", "--model"],
    "plan": ["plan", "nexmark-q1", "--rate", "3x", "--model"],
    "show": ["model", "show"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_take_signed_models_alone(name: str, signed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = ["--config", str(signed / "streamtune.yaml")]
    assert run([*config, *COMMANDS[name], str(signed / "signed")]) == 0
    capsys.readouterr()
    assert run([*config, *COMMANDS[name], str(signed / "unsigned")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "unsigned is not signed: if you trust it, sign it with 'streamtune model sign'" in captured.err
    assert run([*COMMANDS[name], str(signed / "unsigned")]) == 0, "the setting of one call is not that of the next"


def test_verify_says_what_is_wrong(signed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = ["--config", str(signed / "streamtune.yaml")]
    assert run([*config, "model", "verify", str(signed / "signed")]) == 0
    assert "is whole and signed with the key" in capsys.readouterr().out
    with (signed / "signed" / "manifest.json").open("a") as manifest:
        manifest.write(" ")
    assert run([*config, "model", "verify", str(signed / "signed")]) == 2
    assert "was changed after it was signed" in capsys.readouterr().err
    assert run(["model", "verify", str(signed / "unsigned")]) == 2
    assert "no keys: add --keys FILE" in capsys.readouterr().err
    assert run([*config, "model", "sign", str(signed / "keys.txt")]) == 2
    assert "is not a model" in capsys.readouterr().err
