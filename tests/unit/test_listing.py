"""Providers' own lists, read from what their programs were seen to print."""

import os
import select
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gascity.model.provider import Provider
from gascity.pipeline import open_city
from gascity.providers.listing import (
    AGENTS,
    MCP,
    SKILLS,
    Listing,
    ProviderCli,
    agent_files,
)

SEEN = Path(__file__).parent / "listings"
SERVERS, SHUT = frozenset(("probe", "web")), "shut"
KNOWN = frozenset(("knots", "tides"))
AGENT = frozenset(("harbourmaster",))

COPILOT = "`copilot --agent ? -p list`"

Asked = Callable[..., ProviderCli]


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    """`asked("codex", "echo hello")`: its listings, where its program is that shell script."""

    def make(name: str, script: str, facts: str = "", timeout: float = 30) -> ProviderCli:
        town, programs, work = tmp_path / "town", tmp_path / "programs", tmp_path / "work"
        for directory in (town, programs, work):
            directory.mkdir(exist_ok=True)
        (town / "city.toml").write_text(f"[providers.{name}]\n{facts}")
        provider = provider_of(town, name)
        program = programs / (provider.facts.command or name)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        environ = {**os.environ, "PATH": f"{programs}:/usr/bin:/bin"}
        return ProviderCli(provider, str(work), environ, timeout)

    return make


def test_a_program_is_told_its_directory_by_the_environment_too(asked: Asked) -> None:
    # A shell corrects PWD when it starts; /proc has what it was started with.
    started_with = "tr '\\0' '\\n' </proc/$$/environ"
    cli = asked("opencode", f'{started_with} | grep -qx "PWD=$(pwd -P)" && echo 1.2.3')
    assert cli.version() == ("1.2.3", "")


def provider_of(town: Path, name: str) -> Provider:
    return open_city(str(town), os.environ, all_providers=True).providers[name]


@pytest.mark.parametrize(
    ("name", "file", "off"),
    [
        ("amp", "amp-mcp", "awaiting approval"),
        ("auggie", "auggie-mcp", "disabled"),
        ("claude", "claude-mcp", "Pending approval"),
        ("cline", "cline-mcp", "disabled"),
        ("codex", "codex-mcp", "disabled"),
        ("copilot", "copilot-mcp", "disabled"),
        ("droid", "droid-mcp", "disabled"),
        ("gemini", "gemini-mcp", "Blocked"),
        ("grok", "grok-mcp", "disabled"),
        ("kilo", "kilo-config", "disabled"),
        ("opencode", "opencode-config", "disabled"),
        ("qwen", "qwen-mcp", "Pending approval"),
    ],
)
def test_servers_are_read_from_what_the_program_prints(
    asked: Asked, name: str, file: str, off: str
) -> None:
    listed = asked(name, f"cat '{SEEN}/{file}.txt'").of(MCP)
    assert (listed.names, listed.reason, dict(listed.disabled)) == (SERVERS, "", {SHUT: off})


@pytest.mark.parametrize(
    ("name", "kind", "file"),
    [
        ("amp", SKILLS, "amp-skills"),
        ("auggie", SKILLS, "auggie-skills"),
        ("claude", SKILLS, "claude-context"),
        ("claude", AGENTS, "claude-context"),
        ("cline", SKILLS, "cline-skills"),
        ("cline", AGENTS, "cline-agents"),
        ("codex", SKILLS, "codex-prompt-input"),
        ("codex", AGENTS, "codex-prompt-input"),
        ("copilot", SKILLS, "copilot-skills"),
        ("gemini", SKILLS, "gemini-skills"),
        ("grok", SKILLS, "grok-inspect"),
        ("grok", AGENTS, "grok-inspect"),
        ("kilo", SKILLS, "kilo-skills"),
        ("kilo", AGENTS, "kilo-config"),
        ("opencode", SKILLS, "opencode-skills"),
        ("opencode", AGENTS, "opencode-config"),
        ("qwen", AGENTS, "qwen-about"),
    ],
)
def test_skills_and_agents_of_the_project_are_read_and_built_in_ones_left_out(
    asked: Asked, name: str, kind: str, file: str
) -> None:
    listed = asked(name, f"cat '{SEEN}/{file}.txt'").of(kind)
    assert listed == Listing(AGENT if kind == AGENTS else KNOWN)


