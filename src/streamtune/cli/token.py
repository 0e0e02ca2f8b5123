"""``streamtune token``: who may use the service."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from streamtune.cli.options import resolved, setting
from streamtune.cli.output import err, out, print_json
from streamtune.errors import StreamTuneError
from streamtune.service.settings import ServiceSettings

if TYPE_CHECKING:
    from streamtune.service.store import Store

app = typer.Typer(
    name="token", help="Tokens of the service: create, revoke, list.", no_args_is_help=True, rich_markup_mode=None
)
StoreOption = Annotated[str | None, setting(ServiceSettings, "store")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


def open_store(store: str | None) -> Store:
    """The store of the service, as the command line, the file or the default says."""
    from streamtune.service.store import Store

    return Store(resolved(ServiceSettings, store=store).store_url)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Whose token it is; the audit trail names it.")],
    role: Annotated[str, typer.Option(help="viewer: read; operator: change.")] = "viewer",
    days: Annotated[float | None, typer.Option(help="How long it is valid; default: until it is revoked.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a token. It is shown once, and only its hash is kept.

    \b
    Examples:
      streamtune token create alice --role operator
      streamtune token create prometheus --role viewer --days 365
    """
    if role not in ("viewer", "operator"):
        raise StreamTuneError(f"--role must be viewer or operator, but got '{role}'")
    if not name.strip() or len(name) > 100 or not name.isprintable():
        raise StreamTuneError(f"the name must be printable text of up to 100 characters, but got {name[:110]!r}")
    if days is not None and not 0 < days <= 36_500:
        raise StreamTuneError(f"--days must be above 0 and at most 36500, but got {days:g}")
    now = datetime.now(UTC)
    opened = open_store(store)
    try:
        expires = None if days is None else now + timedelta(days=days)
        token, text = opened.tokens.create(name, "operator" if role == "operator" else "viewer", now, expires)
        opened.audit.write(now, "command line", "token_create", name, {"role": role, "id": token.id})
    finally:
        opened.close()
    if as_json:
        print_json({"name": name, "role": role, "id": token.id, "token": text})
        return
    err.print("this is the only time that it is shown:", style="dim")
    print(text)


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(help="Name or id of the token.")],
    store: StoreOption = None,
) -> None:
    """Make a token useless at once.

    \b
    Example:
      streamtune token revoke alice
    """
    now = datetime.now(UTC)
    opened = open_store(store)
    try:
        token = opened.tokens.revoke(name, now)
        opened.audit.write(now, "command line", "token_revoke", token.name, {"id": token.id})
    finally:
        opened.close()
    out.print(f"revoked: {token.name} ({token.role})", highlight=False)


@app.command("list")
def list_tokens(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List tokens: whose they are and what they may do, never what they are.

    \b
    Example:
      streamtune token list
    """
    opened = open_store(store)
    try:
        found = opened.tokens.all()
    finally:
        opened.close()
    if as_json:
        print_json(
            [
                {**one.__dict__, **{k: str(v) for k, v in one.__dict__.items() if isinstance(v, datetime)}}
                for one in found
            ]
        )
        return
    if not found:
        out.print("no tokens yet: 'streamtune token create NAME --role operator' makes one", highlight=False)
        return
    table = Table()
    for heading in ("name", "role", "id", "created", "state"):
        table.add_column(heading, overflow="fold")
    now = datetime.now(UTC)
    for one in found:
        state = "revoked" if one.revoked else "valid" if one.is_valid(now) else "too old"
        table.add_row(one.name, one.role, one.id, f"{one.created:%Y-%m-%d}", state)
    out.print(table)
