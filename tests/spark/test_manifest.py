"""The manifest of a table shows a single flipped bit; none of these tests starts Spark."""

from __future__ import annotations

import pytest

from streamtune.spark.errors import StorageError
from streamtune.spark.tables import Manifest

MANIFEST = Manifest(
    number=3,
    table_schema={"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True}]},
    partition_by=("day",),
    parts=("in-1", "in-2"),
    rows={"in-1": 12, "in-2": 0},
    properties={"threshold": 0.6},
)


def test_one_flipped_bit_is_found() -> None:
    """Rows of a part, the name of a part, a property: each was believed."""
    whole = MANIFEST.sealed().model_dump_json(indent=1).encode()
    assert Manifest.read(whole.decode(), "m.json").rows == {"in-1": 12, "in-2": 0}
    for place in range(len(whole)):
        for bit in range(8):
            flipped = whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :]
            with pytest.raises(StorageError, match=r"m\.json is damaged"):
                Manifest.read(flipped.decode("utf-8", "replace"), "m.json")


def test_release_0_1_0_wrote_no_checksum() -> None:
    assert Manifest.read(MANIFEST.model_dump_json(), "m.json") == MANIFEST
