"""`city provider list|show`: what can run an agent, and how."""

from collections.abc import Callable
from pathlib import Path

from syrupy.assertion import SnapshotAssertion

from tests.cli.conftest import transcript
from tests.cli.shapes import PROVIDER_LIST, PROVIDER_SHOW, fits
from tests.support.command import Command, Ran

PROVIDERS = Path(__file__).resolve().parents[2] / "gascity" / "providers"
EVERY = sorted(path.stem for path in PROVIDERS.glob("*.toml"))


def test_the_list_as_people_read_it(
    in_harbour: Callable[..., Ran], harbour: Path, programs: Path, snapshot: SnapshotAssertion
) -> None:
    (programs / "codex").write_text("#!/bin/sh\n")
    (programs / "codex").chmod(0o755)
    assert transcript(in_harbour("provider", "list"), harbour) == snapshot


def test_the_list_as_json_names_every_provider(
    in_harbour: Callable[..., Ran], programs: Path
) -> None:
    (programs / "codex").write_text("#!/bin/sh\n")
    (programs / "codex").chmod(0o755)
    answer = in_harbour("provider", "list", "--json").json
    fits(answer, PROVIDER_LIST)
    rows = {row["name"]: row for row in answer["providers"]}
    assert list(rows) == EVERY
    assert (rows["codex"]["installed"], rows["codex"]["path"]) == (True, f"{programs}/codex")
    assert (rows["claude"]["installed"], rows["claude"]["path"]) == (False, None)
    assert (rows["claude"]["mcp"], rows["claude"]["skills"]) == (".mcp.json", ".claude/skills")
    assert rows["vscode"]["headless"] is False


def test_a_provider_as_people_read_it(
    in_harbour: Callable[..., Ran], harbour: Path, snapshot: SnapshotAssertion
) -> None:
    assert transcript(in_harbour("provider", "show", "codex"), harbour) == snapshot


def test_a_provider_as_json_has_its_fields_with_their_places(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town({"city.toml": '[providers.claude]\nargs = ["--slow"]\n'})
    answer = run("provider", "show", "claude", "--json", cwd=root).json
    fits(answer, PROVIDER_SHOW)
    assert answer["providers"][0]["name"] == "claude"
    args = answer["fields"]["args"]
    assert (args["value"], args["file"], args["line"]) == (["--slow"], "city.toml", 2)
    assert answer["fields"]["command"]["file"].endswith("gascity/providers/claude.toml")


def test_facts_about_a_provider_are_no_secrets(in_harbour: Callable[..., Ran]) -> None:
    fields = in_harbour("provider", "show", "codex", "--json").json["fields"]
    assert fields["mcp.key"]["value"] == ["mcp_servers"]


def test_a_derived_provider_is_listed_and_shows_its_base(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town({"city.toml": '[providers.fast]\nbase = "claude"\nargs = ["--fast"]\n'})
    names = [row["name"] for row in run("provider", "list", "--json", cwd=root).json["providers"]]
    assert names == sorted([*EVERY, "fast"])
    ran = run("provider", "show", "fast", cwd=root)
    assert "Based on:  claude\n" in ran.out
    assert '  command = "claude"\n' in ran.out


def test_a_provider_file_dropped_into_the_city_works(
    run: Command, town: Callable[..., Path], programs: Path
) -> None:
    (programs / "abacus").write_text("#!/bin/sh\n")
    (programs / "abacus").chmod(0o755)
    root = town(
        {
            "providers/abacus.toml": 'display_name = "Abacus"\ncommand = "abacus"\n',
            "agents/counter/prompt.md": "Count.\n",
            "agents/counter/agent.toml": 'provider = "abacus"\n',
        }
    )
    assert run("check", "--strict", cwd=root).code == 0
    (row,) = run("provider", "show", "abacus", "--json", cwd=root).json["providers"]
    assert (row["display_name"], row["installed"]) == ("Abacus", True)


def test_an_unknown_provider_exits_1_with_suggestions(in_harbour: Callable[..., Ran]) -> None:
    assert in_harbour("provider", "show", "codx") == Ran(
        1,
        "",
        "city: error: there is no provider `codx` [unknown-provider]\n"
        "  hint: did you mean `codex`?\n",
    )


def test_a_city_with_errors_still_lists_and_mentions_them(
    run: Command, town: Callable[..., Path]
) -> None:
    ran = run("provider", "list", cwd=town({"city.toml": "[workspac]\n"}))
    assert ran.code == 0
    assert ran.err == "city: 1 error; run `city check` for details\n"


def test_the_choices_of_an_option_are_wrapped_to_fit(in_harbour: Callable[..., Ran]) -> None:
    lines = in_harbour("provider", "show", "claude", env={"COLUMNS": "60"}).out.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("Option:    permission_mode: "))
    assert lines[at + 1].startswith(" " * 11)
    assert max(map(len, lines[at : at + 2])) <= 60


def test_a_provider_is_shown_as_the_agents_of_a_pack_see_it(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town(
        {
            "city.toml": '[imports.p]\nsource = "p"\n[workspace]\nprovider = "claude"\n',
            "p/pack.toml": '[pack]\nname = "p"\n[providers.claude]\ncommand = "theirs"\n',
            "p/agents/helper/prompt.md": "Work.\n",
        }
    )
    shown = run("provider", "show", "claude", "--agent", "p.helper", "--json", cwd=root).json
    command = shown["fields"]["command"]
    assert (command["value"], command["file"], command["line"]) == ("theirs", "p/pack.toml", 4)
    own = run("provider", "show", "claude", "--agent", "claude", "--json", cwd=root).json
    assert own["fields"]["command"]["value"] == "claude"
    chains = run("agent", "explain", "p.helper", "command", "--json", cwd=root).json["fields"]
    assert [setting["value"] for setting in chains["command"]] == ["theirs", "claude", None]
    unknown = run("provider", "show", "claude", "--agent", "p.helpr", cwd=root)
    assert (unknown.code, "did you mean `p.helper`" in unknown.err) == (1, True)
