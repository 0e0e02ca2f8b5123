"""``streamtune sundog train``, ``evaluate`` and ``show``: what is learned from tables, and what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from streamtune.cli.output import err, out, plain, print_json
from streamtune.cli.sundog_checks import (
    check_judgements,
    check_knowledge,
    check_output_of_run,
    check_place,
    check_ranked,
)
from streamtune.cli.sundog_shared import (
    AsOf,
    Conf,
    JsonOption,
    Labels,
    Master,
    Place,
    Truth,
    Window,
    parse_day,
    spark_session,
    step,
    whole_address,
)
from streamtune.outputs import check_outputs
from streamtune.sealed import check_target
from streamtune.settings import LARGEST_SEED


def train(
    place: Place,
    as_of: AsOf,
    model: Annotated[Path, typer.Option(help="Where the model is written: a folder.")],
    window: Window = 7,
    truth: Truth = None,
    labels: Labels = None,
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation, by query.")] = 10,
    most_pairs: Annotated[int, typer.Option(min=10, help="Labelled pairs to learn from, at most.")] = 30_000,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Draws folds and samples.")] = 0,
    spark_master: Master = None,
    spark_conf: Conf = None,
    as_json: JsonOption = False,
) -> None:
    """Train a ranking model on the features of one day and window: boosted trees, a sweep with cross-validation.

    \b
    Examples:
      streamtune sundog train out --as-of 2013-12-20 --window 7 --truth world/truth --model model
      streamtune sundog train out --as-of 2026-11-17 --labels judged.jsonl --model model --json
    """
    day = parse_day(as_of)
    check_output_of_run(place)
    check_judgements(truth, labels)
    check_target(model, "ranking model")
    with spark_session(spark_master, spark_conf) as spark:
        from streamtune.sundog.labels import read_grades, sample_queries
        from streamtune.sundog.settings import SweepSettings
        from streamtune.sundog.tables import read_table
        from streamtune.sundog.training import examples
        from streamtune.sundog.training import train as run_train

        grades = read_grades(truth, labels, day)
        table = sample_queries(
            read_table(whole_address(place), "features", day, window), grades.relevance, most_pairs, seed
        )
        data = examples(table, grades.relevance)
        with step(f"training on {len(data.label):,} pairs of {data.queries:,} queries") as took:
            settings = SweepSettings(folds=folds, seed=seed)
            trees = run_train(data, day=day, window=window, settings=settings, spark=spark)
    trees.save(model)
    importance = dict(list(trees.importance().items())[:8])
    if as_json:
        print_json({**trees.card.model_dump(mode="json"), "importance": importance, **took})
        return
    out.print(f"NDCG@10 {trees.card.ndcg:.4f} in cross-validation with {trees.card.parameters}", highlight=False)
    out.print("most useful: " + ", ".join(f"{name} {share:.0%}" for name, share in importance.items()), highlight=False)


def evaluate(
    place: Place,
    as_of: AsOf,
    window: Window = 7,
    on: Annotated[str | None, typer.Option(help="Day of the judgements; default: --as-of.")] = None,
    truth: Truth = None,
    labels: Labels = None,
    queries: Annotated[int, typer.Option(min=1, help="Judge so many of the most searched entities.")] = 60,
    as_json: JsonOption = False,
) -> None:
    """Measure the rankings of a day and window against judgements: relevance and, from planted truth, freshness.

    \b
    Examples:
      streamtune sundog evaluate out --as-of 2013-12-20 --truth world/truth
      streamtune sundog evaluate out --as-of 2013-12-10 --on 2013-12-20 --window 30 --truth world/truth --json
    """
    day = parse_day(as_of)
    judged = day if on is None else parse_day(on, "--on")
    check_output_of_run(place)
    check_judgements(truth, labels)
    check_ranked(place, day, window)
    from streamtune.sundog.evaluation import judge
    from streamtune.sundog.labels import most_searched, read_grades
    from streamtune.sundog.tables import read_table

    grades = read_grades(truth, labels, judged)
    rankings = read_table(whole_address(place), "rankings", day, window)
    chosen = most_searched(rankings, queries)
    kinds = {"relevance": grades.relevance, **({"freshness": grades.recency} if grades.recency else {})}
    found = {kind: judge(rankings, of_kind, chosen).mean for kind, of_kind in kinds.items()}
    if as_json:
        print_json({"queries": len(chosen), **found})
        return
    table = Table()
    table.add_column(f"{len(chosen)} queries")
    measures = list(next(iter(found.values())))
    for measure in measures:
        table.add_column(measure, justify="right")
    for kind, means in found.items():
        table.add_row(kind, *(f"{means[measure]:.4f}" for measure in measures))
    out.print(table)


def show(
    entity: Annotated[str, typer.Argument(help="Id of an entity, or one of its names if --knowledge is given.")],
    place: Annotated[str, typer.Option("--out", help="Output folder of 'run' or 'stream'.")],
    window: Window = 7,
    knowledge: Annotated[Path | None, typer.Option(help="Knowledge base, for names.")] = None,
    page: Annotated[Path | None, typer.Option(help="Write an HTML page with the ranking over days.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the ranking of an entity over days: what rose, what fell, and the features behind it.

    \b
    Examples:
      streamtune sundog show E0000042 --out live
      streamtune sundog show "brad pitt" --out live --knowledge kb --window 30 --page brad-pitt.html
    """
    check_outputs([("--page", page)])
    check_place(place)
    if knowledge is None:  # else a name that nobody has is told first
        check_output_of_run(place)
    else:
        check_knowledge(knowledge)
    from streamtune.sundog.history import entity_history, find_entity
    from streamtune.sundog.page import write_page

    key, names = find_entity(entity, knowledge)
    found = entity_history(whole_address(place), key, window, names)
    if page is not None:
        write_page(found, page)
        err.print(f"page: {plain(str(page))}", highlight=False, soft_wrap=True)
    if as_json:
        print_json(found.to_record())
        return
    table = Table(title=f"{plain(found.name)}: {window} days to {found.days[-1]}", title_justify="left")
    for heading in ("rank", "related", "before", "score", "users", "p(related | entity)", "events"):
        table.add_column(heading, justify="left" if heading == "related" else "right")
    for row in found.newest:
        before = "new" if row.before is None else f"{row.before} {row.move}"
        table.add_row(
            str(row.rank),
            plain(row.name),
            before,
            f"{row.score:.4f}",
            f"{row.users:,}",
            f"{row.conditional:.4f}",
            f"{row.events:,}",
        )
    out.print(table)
    for line in found.reasons:
        out.print(plain(line), highlight=False)
