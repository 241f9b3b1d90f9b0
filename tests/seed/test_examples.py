"""Every picture and TOML block of "agents as directories" that reading a city has to honour."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import tomli

from gascity.compose.asset_dirs import agent_asset_dirs
from gascity.model.city import City
from gascity.model.tables import MCP_SERVER
from gascity.pipeline import find_agent, list_skills, open_agent
from gascity.source.decode import decode
from gascity.source.disk import Disk
from tests.support.city import CityBuilder, agent_of, codes_of, names_of, problem_of
from tests.support.command import Command
from tests.support.trees import build_tree

GASTOWN = {
    "packs/gastown/pack.toml": '[pack]\nname = "gastown"\n',
    "packs/gastown/agents/mayor/prompt.md": "You are the mayor.\n",
    "packs/gastown/agents/polecat/agent.toml": 'scope = "rig"\n',
    "packs/gastown/agents/polecat/prompt.md": "You are a polecat.\n",
}
IMPORTS_GASTOWN = '[imports.gastown]\nsource = "packs/gastown"\n'


def tree(picture: str, **contents: str) -> dict[str, str]:
    """The files of a drawn tree, below its first line; `contents` are by file name, dots as _."""
    files: dict[str, str] = {}
    above: list[str] = []
    for line in picture.strip().splitlines()[1:]:
        drawn = line.partition("#")[0].rstrip()
        name = drawn.lstrip("│├└─ \u00a0")
        if not name:
            continue
        depth = (len(drawn) - len(name)) // 4 - 1
        above[depth:] = [name.rstrip("/")]
        path = "/".join(above)
        parent = "/".join(above[:-1]) + "/"
        files.pop(parent, None)
        key = name.replace(".", "_").replace("-", "_")
        files[path + "/" if name.endswith("/") else path] = (
            "" if name.endswith("/") else contents.get(key, "")
        )
    return files


def below(directory: str, files: Mapping[str, str]) -> dict[str, str]:
    return {f"{directory}/{name}": content for name, content in files.items()}


def asset_dirs(city: City, name: str) -> list[str]:
    agent = agent_of(city, name)
    return [s.path(kind) for s in agent_asset_dirs(city, agent) for kind in sorted(s.catalogues)]


def skills(city: City, name: str | None = None) -> dict[str, tuple[str, str]]:
    agent = agent_of(city, name) if name else None
    found = list_skills(city, Disk(city.root), agent)
    return {one.skill.name: (one.skill.description, one.skill.path) for one in found}


def test_a_directory_with_a_prompt_is_an_agent(city: CityBuilder) -> None:
    """S3-01 S3-02: the minimal agent."""
    files = tree("""
agents/polecat/
└── prompt.md
""")
    town = city(below("agents/polecat", files))
    agent = agent_of(town, "polecat")
    assert agent.settings.prompt == "agents/polecat/prompt.md"
    written = [
        name for name, setting in agent.all_settings().items() if setting.kind == "definition"
    ]
    assert written == ["prompt"]
    assert codes_of(town) == []


def test_a_template_prompt_makes_an_agent_too(city: CityBuilder) -> None:
    """S3-01: `prompt.template.md` instead of `prompt.md`."""
    town = city({"agents/mayor/prompt.template.md": "{{ .Agent }}\n"})
    assert agent_of(town, "mayor").settings.prompt == "agents/mayor/prompt.template.md"
    assert codes_of(town) == []


def test_agent_toml_overrides_defaults(city: CityBuilder) -> None:
    """S3-02: agent with config overrides."""
    files = tree(
        """
agents/mayor/
├── agent.toml         # optional — overrides defaults
└── prompt.md          # required — the system prompt
""",
        agent_toml='nudge = "own"\n',
    )
    defaults = {"city.toml": '[agent_defaults]\nnudge = "default"\nidle_timeout = "5m"\n'}
    town = city(below("agents/mayor", files) | defaults)
    mayor = agent_of(town, "mayor")
    assert (mayor.settings.nudge, mayor.settings.idle_timeout) == ("own", 300.0)
    assert codes_of(town) == []


def test_a_fully_configured_agent_brings_all_its_assets(city: CityBuilder) -> None:
    """S3-03: the fully configured agent."""
    files = tree("""
