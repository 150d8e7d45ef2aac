"""What README.md and APIDOCS.md show is run, and does what they say."""

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from corndog.bench.catalog import MEASURES
from corndog.cli.commands import app
from corndog.settings import describe
from tests.servers import ROOT
from tests.snippets import run, steps

SERVER = "http://127.0.0.1:8080"


@pytest.mark.parametrize("name", ["README.md", "APIDOCS.md"])
def test_snippets_do_what_the_document_says(name: str, server_url: str) -> None:
    wanted = steps(ROOT / name, {SERVER: server_url})
    assert len([step for step in wanted if step.promised]) >= 8
    printed = run(wanted)
    for step, output in zip(wanted, printed, strict=True):
        if step.promised is not None:
            assert output == step.promised, step.script


def test_apidocs_lists_all_settings() -> None:
    text = (ROOT / "APIDOCS.md").read_text()
    for variable, default, meaning in describe():
        assert f"| `{variable}` | {f'`{default}`' if default else ''} | {meaning} |" in text


def test_apidocs_lists_all_commands_and_measures() -> None:
    section = (ROOT / "APIDOCS.md").read_text().split("\n## Commands\n")[1].split("\n## ")[0]
    root = get_command(app)
    assert isinstance(root, TyperGroup)
    for name, command in root.commands.items():
        names = [f"{name} {part}" for part in command.commands] if isinstance(command, TyperGroup) else [name]
        assert [name for name in names if f"`{name}`" not in section] == []
    assert [measure.name for measure in MEASURES if f"`{measure.name}`" not in section] == []


def test_readme_has_its_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make run" in text
    assert "make test" in text
