"""The program's own agents are folders in every city that is used."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.running import RunningCity

CLAUDE = '[workspace]\nprovider = "claude"\n'
CODEX = f'{CLAUDE}\n[providers.codex]\nbase = "builtin:codex"\n'
AGENTS = ".gc/system/agents"


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[RunningCity]:
    """A city that a person wrote without `city init`."""
    found = RunningCity(tmp_path / "plain")
    found.write({"city.toml": CLAUDE})
    yield found
    found.end()


@pytest.mark.parametrize("command", ["apply", "start"])
def test_the_programs_own_agents_are_written_as_folders(plain: RunningCity, command: str) -> None:
    assert plain.run(command).code == 0
    found = {path.name for path in (plain.root / AGENTS).iterdir()}
    assert found == {"claude", "shell"}
    shown = plain.run("agent", "show", "claude", "--json").json
    assert f"{AGENTS}/claude" in str(shown)


def test_a_provider_that_came_later_has_its_folder_too(plain: RunningCity) -> None:
    plain.run("apply")
    mine = plain.root / AGENTS / "claude/prompt.md"
    mine.write_text("Mine.\n")
    plain.write({"city.toml": CODEX})
    plain.run("apply")
    assert (plain.root / AGENTS / "codex/prompt.md").is_file()
    assert mine.read_text() == "Mine.\n", "what a person wrote is kept"
