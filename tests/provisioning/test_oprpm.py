"""Models of performance over provision: choice, storage, drift."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from streamtune.provisioning.oprpm.drift import DriftDetector, renewed
from streamtune.provisioning.oprpm.model import OperatorModel, train
from streamtune.provisioning.oprpm.regressors import MAKERS, NAMES, regressor
from streamtune.provisioning.problem import ProvisioningError
from streamtune.provisioning.sampling.physics import KNOWN, SimulatedSampler
from streamtune.provisioning.sampling.samples import Provision, Sample
from streamtune.sealed import SealedFolderError


def samples_of(operator: str = "CMO2", slower: float = 1.0, seed: int = 0) -> list[Sample]:
    sampler = SimulatedSampler(KNOWN[operator], noise=0.02, seed=seed)
    rungs = [Provision(cpu=0.1 + 0.1 * k, memory_mb=20 + 6 * k) for k in range(12)]
    found = [sampler.sample(rung) for rung in rungs]
    return [one.model_copy(update={"performance_per_s": one.performance_per_s * slower}) for one in found]


@pytest.mark.parametrize("name", NAMES)
def test_every_model_follows_its_samples(name: str) -> None:
    samples = samples_of("CO2")
    predicted = regressor(name).fit(samples).predict(samples)
    seen = np.array([one.performance_per_s for one in samples])
    assert (predicted >= 0).all()
    assert np.corrcoef(predicted, seen)[0, 1] > 0.9


def held_out_errors(operator: str, names: Sequence[str]) -> dict[str, float]:
    """Root mean square of log(predicted / seen) on real samples that no model has seen, a third of them at a time.

    The smallest and the largest provision are learnt from always: nobody is asked to extrapolate.
    """
    stored = json.loads((Path(__file__).parent / "real_samples.json").read_text())[operator]
    samples = [Sample(**row) for row in stored]
    missed: dict[str, list[float]] = {name: [] for name in names}
    for split in range(3):
        left = [k for k in range(1, len(samples)) if k != 11 and k % 3 == split]
        known = [one for k, one in enumerate(samples) if k not in left]
        unseen = [samples[k] for k in left]
        seen = np.array([one.performance_per_s for one in unseen])
        for name in names:
            model = train(operator, known) if name == "ours" else regressor(name).fit(known)
            predicted = model.performance(unseen) if isinstance(model, OperatorModel) else model.predict(unseen)
            missed[name].append(float(np.sqrt(np.mean(np.log(np.maximum(predicted, 1.0) / seen) ** 2))))
    return {name: float(np.mean(errors)) for name, errors in missed.items()}


@pytest.mark.parametrize("operator", ["CO1", "CO2", "CMO1", "CMO2"])
@pytest.mark.slow
def test_ours_is_as_good_as_the_best_of_six_on_samples_it_never_saw(operator: str) -> None:
    errors = held_out_errors(operator, ("ours", *MAKERS))
    assert errors.pop("ours") <= min(errors.values())


def test_a_model_survives_its_folder_without_pickle(tmp_path: Path) -> None:
    model = train("CMO2", samples_of())
    assert set(model.errors) == set(NAMES)  # each was a candidate
    model.save(tmp_path / "model")
    again = OperatorModel.load(tmp_path / "model")
    at = [Provision(cpu=0.33, memory_mb=41), Provision(cpu=1.0, memory_mb=80)]
    assert again.performance(at).tolist() == pytest.approx(model.performance(at).tolist())
    assert (again.name, again.operator, again.error) == (model.name, "CMO2", model.error)
    (tmp_path / "model" / "samples.json").write_text("[]")
    with pytest.raises(SealedFolderError, match="is damaged"):
        OperatorModel.load(tmp_path / "model")


@pytest.mark.slow
def test_a_slower_operator_is_noticed_and_a_noisy_one_is_not() -> None:
    model = train("CMO2", samples_of())
    quiet = DriftDetector(model)
    assert [quiet.see(one) for one in samples_of(seed=5)] == [None] * 12
    changed = DriftDetector(model)
    told = [changed.see(one) for one in samples_of(slower=0.6, seed=5)]
    assert any(told)
    assert "is slower than its model" in next(text for text in told if text)
    fresh = renewed(model, samples_of(slower=0.6, seed=6)[::3], keep_old=True)
    truth = 0.6 * float(KNOWN["CMO2"].performance(0.7, 56))
    assert float(fresh.performance([Provision(cpu=0.7, memory_mb=56)])[0]) == pytest.approx(truth, rel=0.25)


def test_too_few_samples_and_unknown_models() -> None:
    with pytest.raises(ProvisioningError, match=r"2 samples of 'CO1' at 2 provisions cannot teach .* at least 4"):
        train("CO1", samples_of("CO1")[:2])
    with pytest.raises(ProvisioningError, match="8 samples of 'CO1' at 1 provision cannot teach"):
        train("CO1", samples_of("CO1")[:1] * 8)
    idle = [one.model_copy(update={"performance_per_s": 0.0}) for one in samples_of("CO1")]
    with pytest.raises(ProvisioningError, match="no sample of 'CO1' served anything"):
        train("CO1", idle)
    with pytest.raises(ProvisioningError, match="unknown model 'oracle': choose ours, forest"):
        train("CO1", samples_of("CO1"), "oracle")
