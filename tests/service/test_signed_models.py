"""The service decides by signed models alone where signatures are required, and says so where it cannot."""

from __future__ import annotations

import shutil
from pathlib import Path

from service.worlds import make_world, short_job
from streamtune.sealed import sign_folder
from streamtune.service.settings import Policy
from streamtune.signatures import Keys, SignatureSettings, following, make_key

Q1 = "nexmark-q1"


def test_a_policy_with_an_unsigned_model_decides_nothing(small_model: Path, tmp_path: Path) -> None:
    model, keys = tmp_path / "model", tmp_path / "keys.txt"
    shutil.copytree(small_model, model)
    make_key(keys)
    with following(SignatureSettings(keys=str(keys), required=True)):
        policy = Policy(mode="auto", tuner="streamtune", model=str(model))
        world = make_world(tmp_path, [short_job()], policy)
        world.run(600)
        assert world.decisions(Q1, "applied") == []
        assert "is not signed: if you trust it, sign it" in str(world.keeper(Q1).state.summary())
        sign_folder(model, Keys.read(keys))
        world.run(1800)
        assert world.decisions(Q1, "applied"), "it goes on by itself once the model is signed"