agents/mayor/
├── agent.toml         # optional — overrides defaults
├── prompt.md          # required — the system prompt
├── namepool.txt       # optional — display names for pool sessions
├── overlay/           # optional — agent-specific overlay files
│   ├── AGENTS.md      # provider-agnostic instructions (copied for all providers)
│   └── per-provider/
│       └── claude/
├── skills/            # optional — agent-specific skills
├── mcp/               # optional — agent-specific MCP servers
└── template-fragments/ # optional — agent-specific prompt fragments
""")
    assert "overlay/per-provider/claude/" in files
    town = city(below("agents/mayor", files))
    assert asset_dirs(town, "mayor") == [
        "agents/mayor/mcp",
        "agents/mayor/overlay",
        "agents/mayor/skills",
        "agents/mayor/template-fragments",
    ]
    assert agent_of(town, "mayor").settings.namepool == "agents/mayor/namepool.txt"
    assert codes_of(town) == []


FULL_CITY = """
my-city/
├── city.toml
├── agents/
│   ├── polecat/
│   │   └── prompt.md
│   └── mayor/
│       ├── agent.toml
│       └── prompt.md
├── overlay/                   # city-wide overlays (all agents)
│   ├── per-provider/
│   │   ├── claude/
│   │   │   ├── .claude/
│   │   │   │   └── settings.json
│   │   │   └── CLAUDE.md
│   │   └── codex/
│   │       └── AGENTS.md
│   └── .editorconfig          # provider-agnostic (all agents)
├── skills/                    # city-wide skills (all agents)
├── mcp/                       # city-wide MCP servers (all agents)
├── template-fragments/        # city-wide prompt template fragments
├── formulas/
├── orders/
├── commands/
├── doctor/
├── patches/
└── assets/
"""


def test_a_full_city_reads_without_a_word(city: CityBuilder) -> None:
    """S3-04: the full city with city-wide assets and multiple agents."""
    town = city(tree(FULL_CITY))
    assert names_of(town) == ["mayor", "polecat", "shell"]
    assert codes_of(town) == []


def test_city_wide_assets_reach_every_agent(city: CityBuilder) -> None:
    """S3-04: "(all agents)" beside each of the city's catalogues."""
    town = city(tree(FULL_CITY))
    for name in names_of(town):
        assert asset_dirs(town, name) == ["mcp", "overlay", "skills", "template-fragments"]


def test_defaults_stand_in_pack_and_city_with_the_city_on_top(city: CityBuilder) -> None:
    """S3-06: `[agent_defaults]` of pack.toml and of city.toml."""
    town = city(
        {
            "pack.toml": """
# pack.toml — pack-wide defaults
[agent_defaults]
default_sling_formula = "mol-do-work"
""",
            "city.toml": """
# city.toml — city-level overrides (optional)
[agent_defaults]
append_fragments = ["operational-awareness"]
""",
            "agents/polecat/prompt.template.md": "",
        }
    )
    polecat = agent_of(town, "polecat")
    formula, fragments = (polecat.setting(n) for n in ("default_sling_formula", "append_fragments"))
    assert (formula.value, formula.kind) == ("mol-do-work", "pack defaults")
    assert (fragments.value, fragments.kind) == (("operational-awareness",), "city defaults")
    assert codes_of(town) == []


def test_the_city_layers_its_defaults_over_those_of_the_pack(city: CityBuilder) -> None:
    """S3-06: "with city layering on top of pack"."""
    town = city(
        {
            "pack.toml": '[agent_defaults]\nnudge = "pack"\n',
            "city.toml": '[agent_defaults]\nnudge = "city"\n',
            "agents/polecat/prompt.md": "",
        }
    )
    chain = agent_of(town, "polecat").setting("nudge").chain()
    assert [setting.value for setting in chain] == ["city", "pack", None]


