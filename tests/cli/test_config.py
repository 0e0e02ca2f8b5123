"""``streamtune.yaml``: every setting in one file, checked, with the command line on top of it."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from streamtune.cli import main
from streamtune.config import Config, all_sections, load_config, parse_config
from streamtune.control.guards import Guards
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.flink.settings import FlinkWindow
from streamtune.errors import StreamTuneError
from streamtune.settings import Settings, SettingsError, settings_within
from streamtune.similarity.settings import KMeansSettings
from streamtune.tuners import DS2, make_contestant, make_tuner, tuner_names
from streamtune.tuners.settings import TUNER_SETTINGS, DS2Settings, GreedySettings
from streamtune.tuners.streamtune.settings import StreamTuneSettings
from streamtune.workloads import catalogue

SOURCE = Path(__file__).parents[2] / "src" / "streamtune"
SECTIONS = all_sections()


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("STREAMTUNE_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["streamtune", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    told = capsys.readouterr()
    return caught.value.code if isinstance(caught.value.code, int) else 0, told.out, told.err


def every_class() -> Iterator[type[Settings]]:
    """All settings of all sections, nested ones too."""
    waiting = list(SECTIONS.values())
    while waiting:
        kind = waiting.pop()
        yield kind
        waiting += [inner for name in kind.model_fields if (inner := settings_within(kind, name))]
        waiting += [inner for field in kind.model_fields.values() for inner in _listed(field.annotation)]


def _listed(annotation: Any) -> list[type[Settings]]:
    """The settings of which a field holds a list."""
    return [one for one in get_args(annotation) if isinstance(one, type) and issubclass(one, Settings)]


# --- laws over all settings


@pytest.mark.parametrize("section", SECTIONS)
def test_every_setting_has_a_default_and_a_description(section: str) -> None:
    kind = SECTIONS[section]
    assert kind.__doc__
    kind()
    for name, field in kind.model_fields.items():
        assert field.description, f"{section}.{name}"
        assert not field.is_required(), f"{section}.{name}"
        assert not field.description.endswith("."), f"{section}.{name}: a phrase, not a sentence"


@pytest.mark.parametrize("section", SECTIONS)
def test_what_config_show_says_can_be_read_back(section: str) -> None:
    """The effective values as a file give the very same settings: no value is lost or changed on the way."""
    said: dict[str, Any] = {}
    for field, value, origin in Config().effective(section):
        assert origin == "default"
        *above, name = field.split(".")
        place = said
        for part in above:
            place = place.setdefault(part, {})
        place[name] = value
    text = yaml.safe_dump(json.loads(json.dumps(said)))
    assert Config({section: yaml.safe_load(text)}).section(section) == SECTIONS[section]()


def test_units_stand_at_the_end_of_names() -> None:
    endings = {"seconds": "_s", "milliseconds": "_ms", "heap of": "_mb", "records/s": "_per_s"}
    for kind in every_class():
        for name, field in kind.model_fields.items():
            for word, ending in endings.items():
                if (field.description or "").startswith(word):
                    assert name.endswith(ending), f"{kind.__name__}.{name}"
            assert not name.endswith(("_seconds", "_sec", "_millis", "_megabytes", "_percent")), name


def test_every_settings_class_of_the_source_is_one_of_ours() -> None:
    """By its name, in the source itself: a class that is called settings derives from the one base."""
    ours = {kind.__name__ for kind in every_class()} | {"Settings", "MeasurementWindow"}
    bases: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and (node.name.endswith(("Settings", "Scale")) or node.name == "Guards"):
                bases[node.name] = {base.id for base in node.bases if isinstance(base, ast.Name)}
    bases.pop("TimeScale")  # the time axis of a chart
    for name, above in bases.items():
        assert name == "Settings" or above & (ours | set(bases)), f"{name} is not derived from Settings"
    reproductions = {"Fig8Settings", "Scale", "ZeroTuneScale"}  # the papers' experiments take options, not the file
    assert bases.keys() - reproductions <= ours, "a settings class has no section in streamtune.yaml"


def test_every_tuner_has_its_section() -> None:
    assert set(TUNER_SETTINGS) == set(tuner_names())
    for name, kind in TUNER_SETTINGS.items():
        assert SECTIONS[f"tuners.{name}"] is kind


# --- the base


@given(st.floats(), st.floats())
def test_a_window_is_either_right_or_refused_in_one_sentence(settle_s: float, length_s: float) -> None:
    if 0 <= settle_s <= 604_800 and 1 <= length_s <= 86_400:
        assert MeasurementWindow(settle_s, length_s).length_s == length_s
        return
    with pytest.raises(SettingsError, match=r"^MeasurementWindow\.\w+ must be .*, but got \S+$"):
        MeasurementWindow(settle_s, length_s)


def test_positions_and_names() -> None:
    assert MeasurementWindow(5, 10) == MeasurementWindow(settle_s=5, length_s=10)
    assert FlinkWindow() == FlinkWindow(20, 30)
    with pytest.raises(TypeError, match="has 2 settings, but got 3 values"):
        MeasurementWindow(1, 2, 3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="two values for 'settle_s'"):
        MeasurementWindow(1, settle_s=2)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (Guards, {"max_reconfigurations": 0}, "Guards.max_reconfigurations must be at least 1, but got 0"),
        (Guards, {"dry_run": "perhaps"}, "Guards.dry_run must be true or false, but got 'perhaps'"),
        (Guards, {"exclude": 3}, "Guards.exclude must be a list, but got 3"),
        (Guards, {"min_paralelism": 3}, "Guards has no setting 'min_paralelism': did you mean 'min_parallelism'?"),
        (KMeansSettings, {"tau": 1.5}, "KMeansSettings.tau must be a whole number, but got 1.5"),
        (KMeansSettings, {"init": "best"}, "KMeansSettings.init must be 'random' or 'k-means++', but got 'best'"),
        (GreedySettings, {"budget": "many"}, "GreedySettings.budget must be a whole number, but got 'many'"),
        (DS2Settings, {"calibration": {"map": -1}}, "DS2Settings.calibration: 'map' must be finite and above 0"),
    ],
)
def test_a_bad_value_names_class_field_and_value(kind: type[Settings], values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        kind(**values)
    assert message in str(caught.value)
    assert isinstance(caught.value, StreamTuneError)


def test_changes_are_checked_and_settings_stay_frozen() -> None:
    guards = Guards(min_parallelism=3)
    assert guards.replace(max_parallelism=5).min_parallelism == 3
    with pytest.raises(SettingsError, match="at least min_parallelism 3, but got 2"):
        guards.replace(max_parallelism=2)
    with pytest.raises(ValueError, match="frozen"):
        guards.min_parallelism = 1  # type: ignore[misc]


def test_a_tuner_gets_its_settings_and_refuses_those_of_another() -> None:
    job = catalogue.load("nexmark-q1").spec.job
    assert isinstance(make_tuner("ds2", job, settings=DS2Settings(ignored_drop=3)), DS2)
    assert make_contestant("flink-autoscaler", job, settings=Config().tuner("flink-autoscaler")).name
    with pytest.raises(StreamTuneError, match="'ds2' takes DS2Settings, but got GreedySettings"):
        make_tuner("ds2", job, settings=GreedySettings())


# --- the file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tuner: {}", "has no section 'tuner': did you mean 'tuners'?"),
        (
            "tuners: {flink_autoscaler: {}}",
            "tuners has no section 'flink_autoscaler': did you mean 'flink-autoscaler'?",
        ),
        ("tuners: {best: {}}", "tuners has no section 'best': there are streamtune, streamtune-paper, ds2"),
        ("guards: {max_reconfiguration: 3}", "did you mean 'max_reconfigurations'?"),
        ("guards: {max_reconfigurations: 0}", "guards.max_reconfigurations must be at least 1, but got 0"),
        ("guards: [3]", "guards must be a mapping of settings, but got [3]"),
        ("tuners: {streamtune: 0.9}", "tuners.streamtune must be a mapping of settings, but got 0.9"),
        ("tuners: {streamtune: {quantile: .nan}}", "tuners.streamtune.quantile must be a finite number, but got nan"),
        ("engines: {simulator: {error: {bias: 2}}}", "engines.simulator.error has no setting 'bias'"),
        ("engines: {simulator: {error: {bias_sigma: 2}}}", "engines.simulator.error.bias_sigma must be below 1"),
        ("engines: {simulator: {error: 3}}", "engines.simulator.error must be a mapping of settings, but got 3"),
        ("window: {settle_s: 3}", "window has no section 'settle_s': there are simulator, flink, timely"),
        ("history: {validation: {tolerate: [all]}}", "but got 'all'"),
        ("training: {plans: {ranges: weather}}", "training.plans.ranges must be seen, unseen or one of"),
        ("guards: {dry_run: true, dry_run: false}", "key 'dry_run' is given twice in line 1"),
        ("- guards", "must be a mapping of settings, but got ['guards']"),
        ("guards: {", "is not valid YAML"),
    ],
)
def test_bad_files_are_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "bad [bold] name.yaml"  # rich markup in a name must come out as it is
    path.write_text(text)
    code, said, told = run(monkeypatch, capsys, "config", "check", str(path))
    assert code == 2
    assert said == ""
    assert told.startswith(f"error: {path}")
    assert message in told
    assert len(told.strip().splitlines()) == 1


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        load_config(tmp_path / "absent.yaml")
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        load_config(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="not UTF-8 text"):
        load_config(tmp_path / "binary.yaml")


def test_an_empty_file_is_all_defaults(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing yet\nguards:\ntuners: {}\n")
    config = load_config(tmp_path / "empty.yaml")
    assert config.settings(Guards) == Guards()
    assert all(config.section(name) == kind() for name, kind in SECTIONS.items())


def test_numbers_and_switches_for_spark_need_no_quotes() -> None:
    config = parse_config({"spark": {"conf": {"spark.ui.enabled": True, "spark.sql.shuffle.partitions": 16}}})
    assert config.section("spark").model_dump()["conf"] == {
        "spark.ui.enabled": "true",
        "spark.sql.shuffle.partitions": "16",
    }


def test_which_file_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The given one over the one of the environment over the one in the working directory over none."""
    assert load_config().path is None
    for number, name in enumerate(("streamtune.yaml", "of-environment.yaml", "given.yaml"), start=1):
        (tmp_path / name).write_text(f"guards: {{max_reconfigurations: {number}}}\n")
    assert load_config().settings(Guards).max_reconfigurations == 1
    monkeypatch.setenv("STREAMTUNE_CONFIG", str(tmp_path / "of-environment.yaml"))
    assert load_config().settings(Guards).max_reconfigurations == 2
    assert load_config(tmp_path / "given.yaml").settings(Guards).max_reconfigurations == 3
    monkeypatch.setenv("STREAMTUNE_CONFIG", str(tmp_path / "absent.yaml"))
    with pytest.raises(SettingsError, match=r"absent\.yaml cannot be read"):
        load_config()


