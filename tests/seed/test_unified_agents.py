"""The unified agent definitions of the first seed: six roles, four layers, list, show and emit."""

import os
from pathlib import Path

import pytest

from gascity.resources import data_dir
from tests.support.city import CityBuilder, agent_of, codes_of, names_of
from tests.support.command import Command
from tests.support.trees import build_tree

ROLES = '[imports.roles]\nsource = "builtin:roles"\n'

# name: display name, execution, session state
SIX = {
    "worker": ("Auto Worker", "container", "stateful"),
    "do": ("Directed Task", "host", "stateful"),
    "prd": ("PRD Writer", "host", "stateless"),
    "buddy": ("Quick Entry", "host", "stateful"),
    "ask": ("Interactive Q&A", "host", "stateless"),
    "free": ("General Purpose", "host", "stateful"),
}


@pytest.fixture
def roles(city: CityBuilder) -> Path:
    """A city that imports the six roles and has nothing else."""
    city({"city.toml": 'implicit_agents = false\n[workspace]\nname = "six"\n' + ROLES})
    return city.root


def prompt_of(role: str) -> bytes:
    return Path(data_dir("system_agents"), "_packs/roles/agents", role, "prompt.md").read_bytes()


def layered(root: Path, layers: str) -> Path:
    """The agent `helper` in the layers named by their first letters: user, local, city."""
    build_tree(root, {"city.toml": ""})
    homes = {
        "u": Path(os.environ["HOME"]) / ".config/gascity/agents/helper",
        "l": root / ".gc/local/agents/helper",
        "c": root / "agents/helper",
    }
    for letter in layers:
        text = f'description = "{letter}"\n'
        build_tree(homes[letter], {"agent.toml": text, "prompt.md": f"From {letter}.\n"})
    return root


def test_there_are_exactly_six_roles(city: CityBuilder) -> None:
    """S0-03: worker, do, prd, buddy, ask, free."""
    town = city({"city.toml": "implicit_agents = false\n" + ROLES})
    assert {str(agent.name) for agent in town.agents} == {f"roles.{role}" for role in SIX}
    assert codes_of(town) == []


@pytest.mark.parametrize("role", SIX)
def test_a_role_has_its_name_execution_and_state(city: CityBuilder, role: str) -> None:
    """S0-04 S0-06 S0-07: display names, execution, lifecycle."""
    agent = agent_of(city({"city.toml": ROLES}), f"roles.{role}")
    actual = tuple(
        agent.setting(name).value for name in ("display_name", "execution", "session_state")
    )
    assert actual == SIX[role]


@pytest.mark.parametrize("role", SIX)
def test_a_role_says_what_it_is_for_and_what_it_may_use(city: CityBuilder, role: str) -> None:
    """S0-05 S0-22: a purpose, both tool lists, and a prompt in a file of its own."""
    agent = agent_of(city({"city.toml": ROLES}), f"roles.{role}")
    assert agent.settings.description
    assert agent.settings.tools.allow is not None
    assert agent.setting("tools.deny").layer is not None
    assert len(prompt_of(role).decode().strip()) > 100


def test_the_one_that_only_reads_may_not_write(city: CityBuilder) -> None:
    """S0-05: ask is "read-only exploration"."""
    ask = agent_of(city({"city.toml": ROLES}), "roles.ask")
    deny, allow = ask.settings.tools.deny, ask.settings.tools.allow
    assert isinstance(deny, tuple)
    assert isinstance(allow, tuple)
    assert {"edit", "write", "shell"} <= set(deny)
    assert not {"edit", "write", "shell", "*"} & set(allow)


@pytest.mark.parametrize("role", [name for name, facts in SIX.items() if facts[2] == "stateful"])
def test_a_stateful_role_is_told_to_close_its_work(role: str) -> None:
    """S0-08: a stateful agent performs the closing call."""
    assert "city work done" in prompt_of(role).decode()


@pytest.mark.parametrize("role", [name for name, facts in SIX.items() if facts[2] == "stateless"])
def test_a_stateless_role_may_not_close_work(city: CityBuilder, role: str) -> None:
    """S0-09: no session state, no closing call."""
    agent = agent_of(city({"city.toml": ROLES}), f"roles.{role}")
    deny = agent.settings.tools.deny
    assert isinstance(deny, tuple)
    assert "shell" in deny or "shell(city work done *)" in deny