def test_an_agent_overrides_in_its_own_file(city: CityBuilder) -> None:
    """S3-08: the mayor's agent.toml."""
    town = city(
        {
            "agents/mayor/agent.toml": """
# agents/mayor/agent.toml — only what differs from defaults
scope = "city"
max_active_sessions = 1
""",
            "agents/mayor/prompt.md": "",
        }
    )
    mayor = agent_of(town, "mayor")
    assert (mayor.settings.scope, mayor.settings.max_active_sessions) == ("city", 1)
    assert codes_of(town) == []


def test_a_prompt_alone_inherits_every_default(city: CityBuilder) -> None:
    """S3-02 S3-07: all defaults are inherited, not the two of v0.15.0 (design D3)."""
    town = city(
        {
            "city.toml": '[agent_defaults]\nprovider = "codex"\nmax_active_sessions = 7\n'
            'idle_timeout = "5m"\n[agent_defaults.env]\nA = "1"\n',
            "agents/polecat/prompt.md": "",
        }
    )
    polecat = agent_of(town, "polecat")
    assert polecat.provider == "codex"
    assert polecat.settings.max_active_sessions == 7
    assert polecat.settings.idle_timeout == 300.0
    assert polecat.settings.env["A"] == "1"


def test_a_default_scope_is_inherited_like_any_other(city: CityBuilder) -> None:
    """S3-02: every default, `scope` too."""
    town = city(
        {
            "city.toml": 'implicit_agents = false\n[agent_defaults]\nscope = "rig"\n'
            '[[rigs]]\nname = "web"\npath = "web"\n',
            "web/": "",
            "agents/polecat/prompt.md": "",
        }
    )
    assert names_of(town) == ["web/polecat"]


def test_a_pool_is_configuration(city: CityBuilder) -> None:
    """S3-10: the polecat's bounds."""
    town = city(
        {
            "agents/polecat/agent.toml": """
# agents/polecat/agent.toml
min_active_sessions = 1
max_active_sessions = 3
""",
            "agents/polecat/prompt.md": "",
        }
    )
    polecat = agent_of(town, "polecat")
    assert (polecat.settings.min_active_sessions, polecat.settings.max_active_sessions) == (1, 3)
    assert codes_of(town) == []


def test_a_name_pool_is_a_file_and_no_setting(city: CityBuilder) -> None:
    """S3-12: `namepool.txt`, "no TOML field needed"."""
    files = {"agents/polecat/prompt.md": "", "agents/polecat/namepool.txt": "ash\nbirch\n"}
    setting = agent_of(city(files), "polecat").setting("namepool")
    assert setting.value == "agents/polecat/namepool.txt"
    assert setting.place is not None
    assert setting.place.file == "agents/polecat/namepool.txt"


def test_all_instances_of_a_pool_share_one_definition(city: CityBuilder) -> None:
    """S3-13: three sessions, one agent."""
    town = city({"agents/polecat/agent.toml": "max_active_sessions = 3\ndescription = 'x'\n"})
    assert names_of(town).count("polecat") == 1


def test_kiro_args_are_replaced_as_a_whole(city: CityBuilder) -> None:
    """S3-20: `[providers.kiro] args`."""
    town = city(
        {
            "city.toml": """
[providers.kiro]
args = ["chat", "--no-interactive", "--agent", "gascity"]
""",
        }
    )
    assert town.providers["kiro"].facts.args == (
        "chat",
        "--no-interactive",
        "--agent",
        "gascity",
    )
    assert agent_of(town, "kiro").settings.args == (
        "chat",
        "--no-interactive",
        "--agent",
        "gascity",
    )
    assert codes_of(town) == []


def test_kiro_trusts_all_tools_until_someone_says_otherwise(city: CityBuilder) -> None:
    """S3-19: the built-in argv of kiro."""
    town = city({"city.toml": '[workspace]\nprovider = "kiro"\n'})
    kiro = town.providers["kiro"]
    assert kiro.facts.command == "kiro-cli"
    assert kiro.facts.args == (
        "chat",
        "--no-interactive",
        "--agent",
        "gascity",
        "--trust-all-tools",
    )


SKILL = """\
---
name: code-review
description: Reviews code changes for bugs, security issues, and style. Use when reviewing PRs \
or changed files.
---
"""