@pytest.mark.parametrize(
    ("output", "listed"),
    [
        (
            "No such agent: ?, available: harbourmaster, Harbour Pilot",
            Listing(frozenset(("harbourmaster", "Harbour Pilot"))),
        ),
        ("No such agent: ?, available: ", Listing(frozenset())),
        ("Not logged in.", Listing(None, f"{COPILOT} failed (1): Not logged in.")),
        ("", Listing(None, f"{COPILOT} failed (1)")),
    ],
)
def test_an_error_message_may_be_the_list(asked: Asked, output: str, listed: Listing) -> None:
    assert asked("copilot", f"echo '{output}' >&2; exit 1").of(AGENTS) == listed


def test_the_list_is_only_in_the_error_message_of_a_provider_that_says_so(asked: Asked) -> None:
    facts = "listing.agents_in_error = false\n"
    cli = asked("copilot", "echo 'No such agent: ?, available: x' >&2; exit 1", facts)
    assert cli.of(AGENTS).names is None


def test_agents_that_wait_for_approval_are_said_to(asked: Asked) -> None:
    reason = "`gemini` lists them only in a session, and ignores a new file until you approve it"
    assert asked("gemini", "").of(AGENTS).reason == f"{reason} there"


def test_a_list_that_goes_to_stderr_is_read_too(asked: Asked) -> None:
    assert asked("gemini", f"cat '{SEEN}/gemini-mcp.txt' >&2").of(MCP).names == SERVERS


def test_colours_and_lines_before_the_json_do_not_matter(asked: Asked) -> None:
    output = r"""printf '\033[90mone moment\n[\033[0m{"name": "probe"}]\n'"""
    assert asked("cline", output).of(MCP).names == frozenset(("probe",))


def test_the_program_is_run_in_the_directory_with_the_launch_s_trust_and_environment(
    asked: Asked, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    script = f"""echo "$PWD $*" >'{seen}'; echo '[]'"""
    work = os.path.realpath(tmp_path / "work")
    assert asked("codex", script).of(MCP).names == frozenset()
    trust = f'projects={{"{work}"={{trust_level="trusted"}}}}'
    assert seen.read_text() == f"{work} -c {trust} mcp list --json\n"

    script = f"""echo "$CLINE_MCP_SETTINGS_PATH $NO_COLOR" >'{seen}'; echo '[]'"""
    asked("cline", script).of(MCP)
    assert seen.read_text() == f"{work}/.cline/mcp.json 1\n"
    asked("copilot", f"""echo "$COPILOT_ALLOW_ALL" >'{seen}'; echo '[]'""").of(MCP)
    assert seen.read_text() == "true\n"


def test_a_command_that_serves_two_lists_is_run_once(asked: Asked, tmp_path: Path) -> None:
    listings = asked("grok", f"echo run >>'{tmp_path}/runs'; cat '{SEEN}/grok-inspect.txt'")
    assert (listings.of(SKILLS).names, listings.of(AGENTS).names) == (KNOWN, AGENT)
    assert (tmp_path / "runs").read_text() == "run\n"


def test_a_copy_of_the_program_that_the_city_names_is_the_one_that_is_run(tmp_path: Path) -> None:
    own = tmp_path / "own" / "cline"
    own.parent.mkdir()
    own.write_text("""#!/bin/sh\necho '[{"name": "own"}]'\n""")
    own.chmod(0o755)
    (tmp_path / "town").mkdir()
    (tmp_path / "town" / "city.toml").write_text(f'[providers.cline]\ncommand = "{own}"\n')
    provider = provider_of(tmp_path / "town", "cline")
    listed = ProviderCli(provider, str(tmp_path), {"PATH": "/usr/bin:/bin"}, 30).of(MCP)
    assert listed.names == frozenset(("own",))


def test_a_program_in_front_of_the_provider_s_own_is_not_asked(
    asked: Asked, tmp_path: Path
) -> None:
    listings = asked("cline", f"touch '{tmp_path}/ran'", 'command = "wrapper"\n')
    assert listings.of(MCP).reason == "`cline` is not on PATH"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("name", "script", "reason"),
    [
        ("cline", "echo oh; echo no >&2; exit 3", "`cline config mcp --json` failed (3): no"),
        ("cline", "echo '[{'", "`cline config mcp --json` printed no JSON"),
        ("cline", "exit 1", "`cline config mcp --json` failed (1)"),
        ("kimi", "exit 1", "`kimi` lists them only in a session"),
    ],
)
def test_a_program_that_cannot_be_understood_is_no_empty_list(
    asked: Asked, name: str, script: str, reason: str
) -> None:
    listed = asked(name, script).of(MCP)
    assert (listed.names, listed.reason, listed.asked) == (None, reason, name != "kimi")


