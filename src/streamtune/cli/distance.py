"""``streamtune distance``: how far two jobs are apart as dataflows, and what changes between them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamtune.cli.options import resolved, setting
from streamtune.cli.output import out, print_json
from streamtune.similarity.settings import DistanceSettings

if TYPE_CHECKING:
    from streamtune.similarity import EditDistance, EditOperation


def distance(
    a: Annotated[Path, typer.Argument(help="Job spec, YAML or JSON.", show_default=False)],
    b: Annotated[Path, typer.Argument(help="Job spec to compare with.", show_default=False)],
    budget: Annotated[int | None, setting(DistanceSettings, "budget")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Print the graph edit distance of two jobs and the operations that lead from A to B.

    Counted are operators and edges that come or go, types that change and edges that turn round, one each. Only
    types and edges matter, neither names nor parallelism. Where the budget does not suffice, bounds are printed.

    \b
    Examples:
      streamtune distance a.yaml b.yaml
      streamtune distance a.yaml b.yaml --json
    """
    from streamtune.dataflow.spec import load_spec
    from streamtune.similarity import best_mapping, script_of_mapping

    first, second = load_spec(a).job.dataflow, load_spec(b).job.dataflow
    found, mapping = best_mapping(first, second, resolved(DistanceSettings, budget=budget).budget)
    script = script_of_mapping(first, second, mapping)
    if as_json:
        print_json(_record(found, script))
        return
    if found.exact:
        out.print(f"distance [bold]{found.lower}[/]: {a} → {b}", highlight=False, soft_wrap=True)
    else:
        out.print(
            f"distance between [bold]{found.lower}[/] and [bold]{found.upper}[/]: {a} → {b} "
            f"(not settled after {found.states:,} states; --budget allows more)",
            highlight=False,
            soft_wrap=True,
        )
    for operation in script:
        out.print(f"  {operation}", highlight=False, soft_wrap=True, markup=False)


def _record(found: EditDistance, script: tuple[EditOperation, ...]) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "distance": found.lower if found.exact else None,
        "lower": found.lower,
        "upper": found.upper,
        "exact": found.exact,
        "states": found.states,
        "script": [{"operation": operation.name, **asdict(operation)} for operation in script],
    }
