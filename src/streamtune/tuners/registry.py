"""The tuners by name. Names and needs are known without loading any of them; a class is loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module

from streamtune.errors import TuningError
from streamtune.extras import require
from streamtune.tuners.base import Tuner

LEARN = "learn"


@dataclass(frozen=True)
class Entry:
    """Where a tuner lives, ``module:Class``, and what the extra ``learn`` must have brought for it."""

    place: str
    packages: tuple[str, ...] = ()
    needs_model: bool = False
    needs_cost_model: bool = False

    def check(self, name: str) -> None:
        """Refuse a tuner whose packages are not installed."""
        require(*self.packages, extra=LEARN, what=f"the tuner '{name}'")

    def load(self, name: str) -> type[Tuner]:
        self.check(name)
        module, _, attribute = self.place.partition(":")
        tuner: type[Tuner] = getattr(import_module(module), attribute)
        return tuner


_BELIEFS = ("scipy", "sklearn", "xgboost")
_NETWORKS = ("torch", "torch_geometric", "safetensors", "pyarrow")

REGISTRY: dict[str, Entry] = {
    "streamtune": Entry("streamtune.tuners.streamtune.tuner:StreamTune", _BELIEFS),
    "ds2": Entry("streamtune.tuners.ds2:DS2"),
    "ds2-calibrated": Entry("streamtune.tuners.ds2:CalibratedDS2"),
    "conttune": Entry("streamtune.tuners.conttune:ContTune"),
    "flink-autoscaler": Entry("streamtune.tuners.flink_autoscaler:FlinkAutoscaler"),
    "dhalion": Entry("streamtune.tuners.dhalion:Dhalion"),
    "greedy": Entry("streamtune.tuners.greedy:Greedy"),
    "streamtune-paper": Entry(
        "streamtune.tuners.streamtune.tuner:PaperStreamTune", (*_BELIEFS, *_NETWORKS), needs_model=True
    ),
    "zerotune": Entry("streamtune.tuners.zerotune:ZeroTune", _NETWORKS, needs_cost_model=True),
}


class LazyTuners(Mapping[str, type[Tuner]]):
    """Tuner classes by name, each loaded when it is first looked up.

    >>> sorted(LazyTuners(["greedy", "ds2"])), LazyTuners(["ds2"])["ds2"].name
    (['ds2', 'greedy'], 'ds2')
    """

    def __init__(self, names: list[str]) -> None:
        self._names = tuple(names)

    def __getitem__(self, name: str) -> type[Tuner]:
        if name not in self._names:
            raise KeyError(name)
        return REGISTRY[name].load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


NEED_A_MODEL = tuple(name for name, entry in REGISTRY.items() if entry.needs_model)
NEED_A_COST_MODEL = tuple(name for name, entry in REGISTRY.items() if entry.needs_cost_model)
# Every one of these can be made from a job alone.
TUNERS: Mapping[str, type[Tuner]] = LazyTuners(
    [name for name in REGISTRY if name not in (*NEED_A_MODEL, *NEED_A_COST_MODEL)]
)


def tuner_names() -> list[str]:
    """All tuners, whether what they need is there or not."""
    return list(REGISTRY)


def check_tuner(name: str, *, has_model: bool, has_cost_model: bool = False) -> None:
    """Refuse a tuner that cannot be made, before anything starts.

    >>> check_tuner("zerotune", has_model=True)
    Traceback (most recent call last):
    streamtune.errors.TuningError: 'zerotune' needs a cost model: give --cost-model; 'streamtune costmodel train' ...
    """
    if name not in REGISTRY:
        raise TuningError(f"unknown tuner '{name}': choose one of {', '.join(sorted(REGISTRY))}")
    if name in NEED_A_MODEL and not has_model:
        raise TuningError(f"'{name}' needs a model: give --model; 'streamtune pretrain' makes one")
    if name in NEED_A_COST_MODEL and not has_cost_model:
        raise TuningError(f"'{name}' needs a cost model: give --cost-model; 'streamtune costmodel train' makes one")
    REGISTRY[name].check(name)