def test_a_city_that_says_nothing_still_works(city: CityBuilder, run: Command) -> None:
    """S0-02: with no configuration at all the built-in agents are there."""
    city()
    ran = run("agent", "list", "--json", cwd=city.root)
    assert [row["name"] for row in ran.json["agents"]] == ["shell"]
    assert run("check", cwd=city.root).code == 0


def test_one_definition_feeds_list_show_explain_and_emit(roles: Path, run: Command) -> None:
    """S0-01: the same definition wherever it is asked for."""
    row = next(
        row
        for row in run("agent", "list", "--json", cwd=roles).json["agents"]
        if row["bare"] == "worker"
    )
    shown = run("agent", "show", "worker", "--json", cwd=roles).json
    explained = run("agent", "explain", "worker", "execution", "--json", cwd=roles).json
    assert row.items() <= shown.items()
    assert explained["fields"]["execution"][0] == shown["fields"]["execution"]
    assert len(run("agent", "emit", "worker", cwd=roles).out) == shown["prompt"]["chars"]


@pytest.mark.parametrize(
    ("layers", "winner"),
    [
        pytest.param("u", "u", id="the-persons"),
        pytest.param("ul", "l", id="this-machines-over-the-persons"),
        pytest.param("uc", "c", id="the-citys-over-the-persons"),
        pytest.param("lc", "c", id="the-citys-over-this-machines"),
        pytest.param("ulc", "c", id="the-citys-over-all"),
    ],
)
def test_a_later_layer_overrides_an_earlier_one(
    tmp_path: Path, run: Command, layers: str, winner: str
) -> None:
    """S0-17 S0-18 S0-19: embedded, user, session (this machine), project."""
    root = layered(tmp_path / "town", layers)
    shown = run("agent", "show", "helper", "--json", cwd=root).json
    assert shown["description"] == winner
    assert shown["layer"] == {"u": "user", "l": "local", "c": "city"}[winner]
    assert run("agent", "emit", "helper", cwd=root).out == f"From {winner}.\n"
    assert len(shown["covers"]) == len(layers) - 1


@pytest.mark.parametrize("layers", ["u", "l", "c"], ids=["user", "local", "city"])
def test_every_layer_lies_above_the_built_in_one(city: CityBuilder, layers: str) -> None:
    """S0-17: embedded is the lowest."""
    homes = {"u": os.environ["HOME"] + "/.config/gascity", "l": ".gc/local", "c": "."}
    base = city.root / homes[layers]
    build_tree(base, {"agents/claude/prompt.md": "Not the built-in one.\n"})
    town = city({"city.toml": '[workspace]\nprovider = "claude"\n'})
    claude = agent_of(town, "claude")
    assert claude.layer == {"u": "user", "l": "local", "c": "city"}[layers]
    assert len(claude.overridden) == 1
    assert names_of(town) == ["claude", "shell"]


def test_a_layer_shadows_as_a_whole_directory(city: CityBuilder) -> None:
    """S0-18: nothing of the covered definition shines through (design D2)."""
    build_tree(
        city.root / ".gc/local/agents/helper",
        {"agent.toml": 'description = "below"\nnudge = "below"\n', "namepool.txt": "ash\n"},
    )
    town = city({"agents/helper/prompt.md": "Above.\n"})
    helper = agent_of(town, "helper")
    assert (helper.settings.description, helper.settings.nudge, helper.settings.namepool) == (
        "",
        None,
        None,
    )
    assert helper.overridden == (".gc/local/agents/helper",)


def test_the_person_has_a_directory_of_their_own_choosing(
    city: CityBuilder, tmp_path: Path, run: Command
) -> None:
    """S0-19: the user's layer is the same in every city; XDG_CONFIG_HOME moves it."""
    build_tree(tmp_path / "conf/gascity/agents/helper", {"prompt.md": "Mine everywhere.\n"})
    city()
    env = {"XDG_CONFIG_HOME": str(tmp_path / "conf")}
    assert run("agent", "emit", "helper", cwd=city.root, env=env).out == "Mine everywhere.\n"


def test_show_gives_the_resolved_record(roles: Path, run: Command) -> None:
    """S0-20 S0-27: name, description, execution, lifecycle, both tool lists, prompt."""
    shown = run("agent", "show", "roles.worker", "--json", cwd=roles).json
    assert shown["name"] == "roles.worker"
    assert shown["description"]
    assert (shown["execution"], shown["session_state"]) == ("container", "stateful")
    assert shown["tools"]["allow"] == ["*"]
    assert "shell(city stop)" in shown["tools"]["deny"]
    assert shown["prompt"]["chars"] == len(prompt_of("worker").decode())


