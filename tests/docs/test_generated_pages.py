"""What is generated and committed says what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from pydantic import Field
from streamtune_docs import cli, schema
from streamtune_docs.blocks import DOCS, built, filled, pages_with_blocks, stale_pages
from streamtune_docs.fields import table
from streamtune_docs.settings import page, settings_classes

from streamtune.dataflow.run import Run
from streamtune.settings import Settings


def _all_subclasses(root: type) -> set[type]:
    return {leaf for child in root.__subclasses__() for leaf in {child, *_all_subclasses(child)}}


def test_no_page_is_stale() -> None:
    stale = [str(path.relative_to(DOCS.parent)) for path in stale_pages()]
    assert not stale, f"run 'python docs/generate.py' and commit {', '.join(stale)}"


def test_the_pages_that_must_be_generated_are() -> None:
    names = {str(path.relative_to(DOCS)) for path in pages_with_blocks()}
    wanted = {"settings", "job-spec", "run-schema", "rejected-runs"}
    assert {f"reference/{name}.md" for name in wanted} | {"explanation/architecture.md"} <= names


def test_a_stale_page_is_noticed_and_mended(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("<!-- generated: fields streamtune.dataflow.operator:Join -->\nold\n<!-- end -->\n")
    assert stale_pages(tmp_path) == [path]
    path.write_text(filled(path.read_text()))
    assert stale_pages(tmp_path) == []
    assert "`key_class`" in path.read_text()


def test_every_settings_class_is_on_the_page() -> None:
    """Found by reading sources; here against what Python itself knows of the modules that are loaded."""
    found = settings_classes()
    loaded = {c for c in _all_subclasses(Settings) if c.__module__.startswith("streamtune.")}
    assert loaded <= set(found)
    text = page()
    for settings in found:
        assert f"### {settings.__name__}\n" in text
        assert all(f"| `{field.alias or name}` |" in text for name, field in settings.model_fields.items())


def test_settings_have_one_name_each() -> None:
    """Two classes of one name would share an anchor, and a link would lead to the wrong one."""
    names = [settings.__name__ for settings in settings_classes()]
    assert sorted(names) == sorted(set(names))


def test_a_field_is_shown_with_type_default_constraints_and_description() -> None:
    class Example(Settings):
        share: float = Field(default=0.5, gt=0, le=1, description="a | share")

    assert (
        table(Example.model_fields, own=True).splitlines()[-1] == "| `share` | float | `0.5` | > 0, ≤ 1 | a \\| share |"
    )


def test_a_record_with_the_fields_of_version_1_alone_is_read() -> None:
    operator = dict.fromkeys(schema.VERSION_1["features"] | schema.VERSION_1["metrics"])
    record = dict.fromkeys(schema.VERSION_1["run"]) | {
        "schema_version": 1,
        "run_id": "r",
        "job": "j",
        "engine": "timely",
        "observed_at": "2026-11-16T10:00:00Z",
        "window_s": 60,
        "source_rates": {"in": 10},
        "operators": [operator | {"id": "in", "type": "source", "parallelism": 1}],
        "edges": [],
    }
    run = Run.model_validate(record)
    assert run.hosts is None
    assert not run.observation.reports_backpressure


def test_every_command_has_its_help() -> None:
    text = built("<!-- at build time: cli -->")
    for path in ("streamtune tune", "streamtune history ingest", "streamtune flink up"):
        assert f" {path}\n\n```text\nUsage: {path} " in text


def test_hidden_commands_stay_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer()
    app.command("seen")(lambda: None)
    app.command("secret", hidden=True)(lambda: None)
    monkeypatch.setattr("streamtune.cli.app", app)
    assert "streamtune seen" in cli.page()
    assert "secret" not in cli.page()
