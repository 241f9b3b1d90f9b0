"""Export, then import: nothing is lost but what the export or the import names.

Each example is an agent in memory: it is written in a format, read back by the reader of that
format, and written again. The second file equals the first, so tools mean the same to that tool;
settings that an agent file carries without translating them come back unchanged.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gascity.model.city import Agent, City
from gascity.model.fields import AGENT
from gascity.model.layers import DEFINITION, Layer
from gascity.model.names import AgentName
from gascity.model.pack import AgentDir
from gascity.model.profile import profile_prompt, read_profile
from gascity.pipeline import open_city
from gascity.render.agent_formats.assistant import write_assistant
from gascity.render.agent_formats.binnacle import write_binnacle
from gascity.render.agent_formats.profile import write_profiles
from gascity.render.agent_formats.types import Writer, exported_agent
from gascity.source.decode import decode
from gascity.source.profiles import profile_settings
from gascity.toml.edit import set_fields
from gascity.toml.read import parse_text
from gascity.workdir.export.agents import provider_file
from gascity_migrate.importers import agent_queue, assistant, binnacle, codex, opencode
from gascity_migrate.importers.markdown_agents import (
    read_claude,
    read_copilot,
    read_cursor,
    read_gemini,
)
from gascity_migrate.importers.types import Reader
from tests.migrate.sources import MemoryTree
from tests.support.trees import build_tree

PROVIDERS: Mapping[str, Reader] = {
    "claude": read_claude,
    "codex": codex.read,
    "copilot": read_copilot,
    "cursor": read_cursor,
    "gemini": read_gemini,
    "opencode": opencode.read,
}
# Where the readers look; files of other programs are exported to a directory of the user's.
HOMES: Mapping[str, str] = {"profile": "vault/agent-types/"}
WRITERS: Mapping[str, tuple[Writer, Reader]] = {
    "assistant": (write_assistant, assistant.read),
    "binnacle": (write_binnacle, binnacle.read),
    "profile": (write_profiles, agent_queue.read),
}


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> City:
    root = build_tree(tmp_path_factory.mktemp("round") / "town", {"city.toml": ""})
    return open_city(str(root), {}, all_providers=True)


class Written(NamedTuple):
    """An agent in a format: its files, and the settings that they do not carry."""

    files: Mapping[str, str]
    lost: frozenset[str]


class ReadBack(NamedTuple):
    """An agent that a reader found: its settings as in agent.toml, and its prompt."""

    settings: Mapping[str, object]
    prompt: str
    lost: frozenset[str]


def agent_with(values: Mapping[str, object], provider: str) -> Agent:
    """Return an agent whose agent.toml has these settings, by dotted key."""
    table = parse_text(set_fields("", dict(values)))
    decoded = decode(AGENT, table, "agents/clerk/agent.toml")
    assert decoded.problems == []
    layer = Layer(DEFINITION, "agents/clerk/agent.toml", decoded.values)
    home = AgentDir("clerk", "agents/clerk", ".", (layer,))
    return Agent(AgentName("clerk"), home, "city", (layer,), provider)


def write(town: City, format_name: str, agent: Agent, prompt: str) -> Written:
    if format_name in PROVIDERS:
        provider = town.providers[format_name]
        files = [provider_file(agent, prompt, provider)]
        home = f"{provider.facts.agents.directory}/"
    else:
        home = HOMES.get(format_name, "")
        files = WRITERS[format_name][0]([exported_agent(agent, "clerk", prompt)])
    lost = {loss.field for file in files for losses in file.lost.values() for loss in losses}
    return Written({home + file.path: file.text for file in files}, frozenset(lost))


def read(format_name: str, files: Mapping[str, str]) -> ReadBack:
    reader = PROVIDERS[format_name] if format_name in PROVIDERS else WRITERS[format_name][1]
    found = reader(MemoryTree(files))
    assert [problem for problem in found.problems if problem.is_error] == []
    [imported] = found.agents
    lost = frozenset(loss.key.rpartition(".")[2] for loss in found.lost)
    if "profile.md" in imported.files:  # imported unchanged; it is a definition of its own
        text = imported.files["profile.md"].data.decode()
        profile = profile_settings(text, "profile.md", imported.name)
        assert [problem for problem in profile.problems if problem.is_error] == []
        table = decode(AGENT, profile.table, "profile.md").values
        return ReadBack(table, profile_prompt(read_profile(text)).text, lost)
    values = decode(AGENT, parse_text(set_fields("", dict(imported.settings))), "agent.toml").values
    return ReadBack(values, (imported.prompt or b"").decode(), lost)


def with_dots(values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield settings by dotted key, lists as lists; provider options are settings, too."""
    for name, value in values.items():
        if name == "option_defaults" and isinstance(value, Mapping):
            yield from ((f"{name}.{key}", option) for key, option in value.items())
        else:
            yield name, list(value) if isinstance(value, tuple) else value


