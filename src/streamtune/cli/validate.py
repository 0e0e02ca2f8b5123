"""``streamtune validate``: read job specs and say what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamtune.cli.output import out, print_error, print_json, styled
from streamtune.errors import StreamTuneError


def validate(
    jobs: Annotated[list[Path], typer.Argument(help="Job specs, YAML or JSON.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Check job specs; nothing is started.

    Exit code 2 if any is bad.

    \b
    Examples:
      streamtune validate job.yaml
      streamtune validate jobs/*.yaml --json
    """
    from streamtune.dataflow.spec import load_spec

    results = []
    for path in jobs:
        try:
            spec = load_spec(path)
        except StreamTuneError as error:
            results.append({"file": str(path), "valid": False, "error": str(error)})
            if not as_json:
                print_error(error)
            continue
        flow = spec.job.dataflow
        found = {"operators": len(flow.operators), "edges": len(flow.edges), "sources": len(flow.sources)}
        results.append({"file": str(path), "valid": True, "job": spec.job.name, **found})
        if not as_json:
            out.print(
                styled(
                    ("valid", "green"),
                    f" {path}: job '{spec.job.name}', {len(flow.operators)} operators, "
                    f"{len(flow.edges)} edges, {'with' if spec.physics else 'without'} physics",
                ),
                highlight=False,
                soft_wrap=True,
            )
    if as_json:
        print_json({"valid": all(result["valid"] for result in results), "jobs": results})
    if not all(result["valid"] for result in results):
        raise typer.Exit(2)
