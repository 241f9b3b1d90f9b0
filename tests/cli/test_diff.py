"""`city diff`: the effective changes of agents since a revision."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shapes import DIFF, fits
from tests.support.command import Command, Ran
from tests.support.git import commit, git, head, repository
from tests.support.trees import build_tree

pytestmark = pytest.mark.usefixtures("git_here")

SKILL = "---\nname: lint\ndescription: Lints.\n---\nLint {}.\n"
SERVER = 'name = "docs"\ndescription = "Docs."\ncommand = "docs"\nargs = ["{}"]\n'
CITY = {
    "city.toml": '[workspace]\nname = "shop"\nprovider = "claude"\n',
    ".gitignore": ".gc/\ncity.local.toml\n",
    "agents/smith/agent.toml": 'description = "Builds."\nmodel = "sonnet"\n',
    "agents/smith/prompt.template.md": "Work in {{ .CityRoot }}.\n\nBe quick.\n",
    "agents/clerk/prompt.md": "Files papers.\n",
    "agents/smith/skills/lint/SKILL.md": SKILL.format("all"),
    "agents/smith/mcp/docs.toml": SERVER.format("a"),
    "agents/smith/overlay/NOTES": "one\n",
}


class Shop:
    """A committed city."""

    def __init__(self, root: Path, run: Command) -> None:
        self.root = repository(root, CITY)
        self._run = run

    def __call__(self, *arguments: str, **options: Any) -> Ran:
        return self._run("diff", *arguments, cwd=self.root, **options)

    def write(self, files: dict[str, str]) -> None:
        build_tree(self.root, files)

    def agents(self, *arguments: str) -> dict[str, Any]:
        ran = self(*arguments, "--json")
        assert ran.code == 0, ran.out
        fits(ran.json, DIFF)
        return {agent["name"]: agent for agent in ran.json["agents"]}


@pytest.fixture
def shop(tmp_path: Path, run: Command) -> Shop:
    return Shop(tmp_path / "shop", run)


def test_a_city_without_changes_has_none(shop: Shop) -> None:
    ran = shop("--exit-code")
    assert (ran.code, ran.out) == (0, "No effective changes since HEAD.\n")
    assert shop("--json").json["from"] == head(shop.root)


def test_a_rig_inside_the_city_that_git_ignores_is_no_change(shop: Shop) -> None:
    repository(shop.root / "web")
    rig = '[[rigs]]\nname = "web"\npath = "web"\n'
    prompt = "Work in {{ .WorkDir }} on {{ .DefaultBranch }}.\n"
    files = {
        "city.toml": CITY["city.toml"] + rig,
        ".gitignore": ".gc/\nweb/\n",
        "agents/mason/agent.toml": 'scope = "rig"\n',
        "agents/mason/prompt.template.md": prompt,
    }
    commit(shop.root, files)
    assert shop().out == "No effective changes since HEAD.\n"


def test_a_setting_is_shown_with_both_values_and_the_line_of_the_new_one(shop: Shop) -> None:
    shop.write({"agents/smith/agent.toml": 'description = "Builds."\n\nmodel = "opus"\n'})
    agents = shop.agents()
    assert list(agents) == ["smith"]
    (field,) = agents["smith"]["fields"]
    assert field == {
        "name": "model",
        "old": "sonnet",
        "new": "opus",
        "file": "agents/smith/agent.toml",
        "line": 3,
    }
    assert 'model: "sonnet" -> "opus"  agents/smith/agent.toml:3' in shop().out


def test_a_removed_setting_names_the_file_that_had_it(shop: Shop) -> None:
    shop.write({"agents/smith/agent.toml": 'description = "Builds."\n'})
    (field,) = shop.agents()["smith"]["fields"]
    assert (field["old"], field["new"], field["file"]) == (
        "sonnet",
        None,
        "agents/smith/agent.toml",
    )


def test_a_default_changes_every_agent_that_inherits_it(shop: Shop) -> None:
    shop.write({"city.toml": CITY["city.toml"] + '[agent_defaults]\nmodel = "haiku"\n'})
    changed = {name: agent["fields"] for name, agent in shop.agents().items()}
    assert changed["clerk"][0]["new"] == "haiku"
    assert "smith" not in changed  # it has a model of its own


def test_a_prompt_is_compared_as_rendered_with_the_sources_of_what_changed(shop: Shop) -> None:
    shop.write({"agents/smith/prompt.template.md": "Work in {{ .CityRoot }}.\n\nBe careful.\n"})
    prompt = shop.agents()["smith"]["prompt"]
    assert (prompt["added"], prompt["removed"]) == (1, 1)
    assert "-Be quick.\n+Be careful.\n" in prompt["diff"]
    assert f" Work in {shop.root}.\n" in prompt["diff"]
    assert {(span["change"], span["file"]) for span in prompt["spans"]} == {
        ("removed", "agents/smith/prompt.template.md"),
        ("added", "agents/smith/prompt.template.md"),
    }


def test_skills_servers_and_files_are_compared_by_content(shop: Shop) -> None:
    shop.write(
        {
            "agents/smith/skills/lint/SKILL.md": SKILL.format("some"),
            "agents/smith/skills/test/SKILL.md": SKILL.replace("lint", "test"),
            "agents/smith/mcp/docs.toml": SERVER.format("b"),
            "agents/smith/overlay/MORE": "two\n",
        }
    )
    (shop.root / "agents/smith/overlay/NOTES").unlink()
    smith = shop.agents()["smith"]
    changes = {
        kind: [(entry["name"], entry["change"]) for entry in smith[kind]]
        for kind in ("skills", "servers", "files")
    }
    assert changes == {
        "skills": [("lint", "changed"), ("test", "added")],
        "servers": [("docs", "changed")],
        "files": [("MORE", "added"), ("NOTES", "removed")],
    }


@pytest.mark.parametrize(
    ("tools", "gained", "lost"),
    [
        ('deny = ["shell"]', [], ["shell"]),
        ('allow = ["read"]', ["read"], ["*"]),
    ],
)
def test_tools_are_gained_and_lost(
    shop: Shop, tools: str, gained: list[str], lost: list[str]
) -> None:
    shop.write({"agents/clerk/agent.toml": f"[tools]\n{tools}\n"})
    assert shop.agents()["clerk"]["tools"] == {"gained": gained, "lost": lost}


def test_agents_that_come_and_go_are_shown_with_what_is_set(shop: Shop) -> None:
    (shop.root / "agents/clerk/prompt.md").unlink()
    (shop.root / "agents/clerk").rmdir()
    shop.write({"agents/new/agent.toml": 'description = "New."\n', "agents/new/prompt.md": "Hi.\n"})
    agents = shop.agents()
    assert {name: agent["change"] for name, agent in agents.items()} == {
        "clerk": "removed",
        "new": "added",
    }
    assert "provider" in [field["name"] for field in agents["new"]["fields"]]
    assert "prompt_mode" not in [field["name"] for field in agents["new"]["fields"]]


def test_the_files_of_this_machine_are_no_change(shop: Shop, run: Command) -> None:
    shop.write({"city.local.toml": '[[patches.agent]]\nname = "smith"\nmodel = "opus"\n'})
    run("apply", cwd=shop.root)  # writes the built-in agents to .gc
    assert shop.agents() == {}


def test_a_secret_is_never_shown(shop: Shop) -> None:
    for value in ("hunter2hunter2", "other-secret-1"):
        shop.write(
            {
                "agents/smith/agent.toml": f'[env]\nAPI_TOKEN = "{value}"\n',
                "agents/smith/prompt.template.md": f"Use {value}.\n",
            }
        )
        if value.startswith("hunter"):
            git(shop.root, "commit", "--quiet", "--all", "--message", "secret")
    for ran in (shop(), shop("--json"), shop("--markdown")):
        assert "hunter2" not in ran.out
        assert "other-secret" not in ran.out
        assert "smith" in ran.out


def test_any_revision_can_be_named_and_nothing_is_checked_out(shop: Shop) -> None:
    first = head(shop.root)
    commit(shop.root, {"agents/smith/agent.toml": 'model = "opus"\n'})
    git(shop.root, "tag", "v2")
    assert shop.agents("v2") == {}
    assert list(shop.agents(first)) == ["smith"]
    assert list(shop.agents("HEAD~1")) == ["smith"]
    assert git(shop.root, "status", "--porcelain") == ""


def test_one_agent_can_be_selected_also_if_it_was_removed(shop: Shop) -> None:
    shop.write({"agents/smith/agent.toml": "", "agents/clerk/prompt.md": "Sorts papers.\n"})
    assert list(shop.agents("--agent", "clerk")) == ["clerk"]
    (shop.root / "agents/clerk/prompt.md").unlink()
    (shop.root / "agents/clerk").rmdir()
    assert shop.agents("--agent", "clerk")["clerk"]["change"] == "removed"
    ran = shop("--agent", "clerc")
    assert (ran.code, "unknown-agent" in ran.err) == (1, True)


def test_a_pack_in_the_repository_is_read_at_the_revision(shop: Shop) -> None:
    pack = {
        "packs/town/pack.toml": '[pack]\nname = "town"\nschema = 2\n',
        "packs/town/agents/guard/prompt.md": "Guard.\n",
    }
    imported = CITY["city.toml"] + '[imports.town]\nsource = "packs/town"\n'
    commit(shop.root, {**pack, "city.toml": imported})
    shop.write({"packs/town/agents/guard/prompt.md": "Guard well.\n"})
    assert list(shop.agents()) == ["town.guard"]


def test_a_city_in_a_subdirectory_of_a_repository_is_found_in_the_revision(
    tmp_path: Path, run: Command
) -> None:
    files = {f"deep/city/{name}": text for name, text in CITY.items()}
    files["deep/pack/pack.toml"] = '[pack]\nname = "town"\nschema = 2\n'
    files["deep/pack/agents/guard/prompt.md"] = "Guard.\n"
    files["deep/city/city.toml"] += '[imports.town]\nsource = "../pack"\n'
    files["huge"] = "x" * 5_000_000
    root = repository(tmp_path / "mono", files) / "deep/city"
    assert run("diff", "--json", cwd=root).json["agents"] == []
    build_tree(root, {"../pack/agents/guard/prompt.md": "Guard well.\n"})
    agents = run("diff", "--json", cwd=root).json["agents"]
    assert [agent["name"] for agent in agents] == ["town.guard"]


def test_a_broken_revision_is_compared_as_far_as_it_goes(shop: Shop) -> None:
    commit(shop.root, {"agents/smith/agent.toml": "model = 3\n"})
    shop.write({"agents/smith/agent.toml": 'model = "opus"\n'})
    ran = shop("--json")
    assert ran.code == 0
    assert "smith" in [agent["name"] for agent in ran.json["agents"]]
    assert any("at HEAD: agents/smith/agent.toml" in p["message"] for p in ran.json["problems"])


def test_the_exit_code_says_whether_something_changed_on_request(shop: Shop) -> None:
    shop.write({"agents/clerk/prompt.md": "Sorts.\n"})
    assert (shop().code, shop("--exit-code").code, shop("--exit-code", "--json").code) == (0, 1, 1)


def test_markdown_survives_backquotes_in_prompts(shop: Shop) -> None:
    shop.write({"agents/clerk/prompt.md": "Run:\n\n```sh\nls\n```\n"})
    ran = shop("--markdown")
    assert "````diff\n" in ran.out
    assert ran.out.count("````") == 2
    assert "</details>" in ran.out


@pytest.mark.parametrize("name", ["nope", "HEAD~9", "--all", "HEAD:city.toml"])
def test_an_unknown_revision_is_an_error(shop: Shop, name: str) -> None:
    ran = shop("--", name)
    assert (ran.code, "unknown-revision" in ran.err) == (1, True)


def test_without_a_repository_or_a_city_in_it_there_is_no_revision(
    tmp_path: Path, run: Command
) -> None:
    root = build_tree(tmp_path / "plain", CITY)
    ran = run("diff", "--json", cwd=root)
    assert ran.code == 1
    assert [problem["code"] for problem in json.loads(ran.out)["problems"]] == ["unknown-revision"]
    repository(tmp_path / "later")
    build_tree(tmp_path / "later", CITY)
    ran = run("diff", cwd=tmp_path / "later")
    assert (ran.code, "no city.toml" in ran.err) == (1, True)


def test_a_link_out_of_the_repository_is_not_followed(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/prompt.md").write_text("Secret text.\n")
    (shop.root / "agents/spy").symlink_to(tmp_path / "outside")
    git(shop.root, "add", "agents/spy")
    git(shop.root, "commit", "--quiet", "--message", "link")
    (shop.root / "agents/spy").unlink()
    assert "Secret text" not in shop("--json").out
