"""The wheel, built and installed into an environment that has nothing else: what a newcomer gets from pip."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import streamtune
from streamtune.workloads import load

ROOT = Path(__file__).resolve().parents[2]
IN_A_PROJECT = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "MANIFEST.in", "src")

pytestmark = pytest.mark.slow


def run(*command: str | Path, code: int = 0, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A command that sees nothing of this environment but its network."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    answer = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,
        env={**kept, "COLUMNS": "200", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )
    assert answer.returncode == code, f"{command} ended with {answer.returncode}:\n{answer.stdout}\n{answer.stderr}"
    return answer


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel and the sdist, built from a copy so that the checkout stays as it is."""
    copy = tmp_path_factory.mktemp("project")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in IN_A_PROJECT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=ignored)
        elif source.exists():
            shutil.copy(source, copy / name)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", copy / "dist", copy)
    return copy / "dist"


@pytest.fixture(scope="module")
def bare(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment with the wheel and what it declares, and no extra."""
    home = tmp_path_factory.mktemp("bare") / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    [wheel] = dist.glob("*.whl")
    # The versions that everything else is tested with; the wheel itself has no hash there, so that they go without.
    lock = home / "constraints.txt"
    lock.write_text(re.sub(r"( \\\n)? +--hash=\S+", "", (ROOT / "requirements.lock").read_text(encoding="utf-8")))
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--constraint", lock, wheel)
    return home / "bin"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("jobs") / "job.yaml"
    path.write_text(load("nexmark-q1").spec.to_yaml(), encoding="utf-8")
    return path


def test_wheel_and_sdist_are_whole(dist: Path) -> None:
    [wheel], [sdist] = dist.glob("*.whl"), dist.glob("*.tar.gz")
    assert wheel.name == f"streamtune-{streamtune.__version__}-py3-none-any.whl"
    inside = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    wanted = {
        str(path.relative_to(source))
        for path in (source / "streamtune").rglob("*")
        if path.suffix in (".py", ".j2", ".java", ".typed")
    }
    assert wanted <= inside
    assert not [name for name in inside if name.startswith(("tests", "benchmarks"))]
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "src/streamtune/__init__.py"} <= names
    assert {f"src/{name}" for name in wanted} <= names


def test_a_bare_install_has_no_extra(bare: Path) -> None:
    listed = run(sys.executable, "-m", "pip", "--python", bare / "python", "list", "--format", "json").stdout
    names = {one["name"].lower() for one in json.loads(listed)}
    assert "streamtune" in names
    assert not names & {"scipy", "scikit-learn", "xgboost-cpu", "torch", "pyarrow", "pyspark", "pandas", "matplotlib"}


def test_a_bare_install_runs_what_needs_no_extra(bare: Path, job: Path) -> None:
    command = bare / "streamtune"
    assert f"streamtune {streamtune.__version__}" in run(command, "--version").stdout
    assert "tune" in run(command, "--help").stdout
    assert "nexmark-q1" in run(command, "validate", job).stdout
    assert "ds2" in run(command, "config", "show").stdout
    seen = json.loads(run(command, "simulate", job, "--plan", "40", "--json").stdout)
    assert seen["backpressure"] is False
    story = json.loads(run(command, "tune", job, "--tuner", "ds2", "--changes", "2", "--json").stdout)
    assert story["tuner"] == "ds2"
    assert [change["backpressure"] for change in story["changes"]] == [False, False]


@pytest.mark.parametrize(
    ("arguments", "what", "extra"),
    [
        (["tune", "JOB", "--tuner", "streamtune"], "the tuner 'streamtune' needs", "the extra 'learn'"),
        (["history", "generate", "made"], "an execution history needs pyspark", "the extra 'spark'"),
        (["tune", "nexmark-q3", "--engine", "timely", "--tuner", "ds2"], "needs bytewax", "the extra 'timely'"),
        (["demo"], "an experiment needs", "the extras 'spark' and 'learn'"),
    ],
    ids=["tuner", "history", "timely", "demo"],
)
def test_what_needs_an_extra_says_which(bare: Path, job: Path, arguments: list[str], what: str, extra: str) -> None:
    given = [str(job) if one == "JOB" else one for one in arguments]
    told = run(bare / "streamtune", *given, code=2, folder=job.parent).stderr
    assert what in told
    names = ",".join(re.findall(r"'(.+?)'", extra))
    assert f"install {extra} with pip install 'streamtune[{names}]'" in told
    assert "Traceback" not in told


def test_the_facade_of_a_bare_install(bare: Path) -> None:
    program = (
        "import streamtune\n"
        "streamtune.Simulator, streamtune.FlinkEngine, streamtune.Controller, streamtune.make_tuner\n"
        "try:\n"
        "    streamtune.ModelBundle\n"
        "except streamtune.StreamTuneError as error:\n"
        "    print(error)\n"
    )
    assert "pip install 'streamtune[learn]'" in run(bare / "python", "-c", program).stdout
