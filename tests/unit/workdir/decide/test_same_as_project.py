"""Content that a project has already is not written into its worktrees."""

import os
from collections.abc import Mapping

import pytest

from gascity.mcp.delivery import ServerRequest, decide_deliveries
from gascity.mcp.types import McpServer
from gascity.model.plan import Step
from gascity.model.provider import Provider
from gascity.model.wanted import WantedPath
from gascity.pipeline import open_city
from gascity.workdir.decide.project import leave_out_same
from tests.support.city import CityBuilder
from tests.support.disk_state import FakeDirectory, document, file, link

STDIO = McpServer("docs", "Docs.", "stdio", "mcp/docs.toml", "city", command="npx", args=("docs",))
HTTP = McpServer("docs", "Docs.", "http", "mcp/docs.toml", "city", url="https://x.test/mcp")
SAME = "same as the project's own"


@pytest.fixture
def providers(city: CityBuilder) -> Mapping[str, Provider]:
    city.write({"city.toml": ""})
    return open_city(str(city.root), os.environ, all_providers=True).providers


def project(files: Mapping[str, str]) -> FakeDirectory:
    """Return a worktree with these tracked files."""
    return FakeDirectory(files, tracked=files, coverable=files)


class TestFiles:
    def test_an_equal_tracked_file_is_kept_and_not_covered(self) -> None:
        directory = project({".claude/agents/a.md": "same"})
        assert directory.apply(file(".claude/agents/a.md", "same")) == [
            f"keep .claude/agents/a.md: {SAME}"
        ]
        assert directory.held == {}

    def test_another_content_still_covers_it(self) -> None:
        directory = project({"a": "theirs"})
        assert directory.apply(file("a", "ours")) == ["write a: replaces the tracked file"]

    def test_a_managed_file_that_becomes_equal_stays_managed(self) -> None:
        directory = project({"a": "theirs"})
        directory.apply(file("a", "ours"))
        directory.put("a", "theirs")
        directory.apply(file("a", "theirs"))
        assert "a" in directory.held


class TestSkills:
    def test_an_equal_directory_is_kept(self) -> None:
        directory = project({".claude/skills/notes/SKILL.md": "x"})
        directory.trees["/city/skills/notes"] = {"SKILL.md": "x"}
        assert directory.apply(link(".claude/skills/notes", "/city/skills/notes")) == [
            f"keep .claude/skills/notes: {SAME}"
        ]
        assert directory.held == {}

    def test_another_directory_is_in_the_way(self) -> None:
        directory = project({".claude/skills/notes/SKILL.md": "y"})
        directory.trees["/city/skills/notes"] = {"SKILL.md": "x"}
        assert directory.apply(link(".claude/skills/notes", "/city/skills/notes")) == [
            "keep .claude/skills/notes: a directory is in the way"
        ]


def wanted_by(provider: Provider, server: McpServer) -> WantedPath:
    """Return the file that an agent of a provider wants for a server."""
    requests = [ServerRequest("a", provider, (server,))]
    target = decide_deliveries(requests, {}, frozenset())["a"].targets[0]
    wanted = document(target.path)
    return wanted._replace(shape=target.shape, entries=target.entries)


class TestServers:
    @pytest.mark.parametrize(
        ("provider", "path", "text"),
        [
            (
                "claude",
                ".mcp.json",
                '{"mcpServers": {"docs": {"command": "npx", "args": ["docs"]}}}',
            ),
            (
                "claude",
                ".mcp.json",
                '{"mcpServers": {"docs": '
                '{"type": "stdio", "command": "npx", "args": ["docs"], "env": {}}}}',
            ),
            (
                "codex",
                ".codex/config.toml",
                '[mcp_servers.docs]\ncommand = "npx"\nargs = ["docs"]\n',
            ),
            (
                "opencode",
                "opencode.json",
                '{"mcp": {"docs": {"type": "local", "command": ["npx", "docs"]}}}',
            ),
        ],
    )
    def test_an_equal_definition_stays_the_projects(
        self, providers: Mapping[str, Provider], provider: str, path: str, text: str
    ) -> None:
        directory = project({path: text})
        steps = directory.apply(wanted_by(providers[provider], STDIO))
        assert steps == [f"keep {path}: server `docs`: {SAME}"]
        assert (directory.text(path), directory.held) == (text, {})

    @pytest.mark.parametrize(
        "text",
        [
            '{"mcpServers": {"docs": {"command": "npx", "args": ["other"]}}}',
            '{"mcpServers": {"docs": {"command": "npx", "args": ["docs"], "cwd": "x"}}}',
            '{"mcpServers": {"docs": {"type": "sse", "command": "npx", "args": ["docs"]}}}',
        ],
    )
    def test_another_definition_is_replaced_and_restored(
        self, providers: Mapping[str, Provider], text: str
    ) -> None:
        directory = project({".mcp.json": text})
        steps = directory.apply(wanted_by(providers["claude"], STDIO))
        assert steps == ["merge .mcp.json: servers: docs"]
        directory.apply()
        assert directory.text(".mcp.json") == text

    def test_a_url_without_a_type_is_another_definition(
        self, providers: Mapping[str, Provider]
    ) -> None:
        directory = project(
            {".mcp.json": '{"mcpServers": {"docs": {"url": "https://x.test/mcp"}}}'}
        )
        steps = directory.apply(wanted_by(providers["claude"], HTTP))
        assert steps == ["merge .mcp.json: servers: docs"]

    def test_an_equal_definition_in_a_file_outside_git_is_managed(
        self, providers: Mapping[str, Provider]
    ) -> None:
        directory = FakeDirectory({".mcp.json": '{"mcpServers": {"docs": {"command": "npx"}}}'})
        directory.apply(wanted_by(providers["claude"], STDIO._replace(args=())))
        assert "docs" in (directory.held[".mcp.json"].entries or {})