def test_secrets_that_a_program_complains_about_are_not_repeated(asked: Asked) -> None:
    facts = 'env = { HARBOUR_TOKEN = "s3cr3t-harbour" }\n'
    listed = asked("cline", 'echo "bad header $HARBOUR_TOKEN" >&2; exit 1', facts).of(MCP)
    assert listed.reason == "`cline config mcp --json` failed (1): bad header …"


def test_an_invalid_pattern_of_the_city_is_reported(asked: Asked) -> None:
    listed = asked("cline", "echo x", "listing.mcp_pattern = '('\n").of(MCP)
    assert listed.names is None
    assert listed.reason.startswith("`listing.mcp_pattern` is not a valid regular expression: ")


def test_a_program_that_hangs_is_ended_with_everything_it_started(
    asked: Asked, tmp_path: Path
) -> None:
    script = f"sleep 1000 & echo $! >'{tmp_path}/pid'; wait"
    listed = asked("cline", script, timeout=1).of(MCP)
    assert listed.reason == "`cline config mcp --json` did not finish within 1 seconds"
    assert has_ended(int((tmp_path / "pid").read_text()))


def test_a_process_left_behind_does_not_delay_the_answer(asked: Asked, tmp_path: Path) -> None:
    script = f"sleep 1000 & echo $! >'{tmp_path}/pid'; echo '[]'"
    assert asked("cline", script).of(MCP).names == frozenset()
    assert has_ended(int((tmp_path / "pid").read_text()))


def has_ended(process: int) -> bool:
    """Is a process gone, or does it go at once? A signal takes a moment to arrive."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 10)[0])
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("2.1.325 (Claude Code)", "2.1.325"),
        ("GitHub Copilot CLI 1.0.102.", "1.0.102"),
        ("0.0.1790142911-g7618fb (released 2026-09-23)", "0.0.1790142911-g7618fb"),
        ("codex-cli 0.166.0", "0.166.0"),
    ],
)
def test_a_version_is_found_in_the_output(asked: Asked, output: str, version: str) -> None:
    assert asked("claude", f"echo '{output}'").version() == (version, "")


def test_a_program_that_prints_no_version_has_none(asked: Asked) -> None:
    assert asked("claude", "echo hello").version() == ("", "`claude --version` printed no version")
    assert asked("shell", "exit 1").version() == ("", "")


def test_agent_files_are_known_by_their_file_s_name_and_the_name_in_them(
    asked: Asked, tmp_path: Path
) -> None:
    texts: Mapping[str, tuple[str, str]] = {
        "claude": (".claude/agents/pilot.md", "---\nname: harbourmaster\n---\nname: no\n"),
        "codex": (".codex/agents/pilot.toml", 'name = "harbourmaster"\n'),
        "copilot": (".github/agents/pilot.agent.md", "---\nname: 'harbourmaster'\n---\n"),
    }
    for name, (path, text) in texts.items():
        listings = asked(name, "")
        (tmp_path / "work" / path).parent.mkdir(parents=True)
        (tmp_path / "work" / path).write_text(text)
        found = agent_files(listings.provider, listings.workdir)
        assert found == [frozenset(("pilot", "harbourmaster"))]


def test_a_provider_without_agents_has_no_agent_files(asked: Asked, tmp_path: Path) -> None:
    assert agent_files(asked("amp", "").provider, str(tmp_path)) == []