def test_list_counts_then_names_each_with_its_tag_and_source(roles: Path, run: Command) -> None:
    """S0-23: the count, `[execution, lifecycle]`, the description, a Source line."""
    out = run("agent", "list", "--long", cwd=roles).out
    assert out.splitlines()[0] == "6 agents:"
    for role, (_, execution, state) in SIX.items():
        assert any(
            line.split()[:1] == [f"roles.{role}"] and f"[{execution}, {state}]" in line
            for line in out.splitlines()
        ), role
    assert out.count("Source: ") == 6


def test_the_source_of_a_built_in_agent_is_just_that(city: CityBuilder, run: Command) -> None:
    """S0-24: "embedded" for what nobody overrides."""
    city({"city.toml": '[workspace]\nprovider = "claude"\n'})
    assert run("agent", "list", "--long", cwd=city.root).out.count("Source: built-in") == 2


def test_the_source_of_an_overriding_agent_says_what_it_covers(
    city: CityBuilder, run: Command
) -> None:
    """S0-24: the overriding path, with a note that it overrides the embedded one."""
    city({"city.toml": '[workspace]\nprovider = "claude"\n', "agents/claude/prompt.md": "Mine.\n"})
    assert (
        "Source: agents/claude (overrides the built-in agent)"
        in run("agent", "list", "--long", cwd=city.root).out
    )


def test_a_covered_directory_is_named_by_its_path(tmp_path: Path, run: Command) -> None:
    """S0-24: only what is built in is called so, whatever words stand in other paths."""
    below = tmp_path / "ecosystem/gascity/agents/helper"
    build_tree(below, {"prompt.md": "Below.\n"})
    root = build_tree(tmp_path / "town", {"city.toml": "", "agents/helper/prompt.md": "Above.\n"})
    env = {"XDG_CONFIG_HOME": str(tmp_path / "ecosystem"), "COLUMNS": "400"}
    out = run("agent", "list", "--long", cwd=root, env=env).out
    assert f"Source: agents/helper (overrides {below})" in out


def test_human_and_machine_output_tell_the_same_agents(roles: Path, run: Command) -> None:
    """S0-25: words by default, `--json` for programs."""
    rows = run("agent", "list", "--json", cwd=roles).json["agents"]
    words = run("agent", "list", cwd=roles).out
    assert len(rows) == 6
    assert all(row["name"] in words for row in rows)


@pytest.mark.parametrize("role", SIX)
def test_show_tells_people_all_of_it(roles: Path, run: Command, role: str) -> None:
    """S0-26: name, description, execution, lifecycle, source, tools, 500 characters of prompt."""
    out = run("agent", "show", f"roles.{role}", cwd=roles, env={"COLUMNS": "400"}).out
    display, execution, state = SIX[role]
    closes = "closes its work" if state == "stateful" else "answers"
    for words in (f"roles.{role}", display, execution, f"{state} ({closes})", "Source:"):
        assert words in out
    prompt = prompt_of(role).decode()
    assert f"first 500 of {len(prompt):,} characters" in out
    flat = " ".join(out.split())
    assert " ".join(prompt[:480].split()) in flat
    assert " ".join(prompt[:560].split()) not in flat


@pytest.mark.parametrize("role", SIX)
def test_emit_writes_the_prompt_and_nothing_else(roles: Path, run: Command, role: str) -> None:
    """S0-28: the raw prompt on stdout."""
    ran = run("agent", "emit", f"roles.{role}", cwd=roles)
    assert (ran.code, ran.out.encode(), ran.err) == (0, prompt_of(role), "")


def test_a_role_is_changed_by_a_patch_and_keeps_what_it_denies(city: CityBuilder) -> None:
    """S0-12 S0-13: allowed tools are chosen anew, denied ones always block."""
    patch = '[[patches.agent]]\nname = "roles.ask"\n[patches.agent.tools]\n'
    town = city({"city.toml": ROLES + patch + 'allow = ["read", "write"]\ndeny = ["fetch"]\n'})
    ask = agent_of(town, "roles.ask")
    assert ask.settings.tools.allow == ("read", "write")
    assert ask.settings.tools.deny == ("edit", "write", "shell", "fetch")
