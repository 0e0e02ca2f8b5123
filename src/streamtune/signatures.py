"""Signatures of models: whoever holds a key has written this manifest, and with its checksums all files it names.

HMAC-SHA256 of the manifest's bytes, in a file beside it. The keys are secret and shared: who can check can sign too.
Where a process says ``follow(…)``, every model it writes is signed and, if required, none without a signature is read.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from streamtune.errors import StreamTuneError
from streamtune.outputs import check_output, write_whole
from streamtune.settings import Settings

_ALGORITHM = "hmac-sha256"
# So that a signature of a manifest cannot be taken for one of anything else that is signed with the same key.
_PURPOSE = b"streamtune manifest\n"
_KEY_BYTES = 32
_KEY = re.compile(rf"[0-9a-fA-F]{{{2 * _KEY_BYTES}}}")
_SIGNATURE = re.compile(rb"hmac-sha256 ([0-9a-f]{16}) ([0-9a-f]{64})\n?")
_LARGEST_FILE = 65_536


class SignatureError(StreamTuneError):
    """A model whose signature is missing or wrong, or keys that cannot be read."""


class SignatureSettings(Settings):
    """Who may have written the models that are read."""

    keys: str | None = Field(
        default=None,
        description="file with secret keys, one per line: models that are written are signed with the first, and a "
        "signature by any of them is trusted",
    )
    required: bool = Field(default=False, description="read no model without a signature by one of the keys")

    @model_validator(mode="after")
    def _has_keys(self) -> Self:
        if self.required and self.keys is None:
            raise ValueError("required needs keys: name a file, which 'streamtune model key' makes")
        return self


@dataclass(frozen=True)
class Keys:
    """The keys of a file, the one that signs first."""

    file: Path
    secrets: tuple[bytes, ...]

    @classmethod
    def read(cls, file: Path) -> Keys:
        """One key per line, 64 hexadecimal digits each; empty lines and lines after # count for nothing."""
        try:
            with file.open("rb") as source:
                text = source.read(_LARGEST_FILE + 1).decode("ascii")
        except OSError as error:
            raise SignatureError(
                f"{file} cannot be read: {error.strerror}. Make keys with 'streamtune model key'"
            ) from error
        except ValueError as error:
            raise SignatureError(f"{file} is not a file of keys: make one with 'streamtune model key'") from error
        found: list[bytes] = []
        for number, line in enumerate(text[:_LARGEST_FILE].splitlines(), 1):
            word = line.partition("#")[0].strip()
            if word and not _KEY.fullmatch(word):  # the line is not shown: it may be most of a key
                raise SignatureError(f"{file}, line {number}: a key is {2 * _KEY_BYTES} hexadecimal digits on a line")
            if word:
                found.append(bytes.fromhex(word))
        if not found:
            raise SignatureError(f"{file} has no keys: make one with 'streamtune model key'")
        return cls(file, tuple(found))

    def sign(self, folder: Path, name: str) -> str:
        """Write the signature of a manifest beside it, and return the name of the key."""
        key = self.secrets[0]
        mac = _mac(key, (folder / name).read_bytes())
        write_whole(signature_file(folder, name), f"{_ALGORITHM} {key_name(key)} {mac}\n")
        return key_name(key)

    def check(self, folder: Path, name: str, manifest: bytes) -> str:
        """The name of the key that signed these bytes of a manifest; anything but that is refused."""
        try:
            with signature_file(folder, name).open("rb") as source:
                said = _SIGNATURE.fullmatch(source.read(_LARGEST_FILE))
        except FileNotFoundError:
            raise SignatureError(
                f"{folder} is not signed: if you trust it, sign it with 'streamtune model sign'"
            ) from None
        except OSError as error:
            raise SignatureError(f"{signature_file(folder, name)} cannot be read: {error.strerror}") from error
        if said is None:
            raise SignatureError(f"{signature_file(folder, name)} is damaged: it is not a signature. Restore it")
        signer, mac = said[1].decode(), said[2].decode()
        key = next((one for one in self.secrets if key_name(one) == signer), None)
        if key is None:
            raise SignatureError(f"{folder} is signed with the key {signer}, which {self.file} does not have: add it")
        if not hmac.compare_digest(_mac(key, manifest), mac):
            raise SignatureError(f"{folder} was changed after it was signed: restore it, or train the model again")
        return signer


def signature_file(folder: Path, name: str) -> Path:
    return (folder / name).with_suffix(".signature")


def key_name(key: bytes) -> str:
    """How a key is called where it must not be shown."""
    return hashlib.sha256(b"streamtune key\n" + key).hexdigest()[:16]


def make_key(file: Path) -> str:
    """A new key in a new file that nobody else may read; returns its name."""
    check_output(file)
    key = secrets.token_bytes(_KEY_BYTES)
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as target:
            target.write(f"# {key_name(key)}\n{key.hex()}\n")
    except FileExistsError:
        raise SignatureError(f"{file} exists: choose another file, or put its keys and the new one together") from None
    except OSError as error:
        raise SignatureError(f"{file} cannot be written: {error.strerror}. Choose another file") from error
    return key_name(key)


def _mac(key: bytes, manifest: bytes) -> str:
    return hmac.new(key, _PURPOSE + manifest, hashlib.sha256).hexdigest()


# One rule for the whole process, so that no place that reads a model can forget it; threads have it too.
_settings: Callable[[], SignatureSettings] = SignatureSettings


def follow(settings: Callable[[], SignatureSettings]) -> Callable[[], SignatureSettings]:
    """From now on this process goes by these settings, asked for when a model is read or written; returns the old."""
    global _settings
    before, _settings = _settings, settings
    return before


@contextmanager
def following(settings: SignatureSettings) -> Iterator[None]:
    """``follow`` for a while."""
    before = follow(lambda: settings)
    try:
        yield
    finally:
        follow(before)


def sign_written(folder: Path, name: str) -> None:
    """Sign a manifest that was just written, where there are keys."""
    settings = _settings()
    if settings.keys is not None:
        Keys.read(Path(settings.keys)).sign(folder, name)


def check_signature(folder: Path, name: str, manifest: bytes) -> None:
    """Refuse a manifest that must be signed and is not, or not by one of ours."""
    settings = _settings()
    if settings.required:
        Keys.read(Path(settings.keys or "")).check(folder, name, manifest)