def test_a_skill_is_a_directory_with_front_matter(city: CityBuilder) -> None:
    """S3-21: the code-review skill."""
    files = tree(
        """
skills/code-review/
├── SKILL.md               # required: metadata + instructions
├── scripts/               # optional: executable code
├── references/            # optional: documentation
└── assets/                # optional: templates, resources
""",
        SKILL_md=SKILL,
    )
    town = city(below("skills/code-review", files))
    description, path = skills(town)["code-review"]
    assert description.startswith("Reviews code changes for bugs, security issues, and style.")
    assert path == "skills/code-review"


SKILLED_CITY = tree(
    """
my-city/
├── skills/                    # city-wide — available to all agents
│   ├── code-review/
│   │   └── SKILL.md
│   └── test-runner/
│       ├── SKILL.md
│       └── scripts/
│           └── run-tests.sh
├── agents/
│   └── polecat/
│       └── skills/            # agent-specific — only this agent
│           └── polecat-workflow/
│               └── SKILL.md
""",
    SKILL_md="---\nname: a-skill\ndescription: A skill.\n---\n",
) | {"agents/polecat/prompt.md": "", "agents/mayor/prompt.md": ""}


def test_an_agent_gets_the_citys_skills_and_its_own(city: CityBuilder) -> None:
    """S3-22: city-wide and agent-specific skills."""
    town = city(SKILLED_CITY)
    assert list(skills(town, "polecat")) == ["code-review", "polecat-workflow", "test-runner"]
    assert list(skills(town, "mayor")) == ["code-review", "test-runner"]


def test_an_agents_own_skill_wins_on_name_collision(city: CityBuilder) -> None:
    """S3-22: "Agent-specific wins on name collision."."""
    mine = {
        "agents/polecat/skills/code-review/SKILL.md": "---\nname: mine\ndescription: Mine.\n---\n"
    }
    town = city(SKILLED_CITY | mine)
    assert skills(town, "polecat")["code-review"] == ("Mine.", "agents/polecat/skills/code-review")
    assert skills(town, "mayor")["code-review"] == ("A skill.", "skills/code-review")


def test_skills_are_listed_for_the_city_and_for_one_agent(run: Command, tmp_path: Path) -> None:
    """S3-24: `skill list` and `skill list --agent polecat`."""
    root = build_tree(tmp_path / "town", SKILLED_CITY | {"city.toml": ""})
    listed = run("skill", "list", "--agent", "polecat", "--json", cwd=root).json["skills"]
    assert {s["name"]: s["origin"] for s in listed} == {
        "code-review": "city",
        "polecat-workflow": "agent",
        "test-runner": "city",
    }
    everything = run("skill", "list", "--json", cwd=root).json["skills"]
    assert [s["name"] for s in everything] == ["code-review", "test-runner", "polecat-workflow"]


MCP = {
    "local": """
# mcp/beads-health.toml
name = "beads-health"
description = "Query bead status and health metrics"
command = "scripts/mcp-beads-health.sh"
args = ["--city-root", "."]

[env]
BEADS_DB = ".beads"
""",
    "template": """
# mcp/beads-health.template.toml
name = "beads-health"
description = "Query bead status and health metrics"
command = "assets/mcp-beads-health.sh"
args = ["--city-root", "{{.CityRoot}}"]

[env]
BEADS_DB = "{{.RigRoot}}/.beads"
""",
    "remote": """
# mcp/sentry.template.toml — .template.toml triggers Go template expansion
name = "sentry"
description = "Sentry error tracking integration"
url = "https://mcp.sentry.io/sse"

[headers]
Authorization = "Bearer {{.SENTRY_TOKEN}}"
""",
}


@pytest.mark.parametrize("text", MCP.values(), ids=MCP)
def test_an_mcp_server_is_toml_whose_every_key_is_known(text: str) -> None:
    """S3-29 S3-33: the definition format and its field spec."""
    raw = tomli.loads(text)
    decoded = decode(MCP_SERVER, raw, "mcp/x.toml")
    assert decoded.problems == []
    assert decoded.values["name"] == raw["name"]


