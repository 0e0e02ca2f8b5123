"""Table 2 (sampling algorithms) and Table 3 (models) of QEScalor, on real operators or on the simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamtune.labs.sampling import ProcessSampler
from streamtune.provisioning.oprpm.model import train
from streamtune.provisioning.oprpm.regressors import NAMES
from streamtune.provisioning.problem import ProvisioningError
from streamtune.provisioning.sampling.algorithms import dsa, fssa, ladder, ours
from streamtune.provisioning.sampling.physics import KNOWN, SimulatedSampler
from streamtune.provisioning.sampling.samples import Convergence, Provision, Sample, Sampler

Floats = npt.NDArray[np.float64]
Progress = Callable[[str], None]
AGAIN, FLOOR = "FSSA1 again", "noise floor"
LARGEST = {"CO1": 1.6, "CO2": 1.2, "CMO1": 1.2, "CMO2": 1.2}


@dataclass(frozen=True)
class Row:
    """One cell of a table: errors are over the range of performance (min-max scaled), as in the paper."""

    operator: str
    method: str
    rmse: float
    mae: float
    samples: int = 0
    seconds: float = 0.0
    spread: float = 0.0  # over repetitions


def rungs(operator: str, steps: int) -> list[Provision]:
    """The ladder of an operator."""
    return ladder(Provision(cpu=0.1, memory_mb=20), Provision(cpu=LARGEST[operator], memory_mb=96), steps)


def sampler_for(operator: str, *, real: bool, convergence: Convergence, seed: int) -> Sampler:
    """A real process under control groups, or the calibrated physics."""
    if real:
        return ProcessSampler(operator, convergence=convergence)
    return SimulatedSampler(KNOWN[operator], noise=0.03, seed=seed)


METHODS = ("FSSA1", "FSSA2", "FSSA3", "FSSA4", "FSSA5", "DSA", "ours", AGAIN)


def sampled_by(method: str, provisions: Sequence[Provision], sampler: Sampler) -> list[Sample]:
    """The samples of one algorithm; a second pass of FSSA₁ tells the noise floor."""
    if method == "DSA":
        return dsa(provisions, sampler)
    if method == "ours":
        return ours(provisions, sampler)
    return fssa(provisions, sampler, int(method.split()[0].removeprefix("FSSA")))


def sampling_row(samples: dict[str, list[Sample]], operator: str, method: str, *, seed: int = 0) -> Row:
    """Table 2: error of a model of an algorithm's samples on FSSA₁'s provisions; the truth is the mean of two passes.

    The second pass itself is the noise floor, one pass against the other: below it nothing is ranked. FSSA₁'s own
    readings are half of the truth, which favours it.
    """
    first, second, taken = samples["FSSA1"], samples[AGAIN], samples[method]
    truth = np.array([(a.performance_per_s + b.performance_per_s) / 2 for a, b in zip(first, second, strict=True)])
    span = max(float(np.ptp(truth)), 1e-12)
    if method == AGAIN:
        apart = np.array([a.performance_per_s - b.performance_per_s for a, b in zip(first, second, strict=True)])
        return _row(operator, FLOOR, apart / span / np.sqrt(2), taken)
    return _row(operator, method, (train(operator, taken, seed=seed).performance(first) - truth) / span, taken)


def model_row(samples: dict[str, list[Sample]], operator: str, name: str, *, repeats: int = 10) -> Row:
    """Table 3: a model trained on DSA's samples and tested on FSSA₁'s, as in the paper; settings by grid and folds."""
    train_on, test = samples["DSA"], samples["FSSA1"]
    truth = np.array([one.performance_per_s for one in test])
    span = max(float(np.ptp(truth)), 1e-12)
    errors, absolute = [], []
    for seed in range(repeats):
        off = (train(operator, train_on, name, seed).performance(test) - truth) / span
        errors.append(float(np.sqrt(np.mean(off**2))))
        absolute.append(float(np.mean(np.abs(off))))
    mean, mae, spread = float(np.mean(errors)), float(np.mean(absolute)), float(np.std(errors))
    return Row(operator, name, mean, mae, len(train_on), spread=spread)


def _row(operator: str, method: str, off: Floats, taken: Sequence[Sample]) -> Row:
    seconds = float(sum(one.seconds for one in taken))
    return Row(operator, method, float(np.sqrt(np.mean(off**2))), float(np.mean(np.abs(off))), len(taken), seconds)


@dataclass
class Tables:
    """Both tables with the samples they rest on; what is there is not made again, so a run that was stopped goes on.

    ``keep`` is given all of it after every algorithm's samples and every row.
    """

    found: dict[str, Any]
    keep: Callable[[dict[str, Any]], None]
    progress: Progress
    real: bool
    steps: int
    repeats: int
    convergence: Convergence

    def __post_init__(self) -> None:
        wanted = {"real": self.real, "steps": self.steps}
        for name, value in wanted.items():
            if self.found.get(name, value) != value:
                raise ProvisioningError(
                    f"tables were begun with {name} {self.found[name]}, but got {value}: remove the file to start anew"
                )
        self.found |= wanted
        for name, empty in (("table_2", []), ("table_3", []), ("samples", {})):
            self.found.setdefault(name, empty)

    def add(self, operator: str) -> None:
        """Whatever is missing of one operator."""
        samples = self._samples(operator)
        for method in METHODS:
            if not self._has("table_2", operator, FLOOR if method == AGAIN else method):
                self._keep("table_2", sampling_row(samples, operator, method))
        for name in (*NAMES, "ours"):
            if not self._has("table_3", operator, name):
                self.progress(f"model {name} of {operator}")
                self._keep("table_3", model_row(samples, operator, name, repeats=self.repeats))

    def _samples(self, operator: str) -> dict[str, list[Sample]]:
        kept = self.found["samples"].setdefault(operator, {})
        missing = [method for method in METHODS if method not in kept]
        if missing:
            sampler = sampler_for(operator, real=self.real, convergence=self.convergence, seed=1)
        for method in missing:
            self.progress(f"sampling {operator} by {method}")
            taken = sampled_by(method, rungs(operator, self.steps), sampler)
            kept[method] = [one.model_dump(exclude_none=True) for one in taken]
            self.keep(self.found)
        return {method: [Sample.model_validate(one) for one in kept[method]] for method in METHODS}

    def _has(self, table: str, operator: str, method: str) -> bool:
        return any((row["operator"], row["method"]) == (operator, method) for row in self.found[table])

    def _keep(self, table: str, row: Row) -> None:
        self.found[table].append(asdict(row))
        self.keep(self.found)