def test_settings_without_a_section() -> None:
    with pytest.raises(SettingsError, match="MeasurementWindow has no section"):
        Config().settings(MeasurementWindow)


# --- the command line on top


def test_show_tells_values_and_where_they_come_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "some.yaml"
    path.write_text("tuners: {streamtune: {quantile: 0.95}}\nengines: {flink: {rescale: {mode: live}}}\n")
    code, said, _ = run(monkeypatch, capsys, "--config", str(path), "config", "show", "--json")
    shown = json.loads(said)
    assert code == 0
    assert shown["file"] == str(path)
    assert list(shown["settings"]) == list(SECTIONS)
    assert shown["settings"]["tuners.streamtune"]["quantile"] == {"value": 0.95, "origin": "file"}
    assert shown["settings"]["tuners.streamtune"]["binding"] == {"value": True, "origin": "default"}
    assert shown["settings"]["engines.flink"]["rescale.mode"] == {"value": "live", "origin": "file"}
    assert shown["settings"]["engines.flink"]["rescale.poll_s"]["origin"] == "default"
    code, said, _ = run(monkeypatch, capsys, "--config", str(path), "config", "show", "engines", "--changed")
    assert code == 0
    assert "engines.flink.rescale.mode" in said
    assert "quantile" not in said
    assert "poll_s" not in said
    code, _, told = run(monkeypatch, capsys, "config", "show", "engine")
    assert code == 2
    assert "did you mean 'engines'?" in told


