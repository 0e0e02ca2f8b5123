"""The way the tests are run: groups stay on one worker, parts add up, exit codes are right, Ctrl-C ends everything."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import psutil
import pytest

pytestmark = pytest.mark.slow  # they start some thirty processes

ROOT = Path(__file__).parents[1]
PLUGINS = "xdist.plugin,xdist.looponfail,pytest_cov.plugin,pytest_rerunfailures"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"loaded_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


run = load(ROOT / "tests" / "run.py")

FIXTURES = """
import os, pathlib, pytest

@pytest.fixture(scope="session")
def spark():
    return "pretended"

@pytest.fixture(scope="session")
def fragile():
    return "pretended"

@pytest.fixture(autouse=True)
def _record(request):
    with open(pathlib.Path(__file__).parents[1] / "record", "a") as record:
        print(os.environ.get("PYTEST_XDIST_WORKER", "-"), os.getpid(), request.node.name, file=record)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Six files; in each, tests on a pretended Spark stand among others that take their time."""
    shutil.copy(ROOT / "conftest.py", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "conftest.py").write_text(FIXTURES)
    (tmp_path / "src").mkdir()
    shutil.copy(ROOT / "tests" / "run.py", tests)
    for file in range(6):
        lines = ["import time, pytest"]
        for number in range(3):
            name = f"{file}_{number}"
            lines.append(f"def test_spark_{name}(spark): time.sleep(0.02)")
            lines.append(f"@pytest.mark.parametrize('value', ['a]', 'b@c'])\ndef test_logic_{name}(value): pass")
        (tests / f"test_file_{file}.py").write_text("\n".join(lines))
    (tests / "test_engine.py").write_text("def test_engine(fragile): pass\n")
    return tmp_path


def pytest_in(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=project, env=clean(), capture_output=True, text=True, timeout=120, check=False)


def clean() -> dict[str, str]:
    """The environment without what the pytest around us has put into it."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COV_", "COVERAGE_"))}
    # Only the plug-ins that the runs below have to do with: the others take seconds to load, in each of the processes.
    return {**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": PLUGINS}


def record_of(project: Path) -> dict[str, str]:
    """Test → worker."""
    lines = [line.split() for line in (project / "record").read_text().splitlines()]
    return {name: worker for worker, _, name in lines if name.startswith("test_")}  # and no doctest


def test_groups_and_files_stay_on_one_worker(project: Path) -> None:
    done = pytest_in(project, *run.TWO_WORKERS, "--part=beside")
    assert done.returncode == 0, done.stdout + done.stderr
    where = record_of(project)
    assert len(where) == 6 * 3 * 3
    assert len({worker for name, worker in where.items() if "spark" in name}) == 1
    for file in range(6):
        assert len({worker for name, worker in where.items() if name.startswith(f"test_logic_{file}")}) == 1
    assert set(where.values()) == {"gw0", "gw1"}, "both workers have work"


def test_a_record_can_tell_groups_from_none(project: Path) -> None:
    """The same tests without groups: those on Spark meet both workers, so that the test above can fail."""
    assert pytest_in(project, "-n2", "--dist=load", "--part=beside").returncode == 0
    assert {worker for name, worker in record_of(project).items() if "spark" in name} == {"gw0", "gw1"}


def test_parts_are_chosen_by_fixtures(project: Path) -> None:
    assert pytest_in(project, "--part=fast").returncode == 0
    assert all("logic" in name for name in record_of(project))
    (project / "record").unlink()
    assert pytest_in(project, "--part=alone").returncode == 0
    assert set(record_of(project)) == {"test_engine"}


def test_starting_a_jvm_unannounced_fails(project: Path) -> None:
    (project / "tests" / "test_sly.py").write_text(
        "import subprocess, pytest\n"
        "def test_sly(): subprocess.run(['java', 'Main'])\n"
        "@pytest.mark.jvm\ndef test_open():\n"
        "    with pytest.raises(FileNotFoundError): subprocess.run(['/nowhere/java', 'Main'])\n"
    )
    done = pytest_in(project, "tests/test_sly.py")
    assert "1 failed, 1 passed" in done.stdout
    assert "tests/test_sly.py::test_sly starts java, but has no marker that says so" in done.stdout


def make_test(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tests/run.py", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=project, env=clean(), capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("chosen", "code", "said"),
    [
        ("logic_0", 0, "6 passed"),  # the part with the real engines is empty
        ("nothing_like_it", 5, "no test was chosen by -p no:cacheprovider -k nothing_like_it"),
    ],
)
def test_empty_parts_are_fine_as_long_as_something_runs(project: Path, chosen: str, code: int, said: str) -> None:
    done = make_test(project, "-k", chosen)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout


def test_a_failure_in_one_part_is_the_verdict_and_the_next_part_runs_all_the_same(project: Path) -> None:
    (project / "tests" / "test_bad.py").write_text("def test_bad(): assert False\n")
    done = make_test(project, "-k", "bad or engine")
    assert done.returncode == 1
    assert "test_engine" in record_of(project)
    (project / "record").unlink()
    assert make_test(project, "-k", "bad or engine", "-x").returncode == 2, "as pytest-xdist says it"
    assert "test_engine" not in record_of(project)


@pytest.mark.parametrize(
    ("number", "part"), [(signal.SIGINT, "realtime"), (signal.SIGINT, "jvm"), (signal.SIGTERM, "realtime")]
)
def test_an_interrupt_ends_everything(project: Path, number: signal.Signals, part: str) -> None:
    """Ctrl-C reaches the whole group of a terminal, SIGTERM the runner alone; in the second part or in the first."""
    (project / "tests" / "test_long.py").write_text(
        "import pathlib, time, pytest\n"
        "@pytest.fixture\ndef cluster():\n"
        "    yield\n    time.sleep(0.5)\n    (pathlib.Path(__file__).parents[1] / 'ended').touch()\n"
        f"@pytest.mark.{part}\ndef test_long(cluster): time.sleep(60)\n"
    )
    runner = subprocess.Popen(
        [sys.executable, "tests/run.py", "-p", "no:cacheprovider", "-k", "test_long or logic_0"],
        cwd=project, env=clean(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # whoever runs us may have it ignored
    )  # fmt: skip
    try:
        deadline_s = time.monotonic() + 60
        while not ((project / "record").exists() and "test_long" in (project / "record").read_text()):
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        if number == signal.SIGINT:
            os.killpg(runner.pid, number)
        else:
            runner.send_signal(number)
        said, _ = runner.communicate(timeout=120)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(runner.pid, signal.SIGKILL)
    assert runner.returncode == run.INTERRUPTED, said
    pids = {int(line.split()[1]) for line in (project / "record").read_text().splitlines()}
    assert not any(psutil.pid_exists(pid) for pid in pids)
    if part == "realtime":
        assert (project / "ended").exists(), "clusters are stopped, not left behind"
