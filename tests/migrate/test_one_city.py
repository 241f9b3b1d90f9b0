"""The manifests of one city share names and paths, before and after a migration."""

import os
from pathlib import Path

from gascity.pipeline import open_city
from tests.migrate.cases import QUIET, migrated
from tests.support.trees import build_tree

RIGS = '[[rigs]]\nname = "dock"\n[[rigs]]\nname = "pier"\n'
TWO = (
    '[[agent]]\nname = "pilot"\ndir = "dock"\nprompt_template = "p.md"\n'
    '[[agent]]\nname = "pilot"\ndir = "pier"\nprompt_template = "p.md"\n'
)


def test_an_override_in_one_file_refers_to_the_agent_of_its_rig(tmp_path: Path) -> None:
    override = '[[rigs.overrides]]\nagent = "pilot"\nnudge = "Row."\n'
    rigs = RIGS.replace('[[rigs]]\nname = "pier"', override + '[[rigs]]\nname = "pier"')
    build_tree(tmp_path, {"city.toml": QUIET + TWO + rigs, "p.md": ""})
    found = migrated(tmp_path, "nudge")
    assert found == {"dock/dock--pilot": "Row.", "pier/pier--pilot": None}


def test_a_name_that_two_files_use_is_renamed_in_both(tmp_path: Path) -> None:
    one, other = TWO.split("[[agent]]\n")[1:]
    patch = '[[patches.agent]]\nname = "pilot"\ndir = "pier"\nnudge = "Row."\n'
    build_tree(
        tmp_path,
        {
            "city.toml": f'include = ["more.toml"]\n{QUIET}{RIGS}{patch}',
            "pack.toml": '[pack]\nname = "town"\nschema = 1\n[[agent]]\n' + one,
            "more.toml": "[[agent]]\n" + other + 'depends_on = ["dock/pilot"]\n',
            "p.md": "",
        },
    )
    found = migrated(tmp_path, "nudge")
    assert found == {"dock/dock--pilot": None, "pier/pier--pilot": "Row."}
    city = open_city(str(tmp_path), os.environ)
    depends = {str(agent.name): agent.settings.depends_on for agent in city.agents}
    assert depends["pier/pier--pilot"] == ("dock/dock--pilot",)


def test_paths_in_an_included_file_are_relative_to_it_first(tmp_path: Path) -> None:
    patch = '[[patches.agent]]\nname = "x.far"\nprompt_template = "patch.md"\n'
    agents = '[[agent]]\nname = "near"\nprompt_template = "p.md"\n' + (
        '[[agent]]\nname = "top"\nprompt_template = "//p.md"\n'
        '[[agent]]\nname = "only"\nprompt_template = "only.md"\n'
    )
    build_tree(
        tmp_path,
        {
            "city.toml": f'include = ["more/a.toml", "more/b.toml"]\n{QUIET}'
            '[imports.x]\nsource = "x"\n',
            "more/a.toml": agents,
            "more/b.toml": patch,
            **{f"{at}{name}.md": f"{at}{name}" for at in ("", "more/") for name in ("p", "patch")},
            "only.md": "only",
            "x/pack.toml": '[pack]\nname = "x"\nschema = 2\n',
            "x/agents/far/prompt.md": "far",
        },
    )
    found = {
        name: (tmp_path / str(file)).read_text()
        for name, file in migrated(tmp_path, "prompt").items()
    }
    assert found == {"near": "more/p", "top": "p", "only": "only", "x.far": "more/patch"}


def test_v1s_machine_local_file_overrides_city_toml(tmp_path: Path) -> None:
    site = 'workspace_name = "sited"\n[[rig]]\nname = "dock"\npath = "/srv/dock"\n'
    rigs = RIGS.replace('"dock"\n', '"dock"\npath = "old"\n')
    files = {"city.toml": QUIET + TWO + rigs, "p.md": "", ".gc/site.toml": site}
    build_tree(tmp_path, files)
    migrated(tmp_path, "nudge")
    city = open_city(str(tmp_path), os.environ)
    assert (city.name, city.rigs[0].path) == ("sited", "/srv/dock")
    assert "sited" not in (tmp_path / "city.toml").read_text()
    assert (tmp_path / ".gc/site.toml").read_text() == site
