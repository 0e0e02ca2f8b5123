"""What can be refused of a Sundog command before Spark starts: missing paths and judgements."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from streamtune.cli.arguments import is_there
from streamtune.errors import StreamTuneError
from streamtune.sundog.places import table_folder

ADDRESSES = ("file", "hdfs", "viewfs", "s3", "gs", "gcs", "abfs", "abfss")


def check_knowledge(folder: Path) -> None:
    """A knowledge base is a folder with two files."""
    if is_there(folder) and not folder.is_dir():
        raise StreamTuneError(f"--knowledge {folder} is not a folder: give one with entities.jsonl and relations.jsonl")
    if not is_there(folder):
        raise StreamTuneError(f"there is no folder '{folder}' to take the knowledge base from: check --knowledge")
    for name in ("entities.jsonl", "relations.jsonl"):
        if not is_there(folder / name):
            raise StreamTuneError(
                f"--knowledge {folder} has no {name}: give a folder with entities.jsonl and relations.jsonl"
            )


def check_place(place: str) -> None:
    """Tables are in a folder, or at an address that pyarrow knows."""
    scheme, sign, _ = place.partition("://")
    if sign and scheme not in ADDRESSES:
        known = ", ".join(f"{one}://" for one in ADDRESSES)
        raise StreamTuneError(f"{place} is no address that tables can be at: give a folder, or one of {known}")


def check_output_of_run(place: str) -> None:
    """``rank``, ``train``, ``evaluate`` and ``show`` read what ``run`` or ``stream`` wrote; addresses are Spark's."""
    check_place(place)
    if "://" not in place and not is_there(Path(place)):
        raise StreamTuneError(f"there are no rankings in {place}: run 'sundog run' or 'sundog stream' first")


def check_ranked(place: str, day: date, window: int) -> None:
    """``evaluate`` reads the rankings of one day and window."""
    if "://" not in place and not is_there(Path(table_folder(place, "rankings", day, window))):
        raise StreamTuneError(
            f"there are no rankings of {day} with a window of {window} in {place}: run 'sundog rank' for it"
        )


def check_followed(folder: str) -> None:
    """A folder to follow may be empty, but it must be there."""
    if "://" not in folder and not (is_there(Path(folder)) and Path(folder).is_dir()):
        raise StreamTuneError(f"there is no folder '{folder}' to follow: make it, or check the path")


def check_judgements(truth: Path | None, labels: Path | None) -> None:
    """Planted truth or a file of labels, one of the two."""
    if (truth is None) == (labels is None):
        raise StreamTuneError("judgements are needed: give --truth or --labels, one of the two")
    given = truth or labels
    assert given is not None
    if not is_there(given):
        raise StreamTuneError(f"--{'truth' if truth else 'labels'} {given} is not there: check the path")
    if truth is not None and not truth.is_dir():
        raise StreamTuneError(f"--truth {truth} is not a folder: give the 'truth' folder that 'generate' made")
    if labels is not None and not labels.is_file():
        kind = "a folder" if labels.is_dir() else "a device"
        raise StreamTuneError(
            f"--labels {labels} cannot be read: it is {kind}. Give a file of JSON lines with entity, related and grade"
        )
