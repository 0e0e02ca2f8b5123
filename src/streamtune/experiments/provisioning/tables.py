"""Table 2 (sampling algorithms) and Table 3 (models) of QEScalor, on real operators or on the simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamtune.labs.sampling import OPERATORS, ProcessSampler
from streamtune.provisioning.oprpm.model import best_settings, train
from streamtune.provisioning.oprpm.regressors import NAMES, regressor
from streamtune.provisioning.sampling.algorithms import dsa, fssa, ladder, ours
from streamtune.provisioning.sampling.physics import KNOWN, SimulatedSampler
from streamtune.provisioning.sampling.samples import Convergence, Provision, Sample, Sampler

Floats = npt.NDArray[np.float64]
Progress = Callable[[str], None]
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


def sampled(operator: str, sampler: Sampler, steps: int) -> dict[str, list[Sample]]:
    """The samples of every algorithm; a second pass of FSSA₁ tells the noise floor."""
    provisions = rungs(operator, steps)
    found = {f"FSSA{step}": fssa(provisions, sampler, step) for step in (1, 2, 3, 4, 5)}
    found["DSA"] = dsa(provisions, sampler)
    found["ours"] = ours(provisions, sampler)
    found["FSSA1 again"] = fssa(provisions, sampler, 1)
    return found


def table_2(samples: dict[str, list[Sample]], operator: str, *, model: str = "ours", seed: int = 0) -> list[Row]:
    """Errors of a model of each algorithm's samples on FSSA₁'s provisions; the truth is FSSA₁'s mean of two passes.

    ``FSSA1 again`` as a method is the noise floor: one pass against the other. Below it nothing is ranked.
    """
    first, second = samples["FSSA1"], samples["FSSA1 again"]
    truth = np.array([(a.performance_per_s + b.performance_per_s) / 2 for a, b in zip(first, second, strict=True)])
    span = max(float(np.ptp(truth)), 1e-12)
    rows = []
    for method, taken in samples.items():
        if method == "FSSA1 again":
            predicted = np.array([one.performance_per_s for one in first])
            reference = np.array([one.performance_per_s for one in second])
            rows.append(_row(operator, "noise floor", (predicted - reference) / span / np.sqrt(2), taken))
            continue
        fitted = train(operator, taken, model, seed)
        rows.append(_row(operator, method, (fitted.performance(first) - truth) / span, taken))
    return rows


def table_3(samples: dict[str, list[Sample]], operator: str, *, repeats: int = 10) -> list[Row]:
    """Every model trained on DSA's samples and tested on FSSA₁'s, as the paper does; settings by grid and ten folds."""
    train_on, test = samples["DSA"], samples["FSSA1"]
    truth = np.array([one.performance_per_s for one in test])
    span = max(float(np.ptp(truth)), 1e-12)
    rows = []
    for name in (*NAMES, "ours"):
        errors, absolute = [], []
        for seed in range(repeats):
            if name == "ours":
                predicted = train(operator, train_on, "ours", seed).performance(test)
            else:
                settings = best_settings(name, train_on, seed)[0]
                predicted = regressor(name, seed, **settings).fit(train_on).predict(test)
            off = (predicted - truth) / span
            errors.append(float(np.sqrt(np.mean(off**2))))
            absolute.append(float(np.mean(np.abs(off))))
        mean, mae, spread = float(np.mean(errors)), float(np.mean(absolute)), float(np.std(errors))
        rows.append(Row(operator, name, mean, mae, len(train_on), spread=spread))
    return rows


def _row(operator: str, method: str, off: Floats, taken: Sequence[Sample]) -> Row:
    seconds = float(sum(one.seconds for one in taken))
    return Row(operator, method, float(np.sqrt(np.mean(off**2))), float(np.mean(np.abs(off))), len(taken), seconds)


def run_tables(
    *,
    real: bool,
    steps: int,
    repeats: int,
    convergence: Convergence,
    progress: Progress,
    operators: Sequence[str] = OPERATORS,
) -> dict[str, Any]:
    """Both tables for all operators, with the samples they rest on."""
    result: dict[str, Any] = {"real": real, "steps": steps, "table_2": [], "table_3": [], "samples": {}}
    for operator in operators:
        progress(f"sampling {operator}")
        taken = sampled(operator, sampler_for(operator, real=real, convergence=convergence, seed=1), steps)
        result["samples"][operator] = {
            method: [one.model_dump(exclude_none=True) for one in rows] for method, rows in taken.items()
        }
        result["table_2"] += [asdict(row) for row in table_2(taken, operator)]
        progress(f"models of {operator}")
        result["table_3"] += [asdict(row) for row in table_3(taken, operator, repeats=repeats)]
    return result