@pytest.mark.parametrize("missing", ["name", "description"])
def test_an_mcp_server_needs_a_name_and_a_description(missing: str) -> None:
    """S3-32: the two fields marked "Yes" in the field spec."""
    raw = {k: v for k, v in tomli.loads(MCP["local"]).items() if k != missing}
    (problem,) = decode(MCP_SERVER, raw, "mcp/x.toml").problems
    assert problem.code == "missing-key"
    assert problem.message.startswith(f"`{missing}` is missing")


def test_fragments_live_in_a_directory_of_the_city(city: CityBuilder) -> None:
    """S3-47: the picture with template-fragments/."""
    town = city(
        tree("""
my-city/
├── template-fragments/
│   ├── command-glossary.template.md
│   ├── operational-awareness.template.md
│   └── tdd-discipline.template.md
├── agents/
│   ├── mayor/
│   │   └── prompt.template.md
│   └── polecat/
│       └── prompt.md
""")
    )
    assert asset_dirs(town, "mayor") == ["template-fragments"]
    assert agent_of(town, "mayor").settings.prompt == "agents/mayor/prompt.template.md"
    assert codes_of(town) == []


def test_fragments_are_appended_when_pack_or_city_ask_for_it(city: CityBuilder) -> None:
    """S3-50: auto-append."""
    block = """
# pack.toml or city.toml
[agent_defaults]
append_fragments = ["operational-awareness", "command-glossary"]
"""
    for file in ("pack.toml", "city.toml"):
        other = CityBuilder(city.root / file.partition(".")[0])
        town = other({file: block, "agents/mayor/prompt.template.md": ""})
        fragments = agent_of(town, "mayor").settings.append_fragments
        assert fragments == ("operational-awareness", "command-glossary"), file


def test_an_agent_table_is_refused_with_the_way_out(city: CityBuilder) -> None:
    """S3-05 S3-50: `[[agent]]` tables are replaced by directories."""
    town = city(
        {
            "city.toml": """
[[agent]]
name = "mayor"
prompt_template = "agents/mayor/prompt.template.md"
append_fragments = ["mayor-footer"]
""",
            "agents/mayor/prompt.template.md": "",
        }
    )
    problem = problem_of(town, "agent-table")
    assert problem.is_error
    assert problem.hint is not None
    assert "city migrate" in problem.hint
    assert "mayor" in names_of(town)


def test_an_agents_own_fragments_come_first_then_the_packs_then_the_citys(
    city: CityBuilder,
) -> None:
    """S3-51: layering order of append_fragments, without duplicates."""
    town = city(
        GASTOWN
        | {
            "city.toml": IMPORTS_GASTOWN
            + '[agent_defaults]\nappend_fragments = ["city", "both"]\n',
            "packs/gastown/pack.toml": '[pack]\nname = "gastown"\n'
            '[agent_defaults]\nappend_fragments = ["pack", "both"]\n',
            "packs/gastown/agents/mayor/agent.toml": 'append_fragments = ["mayor-footer"]\n',
        }
    )
    fragments = agent_of(town, "gastown.mayor").settings.append_fragments
    assert fragments == ("mayor-footer", "pack", "both", "city")


def test_every_configured_provider_has_an_agent(city: CityBuilder) -> None:
    """S3-54: claude, codex and gemini without any agent configuration."""
    town = city(
        {
            "city.toml": '[workspace]\nprovider = "claude"\n'
            "[providers.codex]\n[providers.gemini]\n",
        }
    )
    assert names_of(town) == ["claude", "codex", "gemini", "shell"]
    assert [agent.provider for agent in town.agents] == names_of(town)
    assert codes_of(town) == []


def test_an_unconfigured_provider_answers_to_its_name(city: CityBuilder) -> None:
    """S3-54: a built-in provider's name is accepted wherever an agent's is (design D2)."""
    town = city({"city.toml": '[workspace]\nprovider = "claude"\n'})
    assert "codex" not in names_of(town)
    _, agent = open_agent(str(city.root), os.environ, "codex")
    assert (str(agent.name), agent.provider, agent.layer) == ("codex", "codex", "built-in")


