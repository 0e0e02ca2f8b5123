"""``streamtune config``: what can be set, what is set, and whether a file says it right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from streamtune.cli.options import current_config
from streamtune.cli.output import out, print_json, styled
from streamtune.config import FILE_NAME, Config, all_sections, load_config
from streamtune.outputs import without_login

app = typer.Typer(
    name="config",
    help=f"Settings: what is in force, and whether a {FILE_NAME} is right.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


@app.command()
def show(
    sections: Annotated[
        list[str] | None,
        typer.Argument(metavar="SECTION", help="Only these, for instance guards or tuners.streamtune."),
    ] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only what the file says otherwise than the defaults.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show every setting in force and where it comes from: a default, or the config file.

    \b
    Examples:
      streamtune config show
      streamtune config show tuners engines.flink
      streamtune --config production.yaml config show --json
    """
    config = current_config()
    chosen = _chosen(sections or [], config)
    rows = {
        name: {
            field: {"value": _without_login(value), "origin": origin}
            for field, value, origin in config.effective(name)
            if origin == "file" or not changed
        }
        for name in chosen
    }
    if as_json:
        print_json({"file": None if config.path is None else str(config.path), "settings": rows})
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("setting", "value", "from"):
        table.add_column(heading, overflow="fold")
    for name, fields in rows.items():
        for field, found in fields.items():
            style = "bold" if found["origin"] == "file" else None
            table.add_row(f"{name}.{field}", _text(found["value"]), found["origin"], style=style)
    out.print(table)
    out.print(
        f"file: {config.path}" if config.path else f"no {FILE_NAME} here: all defaults",
        highlight=False,
        soft_wrap=True,
    )


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="A config file.")] = Path(FILE_NAME),
    as_json: JsonOption = False,
) -> None:
    """Check a config file; nothing is started. Exit code 2 if it is bad.

    \b
    Examples:
      streamtune config check
      streamtune config check production.yaml
    """
    config = load_config(file)
    settings = sum(origin == "file" for name in config.given for _, _, origin in config.effective(name))
    if as_json:
        print_json({"file": str(file), "valid": True, "sections": list(config.given), "settings": settings})
    else:
        sections = ", ".join(config.given) or "nothing"
        out.print(
            styled(("valid", "green"), f" {file}: {settings} settings of {sections}"), highlight=False, soft_wrap=True
        )


def _chosen(asked: list[str], config: Config) -> list[str]:
    """Sections by their names, or all below a name."""
    names = list(all_sections())
    chosen = []
    for one in asked:
        found = [name for name in names if name == one or name.startswith(f"{one}.")]
        if not found:
            config.section(one)  # refuses it, and says what may have been meant
        chosen += found
    return list(dict.fromkeys(chosen)) or names


def _without_login(value: Any) -> Any:
    return without_login(value) if isinstance(value, str) and "://" in value else value


def _text(value: Any) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
