"""``streamtune model key``, ``sign`` and ``verify``: who wrote a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamtune.cli.options import resolved
from streamtune.cli.output import err, out, print_json
from streamtune.errors import StreamTuneError
from streamtune.sealed import sign_folder, verify_folder
from streamtune.signatures import Keys, SignatureSettings, make_key

Model = Annotated[Path, typer.Argument(help="Folder of a model, a cost model or any other that StreamTune wrote.")]
KeysOption = Annotated[
    Path | None, typer.Option("--keys", metavar="FILE", help="File with secret keys; default: signatures.keys.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


def key(
    file: Annotated[Path, typer.Argument(help="New file for the key; only you may read it.")],
    as_json: JsonOption = False,
) -> None:
    """Make a secret key to sign models with. Whoever has it can sign: keep it as closed as a password.

    \b
    Examples:
      streamtune model key keys.txt
    """
    name = make_key(file)
    if as_json:
        print_json({"file": str(file), "key": name})
        return
    out.print(f"key {name} in {file}", highlight=False, soft_wrap=True)
    err.print("name it in streamtune.yaml: signatures: {keys: FILE, required: true}", style="dim", highlight=False)


def sign(model: Model, keys: KeysOption = None, as_json: JsonOption = False) -> None:
    """Sign a model that you trust, after a check of every file. What is trained where keys are set is signed already.

    \b
    Examples:
      streamtune model sign model --keys keys.txt
    """
    name = sign_folder(model, _keys(keys))
    _say(model, name, as_json)


def verify(model: Model, keys: KeysOption = None, as_json: JsonOption = False) -> None:
    """Check that a model is whole and was signed with one of the keys, and say with which.

    \b
    Examples:
      streamtune model verify model --keys keys.txt
    """
    name = verify_folder(model, _keys(keys))
    _say(model, name, as_json)


def _keys(file: Path | None) -> Keys:
    if file is None:
        named = resolved(SignatureSettings).keys
        if named is None:
            raise StreamTuneError("no keys: add --keys FILE, or set signatures.keys in streamtune.yaml")
        file = Path(named)
    return Keys.read(file)


def _say(model: Path, name: str, as_json: bool) -> None:
    if as_json:
        print_json({"model": str(model), "key": name})
        return
    out.print(f"{model} is whole and signed with the key {name}", highlight=False, soft_wrap=True)
