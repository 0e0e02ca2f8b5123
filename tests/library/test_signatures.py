"""Signed models: whoever has no key can neither write nor change one that is read where signatures are required."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import pytest

from streamtune.models.bundle import BundleError, ModelBundle
from streamtune.sealed import (
    MANIFEST,
    SealedFolderError,
    checksum,
    read_sealed,
    sign_folder,
    verify_folder,
    write_sealed,
)
from streamtune.settings import SettingsError
from streamtune.signatures import Keys, SignatureError, SignatureSettings, following, key_name, make_key


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    make_key(tmp_path / "keys.txt")
    return tmp_path / "keys.txt"


@pytest.fixture
def required(keys: Path) -> SignatureSettings:
    return SignatureSettings(keys=str(keys), required=True)


def write(folder: Path, content: bytes = b"x") -> Path:
    write_sealed(folder, {"a": content}, {"format": "f", "version": 1}, "model")
    return folder


def forge(folder: Path, content: bytes) -> None:
    """As somebody without a key can: the file, its checksum, the manifest and the manifest's own checksum."""
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / "a").write_bytes(content)
    manifest["checksums"]["a"] = checksum(content)
    (folder / MANIFEST).write_text(json.dumps(manifest))
    (folder / "manifest.sha256").write_text(checksum((folder / MANIFEST).read_bytes()) + "\n")


def test_what_is_written_with_keys_is_signed_and_read(tmp_path: Path, required: SignatureSettings) -> None:
    with following(required):
        write(tmp_path / "model")
        assert read_sealed(tmp_path / "model", "f", 1)[1] == {"a": b"x"}
        write(tmp_path / "model", b"newer")  # in its place
        assert read_sealed(tmp_path / "model", "f", 1)[1] == {"a": b"newer"}
    assert read_sealed(tmp_path / "model", "f", 1)[1] == {"a": b"newer"}, "and without any setting"


def test_a_forged_model_passes_checksums_but_not_the_signature(tmp_path: Path, required: SignatureSettings) -> None:
    with following(required):
        write(tmp_path / "model")
    forge(tmp_path / "model", b"evil")
    assert read_sealed(tmp_path / "model", "f", 1)[1] == {"a": b"evil"}, "a checksum is no signature"
    with following(required), pytest.raises(SignatureError, match="model was changed after it was signed: restore it"):
        read_sealed(tmp_path / "model", "f", 1)


def test_an_unsigned_model_is_refused_until_it_is_signed(tmp_path: Path, required: SignatureSettings) -> None:
    folder = write(tmp_path / "model")
    with following(required):
        with pytest.raises(SignatureError, match=r"model is not signed: .*streamtune model sign"):
            read_sealed(folder, "f", 1)
        assert required.keys is not None
        name = sign_folder(folder, Keys.read(Path(required.keys)))
        assert verify_folder(folder, Keys.read(Path(required.keys))) == name
        assert read_sealed(folder, "f", 1)[1] == {"a": b"x"}


def test_a_signature_of_another_key_or_another_model_is_refused(tmp_path: Path, required: SignatureSettings) -> None:
    make_key(tmp_path / "foreign.txt")
    folder = write(tmp_path / "model")
    signer = sign_folder(folder, Keys.read(tmp_path / "foreign.txt"))
    with following(required):
        with pytest.raises(SignatureError, match=f"signed with the key {signer}, which .*keys.txt does not have"):
            read_sealed(folder, "f", 1)
        other = write(tmp_path / "other", b"other")
        shutil.copy(other / "manifest.signature", folder / "manifest.signature")
        with pytest.raises(SignatureError, match="changed after it was signed"):
            read_sealed(folder, "f", 1)


def test_every_flipped_bit_of_a_signature_is_found(tmp_path: Path, required: SignatureSettings) -> None:
    with following(required):
        folder = write(tmp_path / "model")
        file = folder / "manifest.signature"
        whole = file.read_bytes()
        for place in range(len(whole) - 1):  # the line's end means nothing
            for bit in range(8):
                file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
                with pytest.raises(SignatureError):
                    read_sealed(folder, "f", 1)
        for content in (b"", whole * 2, b"\0" * 200_000):
            file.write_bytes(content)
            with pytest.raises(SignatureError, match=r"manifest\.signature is damaged"):
                read_sealed(folder, "f", 1)


def test_a_damaged_model_is_not_signed(tmp_path: Path, keys: Path) -> None:
    folder = write(tmp_path / "model")
    (folder / "a").write_bytes(b"edited")
    with pytest.raises(SealedFolderError, match="a is not what was written"):
        sign_folder(folder, Keys.read(keys))
    assert not (folder / "manifest.signature").exists()


def test_keys_are_changed_without_a_gap(tmp_path: Path, keys: Path, required: SignatureSettings) -> None:
    """The new key in front signs; the old one behind it is trusted until its models are gone."""
    with following(required):
        old = write(tmp_path / "old")
        make_key(tmp_path / "new.txt")
        keys.write_text((tmp_path / "new.txt").read_text() + keys.read_text())
        new = write(tmp_path / "new")
        assert read_sealed(old, "f", 1) == read_sealed(new, "f", 1)
        both = Keys.read(keys)
        assert verify_folder(new, both) == key_name(both.secrets[0])
        assert verify_folder(old, both) == key_name(both.secrets[1])
        keys.write_text((tmp_path / "new.txt").read_text())
        assert read_sealed(new, "f", 1)[1] == {"a": b"x"}
        with pytest.raises(SignatureError, match="does not have"):
            read_sealed(old, "f", 1)


def test_files_of_keys(tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    name = make_key(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert key_name(Keys.read(file).secrets[0]) == name
    with pytest.raises(SignatureError, match=r"keys\.txt exists"):
        make_key(file)
    bad = {
        "": "has no keys",
        "# only words\n\n": "has no keys",
        "ab" * 31: "line 1: a key is 64 hexadecimal digits",
        "ab" * 32 + "\nsecret": "line 2: a key is",
        "gg" * 32: "line 1",
    }
    for text, message in bad.items():
        file.write_text(text)
        with pytest.raises(SignatureError, match=message) as caught:
            Keys.read(file)
        assert "secret" not in str(caught.value)
    file.write_bytes(b"\xff" * 64)
    with pytest.raises(SignatureError, match="not a file of keys"):
        Keys.read(file)
    with pytest.raises(SignatureError, match="cannot be read: No such file"):
        Keys.read(tmp_path / "none.txt")
    with pytest.raises(SettingsError, match="required needs keys"):
        SignatureSettings(required=True)


def test_a_bundle_is_held_to_its_signature_and_its_manifest(
    small_model: Path, tmp_path: Path, required: SignatureSettings
) -> None:
    """Nothing that the manifest does not name is read, and nothing that changed between the check and the reading."""
    bundle = tmp_path / "model"
    shutil.copytree(small_model, bundle)
    with following(required):
        with pytest.raises(SignatureError, match="is not signed"):
            ModelBundle.load(bundle)
        assert required.keys is not None
        sign_folder(bundle, Keys.read(Path(required.keys)))
        shutil.copy(bundle / "cluster-0" / "centre.json", bundle / "global" / "centre.json")
        loaded = ModelBundle.load(bundle)
        assert [model.name for model in loaded.clusters] == ["cluster-0"], "a file beside it makes no cluster"
        weights = bundle / "global" / "encoder.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
        with pytest.raises(BundleError, match=r"global/encoder.safetensors is not what was written"):
            _ = loaded.models["global"].network
