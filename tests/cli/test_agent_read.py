"""`city agent list|show|emit|explain`: what every agent is, and why."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.conftest import transcript
from tests.cli.shapes import AGENT_EXPLAIN, AGENT_LIST, AGENT_PEERS, AGENT_SHOW, PROBLEMS, fits
from tests.support.command import Command, Ran
from tests.support.trees import build_tree

BROKEN = {
    "city.toml": "implicit_agents = false\n",
    "agents/good/prompt.md": "You are good.\n",
    "agents/good/agent.toml": 'description = "Does its work."\n',
    "agents/bad/prompt.md": "You are bad.\n",
    "agents/bad/agent.toml": 'description = "Does not."\nhiden = true\n',
}


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("agent", "list"), id="list"),
        pytest.param(("agent", "list", "--long"), id="list-long"),
        pytest.param(("agent", "show", "mayor"), id="show-own"),
        pytest.param(("agent", "show", "crew.pilot"), id="show-imported"),
        pytest.param(("agent", "show", "clerk"), id="show-described-only"),
        pytest.param(("agent", "emit", "crew.pilot"), id="emit-template"),
        pytest.param(("agent", "explain", "dock/crew.pilot"), id="explain"),
        pytest.param(("agent", "explain", "mayor", "tools"), id="explain-table"),
    ],
)
def test_what_people_read(
    in_harbour: Callable[..., Ran],
    harbour: Path,
    arguments: tuple[str, ...],
    snapshot: SnapshotAssertion,
) -> None:
    assert transcript(in_harbour(*arguments), harbour) == snapshot


def test_a_city_without_agents_says_so(run: Command, town: Callable[..., Path]) -> None:
    root = town({"city.toml": "implicit_agents = false\n"})
    assert run("agent", "list", cwd=root) == Ran(0, "No agents.\n", "")
    assert run("agent", "list", "--json", cwd=root).json == {"schema": 1, "agents": []}


def test_the_list_as_json_has_a_row_for_each_agent(in_harbour: Callable[..., Ran]) -> None:
    answer = in_harbour("agent", "list", "--json").json
    fits(answer, AGENT_LIST)
    rows = {row["name"]: row for row in answer["agents"]}
    assert list(rows) == ["clerk", "mayor", "dock/crew.pilot", "claude", "shell"]
    pilot = rows["dock/crew.pilot"]
    assert {key: pilot[key] for key in ("bare", "rig", "binding", "source", "layer", "max")} == {
        "bare": "pilot",
        "rig": "dock",
        "binding": "crew",
        "source": "packs/crew/agents/pilot",
        "layer": "pack",
        "max": 2,
    }
    mayor = rows["mayor"]
    assert {key: mayor[key] for key in ("rig", "binding", "source", "layer", "state", "max")} == {
        "rig": None,
        "binding": None,
        "source": "agents/mayor",
        "layer": "city",
        "state": "ok",
        "max": 3,
    }
    assert rows["clerk"]["provider"] == "codex"
    assert rows["claude"]["layer"] == "built-in"


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        (("--rig", "dock"), ["dock/crew.pilot"]),
        (("--provider", "codex"), ["clerk"]),
        (("--rig", "dock", "--provider", "codex"), []),
    ],
    ids=["rig", "provider", "both"],
)
def test_the_list_is_filtered_by_rig_and_provider(
    in_harbour: Callable[..., Ran], filters: tuple[str, ...], names: list[str]
) -> None:
    rows = in_harbour("agent", "list", *filters, "--json").json["agents"]
    assert [row["name"] for row in rows] == names
    shown = in_harbour("agent", "list", *filters).out.splitlines()[1:]
    assert [line.split()[0] for line in shown] == names


@pytest.mark.parametrize(
    ("filters", "code", "hint"),
    [
        (("--rig", "dok"), "unknown-rig", "did you mean `dock`?"),
        (("--provider", "claud"), "unknown-provider", "did you mean `claude`?"),
    ],
)
def test_a_filter_by_an_unknown_name_suggests_a_similar_one(
    in_harbour: Callable[..., Ran], filters: tuple[str, ...], code: str, hint: str
) -> None:
    ran = in_harbour("agent", "list", *filters)
    assert (ran.code, ran.out) == (1, "")
    assert f"[{code}]\n  hint: {hint}\n" in ran.err


def test_the_table_shows_model_pool_and_the_source_in_a_pack(
    in_harbour: Callable[..., Ran],
) -> None:
    wide = in_harbour("agent", "list", env={"COLUMNS": "120"}).out.splitlines()
    assert wide[0].split() == "NAME PROVIDER MODEL POOL RIG PATCHED SOURCE".split()
    [pilot] = [line.split() for line in wide if line.startswith("dock/")]
    assert pilot == ["dock/crew.pilot", "claude", "-", "0-2", "dock", "yes", "crew//agents/pilot"]


def test_a_narrow_table_leaves_out_the_rig_which_the_name_begins_with(
    in_harbour: Callable[..., Ran],
) -> None:
    narrow = in_harbour("agent", "list", env={"COLUMNS": "72"}).out
    assert "RIG" not in narrow
    assert "dock/crew.pilot" in narrow


def test_no_limit_is_null(run: Command, town: Callable[..., Path]) -> None:
    root = town(
        {"agents/sea/prompt.md": "Sea.\n", "agents/sea/agent.toml": "max_active_sessions = -1\n"}
    )
    assert run("agent", "show", "sea", "--json", cwd=root).json["max"] is None
    assert "Sessions:      0 to no limit\n" in run("agent", "show", "sea", cwd=root).out


def test_user_and_local_agents_have_layers_of_their_own(
    run: Command, town: Callable[..., Path], private_home: Path
) -> None:
    build_tree(private_home / ".config/gascity", {"agents/guest/prompt.md": "Guest.\n"})
    root = town(
        {
            "city.toml": "implicit_agents = false\n",
            ".gc/local/agents/lodger/prompt.md": "Lodger.\n",
            "agents/host/prompt.md": "Host.\n",
        }
    )
    rows = run("agent", "list", "--json", cwd=root).json["agents"]
    assert {row["name"]: (row["layer"], row["source"]) for row in rows} == {
        "host": ("city", "agents/host"),
        "lodger": ("local", ".gc/local/agents/lodger"),
        "guest": ("user", str(private_home / ".config/gascity/agents/guest")),
    }


def test_a_broken_agent_is_marked_and_the_others_are_listed(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town(BROKEN)
    assert run("agent", "list", cwd=root) == Ran(
        0,
        "NAME  STATE   PROVIDER  MODEL  POOL  RIG  PATCHED  SOURCE\n"
        "bad   broken  claude    -      0-1   -    -        agents/bad\n"
        "good  ok      claude    -      0-1   -    -        agents/good\n",
        "city: broken agents: bad; run `city check` to see why\n",
    )
    rows = run("agent", "list", "--json", cwd=root).json["agents"]
    assert [(row["name"], row["state"]) for row in rows] == [("bad", "broken"), ("good", "ok")]


def test_a_broken_agent_is_shown_with_its_problems_and_exit_1(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town(BROKEN)
    ran = run("agent", "show", "bad", cwd=root)
    assert ran.code == 1
    assert ran.out.startswith("Agent:         bad\n")
    assert ran.err == (
        "agents/bad/agent.toml:2:1: error: `hiden` is not an agent setting [unknown-key]\n"
        "    hiden = true\n"
        "    ^\n"
        "  hint: did you mean `hidden`?\n"
    )
    answer = run("agent", "show", "bad", "--json", cwd=root)
    assert answer.code == 1
    fits(answer.json, {**AGENT_SHOW, **PROBLEMS})
    assert [problem["code"] for problem in answer.json["problems"]] == ["unknown-key"]


def test_a_broken_agent_is_not_emitted(run: Command, town: Callable[..., Path]) -> None:
    ran = run("agent", "emit", "bad", cwd=town(BROKEN))
    assert (ran.code, ran.out) == (1, "")
    assert "[unknown-key]" in ran.err


def test_an_agent_with_an_invalid_patch_is_broken_and_the_others_are_emitted(
    run: Command, town: Callable[..., Path]
) -> None:
    patch = '[[patches.agent]]\nname = "good"\n[patches.agent.tools]\ndeny = "shell"\n'
    root = town({**BROKEN, "agents/bad/agent.toml": "", "city.toml": patch})
    ran = run("agent", "emit", "good", cwd=root)
    assert (ran.code, ran.out) == (1, "")
    assert "city.toml:4:8: error: `tools.deny` should be a list of strings" in ran.err
    assert run("agent", "emit", "bad", cwd=root) == Ran(0, "You are bad.\n", "")
    assert run("check", cwd=root).err.count("`tools.deny`") == 1


def test_the_broken_neighbour_of_a_sound_agent_does_not_hinder_it(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town(BROKEN)
    assert run("agent", "emit", "good", cwd=root) == Ran(0, "You are good.\n", "")
    assert run("agent", "show", "good", cwd=root).code == 0


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("---\nname: x\n---\nBody\r\n\n\n", id="front-matter-and-crlf"),
        pytest.param("{{ .NotATemplate }}\n", id="braces"),
        pytest.param("no newline at the end", id="no-newline"),
        pytest.param("\ufeffwith a mark\n", id="byte-order-mark"),
        pytest.param("smörgås \U0001f6a2\n", id="beyond-ascii"),
    ],
)
def test_a_plain_prompt_is_emitted_byte_for_byte(
    run: Command, town: Callable[..., Path], text: str
) -> None:
    root = town({"agents/mayor/prompt.md": text.encode()})
    assert run("agent", "emit", "mayor", cwd=root) == Ran(0, text, "")
    shown = run("agent", "show", "mayor", "--json", cwd=root).json["prompt"]
    assert shown == {
        "files": ["agents/mayor/prompt.md"],
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "chars": len(text),
    }


def test_an_agent_with_a_description_only_is_told_who_it_is(in_harbour: Callable[..., Ran]) -> None:
    assert in_harbour("agent", "emit", "clerk") == Ran(0, "You are clerk. Answers letters.\n", "")


def test_a_template_is_emitted_rendered_and_its_sum_is_of_those_bytes(
    in_harbour: Callable[..., Ran],
) -> None:
    ran = in_harbour("agent", "emit", "crew.pilot")
    assert ran == Ran(0, "You are dock/crew.pilot.\n", "")
    assert in_harbour("agent", "show", "crew.pilot", "--json").json["prompt"] == {
        "files": ["packs/crew/agents/pilot/prompt.template.md"],
        "sha256": hashlib.sha256(ran.out.encode()).hexdigest(),
        "chars": len(ran.out),
    }


@pytest.fixture
def half_done(town: Callable[..., Path]) -> Path:
    return town({"agents/poet/prompt.template.md": "First line.\n{{ .AgentNaem }}\nLast.\n"})


def test_a_template_is_never_emitted_half_rendered(run: Command, half_done: Path) -> None:
    ran = run("agent", "emit", "poet", cwd=half_done)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("agents/poet/prompt.template.md:2:")
    assert "AgentName" in ran.err, "a suggestion"


def test_a_failed_emit_as_json_is_an_object_with_problems(run: Command, half_done: Path) -> None:
    ran = run("agent", "emit", "poet", "--json", cwd=half_done)
    fits(ran.json, PROBLEMS)


def test_only_the_first_500_characters_of_a_prompt_are_shown(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town({"agents/bard/prompt.md": "x" * 499 + "yz" * 1000 + "\n"})
    out = run("agent", "show", "bard", cwd=root).out
    assert out.endswith(
        "\nPrompt (first 500 of 2,500 characters, agents/bard/prompt.md):\n  " + "x" * 499 + "y\n"
    )


def test_show_as_json_tells_every_field_with_its_place(in_harbour: Callable[..., Ran]) -> None:
    answer = in_harbour("agent", "show", "crew.pilot", "--json").json
    fits(answer, AGENT_SHOW)
    fields = answer["fields"]
    assert fields["max_active_sessions"] == {
        "value": 2,
        "file": "city.toml",
        "line": 21,
        "layer": "rig patch",
    }
    assert fields["scope"]["layer"] == "definition"
    assert fields["env"]["layer"] == "city patch"
    assert fields["prompt_mode"]["layer"] == "provider"
    assert fields["hidden"] == {"value": False, "file": None, "line": None, "layer": "default"}
    assert answer["tools"] == {"allow": ["*"], "deny": [], "ask": []}


def test_lists_of_tools_are_lists_where_they_are_written(in_harbour: Callable[..., Ran]) -> None:
    tools = in_harbour("agent", "show", "mayor", "--json").json["tools"]
    assert tools == {"allow": ["read", "shell(git *)"], "deny": ["fetch"], "ask": []}


def test_explain_gives_the_winner_first_and_then_what_it_covers(
    in_harbour: Callable[..., Ran],
) -> None:
    answer = in_harbour("agent", "explain", "dock/crew.pilot", "env", "--json").json
    fits(answer, AGENT_EXPLAIN)
    chain = [(one["layer"], one["file"], one["line"]) for one in answer["fields"]["env"]]
    assert chain[0] == ("city patch", "city.toml", 14)
    assert chain[1] == ("city defaults", "city.toml", 7)
    assert chain[-1] == ("default", None, None)
    assert answer["fields"]["env"][0]["value"]["TIDE"] == "high"
    assert answer["fields"]["env"][1]["value"]["TIDE"] == "low"


def test_explain_without_a_field_tells_every_field_that_somebody_wrote(
    in_harbour: Callable[..., Ran],
) -> None:
    fields = in_harbour("agent", "explain", "mayor", "--json").json["fields"]
    assert {"description", "max_active_sessions", "tools.allow", "env", "provider"} <= set(fields)
    assert "hidden" not in fields


def test_explain_of_a_field_nobody_wrote_says_it_is_the_default(
    in_harbour: Callable[..., Ran],
) -> None:
    assert in_harbour("agent", "explain", "mayor", "hidden") == Ran(
        0, "hidden = false\n    default\n", ""
    )


def test_explain_of_a_misspelt_field_suggests(in_harbour: Callable[..., Ran]) -> None:
    assert in_harbour("agent", "explain", "mayor", "hiden") == Ran(
        1,
        "",
        "city: error: `hiden` is not an agent setting [unknown-field]\n"
        "  hint: did you mean `hidden`?\n",
    )


@pytest.mark.parametrize("command", ["show", "emit", "explain"])
def test_an_unknown_agent_exits_1_with_suggestions(
    in_harbour: Callable[..., Ran], command: str
) -> None:
    assert in_harbour("agent", command, "mayro") == Ran(
        1,
        "",
        "city: error: there is no agent `mayro` [unknown-agent]\n  hint: did you mean `mayor`?\n",
    )
    ran = in_harbour("agent", command, "zeppelin")
    assert ran.err.endswith("  hint: to list the agents: `city agent list`\n")


def test_a_bare_name_close_to_an_imported_one_suggests_the_imported_one(
    in_harbour: Callable[..., Ran],
) -> None:
    ran = in_harbour("agent", "show", "piolt")
    assert ran.code == 1
    assert "crew.pilot`" in ran.err


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("pilot", "dock/crew.pilot"),
        ("crew.pilot", "dock/crew.pilot"),
        ("dock/pilot", "dock/crew.pilot"),
        ("dock/crew.pilot", "dock/crew.pilot"),
        ("dock/mayor", "dock/mayor"),
        ("mayor", "mayor"),
    ],
)
def test_a_reference_may_leave_out_what_is_not_needed(
    in_harbour: Callable[..., Ran], reference: str, name: str
) -> None:
    assert in_harbour("agent", "show", reference, "--json").json["name"] == name


@pytest.mark.parametrize("reference", ["", "/", "nowhere/mayor", "crew.mayor", "../mayor", "a/b/c"])
def test_a_reference_to_nothing_is_an_unknown_agent(
    in_harbour: Callable[..., Ran], reference: str
) -> None:
    ran = in_harbour("agent", "show", reference, "--json")
    assert ran.code == 1
    assert [problem["code"] for problem in ran.json["problems"]] == ["unknown-agent"]


@pytest.fixture
def two_crews(town: Callable[..., Path]) -> Path:
    return town(
        {
            "city.toml": '[imports.a]\nsource = "packs/a"\n[imports.b]\nsource = "packs/b"\n',
            "packs/a/pack.toml": '[pack]\nname = "a"\n',
            "packs/a/agents/pilot/prompt.md": "Pilot of a.\n",
            "packs/b/pack.toml": '[pack]\nname = "b"\n',
            "packs/b/agents/pilot/prompt.md": "Pilot of b.\n",
        }
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("agent", "show", "pilot"),
        ("agent", "emit", "pilot"),
        ("agent", "explain", "pilot"),
        ("agent", "set", "pilot", "hidden=true"),
        ("skill", "list", "--agent", "pilot"),
    ],
    ids=" ".join,
)
def test_an_ambiguous_name_exits_1_and_lists_the_candidates(
    run: Command, two_crews: Path, arguments: tuple[str, ...]
) -> None:
    assert run(*arguments, cwd=two_crews) == Ran(
        1,
        "",
        "city: error: `pilot` is ambiguous: `a.pilot`, `b.pilot` [ambiguous-name]\n"
        "  hint: write one of them in full\n",
    )


def test_an_own_agent_settles_an_ambiguous_name(run: Command, two_crews: Path) -> None:
    build_tree(two_crews, {"agents/pilot/prompt.md": "Our pilot.\n"})
    assert run("agent", "emit", "pilot", cwd=two_crews).out == "Our pilot.\n"


def test_a_built_in_provider_that_is_not_configured_is_accepted_with_a_note(
    in_harbour: Callable[..., Ran],
) -> None:
    ran = in_harbour("agent", "show", "gemini", "--json")
    assert ran.code == 0
    assert ran.json["name"] == "gemini"
    assert ran.err == "note: provider `gemini` is built in but not configured in this city\n"
    assert in_harbour("agent", "emit", "gemini").out.startswith("# Gemini CLI\n")
    rows = in_harbour("agent", "list", "--json").json["agents"]
    assert "gemini" not in [row["name"] for row in rows]


def test_an_unconfigured_provider_is_accepted_by_skill_list_too(
    in_harbour: Callable[..., Ran],
) -> None:
    ran = in_harbour("skill", "list", "--agent", "gemini", "--json")
    assert ran.code == 0
    assert [skill["name"] for skill in ran.json["skills"]] == ["knots", "tides"]


def test_an_own_agent_of_a_providers_name_is_no_unconfigured_provider(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town({"agents/gemini/prompt.md": "Ours.\n"})
    assert run("agent", "emit", "gemini", cwd=root) == Ran(0, "Ours.\n", "")


def test_hidden_agents_are_listed_only_with_all_and_in_json(in_harbour: Callable[..., Ran]) -> None:
    in_harbour("agent", "set", "mayor", "hidden=true")
    listed = in_harbour("agent", "list").out
    assert "mayor" not in listed
    assert "1 hidden agent (--all shows them)" in listed
    assert "mayor" in in_harbour("agent", "list", "--all").out
    hidden = {
        row["name"]: row["hidden"] for row in in_harbour("agent", "list", "--json").json["agents"]
    }
    assert hidden["mayor"] is True


def test_the_peers_of_an_agent_are_those_that_it_may_message_and_that_may_message_it(
    in_harbour: Callable[..., Ran], harbour: Path
) -> None:
    (harbour / "agents/porter").mkdir()
    (harbour / "agents/porter/prompt.md").write_text("You carry.\n")
    (harbour / "agents/porter/agent.toml").write_text('[agents_filter]\nallow = ["mayor"]\n')
    (harbour / "agents/guard").mkdir()
    (harbour / "agents/guard/agent.toml").write_text('mode = "primary"\n')
    ran = in_harbour("agent", "show", "mayor", "--peers", "--json")
    fits(ran.json, AGENT_PEERS)
    assert "porter" in ran.json["sends_to"]
    assert "porter" in ran.json["receives_from"]
    assert "guard" not in ran.json["sends_to"]  # only users may message it
    porter = in_harbour("agent", "show", "porter", "--peers", "--json").json
    assert porter["sends_to"] == ["mayor"]
    assert "May message porter:" in in_harbour("agent", "show", "porter", "--peers").out


def test_each_span_has_its_text_without_secrets(
    in_harbour: Callable[..., Ran], harbour: Path
) -> None:
    prompt = harbour / "agents/mayor/prompt.md"
    prompt.write_text("Open with s3cr3t-harbour.\n")
    shown = in_harbour("agent", "show", "mayor", "--rendered", "--json").json
    text = "".join(span["text"] for span in shown["spans"])
    assert text.startswith("Open with")
    assert "s3cr3t-harbour" not in text