def test_implicit_agents_are_written_by_init_in_the_same_convention(
    run: Command, tmp_path: Path
) -> None:
    """S3-55: `.gc/system/agents/<provider>/prompt.md`."""
    root = tmp_path / "town"
    root.mkdir()
    assert run("init", cwd=root).code == 0
    rows = run("agent", "list", "--json", cwd=root).json["agents"]
    implicit = [row["name"] for row in rows if row["layer"] == "built-in"]
    assert implicit
    for name in implicit:
        assert (root / ".gc/system/agents" / name / "prompt.md").is_file(), name


def test_a_written_implicit_agent_is_read_from_where_it_was_written(city: CityBuilder) -> None:
    """S3-55: the picture of `.gc/system/agents/`."""
    files = tree("""
.gc/system/agents/
├── claude/
│   └── prompt.md
├── codex/
│   └── prompt.md
└── gemini/
    └── prompt.md
""")
    providers = {"city.toml": "[providers.claude]\n[providers.codex]\n[providers.gemini]\n"}
    town = city(below(".gc/system/agents", files) | providers)
    homes = {str(a.name): a.home.directory for a in town.agents}
    assert homes["codex"] == ".gc/system/agents/codex"
    assert agent_of(town, "gemini").layer == "built-in"


@pytest.mark.parametrize(
    ("own", "packed", "meant"),
    [
        pytest.param(False, False, ("claude", "built-in"), id="system-implicit"),
        pytest.param(False, True, ("gastown.claude", "pack"), id="pack-over-system"),
        pytest.param(True, True, ("claude", "city"), id="city-over-pack"),
        pytest.param(True, False, ("claude", "city"), id="city-over-system"),
    ],
)
def test_a_name_means_the_citys_agent_before_the_packs_before_the_implicit_one(
    city: CityBuilder, own: bool, packed: bool, meant: tuple[str, str]
) -> None:
    """S3-56: the priority chain of shadowing."""
    files = GASTOWN | {"city.toml": IMPORTS_GASTOWN + '[workspace]\nprovider = "claude"\n'}
    files |= {"packs/gastown/agents/claude/prompt.md": "pack\n"} if packed else {}
    files |= {"agents/claude/prompt.md": "city\n"} if own else {}
    agent = find_agent(city(files), "claude")
    assert agent is not None
    assert (str(agent.name), agent.layer) == meant


def test_a_directory_is_your_own_agent_and_a_patch_changes_anothers(city: CityBuilder) -> None:
    """S3-57: "Never conflated."."""
    town = city(
        GASTOWN
        | {
            "city.toml": IMPORTS_GASTOWN
            + '[[patches.agent]]\nname = "gastown.mayor"\nnudge = "patched"\n',
            "agents/mayor/prompt.md": "Mine.\n",
        }
    )
    assert agent_of(town, "mayor").settings.nudge is None
    assert agent_of(town, "mayor").settings.prompt == "agents/mayor/prompt.md"
    assert agent_of(town, "gastown.mayor").settings.nudge == "patched"


def test_a_bare_name_is_enough_for_a_patch_when_it_is_unambiguous(city: CityBuilder) -> None:
    """S3-58: "Bare names work when unambiguous."."""
    town = city(
        GASTOWN
        | {"city.toml": IMPORTS_GASTOWN + '[[patches.agent]]\nname = "mayor"\nnudge = "patched"\n'}
    )
    assert agent_of(town, "gastown.mayor").settings.nudge == "patched"
    assert "patches-own-agent" not in codes_of(town)


def test_a_bare_name_in_a_patch_means_the_imported_agent(city: CityBuilder) -> None:
    """S3-57 S3-58: patches modify someone else's agent, even beside an own one of the name."""
    town = city(
        GASTOWN
        | {
            "city.toml": IMPORTS_GASTOWN + '[[patches.agent]]\nname = "mayor"\nnudge = "patched"\n',
            "agents/mayor/prompt.md": "Mine.\n",
        }
    )
    assert agent_of(town, "gastown.mayor").settings.nudge == "patched"
    assert agent_of(town, "mayor").settings.nudge is None