_WORD = st.from_regex(r"[a-z][a-z0-9]{0,7}", fullmatch=True)
_TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1
).filter(str.strip)
_TOOLS = st.one_of(
    st.sampled_from(("read", "edit", "write", "shell", "search", "fetch")),
    st.builds("shell({} *)".format, _WORD),
    st.builds("{}/{}".format, _WORD, _WORD),
    st.builds("{}/*".format, _WORD),
)
_LIST = st.lists(_TOOLS, max_size=4, unique=True)
_SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "description": _TEXT,
        "display_name": _TEXT,
        "model": st.builds("{}/{}".format, _WORD, _WORD),
        "mode": st.sampled_from(("primary", "subagent")),
        "hidden": st.just(True),
        "temperature": st.sampled_from((0.0, 0.2, 1, 1.5)),
        "top_p": st.sampled_from((0.1, 1)),
        "steps": st.integers(1, 500),
        "variant": _WORD,
        "color": st.sampled_from(("blue", "#ff8800")),
        "execution": st.just("container"),
        "session_state": st.just("stateless"),
        "option_defaults.permission_mode": st.sampled_from(("plan", "auto-edit", "dont-ask")),
        "option_defaults.effort": st.sampled_from(("low", "high")),
        "tools.allow": _LIST,
        "tools.deny": _LIST,
        "tools.ask": _LIST,
        "tools.exposure": st.sampled_from(("skills", "mixed")),
        "skills_filter.allow": st.lists(_WORD, max_size=2),
        "agents_filter.deny": st.lists(_WORD, min_size=1, max_size=2),
        "capabilities.allow": st.lists(_WORD, max_size=2),
        "mcp_filter.allow": st.lists(_WORD, max_size=2),
        "limits.timeout": st.just("90s"),
        "max_active_sessions": st.integers(2, 9),
    },
)
_LINES = st.one_of(
    st.just(""),
    st.sampled_from(("---", "## Rules", "## Config", "# Title", "```", "~~~", "{{ x }}", "'''")),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Zl", "Zp"))),
)
_PROMPTS = st.lists(_LINES, min_size=1, max_size=6).map("\n".join).filter(str.strip)
# Translated into the words of the tool, so compared by writing the file again.
_TRANSLATED = frozenset(("tools.allow", "tools.deny", "tools.ask"))


@pytest.mark.parametrize("format_name", [*PROVIDERS, *WRITERS])
@given(values=_SETTINGS, prompt=_PROMPTS.map(lambda text: f"{text}\n"))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_agent_comes_back_without_what_is_named_as_lost(
    town: City, format_name: str, values: dict[str, object], prompt: str
) -> None:
    provider = format_name if format_name in PROVIDERS else "claude"
    agent = agent_with(values | {"provider": provider}, provider)
    first = write(town, format_name, agent, prompt)
    back = read(format_name, first.files)
    dotted = dict(with_dots(back.settings))
    again = agent_with(dotted | {"provider": provider}, provider)
    if "prompt" not in first.lost:
        assert back.prompt == prompt
    assert write(town, format_name, again, prompt).files == first.files
    for name, value in values.items():
        table, _, last = name.rpartition(".")
        if (
            not {name, table, last} & first.lost
            and last not in back.lost
            and name not in _TRANSLATED
        ):
            assert dotted.get(name) == value, name