def test_check_counts_what_a_file_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "streamtune.yaml").write_text("guards: {dry_run: true, exclude: [sink]}\n")
    code, said, _ = run(monkeypatch, capsys, "config", "check", "--json")
    assert code == 0
    assert json.loads(said) == {"file": "streamtune.yaml", "valid": True, "sections": ["guards"], "settings": 2}


def test_the_command_line_wins_over_the_file_and_the_file_over_defaults(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What the simulator measures says which window it was given."""
    command = ("simulate", "nexmark-q1", "--json")
    assert json.loads(run(monkeypatch, capsys, *command)[1])["window_s"] == 60.0
    (tmp_path / "streamtune.yaml").write_text("window: {simulator: {length_s: 30, settle_s: 20}}\n")
    assert json.loads(run(monkeypatch, capsys, *command)[1])["window_s"] == 30.0
    assert json.loads(run(monkeypatch, capsys, *command, "--window-s", "15")[1])["window_s"] == 15.0
    (tmp_path / "other.yaml").write_text("window: {simulator: {length_s: 20}}\n")
    assert json.loads(run(monkeypatch, capsys, "--config", "other.yaml", *command)[1])["window_s"] == 20.0
    assert json.loads(run(monkeypatch, capsys, *command)[1])["window_s"] == 30.0  # not remembered


def test_a_tuner_is_set_by_the_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Greedy with a budget of what runs already can never act; recommend is more careful with a higher quantile."""
    command = ("compare", "nexmark-q1", "--tuners", "greedy", "--changes", "2", "--json")

    def restarts(said: str) -> int:
        return sum(change["reconfigurations"] for change in json.loads(said)[0]["changes"])

    assert restarts(run(monkeypatch, capsys, *command)[1]) > 0
    (tmp_path / "streamtune.yaml").write_text("tuners: {greedy: {budget: 1}, streamtune: {quantile: 0.999}}\n")
    assert restarts(run(monkeypatch, capsys, *command)[1]) == 0
    careful = ("recommend", "nexmark-q5", "--observe", "4", "--rate", "10x", "--json")
    by_file = json.loads(run(monkeypatch, capsys, *careful)[1])["total_parallelism"]
    by_option = json.loads(run(monkeypatch, capsys, *careful, "--quantile", "0.55")[1])["total_parallelism"]
    assert by_file > by_option


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("recommend", "nexmark-q1", "--seed", "3"), "only --observe asks, but got 3"),
        (("cluster", "h", "--out", "o", "--k", "3", "--max-k", "9"), "--max-k is for the elbow method"),
        (("pretrain", "h", "--out", "o", "--min-cluster-runs", "9"), "--min-cluster-runs needs --clusters"),
        (("history", "ingest", "h", "x", "--every-s", "3"), "--every-s needs --follow, but got 3"),
        (("costmodel", "train", "h", "--out", "o", "--engine", "flink", "--enumeration", "random"), "leave one out"),
        (("bench", "fig6", "--plans", "500"), "--plans has no effect on the experiments of streamtune, but got 500"),
        (("bench", "zerotune-speed", "--changes", "5"), "--changes has no effect on the experiments of zerotune"),
        (("bench", "fig8", "--quick"), "--quick has no effect on the experiments of fig8"),
        (("flink", "status", "--port", "8090", "--url", "http://x:1"), "--port is a local cluster's"),
        (("predict", "nexmark-q1", "--model", "m"), "No such option"),
    ],
)
def test_an_option_without_effect_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    code, _, told = run(monkeypatch, capsys, *arguments)
    assert code == 2
    assert message in " ".join(told.split())


def test_defaults_in_help_are_those_of_the_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _, said, _ = run(monkeypatch, capsys, "cluster", "--help")
    assert f"[default: ({KMeansSettings().max_k})" in said
    assert "largest number of clusters the elbow method looks at" in " ".join(said.lower().split())
    _, said, _ = run(monkeypatch, capsys, "recommend", "--help")
    assert f"[default: ({StreamTuneSettings().quantile})" in said
