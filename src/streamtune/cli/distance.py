"""``streamtune distance``: how far two jobs are apart as dataflows, and what changes between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamtune.cli.options import resolved, setting
from streamtune.cli.output import out, print_json, styled
from streamtune.similarity.settings import DistanceSettings

if TYPE_CHECKING:
    from streamtune.similarity import EditDistance, EditOperation


def distance(
    a: Annotated[
        str, typer.Argument(help="A job spec (YAML or JSON), or the name of a built-in workload.", show_default=False)
    ],
    b: Annotated[str, typer.Argument(help="The job to compare with, likewise.", show_default=False)],
    budget: Annotated[int | None, setting(DistanceSettings, "budget")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Print the graph edit distance of two jobs and the operations that lead from A to B.

    Counted are operators and edges that come or go, types that change and edges that turn round, one each. Only
    types and edges matter, neither names nor parallelism. Where the budget does not suffice, bounds are printed.

    \b
    Examples:
      streamtune distance a.yaml b.yaml
      streamtune distance nexmark-q5 nexmark-q8 --json
    """
    from streamtune.cli.arguments import find_job

    settings = resolved(DistanceSettings, budget=budget)
    first, second = find_job(a).job.dataflow, find_job(b).job.dataflow
    from streamtune.similarity import SEARCHABLE_OPERATORS, best_mapping, script_of_mapping

    found, mapping = best_mapping(first, second, settings.budget)
    script = script_of_mapping(first, second, mapping)
    if as_json:
        print_json(_record(found, script))
        return
    if found.exact:
        out.print(styled("distance ", (found.lower, "bold"), f": {a} → {b}"), highlight=False, soft_wrap=True)
    else:
        size = max(len(first.operators), len(second.operators))
        reason = (
            f"jobs of more than {SEARCHABLE_OPERATORS} operators are not searched, whatever --budget says"
            if size > SEARCHABLE_OPERATORS
            else f"not settled after {found.states:,} states; --budget above {settings.budget:,} may settle it"
        )
        out.print(
            styled(
                "distance between ", (found.lower, "bold"), " and ", (found.upper, "bold"), f": {a} → {b} ({reason})"
            ),
            highlight=False,
            soft_wrap=True,
        )
    for operation in script:
        out.print(f"  {operation}", highlight=False, soft_wrap=True)


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
