"""An ensemble from networks that were trained apart, for instance in one Spark task each.

Every task fits the encoder on the same training rows in the same order, so all members have the same one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from safetensors.torch import save as save_tensors

from streamtune.errors import StreamTuneError
from streamtune.models.costmodel.datasets import plans_of, split
from streamtune.models.costmodel.features import PlanEncoder
from streamtune.models.costmodel.model import CostModel, load_network
from streamtune.models.costmodel.optisample import OptiSample
from streamtune.models.costmodel.settings import CostModelSettings
from streamtune.settings import later_seed


def members_of(settings_json: str) -> list[str]:
    """The settings of each network of an ensemble, as JSON: one member, a seed of its own."""
    settings = CostModelSettings.model_validate_json(settings_json)
    return [
        settings.model_copy(
            update={
                "members": 1,
                "training": settings.training.model_copy(update={"seed": later_seed(settings.training.seed, member)}),
            }
        ).model_dump_json()
        for member in range(settings.members)
    ]


def trained_member(table: pa.Table, settings_json: str, train_share: float = 0.8) -> tuple[bytes, str]:
    """Train one network on the training part of ``table``; the network with its encoder, and a word on how it went."""
    table = table.sort_by([("query", "ascending"), ("enumeration", "ascending"), ("latency_ms", "ascending")])
    parts = split(table, train_share)
    for part in ("train", "validation"):
        if not parts[part].num_rows:
            raise StreamTuneError(f"{table.num_rows} plans leave none for the {part} part: add plans of more queries")
    messages: list[str] = []
    model = CostModel.train(
        plans_of(parts["train"]),
        plans_of(parts["validation"]),
        CostModelSettings.model_validate_json(settings_json),
        progress=messages.append,
    )
    notes = dict(model.notes)
    if parts["test"].num_rows:
        notes["test"] = model.score(plans_of(parts["test"]))
    packed = {
        "encoder": model.encoder.model_dump_json(),
        "weights": save_tensors(model.networks[0].state_dict()).hex(),
        "notes": notes,
    }
    return json.dumps(packed).encode(), messages[0].partition(": ")[2]


def assembled(settings_json: str, members: Sequence[bytes], optisample: OptiSample) -> CostModel:
    """The ensemble of members that ``trained_member`` gave."""
    settings = CostModelSettings.model_validate_json(settings_json)
    packed = [json.loads(member) for member in members]
    if len({entry["encoder"] for entry in packed}) != 1:
        raise StreamTuneError("the networks were trained on different plans: train them all again")
    encoder = PlanEncoder.from_json(packed[0]["encoder"])
    networks = tuple(
        load_network(encoder, settings.training.network, bytes.fromhex(entry["weights"])) for entry in packed
    )
    notes = {**packed[0]["notes"], "seconds": sum(entry["notes"]["seconds"] for entry in packed)}
    return replace(CostModel(encoder, networks, settings, optisample), notes=notes)
