"""``streamtune.yaml``: every setting of every tuner, engine and pipeline in one file, checked before anything starts.

A section is a settings class. Its fields, types, defaults, limits and descriptions are the class's own, so that the
file, the command line, Python and the reference page cannot say different things. Sections are imported when they are
asked for, and their modules load neither Spark nor torch.

    guards: {max_reconfigurations: 5, exclude: [sink]}
    tuners:
      streamtune: {quantile: 0.95}
    engines:
      flink: {rescale: {mode: restart}}
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar

from streamtune.settings import Settings, SettingsError, settings_within, unknown

FILE_NAME = "streamtune.yaml"
ENVIRONMENT = "STREAMTUNE_CONFIG"
Origin = Literal["default", "file"]
S = TypeVar("S", bound=Settings)

# Section → where its class lives. The one list: the file, `config show` and the reference page all follow it.
_SECTIONS = {
    "guards": "streamtune.control.guards:Guards",
    "supervisor": "streamtune.control.settings:SupervisorSettings",
    "service": "streamtune.service.settings:ServiceSettings",
    "window.simulator": "streamtune.engines.simulator.settings:SimulatorWindow",
    "window.flink": "streamtune.engines.flink.settings:FlinkWindow",
    "window.timely": "streamtune.engines.timely.settings:TimelyWindow",
    "engines.simulator": "streamtune.engines.simulator.settings:SimulatorSettings",
    "engines.flink": "streamtune.engines.flink.settings:FlinkSettings",
    "engines.timely": "streamtune.engines.timely.settings:TimelySettings",
    "tuners.streamtune": "streamtune.tuners.streamtune.settings:StreamTuneSettings",
    "tuners.streamtune-paper": "streamtune.tuners.streamtune.settings:PaperStreamTuneSettings",
    "tuners.ds2": "streamtune.tuners.settings:DS2Settings",
    "tuners.ds2-calibrated": "streamtune.tuners.settings:CalibratedDS2Settings",
    "tuners.conttune": "streamtune.tuners.settings:ContTuneSettings",
    "tuners.flink-autoscaler": "streamtune.tuners.settings:FlinkAutoscalerSettings",
    "tuners.dhalion": "streamtune.tuners.settings:DhalionSettings",
    "tuners.greedy": "streamtune.tuners.settings:GreedySettings",
    "tuners.zerotune": "streamtune.tuners.settings:ZeroTuneSettings",
    "provisioning.solver": "streamtune.provisioning.settings:SolverSettings",
    "provisioning.ahead": "streamtune.provisioning.settings:AheadSettings",
    "provisioning.sampling": "streamtune.provisioning.settings:SamplingSettings",
    "provisioning.dsa": "streamtune.provisioning.settings:DsaSettings",
    "provisioning.drift": "streamtune.provisioning.settings:DriftSettings",
    "forecasts": "streamtune.forecasts.settings:ForecastSettings",
    "sundog.pipeline": "streamtune.sundog.settings:SundogSettings",
    "sundog.stream": "streamtune.sundog.settings:StreamSettings",
    "sundog.training": "streamtune.sundog.settings:SweepSettings",
    "sundog.world": "streamtune.sundog.settings:WorldSettings",
    "sundog.log": "streamtune.sundog.settings:LogSettings",
    "placement.ours": "streamtune.placement.settings:OursSettings",
    "placement.greedy": "streamtune.placement.settings:GreedyPlacementSettings",
    "advice": "streamtune.models.costmodel.settings:AdviceSettings",
    "collect": "streamtune.engines.flink.settings:CollectSettings",
    "distance": "streamtune.similarity.settings:DistanceSettings",
    "history.generate": "streamtune.labs.settings:GenerateSettings",
    "history.validation": "streamtune.history.settings:ValidationSettings",
    "history.follow": "streamtune.history.settings:FollowSettings",
    "history.label": "streamtune.readings.settings:LabelSettings",
    "history.featurise": "streamtune.history.settings:FeaturiseSettings",
    "history.cluster": "streamtune.similarity.settings:KMeansSettings",
    "training.pretrain": "streamtune.training.settings:PretrainSettings",
    "training.costmodel": "streamtune.models.costmodel.settings:CostModelSettings",
    "training.plans": "streamtune.labs.settings:PlanDataSettings",
    "training.fine-tune": "streamtune.models.costmodel.settings:FineTuneSettings",
    "signatures": "streamtune.signatures:SignatureSettings",
    "spark": "streamtune.spark.settings:SparkSettings",
    "table": "streamtune.spark.settings:TableSettings",
    "labs.flink-cluster": "streamtune.labs.flink.settings:ClusterSettings",
    "labs.flink-hosts": "streamtune.labs.hosts.settings:FlinkHostSettings",
    "labs.flink-job": "streamtune.labs.flink.settings:WorkloadSettings",
    "labs.timely": "streamtune.workloads.settings:TimelyScale",
}


def all_sections() -> dict[str, type[Settings]]:
    """Every section with its class: what can be set at all."""
    return {name: section_class(name) for name in _SECTIONS}


def section_class(name: str) -> type[Settings]:
    """The settings class of a section."""
    module, _, kind = _SECTIONS[name].partition(":")
    found: type[Settings] = getattr(import_module(module), kind)
    return found


@dataclass(frozen=True)
class Config:
    """The settings in force: what a file says, and the defaults for all that it does not.

    >>> Config().tuner("ds2").ignored_drop
    1
    >>> Config({"tuners.ds2": {"ignored_drop": 2}}).tuner("ds2").ignored_drop
    2
    """

    given: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # section → what the file says
    path: Path | None = None

    def settings(self, kind: type[S]) -> S:
        """The settings of a class, for instance ``config.settings(Guards)``."""
        home = f"{kind.__module__}:{kind.__qualname__}"
        name = next((name for name, place in _SECTIONS.items() if place == home), None)
        if name is None:
            raise SettingsError(f"{kind.__name__} has no section in {FILE_NAME}: give it in Python instead")
        return kind.of(self.given.get(name, {}), self._place(name))

    def section(self, name: str) -> Settings:
        """The settings of a section by its name, for instance ``engines.flink``."""
        if name not in _SECTIONS:
            raise SettingsError(_no_section(self._file, name))
        return section_class(name).of(self.given.get(name, {}), self._place(name))

    def tuner(self, name: str) -> Any:
        """The settings of a tuner by its name."""
        return self.section(f"tuners.{name}")

    def gives(self, kind: type[Settings], name: str) -> bool:
        """Whether the file says anything about this field."""
        home = f"{kind.__module__}:{kind.__qualname__}"
        return any(place == home and name in self.given.get(section, {}) for section, place in _SECTIONS.items())

    def effective(self, name: str) -> Iterator[tuple[str, Any, Origin]]:
        """Field (with dots where settings are nested), plain value and where it comes from, for one section."""
        yield from _flat(self.section(name), self.given.get(name, {}), "")

    @property
    def _file(self) -> str:
        return str(self.path or FILE_NAME)

    def _place(self, section: str) -> str:
        return f"{self._file}: {section}" if section in self.given else section


def load_config(path: Path | None = None) -> Config:
    """Read and check a config file: this one, else $STREAMTUNE_CONFIG, else ./streamtune.yaml, else all defaults."""
    if path is None:
        path = Path(os.environ[ENVIRONMENT]) if os.environ.get(ENVIRONMENT) else Path(FILE_NAME)
        if not os.environ.get(ENVIRONMENT) and not path.exists():
            return Config()
    return parse_config(_read(path), path)


def parse_config(data: object, path: Path | None = None) -> Config:
    """A config from plain values, as YAML gives them; every section that is named is checked."""
    file = str(path or FILE_NAME)
    given: dict[str, Mapping[str, Any]] = {}
    for key, value in _mapping(data, file).items():
        if key in _SECTIONS:
            given[key] = _mapping(value, f"{file}: {key}")
            continue
        if key not in {name.partition(".")[0] for name in _SECTIONS}:
            raise SettingsError(_no_section(file, key))
        for below, inner in _mapping(value, f"{file}: {key}").items():
            name = f"{key}.{below}"
            if name not in _SECTIONS:
                raise SettingsError(_no_section(file, name))
            given[name] = _mapping(inner, f"{file}: {name}")
    config = Config(given, path)
    for name in given:
        config.section(name)
    return config


def _read(path: Path) -> object:
    from streamtune.dataflow.documents import DocumentError, read_document

    try:
        return read_document(path)
    except DocumentError as error:
        raise SettingsError(f"{path} {error.problem}") from error


def _mapping(value: object, place: str) -> dict[str, Any]:
    """A mapping with text keys; nothing at all counts as an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise SettingsError(f"{place} must be a mapping of settings, but got {value!r}")
    return {str(key): inner for key, inner in value.items()}


def _no_section(file: str, name: str) -> str:
    above, _, below = name.rpartition(".")
    prefix = f"{above}." if above else ""
    known = dict.fromkeys(one.removeprefix(prefix).partition(".")[0] for one in _SECTIONS if one.startswith(prefix))
    place = f"{file}: {above}" if above else file
    return unknown(place, below, list(known), what="section")


def _flat(settings: Settings, given: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any, Origin]]:
    plain = settings.model_dump(mode="json")
    for name in type(settings).model_fields:
        inner, said = getattr(settings, name), given.get(name)
        if settings_within(type(settings), name) and isinstance(inner, Settings):
            yield from _flat(inner, said if isinstance(said, Mapping) else {}, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _plain(plain[name], inner), "file" if name in given else "default"


def _plain(value: Any, original: Any) -> Any:
    """As JSON can say it: sets in order, and infinity as text, since JSON has none."""
    if isinstance(original, frozenset):
        return sorted(value)
    if isinstance(original, float) and not math.isfinite(original):
        return str(original)
    return value