CONFIG_PATCH = """
# city.toml
[[patches.agent]]
name = "gastown.mayor"
model = "claude-opus-4-20250514"
max_active_sessions = 2

[patches.agent.env]
REVIEW_MODE = "strict"
"""


def test_a_config_patch_overrides_any_setting(city: CityBuilder) -> None:
    """S3-59: the config-only patch."""
    files = GASTOWN | {"packs/gastown/agents/mayor/agent.toml": '[env]\nHALL = "town"\n'}
    rigs = '[[rigs]]\nname = "web"\npath = "web"\n'
    town = city(files | {"city.toml": IMPORTS_GASTOWN + CONFIG_PATCH + rigs, "web/": ""})
    mayor = agent_of(town, "gastown.mayor")
    assert mayor.settings.model == "claude-opus-4-20250514"
    assert mayor.settings.max_active_sessions == 2
    env = mayor.settings.env
    assert isinstance(env, Mapping)
    assert (env["REVIEW_MODE"], env["HALL"]) == ("strict", "town")
    assert codes_of(town) == []


PROMPT_PATCH = """
[[patches.agent]]
name = "gastown.mayor"
prompt = "gastown-mayor-prompt.md"     # relative to patches/
"""


def test_a_prompt_patch_redirects_to_a_file_under_patches(city: CityBuilder) -> None:
    """S3-60: prompt replacement and its picture."""
    files = tree(
        """
my-city/
├── city.toml
├── agents/                    # YOUR agents only
└── patches/                   # all patch-related files
    └── gastown-mayor-prompt.md
""",
        city_toml=IMPORTS_GASTOWN + PROMPT_PATCH,
        gastown_mayor_prompt_md="Stricter.\n",
    )
    town = city(GASTOWN | files)
    prompt = agent_of(town, "gastown.mayor").setting("prompt")
    assert prompt.value == "patches/gastown-mayor-prompt.md"
    assert prompt.kind == "city patch"
    assert codes_of(town) == ["no-rigs"]


RIG_PATCH = """
# city.toml
[[rigs]]
name = "api-server"

# polecat in api-server gets 2 sessions; other rigs unaffected
[[rigs.patches]]
agent = "gastown.polecat"
max_active_sessions = 2
"""


def test_a_rig_patch_changes_one_rig_and_leaves_the_others(city: CityBuilder) -> None:
    """S3-62: polecat in api-server."""
    town = city(GASTOWN | {"city.toml": IMPORTS_GASTOWN + RIG_PATCH + '\n[[rigs]]\nname = "web"\n'})
    assert agent_of(town, "api-server/gastown.polecat").settings.max_active_sessions == 2
    assert agent_of(town, "web/gastown.polecat").settings.max_active_sessions == 1
    assert set(codes_of(town)) == {"rig-unbound"}


def test_an_agent_patch_reaches_all_rigs(city: CityBuilder) -> None:
    """S3-62: the table of mechanisms and scopes."""
    text = IMPORTS_GASTOWN + RIG_PATCH + '\n[[rigs]]\nname = "web"\n'
    text += '[[patches.agent]]\nname = "gastown.polecat"\nnudge = "all"\n'
    town = city(GASTOWN | {"city.toml": text})
    for rig in ("api-server", "web"):
        assert agent_of(town, f"{rig}/gastown.polecat").settings.nudge == "all"


def test_later_patches_win_and_a_rig_can_undo_the_city(city: CityBuilder) -> None:
    """S3-63: definition, pack patches, city patches, rig patches."""
    town = city(
        {
            "city.toml": '[imports.outer]\nsource = "outer"\n'
            '[[patches.agent]]\nname = "outer.polecat"\nnudge = "3 city"\n'
            '[[rigs]]\nname = "web"\n'
            '[[rigs.patches]]\nagent = "outer.polecat"\nnudge = "4 rig"\n'
            '[[rigs]]\nname = "api"\n',
            "outer/pack.toml": '[pack]\nname = "outer"\n[imports.inner]\nsource = "../inner"\n'
            '[[patches.agent]]\nname = "inner.polecat"\nnudge = "2 pack"\n',
            "inner/pack.toml": '[pack]\nname = "inner"\n',
            "inner/agents/polecat/agent.toml": 'scope = "rig"\nnudge = "1 definition"\n',
            "inner/agents/polecat/prompt.md": "",
        }
    )
    web = agent_of(town, "web/outer.polecat").setting("nudge").chain()
    api = agent_of(town, "api/outer.polecat").setting("nudge").chain()
    order = ["4 rig", "3 city", "2 pack", "1 definition", None]
    assert [setting.value for setting in web] == order
    assert [setting.value for setting in api] == order[1:]


