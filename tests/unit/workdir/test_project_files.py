"""Files that a provider reads in a project by itself: their lines, and which hide others."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gascity.model.plan import PathRecord
from gascity.model.provider import Provider
from gascity.model.wanted import DOCUMENT, FILE, LINK
from gascity.pipeline import open_city
from gascity.source.disk import Disk
from gascity.workdir import project_files
from gascity.workdir.project_files import Project, ProjectPlace, read_project
from tests.support.city import CityBuilder
from tests.support.projects import AGENT, JSON_SERVER, SKILL, TYPICAL
from tests.support.trees import build_tree


@pytest.fixture
def providers(city: CityBuilder) -> Mapping[str, Provider]:
    city.write({"city.toml": ""})
    return open_city(str(city.root), os.environ, all_providers=True).providers


class Checkout:
    """A directory of files; `checkout.read("claude")` is what this provider finds there."""

    def __init__(self, root: Path, providers: Mapping[str, Provider]) -> None:
        self.root = root
        self.providers = providers
        self.managed: dict[str, PathRecord] = {}
        self.workdir = str(root)
        self.is_worktree = True

    def write(self, files: Mapping[str, str | bytes]) -> None:
        build_tree(self.root, files)

    def read(self, provider: str, tracked: Sequence[str] | None = None) -> Project:
        place = ProjectPlace(str(self.root), self.workdir, self.is_worktree, lambda: self.managed)
        keep = None if tracked is None else (lambda _: tracked)
        return read_project(self.providers[provider], Disk(str(self.root)), place, keep)

    def found(self, provider: str) -> list[str]:
        project = self.read(provider)
        assert project.problems == ()
        return [f"{item.kind} {item.name} {item.where}" for item in project.items]


@pytest.fixture
def checkout(tmp_path: Path, providers: Mapping[str, Provider]) -> Checkout:
    return Checkout(tmp_path / "home" / "project", providers)


def hidden(project: Project) -> dict[str, str]:
    """Return what is hidden, by what; each of the two says so."""
    by_path = {item.path: item for item in project.items}
    pairs = {item.path: item.shadowed_by for item in project.items if item.shadowed_by}
    for path, by in pairs.items():
        assert path in by_path[by].shadows
    return pairs


class TestInstructions:
    def test_a_provider_that_reads_one_file_hides_the_others(self, checkout: Checkout) -> None:
        checkout.write({"CLAUDE.md": "", "AGENTS.md": ""})
        assert hidden(checkout.read("claude")) == {"AGENTS.md": "CLAUDE.md"}
        assert hidden(checkout.read("opencode")) == {"CLAUDE.md": "AGENTS.md"}
        assert checkout.found("codex") == ["instructions AGENTS.md AGENTS.md:1"]

    @pytest.mark.parametrize(
        ("text", "included"),
        [("@AGENTS.md\n", True), ("See @./AGENTS.md first.", True), ("Read AGENTS.md.", False)],
    )
    def test_a_file_that_another_one_includes_is_not_hidden_by_it(
        self, checkout: Checkout, text: str, included: bool
    ) -> None:
        checkout.write({"CLAUDE.md": text, "AGENTS.md": ""})
        assert hidden(checkout.read("claude")) == ({} if included else {"AGENTS.md": "CLAUDE.md"})

    def test_a_file_alone_is_read_instead_of_the_one_that_is_missing(
        self, checkout: Checkout
    ) -> None:
        checkout.write({"AGENTS.md": ""})
        assert checkout.found("claude") == ["instructions AGENTS.md AGENTS.md:1"]
        assert hidden(checkout.read("claude")) == {}

    def test_a_provider_that_reads_all_hides_none(self, checkout: Checkout) -> None:
        checkout.write({"CLAUDE.md": "", "AGENTS.md": "", ".github/copilot-instructions.md": ""})
        project = checkout.read("copilot")
        assert [item.name for item in project.items] == [
            "AGENTS.md",
            "CLAUDE.md",
            ".github/copilot-instructions.md",
        ]
        assert hidden(project) == {}

    def test_files_above_are_read_by_providers_that_look_there(self, checkout: Checkout) -> None:
        checkout.write({"CLAUDE.md": "", "AGENTS.md": ""})
        above = checkout.root.parent
        build_tree(above, {"CLAUDE.md": "", "AGENTS.md": ""})
        claude = [item.path for item in checkout.read("claude").items if not item.shadowed_by]
        assert claude[-2:] == [f"{above}/CLAUDE.md", "CLAUDE.md"]
        assert [item.path for item in checkout.read("codex").items] == ["AGENTS.md"]

    def test_in_a_checkout_the_chain_starts_at_the_top_of_the_repository(
        self, checkout: Checkout
    ) -> None:
        checkout.is_worktree = False
        above = checkout.root.parent
        checkout.write({"AGENTS.md": ""})
        build_tree(above, {"AGENTS.md": "", ".git/HEAD": "", "../AGENTS.md": ""})
        paths = [item.path for item in checkout.read("codex").items]
        assert paths == [f"{above}/AGENTS.md", "AGENTS.md"]

    def test_a_program_without_facts_reads_nothing(self, checkout: Checkout) -> None:
        checkout.write(TYPICAL)
        assert checkout.found("shell") == []


class TestServers:
    def test_the_line_is_that_of_the_server(self, checkout: Checkout) -> None:
        checkout.write(TYPICAL)
        for provider, where in {
            "claude": ".mcp.json:3",
            "codex": ".codex/config.toml:3",
            "opencode": ".opencode/opencode.json:4",
            "vibe": ".vibe/config.toml:1",
        }.items():
            servers = [item.where for item in checkout.read(provider).of_kind("server")]
            assert servers[0] == where

    def test_the_file_that_wins_hides_the_server_of_the_others(self, checkout: Checkout) -> None:
        checkout.write({".mcp.json": JSON_SERVER, ".github/mcp.json": JSON_SERVER})
        assert hidden(checkout.read("copilot")) == {".github/mcp.json": ".mcp.json"}

    def test_servers_that_city_wrote_into_the_file_are_not_the_projects(
        self, checkout: Checkout
    ) -> None:
        checkout.write({".mcp.json": '{"mcpServers": {"mine": {}, "ours": {}}}'})
        record = PathRecord(DOCUMENT, "mcp/ours.toml", "city", ("a",), entries={"ours": {}})
        checkout.managed[".mcp.json"] = record
        assert checkout.found("claude") == ["server mine .mcp.json:1"]


class TestSkills:
    def test_each_rule_for_equal_names(self, checkout: Checkout) -> None:
        agents, codex = ".agents/skills/tides/SKILL.md", ".codex/skills/tides/SKILL.md"
        gemini, opencode = ".gemini/skills/tides/SKILL.md", ".opencode/skills/tides/SKILL.md"
        text = SKILL.format("tides")
        checkout.write({agents: text, codex: text, gemini: text, opencode: text})
        assert hidden(checkout.read("gemini")) == {gemini: agents}
        assert hidden(checkout.read("opencode")) == {agents: opencode}
        assert [item.path for item in checkout.read("codex").items] == [agents, codex]
        assert hidden(checkout.read("codex")) == {}

    def test_a_skill_that_providers_ignore_is_a_warning_at_its_line(
        self, checkout: Checkout
    ) -> None:
        checkout.write({".claude/skills/a/SKILL.md": "no front matter\n"})
        (problem,) = checkout.read("claude").problems
        assert problem.severity == "warning"
        assert problem.place is not None
        assert problem.place.file == ".claude/skills/a/SKILL.md"

    def test_a_skill_that_city_linked_is_not_the_projects(self, checkout: Checkout) -> None:
        checkout.write({".claude/skills/a/SKILL.md": SKILL.format("a")})
        record = PathRecord(LINK, "skills/a", "city", ("dev",), target="/x")
        checkout.managed[".claude/skills/a"] = record
        assert checkout.found("claude") == []


class TestAgentsAndOthers:
    def test_a_name_comes_from_the_file_or_from_its_name(self, checkout: Checkout) -> None:
        checkout.write(TYPICAL)
        for provider, agents in {
            "claude": ["reviewer .claude/agents/review.md:2", "deeper .claude/agents/deep/er.md:2"],
            "codex": ["reviewer .codex/agents/review.toml:2"],
            "copilot": ["review .github/agents/review.agent.md:1"],
            "opencode": ["plan .opencode/agents/plan.md:1", "review .opencode/agent/review.md:1"],
            "kiro": ["reviewer .kiro/agents/review.json:3"],
        }.items():
            items = checkout.read(provider).of_kind("agent")
            assert [f"{item.name} {item.where}" for item in items] == agents

    def test_an_agent_in_a_directory_has_its_name(self, checkout: Checkout) -> None:
        checkout.write({".agents/agents/review/agent.md": "Review.\n"})
        (agent,) = checkout.read("antigravity").items
        assert agent.name == "review"

    def test_commands_and_settings_are_listed(self, checkout: Checkout) -> None:
        checkout.write(TYPICAL)
        project = checkout.read("claude")
        assert [item.name for item in project.of_kind("command")] == ["ship/it"]
        assert [item.name for item in project.of_kind("settings")] == [".claude/settings.json"]

    def test_files_that_city_wrote_are_not_the_projects(self, checkout: Checkout) -> None:
        checkout.write({"CLAUDE.md": "", ".claude/agents/a.md": AGENT.format("a")})
        for path in ("CLAUDE.md", ".claude/agents/a.md"):
            checkout.managed[path] = PathRecord(FILE, "overlay/x", "city", ("a",))
        assert checkout.found("claude") == []

    def test_paths_that_the_worktree_lacks_hide_nothing(self, checkout: Checkout) -> None:
        checkout.write({"CLAUDE.md": "", "AGENTS.md": ""})
        (item,) = checkout.read("claude", tracked=["AGENTS.md"]).items
        assert (item.path, item.shadowed_by) == ("AGENTS.md", "")


class TestHostileFiles:
    @pytest.mark.parametrize(
        ("path", "text", "line"),
        [
            (".mcp.json", '{\n "mcpServers": {', 2),
            (".mcp.json", '{"mcpServers": []}', 1),
            (".mcp.json", '{\n"mcpServers": {\n"a": 1}}', 3),
            (".mcp.json", b"\xff", 1),
            (".claude/settings.json", "{\n\n x", 3),
            (".claude/agents/a.md", "---\nname: [\n---\n", 2),
        ],
    )
    def test_an_invalid_file_is_a_warning_at_its_place(
        self, checkout: Checkout, path: str, text: str | bytes, line: int
    ) -> None:
        checkout.write({path: text, "CLAUDE.md": ""})
        project = checkout.read("claude")
        (problem,) = project.problems
        assert (problem.code, problem.severity) == ("bad-project-file", "warning")
        assert problem.place is not None
        assert (problem.place.file, problem.place.line) == (path, line)
        assert project.items[0].name == "CLAUDE.md"

    @pytest.mark.parametrize(
        "path", ["CLAUDE.md", ".mcp.json", ".claude", ".claude/skills/a", ".claude/agents/a.md"]
    )
    def test_a_link_out_of_the_repository_is_not_followed(
        self, checkout: Checkout, path: str, tmp_path: Path
    ) -> None:
        outside = build_tree(tmp_path / "outside", {"SKILL.md": SKILL.format("a")})
        place = checkout.root / path
        place.parent.mkdir(parents=True)
        place.symlink_to(outside if "." not in place.name[1:] else outside / "SKILL.md")
        project = checkout.read("claude")
        assert project.items == ()
        assert {(p.code, p.severity) for p in project.problems} == {
            ("link-leaves-project", "warning")
        }

    def test_a_link_inside_the_repository_is_followed(self, checkout: Checkout) -> None:
        checkout.write({"AGENTS.md": "", "shared/notes/SKILL.md": SKILL.format("notes")})
        (checkout.root / "CLAUDE.md").symlink_to("AGENTS.md")
        (checkout.root / ".claude").mkdir()
        (checkout.root / ".claude/skills").symlink_to("../shared")
        assert checkout.found("claude") == [
            "instructions CLAUDE.md CLAUDE.md:1",
            "instructions AGENTS.md AGENTS.md:1",
            "skill notes .claude/skills/notes/SKILL.md:1",
        ]

    def test_a_pipe_and_a_directory_in_the_place_of_a_file_are_no_files(
        self, checkout: Checkout
    ) -> None:
        checkout.write({".mcp.json/x": ""})
        os.mkfifo(checkout.root / "CLAUDE.md")
        assert checkout.found("claude") == []

    def test_a_large_file_is_not_read(
        self, checkout: Checkout, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(project_files, "_MOST_BYTES", 10)
        checkout.write({".mcp.json": JSON_SERVER})
        project = checkout.read("claude")
        assert (project.items, project.problems[0].code) == ((), "bad-project-file")

    def test_all_files_together_are_read_up_to_a_limit(
        self, checkout: Checkout, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        text = SKILL.format("a")
        monkeypatch.setattr(project_files, "_MOST_BYTES_READ", len(text) + 1)
        checkout.write({f".claude/skills/{n}/SKILL.md": SKILL.format(n) for n in "ab"})
        assert [item.name for item in checkout.read("claude").items] == ["a"]

    def test_more_files_than_the_limit_are_listed_up_to_it(
        self, checkout: Checkout, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(project_files, "_MOST_FILES", 2)
        checkout.write({f".claude/commands/{n}.md": "" for n in "abc"})
        project = checkout.read("claude")
        assert [item.name for item in project.items] == ["a", "b"]
        assert len(project.problems) == 1

    def test_more_directories_than_the_limit_are_not_entered(
        self, checkout: Checkout, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(project_files, "_MOST_DIRECTORIES", 4)
        checkout.write({f".claude/rules/{n}/x.txt": "" for n in "abcdef"})
        project = checkout.read("claude")
        assert [p.code for p in project.problems] == ["bad-project-file"]

    def test_a_deep_tree_is_read_to_a_limited_depth(self, checkout: Checkout) -> None:
        deep = "/".join("abcdefghij")
        checkout.write({f".claude/rules/{deep}/x.md": "", ".claude/rules/a/b/y.md": ""})
        assert [item.name for item in checkout.read("claude").items] == [".claude/rules/a/b/y.md"]