class TestElsewhere:
    """In another file or directory that the provider reads too."""

    def left_out(
        self, directory: FakeDirectory, wanted: WantedPath, *providers: Provider
    ) -> tuple[dict[str, WantedPath], list[str]]:
        names = [f"a{number}" for number, _ in enumerate(providers)]
        wanted = wanted._replace(agents=tuple(names))
        by_name = dict(zip(names, providers, strict=True))
        rest, steps = leave_out_same({wanted.path: wanted}, by_name, directory.disk)
        return rest, [text(step) for step in steps]

    def test_an_equal_skill_is_left_out(self, providers: Mapping[str, Provider]) -> None:
        directory = project({".claude/skills/notes/SKILL.md": "x"})
        directory.trees["/city/skills/notes"] = {"SKILL.md": "x"}
        skill = link(".opencode/skills/notes", "/city/skills/notes")
        rest, steps = self.left_out(directory, skill, providers["opencode"])
        assert rest == {}
        assert steps == [f"keep .opencode/skills/notes: {SAME} (.claude/skills/notes)"]

    def test_a_different_skill_is_not_left_out(self, providers: Mapping[str, Provider]) -> None:
        directory = project({".claude/skills/notes/SKILL.md": "y"})
        directory.trees["/city/skills/notes"] = {"SKILL.md": "x"}
        skill = link(".opencode/skills/notes", "/city/skills/notes")
        rest, steps = self.left_out(directory, skill, providers["opencode"])
        assert (list(rest), steps) == ([skill.path], [])

    def test_a_skill_is_written_if_the_provider_of_another_agent_needs_it(
        self, providers: Mapping[str, Provider]
    ) -> None:
        directory = project({".codex/skills/notes/SKILL.md": "x"})
        directory.trees["/city/skills/notes"] = {"SKILL.md": "x"}
        skill = link(".agents/skills/notes", "/city/skills/notes")
        assert self.left_out(directory, skill, providers["codex"])[0] == {}
        rest, _ = self.left_out(directory, skill, providers["codex"], providers["amp"])
        assert list(rest) == [skill.path]

    def test_a_link_that_is_no_skill_is_not_touched(
        self, providers: Mapping[str, Provider]
    ) -> None:
        other = link("bin/notes", "/city/skills/notes")
        directory = project({".claude/skills/notes/SKILL.md": "x"})
        assert self.left_out(directory, other, providers["opencode"])[1] == []

    def test_an_equal_server_is_left_out_and_the_others_stay(
        self, providers: Mapping[str, Provider]
    ) -> None:
        text = '{"mcpServers": {"docs": {"command": "npx", "args": ["docs"]}}}'
        directory = project({".mcp.json": text})
        wanted = wanted_by(providers["copilot"], STDIO)
        rest, steps = self.left_out(directory, wanted, providers["copilot"])
        assert rest == {}
        assert steps == [f"keep .github/mcp.json: server `docs`: {SAME} (.mcp.json)"]
        more = wanted_by(providers["copilot"], STDIO._replace(name="more"))
        both = wanted._replace(entries={**(wanted.entries or {}), **(more.entries or {})})
        rest, _ = self.left_out(directory, both, providers["copilot"])
        assert list(rest[wanted.path].entries or {}) == ["more"]

    @pytest.mark.parametrize("text", ["{", '{"mcpServers": []}', '{"mcpServers": {"docs": 1}}'])
    def test_a_file_that_cannot_be_read_has_no_servers(
        self, providers: Mapping[str, Provider], text: str
    ) -> None:
        directory = project({".mcp.json": text})
        wanted = wanted_by(providers["copilot"], STDIO)
        assert self.left_out(directory, wanted, providers["copilot"])[1] == []


def text(step: Step) -> str:
    return f"{step.op} {step.path}: {step.reason}"