def test_the_older_name_of_rig_patches_still_works(city: CityBuilder) -> None:
    """S3-64: `[[rigs.overrides]]` is renamed `[[rigs.patches]]`."""
    text = IMPORTS_GASTOWN + RIG_PATCH.replace("rigs.patches", "rigs.overrides")
    town = city(GASTOWN | {"city.toml": text})
    assert agent_of(town, "api-server/gastown.polecat").settings.max_active_sessions == 2
    problem = problem_of(town, "older-spelling")
    assert not problem.is_error
    assert problem.hint == "write [[rigs.patches]]"


def test_the_older_name_of_agent_defaults_still_works(city: CityBuilder) -> None:
    """S3-09: `[agents]` remains a compatibility alias only."""
    town = city({"city.toml": '[agents]\nnudge = "older"\n', "agents/polecat/prompt.md": ""})
    assert agent_of(town, "polecat").settings.nudge == "older"
    assert not problem_of(town, "older-spelling").is_error


def test_an_agent_named_after_a_provider_may_use_another(city: CityBuilder) -> None:
    """S3-68: naming is just convention, and the convention is the fallback."""
    town = city(
        {
            "city.toml": '[workspace]\nprovider = "gemini"\n',
            "agents/claude/agent.toml": 'provider = "codex"\n',
            "agents/claude/prompt.md": "",
            "agents/codex/prompt.md": "",
            "agents/mayor/prompt.md": "",
        }
    )
    providers = {str(agent.name): agent.provider for agent in town.agents}
    assert (providers["claude"], providers["codex"], providers["mayor"]) == (
        "codex",
        "codex",
        "gemini",
    )


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        pytest.param("", ["claude", "codex", "shell"], id="unsaid"),
        pytest.param("implicit_agents = true", ["claude", "codex", "shell"], id="true"),
        pytest.param("implicit_agents = false", [], id="false"),
        pytest.param('implicit_agents = ["codex"]', ["codex"], id="a-list"),
        pytest.param("implicit_agents = []", [], id="an-empty-list"),
    ],
)
def test_a_city_says_which_implicit_agents_it_keeps(
    city: CityBuilder, line: str, kept: list[str]
) -> None:
    """S3-69: a provider is configured without its implicit agent."""
    text = f'{line}\n[workspace]\nprovider = "claude"\n[providers.codex]\n'
    town = city({"city.toml": text})
    assert names_of(town) == kept
    assert {"claude", "codex"} <= set(town.providers)


@pytest.mark.parametrize("file", ["mayor.md", "gastown/mayor.md"], ids=["flat", "nested"])
def test_patches_may_be_flat_or_namespaced(city: CityBuilder, file: str) -> None:
    """S3-70: both directory structures."""
    patch = f'[[patches.agent]]\nname = "gastown.mayor"\nprompt = "{file}"\n'
    town = city(GASTOWN | {"city.toml": IMPORTS_GASTOWN + patch, f"patches/{file}": "Other.\n"})
    assert agent_of(town, "gastown.mayor").settings.prompt == f"patches/{file}"


def test_patch_is_the_one_word(city: CityBuilder, run: Command) -> None:
    """S3-71: explanations say patch at every scope."""
    text = IMPORTS_GASTOWN + CONFIG_PATCH + RIG_PATCH
    city(GASTOWN | {"city.toml": text})
    name = "api-server/gastown.polecat"
    ran = run("agent", "explain", name, "max_active_sessions", "--json", cwd=city.root)
    layers = [step["layer"] for step in json.loads(ran.out)["fields"]["max_active_sessions"]]
    assert layers == ["rig patch", "default"]
