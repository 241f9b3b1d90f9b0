"""Empty lists in patches: not set in v1, an empty list now."""

from pathlib import Path

import pytest

from tests.migrate.test_plan import GUARDS, MAYOR, PROMPT, migrated, planned
from tests.support.in_process import InProcess
from tests.support.trees import build_tree

PATCH = '[imports.guards]\nsource = "packs/guards"\n\n[[patches.agent]]\nname = "guard"\n'


@pytest.fixture
def town(tmp_path: Path) -> Path:
    return tmp_path / "town"


def test_an_empty_list_stays_in_a_city_without_v1_parts(town: Path) -> None:
    build_tree(town, {"city.toml": PATCH + "pre_start = []\n", **GUARDS})
    assert planned(town).changes == ()


def test_an_empty_list_is_removed_if_another_file_of_the_city_is_v1(town: Path) -> None:
    pack = '[pack]\nname = "town"\nschema = 1\n\n' + MAYOR
    files = {"city.toml": PATCH + 'pre_start = []\nnudge = "Go."\n', "pack.toml": pack}
    build_tree(town, {**files, **GUARDS, **PROMPT})
    migrated(town)
    assert (town / "city.toml").read_text() == PATCH + 'nudge = "Go."\n'


def test_agents_keep_the_defaults(town: Path) -> None:
    rules = '{{ define "manners" }}Be kind.{{ end }}\n'
    files = {
        "city.toml": '[agent_defaults]\nappend_fragments = ["manners"]\n\n'
        + MAYOR
        + 'append_fragments = []\nscope = ""\n',
        "template-fragments/manners.template.md": rules,
    }
    build_tree(town, {**files, "prompts/mayor.md": "You are {{ .AgentName }}.\n"})
    city = InProcess(town)
    assert city("migrate").code == 0
    assert "Be kind." in city("agent", "emit", "mayor").out
    assert city("check").code == 0
