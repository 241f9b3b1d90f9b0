"""Servers as files: what is read, what is refused and where, what a command means."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from gascity.cli.problems import Locator
from gascity.mcp.server_files import ServerFile
from gascity.mcp.servers import ServerResolver, launch_value, merged_problems, target_owners
from gascity.mcp.types import AgentServers, McpServer
from gascity.model.problems import Problem
from gascity.prompts import Machine, Prompts
from gascity.source.disk import Disk
from tests.support.city import CityBuilder, agent_of

HEAD = 'name = "docs"\ndescription = "Docs."\n'
SOUND = HEAD + 'command = "npx"\n'


def effective(
    city: CityBuilder, files: Mapping[str, str | bytes], agent: str = "mayor"
) -> AgentServers:
    """The servers that the mayor of a city of these files has."""
    opened = city({"agents/mayor/prompt.md": "Mayor.\n", **files})
    servers = ServerResolver(Prompts(opened, Disk(opened.root), Machine("linux", "2026-01-01")))
    return servers.of(agent_of(opened, agent))


def one(city: CityBuilder, files: Mapping[str, str | bytes]) -> McpServer:
    found = effective(city, files)
    assert [p for p in found.problems if p.is_error] == []
    (server,) = found.servers
    return server


def spots(city: CityBuilder, problems: tuple[Problem, ...]) -> list[tuple[str, str, int | None]]:
    locator = Locator(str(city.root))
    return [
        (p.code, p.place.file if p.place else "", locator.line_col(p.place)[0]) for p in problems
    ]


def test_a_server_is_what_its_file_says(city: CityBuilder) -> None:
    text = SOUND + 'args = ["-y", "docs"]\ncapabilities = ["search"]\ntimeout = "1m30s"\n'
    server = one(city, {"mcp/docs.toml": text + '[env]\nLANG = "C"\n'})
    assert server == McpServer(
        name="docs",
        description="Docs.",
        transport="stdio",
        file="mcp/docs.toml",
        origin="city",
        command="npx",
        args=("-y", "docs"),
        env={"LANG": "C"},
        capabilities=("search",),
        gateway=False,
        timeout=90.0,
    )


def test_a_server_says_what_its_tools_can_do(city: CityBuilder) -> None:
    text = SOUND + 'gateway = true\n[tools.drop]\ncapabilities = ["docs.write"]\n[tools.ping]\n'
    server = one(city, {"mcp/docs.toml": text})
    assert (server.gateway, server.capabilities) == (True, ())
    assert server.tool_capabilities == {"drop": ("docs.write",)}


@pytest.mark.parametrize(
    ("text", "code", "path"),
    [
        ("tools = 1", "bad-type", ("tools",)),
        ("[tools]\ndrop = 1", "bad-type", ("tools", "drop")),
        ("[tools.drop]\ncapabilities = 1", "bad-type", ("tools", "drop", "capabilities")),
        ('[tools.drop]\ncapability = ["x"]', "unknown-key", ("tools", "drop", "capability")),
        ('gateway = "yes"', "bad-type", ("gateway",)),
    ],
)
def test_a_wrong_table_of_a_tool_is_reported_at_its_place(
    city: CityBuilder, text: str, code: str, path: tuple[str, ...]
) -> None:
    [problem] = effective(city, {"mcp/docs.toml": f"{SOUND}{text}\n"}).problems
    assert problem.place is not None
    assert (problem.code, problem.place.path, problem.is_error) == (code, path, True)


def test_the_city_puts_every_server_behind_the_gateway_but_its_own(city: CityBuilder) -> None:
    own = 'name = "city"\ndescription = "x"\ncommand = "city"\nargs = ["mcp", "serve"]\n'
    files = {
        "city.toml": "[security]\ngateway = true\n",
        "mcp/docs.toml": SOUND,
        "mcp/city.toml": own,
        "mcp/open.toml": SOUND.replace('"docs"', '"open"') + "gateway = false\n",
    }
    servers = effective(city, files).servers
    assert {server.name: server.gateway for server in servers} == {
        "city": False,
        "docs": True,
        "open": False,
    }


def test_a_broken_link_is_one_error_that_says_so(city: CityBuilder, tmp_path: Path) -> None:
    (tmp_path / "town/mcp").mkdir(parents=True)
    (tmp_path / "town/mcp/docs.toml").symlink_to("/nowhere")
    [problem] = effective(city, {}).problems
    assert (problem.code, problem.is_error) == ("dangling-link", True)


def test_an_invalid_file_keeps_its_last_valid_version_and_is_named(city: CityBuilder) -> None:
    valid: dict[str, ServerFile] = {}
    files = {"agents/mayor/prompt.md": "Mayor.\n", "mcp/new.toml": "broken = [\n"}

    def resolve(text: str) -> tuple[AgentServers, list[str]]:
        opened = city({**files, "mcp/docs.toml": text})
        prompts = Prompts(opened, Disk(opened.root), Machine("linux", "2026-01-01"))
        resolver = ServerResolver(prompts, valid)
        return resolver.of(agent_of(opened, "mayor")), resolver.notes

    before, notes = resolve(SOUND)
    assert ([server.name for server in before.servers], notes) == (["docs"], [])
    after, notes = resolve("name = [\n")
    assert after.servers == before.servers
    assert {problem.place and problem.place.file for problem in after.problems} == {"mcp/new.toml"}
    (note,) = notes
    assert note.startswith("mcp/docs.toml: ")
    assert note.endswith("; its last valid version stays in use")
    changed, notes = resolve(SOUND + 'args = ["x"]\n')
    assert ([server.args for server in changed.servers], notes) == ([("x",)], [])


def test_directories_among_server_files_are_reported(city: CityBuilder) -> None:
    opened = city({"agents/mayor/prompt.md": "Mayor.\n", "mcp/more/a.toml": "", "mcp/_b/c": ""})
    disk = Disk(opened.root)
    ServerResolver(Prompts(opened, disk, Machine("linux", "2026-01-01"))).of(
        agent_of(opened, "mayor")
    )
    assert [(p.code, p.place and p.place.file) for p in disk.problems] == [
        ("not-a-file", "mcp/more")
    ]


@pytest.mark.parametrize(
    ("text", "transport"),
    [
        ('url = "https://x.test/mcp"\n', "http"),
        ('url = "http://[::1]:80"\ntransport = "sse"\n', "sse"),
        ('url = "https://${HOST}:${PORT}/mcp?x=1"\ntransport = "http"\n', "http"),
        ('url = "${BASE}/mcp"\n', "http"),
        ('command = "npx"\ntransport = "stdio"\n', "stdio"),
    ],
)
def test_the_transport_follows_from_command_or_url(
    city: CityBuilder, text: str, transport: str
) -> None:
    assert one(city, {"mcp/docs.toml": HEAD + text}).transport == transport


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        pytest.param('name = "docs"\ncommand = "x"\n', "missing-key", 1, id="no-description"),
        pytest.param('description = "D."\ncommand = "x"\n', "missing-key", 1, id="no-name"),
        pytest.param('\nname = "dogs"\ndescription = "D."\nurl = "http://x"\n', "name-mismatch", 2,
                     id="another-name"),
        pytest.param('name = "docs"\ndescription = " "\ncommand = "x"\n', "bad-value", 2,
                     id="blank-description"),
        pytest.param(HEAD, "command-or-url", 1, id="neither"),
        pytest.param(SOUND + 'url = "http://x"\n', "command-or-url", 4, id="both"),
        pytest.param(HEAD + 'command = " "\n', "bad-value", 3, id="blank-command"),
        pytest.param(HEAD + 'url = "http://x"\nargs = ["a"]\n', "misplaced-key", 4, id="args"),
        pytest.param(HEAD + 'url = "http://x"\n[env]\nA = "b"\n', "misplaced-key", 4, id="env"),
        pytest.param(SOUND + '[headers]\nA = "b"\n', "misplaced-key", 4, id="headers"),
        pytest.param(SOUND + 'transport = "http"\n', "bad-transport", 4, id="transport"),
        pytest.param(HEAD + 'url = "http://x"\ntransport = "stdio"\n', "bad-transport", 4,
                     id="stdio-address"),
        pytest.param(SOUND + 'transport = "carrier"\n', "bad-value", 4, id="no-transport"),
        pytest.param(HEAD + 'url = "x.test/mcp"\n', "bad-url", 3, id="no-scheme"),
        pytest.param(HEAD + 'url = "ftp://x.test"\n', "bad-url", 3, id="other-scheme"),
        pytest.param(HEAD + 'url = "https:///mcp"\n', "bad-url", 3, id="no-host"),
        pytest.param(HEAD + 'url = "https://a b/"\n', "bad-url", 3, id="a-blank"),
        pytest.param(SOUND + "argz = []\n", "unknown-key", 4, id="unknown-key"),
        pytest.param(SOUND + "args = [1]\n", "bad-type", 4, id="wrong-type"),
        pytest.param(SOUND + '[env]\n"A=B" = "c"\n', "bad-name", 5, id="variable"),
        pytest.param(HEAD + 'url = "http://x"\n[headers]\n"A B" = "c"\n', "bad-name", 5,
                     id="header"),
        pytest.param(HEAD + 'url = "http://x"\n[headers]\nA = "b\\nc"\n', "bad-value", 5,
                     id="line-break"),
        pytest.param(SOUND + '[env]\nA = "b\\u0000"\n', "bad-value", 5, id="nul"),
        pytest.param(SOUND + "args = [\n", "bad-toml", 5, id="bad-toml"),
        pytest.param(HEAD + 'command = "tools/none"\n', "missing-command", 3, id="no-program"),
        pytest.param(HEAD + 'command = "../../x"\n', "path-leaves-pack", 3, id="out-of-the-pack"),
    ],
)  # fmt: skip
def test_a_faulty_server_is_left_out_with_its_place_and_the_others_stay(
    city: CityBuilder, text: str, code: str, line: int
) -> None:
    found = effective(
        city,
        {"mcp/docs.toml": text, "mcp/a.toml": 'name="a"\ndescription="A."\ncommand="x"\n'},
    )
    assert [server.name for server in found.servers] == ["a"]
    errors = tuple(problem for problem in found.problems if problem.is_error)
    assert spots(city, errors) == [(code, "mcp/docs.toml", line)]


def test_a_file_that_is_no_text_is_a_problem(city: CityBuilder) -> None:
    found = effective(city, {"mcp/docs.toml": b'name = "\xff"\n'})
    assert (found.servers, [p.code for p in found.problems]) == ((), ["bad-utf8"])


def test_a_name_that_no_server_may_have_is_a_problem(city: CityBuilder) -> None:
    found = effective(city, {"mcp/do cs.toml": SOUND})
    assert [p.code for p in found.problems] == ["bad-name"]


def test_what_is_no_servers_file_is_passed_over(city: CityBuilder) -> None:
    others = {"mcp/_docs.toml": "x", "mcp/.docs.toml": "x", "mcp/notes.md": "x", "mcp/d.json": "x"}
    found = effective(city, {**others, "mcp/deep/docs.toml": "x", "mcp/dir.toml/docs.toml": "x"})
    assert found == AgentServers()


def test_a_plain_file_and_a_template_of_one_name_are_an_error(city: CityBuilder) -> None:
    found = effective(city, {"mcp/docs.toml": SOUND, "mcp/docs.template.toml": SOUND})
    assert found.servers == ()
    assert [p.code for p in found.problems] == ["two-servers"]


@pytest.mark.parametrize("own", [True, False], ids=["own", "imported"])
def test_an_unknown_key_is_an_error_of_the_city_and_a_warning_of_a_pack(
    city: CityBuilder, own: bool
) -> None:
    text = SOUND + "colour = 1\n"
    pack = {
        "city.toml": '[imports.crew]\nsource = "packs/crew"\n',
        "packs/crew/pack.toml": '[pack]\nname = "crew"\n',
        "packs/crew/mcp/docs.toml": text,
    }
    found = effective(city, {"mcp/docs.toml": text} if own else pack)
    assert [(p.code, p.is_error) for p in found.problems] == [("unknown-key", own)]
    assert [server.origin for server in found.servers] == ([] if own else ["crew"])


LAYERS = {
    "city.toml": (
        '[imports.crew]\nsource = "packs/crew"\n[[rigs]]\nname = "dock"\n'
        '[rigs.imports.gear]\nsource = "packs/gear"\n'
    ),
    "city.local.toml": '[[rigs]]\nname = "dock"\npath = "dock"\n',
    "dock/": "",
    "packs/crew/pack.toml": '[pack]\nname = "crew"\n',
    "packs/gear/pack.toml": '[pack]\nname = "gear"\n',
    "agents/mayor/agent.toml": 'scope = "rig"\n',
}


@pytest.mark.parametrize("winner", [0, 1, 2, 3], ids=["import", "city", "rig-import", "agent"])
def test_the_nearer_definition_wins_as_a_whole_and_the_losers_are_named(
    city: CityBuilder, winner: int
) -> None:
    places = ["packs/crew/mcp", "mcp", "packs/gear/mcp", "agents/mayor/mcp"]
    files = {f"{place}/docs.toml": SOUND for place in places[: winner + 1]}
    found = effective(city, {**LAYERS, **files}, "dock/mayor")
    assert [server.file for server in found.servers] == [f"{places[winner]}/docs.toml"]
    assert [server.origin for server in found.servers] == [
        ["crew", "city", "gear", "agent"][winner]
    ]
    assert [(one.source, one.by) for one in found.shadowed] == [
        (f"{place}/docs.toml", f"{places[winner]}/docs.toml") for place in places[:winner]
    ]


def test_a_faulty_definition_still_covers_those_below_it(city: CityBuilder) -> None:
    found = effective(city, {"mcp/docs.toml": SOUND, "agents/mayor/mcp/docs.toml": "x"})
    assert found.servers == ()
    assert [(one.source, one.by) for one in found.shadowed] == [
        ("mcp/docs.toml", "agents/mayor/mcp/docs.toml")
    ]


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ('allow = ["do*"]', ["docs"]),
        ("allow = []", []),
        ('deny = ["docs"]', ["web"]),
        ('allow = ["*"]\ndeny = ["w*"]', ["docs"]),
    ],
)
def test_an_agents_filter_narrows_its_servers(
    city: CityBuilder, filters: str, names: list[str]
) -> None:
    web = 'name = "web"\ndescription = "W."\nurl = "http://x"\n'
    found = effective(
        city,
        {
            "agents/mayor/agent.toml": f"[mcp_filter]\n{filters}\n",
            "mcp/docs.toml": SOUND,
            "mcp/web.toml": web,
        },
    )
    assert [server.name for server in found.servers] == names


# What a command means


@pytest.mark.parametrize(
    ("command", "file"),
    [
        pytest.param("npx", None, id="on-path"),
        pytest.param("/opt/x", None, id="absolute"),
        pytest.param("${HOME}/x", None, id="a-reference"),
        pytest.param("./run", "mcp/run", id="beside-the-file"),
        pytest.param("tools/run", "tools/run", id="in-the-pack"),
        pytest.param("bin/run", "mcp/bin/run", id="else-beside-the-file"),
        pytest.param("../tools/run", "tools/run", id="upwards-inside-the-pack"),
        pytest.param("//tools/run", "tools/run", id="in-the-city"),
    ],
)
def test_a_command_is_found_and_made_absolute(
    city: CityBuilder, command: str, file: str | None
) -> None:
    files = {"mcp/docs.toml": HEAD + f'command = "{command}"\n'}
    if file:
        files[file] = "#!/bin/sh\n"
        city.write({file: ""})
        os.chmod(city.root / file, 0o755)
    server = one(city, files)
    assert server.command == (str(city.root / file) if file else command)


def test_a_command_of_a_pack_is_looked_for_in_that_pack(city: CityBuilder) -> None:
    files = {
        "city.toml": '[imports.crew]\nsource = "packs/crew"\n',
        "packs/crew/pack.toml": '[pack]\nname = "crew"\n',
        "packs/crew/mcp/docs.toml": HEAD + 'command = "tools/run"\n',
        "tools/run": "",
    }
    found = effective(city, files)
    (problem,) = found.problems
    assert problem.code == "missing-command"
    assert "packs/crew/tools/run or packs/crew/mcp/tools/run" in problem.message
    files["packs/crew/mcp/docs.toml"] = HEAD + 'command = "../../../tools/run"\n'
    out = effective(city, files)
    assert [p.code for p in out.problems] == ["path-leaves-pack"]


def test_a_command_that_may_not_be_executed_is_a_warning(city: CityBuilder) -> None:
    found = effective(city, {"mcp/docs.toml": HEAD + 'command = "tools/run"\n', "tools/run": ""})
    assert [(p.code, p.is_error) for p in found.problems] == [("not-executable", False)]
    assert len(found.servers) == 1


def test_a_path_of_the_city_with_a_dollar_is_no_reference(tmp_path: Path) -> None:
    city = CityBuilder(tmp_path / "${town}")
    server = one(city, {"mcp/docs.toml": HEAD + 'command = "tools/run"\n', "tools/run": ""})
    assert server.command == str(city.root / "tools/run").replace("${", "$${")


# Templates

AGENT = """\
[env]
API_TOKEN = "se\\"cret"
HALL = "town"
BY_NAME = "${HOST_TOKEN}"
"""


def test_the_strings_of_a_template_are_expanded_and_its_keys_are_not(city: CityBuilder) -> None:
    text = HEAD + 'command = "npx"\nargs = ["{{ .AgentName }}", "{{ .API_TOKEN }}"]\n'
    server = one(
        city,
        {
            "agents/mayor/agent.toml": AGENT,
            "mcp/docs.template.toml": text + "[env]\n'{{x}}' = '{{ .BY_NAME }}'\n",
        },
    )
    assert server.args == ("mayor", 'se"cret')
    assert server.env == {"{{x}}": "${HOST_TOKEN}"}


def test_a_plain_file_is_not_expanded(city: CityBuilder) -> None:
    server = one(city, {"mcp/docs.toml": SOUND + 'args = ["{{ .AgentName }}"]\n'})
    assert server.args == ("{{ .AgentName }}",)


def test_a_template_is_expanded_for_each_agent(city: CityBuilder) -> None:
    text = SOUND + 'args = ["{{ .AgentName }}"]\n'
    opened = city(
        {
            "agents/mayor/prompt.md": "M\n",
            "agents/clerk/prompt.md": "C\n",
            "mcp/docs.template.toml": text,
        }
    )
    servers = ServerResolver(Prompts(opened, Disk(opened.root), Machine("linux", "2026-01-01")))
    found = [servers.of(agent_of(opened, name)).servers[0].args for name in ("mayor", "clerk")]
    assert found == [("mayor",), ("clerk",)]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(SOUND + 'args = ["{{ .Nope }}"]\n', 4, id="in-a-value"),
        pytest.param(SOUND + 'args = ["""\na\n{{ .Nope }}"""]\n', 6, id="in-a-long-value"),
        pytest.param(SOUND + "args = ['''a\n{{ .Nope }}''']\n", 5, id="in-another-long-value"),
        pytest.param(SOUND + '\n{{ if .CityRoot }}\nargs = ["{{ .Nope }}"]\n{{ end }}\n', 6,
                     id="expanded-first"),
    ],
)  # fmt: skip
def test_an_undefined_variable_is_an_error_at_the_templates_line(
    city: CityBuilder, text: str, line: int
) -> None:
    found = effective(city, {"mcp/docs.template.toml": text})
    assert found.servers == ()
    assert spots(city, found.problems) == [("template-failed", "mcp/docs.template.toml", line)]


def test_an_undefined_variable_of_a_pack_is_empty_text_and_a_warning(city: CityBuilder) -> None:
    found = effective(
        city,
        {
            "city.toml": '[imports.crew]\nsource = "packs/crew"\n',
            "packs/crew/pack.toml": '[pack]\nname = "crew"\n',
            "packs/crew/mcp/docs.template.toml": SOUND + 'args = ["<{{ .Nope }}>"]\n',
        },
    )
    assert found.servers[0].args == ("<>",)
    assert spots(city, found.problems) == [
        ("undefined-in-pack", "packs/crew/mcp/docs.template.toml", 4)
    ]


def test_a_text_that_is_not_toml_as_it_stands_is_expanded_first(city: CityBuilder) -> None:
    text = HEAD + '{{ if .HALL }}\ncommand = "npx"\nargs = [{{ q .API_TOKEN }}]\n{{ end }}\n'
    server = one(city, {"agents/mayor/agent.toml": AGENT, "mcp/docs.template.toml": text})
    assert server.args == ('se"cret',)
    assert server.secrets == {'se"cret'}


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        pytest.param(HEAD + "{{ if .HALL }}\n{{ end }}\n\ncommand = {{ .HALL }}\n", "bad-toml", 6,
                     id="not-toml-afterwards"),
        pytest.param(HEAD + '{{ if .HALL }}\ncolour = "{{ .HALL }}"\n{{ end }}\ncommand = "x"\n',
                     "unknown-key", 4, id="a-fault-of-a-key"),
    ],
)  # fmt: skip
def test_faults_of_expanded_text_are_placed_in_the_template(
    city: CityBuilder, text: str, code: str, line: int
) -> None:
    found = effective(city, {"agents/mayor/agent.toml": AGENT, "mcp/docs.template.toml": text})
    assert spots(city, found.problems) == [(code, "mcp/docs.template.toml", line)]


# Secrets


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        ('command = "x"\nargs = ["--api-key", "k-1", "--token=t-1", "plain"]', {"k-1", "t-1"}),
        ('command = "x"\nargs = ["-H", "Authorization: Bearer b-1"]', {"Bearer b-1", "b-1"}),
        ('command = "x"\nargs = ["--token", "${TOKEN}", "--key=${KEY}"]', set()),
        ('command = "x"\n[env]\nAPI_KEY = "k-1"\nLANG = "C"', {"k-1"}),
        ('command = "x"\n[env]\nDB = "postgres://me:pw-1@host/db"', {"me:pw-1", "pw-1"}),
        ('url = "https://me:pw-1@x.test/?token=t-1&page=2"', {"me:pw-1", "pw-1", "t-1"}),
        ('url = "https://x.test"\n[headers]\nAuthorization = "Bearer ${TOKEN}"', set()),
        ('url = "https://x.test"\n[headers]\nX-Api-Key = "k-1"', {"k-1"}),
    ],
)  # fmt: skip
def test_literal_secrets_are_known_and_references_are_none(
    city: CityBuilder, text: str, secrets: set[str]
) -> None:
    assert one(city, {"mcp/docs.toml": HEAD + text + "\n"}).secrets == secrets


def test_an_agents_secret_is_one_wherever_a_template_puts_it(city: CityBuilder) -> None:
    text = (
        'name = "docs"\ndescription = "With {{ .API_TOKEN }}."\ncommand = "npx"\n'
        "args = ['{{ .API_TOKEN }}/x', '{{ urlquery .API_TOKEN }}/y', '{{ .HALL }}']\n"
    )
    server = one(city, {"agents/mayor/agent.toml": AGENT, "mcp/docs.template.toml": text})
    assert server.secrets == {'se"cret', "se%22cret/y"}
    assert server.description == "With …."


def test_a_launch_knows_the_agents_variables_and_then_the_hosts(city: CityBuilder) -> None:
    opened = city({"agents/mayor/prompt.md": "M\n", "agents/mayor/agent.toml": AGENT})
    resolve = launch_value(agent_of(opened, "mayor"), {"HALL": "x", "OTHER": "y"})
    assert (resolve("HALL"), resolve("OTHER"), resolve("NONE")) == ("town", "y", None)
    assert resolve("BY_NAME") is None
    known = launch_value(agent_of(opened, "mayor"), {"HOST_TOKEN": "t"})
    assert known("BY_NAME") == "t"


# A whole city


def test_a_problem_of_many_agents_is_told_once_and_names_them_if_it_is_theirs(
    city: CityBuilder,
) -> None:
    env = '[env]\nONLY = "here"\n'
    opened = city(
        {
            "city.toml": "implicit_agents = false\n",
            **{f"agents/{name}/prompt.md": "x\n" for name in ("clerk", "mayor", "pilot", "teller")},
            "agents/clerk/agent.toml": f'provider = "codex"\n{env}',
            "agents/teller/agent.toml": 'provider = "shell"\n',
            "mcp/docs.toml": SOUND + "colour = 1\n",
            "mcp/only.template.toml": 'name="only"\ndescription="O."\ncommand="{{ .ONLY }}"\n',
        }
    )
    servers = ServerResolver(Prompts(opened, Disk(opened.root), Machine("linux", "2026-01-01")))
    found = [(agent, p) for agent in opened.agents for p in servers.of(agent).problems]
    assert sorted((p.code, p.message) for p in merged_problems(found)) == [
        ("template-failed", ".ONLY is not defined for agent `mayor` and 1 more"),
        ("unknown-key", "`colour` is not an MCP server setting"),
    ]


def test_who_reads_the_second_file_of_a_provider_is_known_even_if_no_agent_is_of_it(
    city: CityBuilder,
) -> None:
    opened = city(
        {"agents/mayor/prompt.md": "M\n", "agents/mayor/agent.toml": 'provider = "copilot"\n'}
    )
    assert "vscode" not in opened.providers
    owners = target_owners(opened, Disk(opened.root))
    assert owners["vscode"].facts.mcp.target == ".vscode/mcp.json"
    assert owners.keys() - opened.providers.keys() == {"vscode"}
