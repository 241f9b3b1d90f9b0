"""Laws of whole cities, on real directories."""

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gascity.model.city import Agent, City
from gascity.model.fields import AGENT, Field, Kind
from gascity.model.names import parse_name
from gascity.pipeline import find_agent, open_agent, open_city
from gascity.source.decode import decode
from tests.support.city import names_of
from tests.support.memory import MEMORY
from tests.support.trees import build_tree

few = settings(max_examples=25)
AGENTS = ("ash", "birch", "cedar", "elm")
RIGS = ("web", "api", "Tables.jl")
SCOPES = ("", 'scope = "city"\n', 'scope = "rig"\n', 'rigs = ["web"]\n')
PATCHES = ('nudge = "n"', "max_active_sessions = 4", 'pre_start = ["x"]', "suspended = true")

scopes = st.tuples(*(st.sampled_from(SCOPES) for _ in AGENTS))
patches = st.lists(
    st.tuples(st.sampled_from(AGENTS), st.sampled_from(RIGS), st.sampled_from(PATCHES)), max_size=4
)


def opened(files: dict[str, str], order: Sequence[str] | None = None) -> City:
    """A city of these files, written in this order."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        root = Path(directory) / "town"
        build_tree(root, {name: files[name] for name in order or files})
        return open_city(str(root), os.environ)


def town(
    scopes: Sequence[str], patches: Sequence[tuple[str, str, str]], rigs: Sequence[str] = RIGS
) -> dict[str, str]:
    """A city that imports a pack of four agents and patches some in single rigs."""
    files = {"packs/trees/pack.toml": '[pack]\nname = "trees"\n'}
    for name, scope in zip(AGENTS, scopes, strict=True):
        files[f"packs/trees/agents/{name}/agent.toml"] = scope
        files[f"packs/trees/agents/{name}/prompt.md"] = f"You are {name}.\n"
    text = '[imports.trees]\nsource = "packs/trees"\n'
    for rig in rigs:
        text += f'[[rigs]]\nname = "{rig}"\npath = "rigs"\n'
        for agent, where, change in patches:
            if where == rig:
                text += f'[[rigs.patches]]\nagent = "trees.{agent}"\n{change}\n'
    return files | {"city.toml": text, "rigs/README.md": ""}


def settings_of(agent: Agent) -> dict[str, object]:
    return {name: setting.value for name, setting in agent.all_settings().items()}


def in_rig(city: City, rig: str | None) -> dict[str, dict[str, object]]:
    return {str(agent.name): settings_of(agent) for agent in city.agents if agent.name.rig == rig}


@few
@given(scopes, patches, st.sampled_from(AGENTS), st.sampled_from(PATCHES))
def test_rigs_do_not_affect_each_other(
    scopes: tuple[str, ...], patches: list[tuple[str, str, str]], agent: str, change: str
) -> None:
    before = opened(town(scopes, patches))
    after = opened(town(scopes, [*patches, (agent, "web", change)]))
    for other in ("api", "Tables.jl", None):
        assert in_rig(after, other) == in_rig(before, other)


@few
@given(scopes, patches, st.permutations(RIGS))
def test_the_order_of_rigs_changes_no_agent(
    scopes: tuple[str, ...], patches: list[tuple[str, str, str]], order: list[str]
) -> None:
    one = opened(town(scopes, patches))
    other = opened(town(scopes, patches, order))
    assert {str(a.name): settings_of(a) for a in one.agents} == {
        str(a.name): settings_of(a) for a in other.agents
    }


@few
@given(scopes, st.randoms(use_true_random=False))
def test_the_order_of_directories_on_disk_does_not_matter(
    scopes: tuple[str, ...], random: object
) -> None:
    files = town(scopes, [])
    order = list(files)
    random.shuffle(order)  # type: ignore[attr-defined]
    one, other = opened(files, order), opened(files)
    assert (one.agents, one.rigs, one.problems) == (other.agents, other.rigs, other.problems)


@few
@given(scopes, patches)
def test_every_agent_is_found_by_the_name_it_is_listed_under(
    scopes: tuple[str, ...], patches: list[tuple[str, str, str]]
) -> None:
    city = opened(town(scopes, patches))
    assert len(set(names_of(city))) == len(city.agents)
    for agent in city.agents:
        assert find_agent(city, str(agent.name)) == agent


@few
@given(scopes, patches, st.sampled_from(AGENTS), st.none() | st.sampled_from(RIGS))
def test_reading_one_agent_tells_what_reading_the_city_tells(
    scopes: tuple[str, ...], patches: list[tuple[str, str, str]], bare: str, rig: str | None
) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        root = str(build_tree(Path(directory) / "town", town(scopes, patches)))
        city = open_city(root, os.environ)
        for agent in city.agents:
            if agent.name.bare == bare and agent.name.rig == rig:
                _, alone = open_agent(root, os.environ, str(agent.name))
                assert (alone.name, settings_of(alone)) == (agent.name, settings_of(agent))


@few
@given(scopes)
def test_scope_decides_where_an_agent_is_placed(scopes: tuple[str, ...]) -> None:
    city = opened(town(scopes, []))
    for name, scope in zip(AGENTS, scopes, strict=True):
        lives = [parse_name(one).rig for one in names_of(city) if parse_name(one).bare == name]
        expected = {
            "": [None],
            SCOPES[1]: [None],
            SCOPES[2]: list(RIGS),
            SCOPES[3]: ["web"],
        }[scope]
        assert lives == expected


DURATION = AGENT.fields["drain_timeout"]
units = st.sampled_from(["ms", "s", "m", "h", "d", "w"])
amounts = st.integers(1, 10_000).map(str) | st.decimals("0.1", "99", places=1).map(str)
durations = st.lists(st.builds(str.__add__, amounts, units), min_size=1, max_size=3).map("".join)


def faults(field: Field, value: object) -> list[str]:
    return [p.code for p in decode(AGENT, {field.name: value}, "agent.toml").problems]


@given(durations)
def test_amounts_with_units_are_durations(text: str) -> None:
    assert faults(DURATION, text) == []


@given(durations, st.sampled_from(["", " ", "-", "+", "x"]), st.booleans())
def test_anything_around_a_duration_spoils_it(text: str, more: str, before: bool) -> None:
    spoilt = more + text if before else text + more
    assert faults(DURATION, spoilt) == ([] if spoilt == text else ["bad-duration"])


@given(st.text(max_size=8))
def test_a_duration_is_amounts_with_units_and_not_nothing(text: str) -> None:
    right = re.fullmatch(r"([0-9]+(\.[0-9]+)?(ms|s|m|h|d|w))+", text) and re.search("[1-9]", text)
    expected = [] if right else ["bad-value"] if "\0" in text else ["bad-duration"]
    assert faults(DURATION, text) == expected


SAMPLES: dict[Kind, st.SearchStrategy[object]] = {
    Kind.STRING: st.text(st.characters(exclude_characters="\0"), max_size=5),
    Kind.INTEGER: st.integers(-(2**40), 2**40),
    Kind.NUMBER: st.floats(allow_nan=False, allow_infinity=False),
    Kind.BOOLEAN: st.booleans(),
    Kind.STRINGS: st.lists(st.text(max_size=3), max_size=2),
    Kind.STRING_MAP: st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
}
anything = st.one_of(*SAMPLES.values())


@given(st.dictionaries(st.sampled_from(sorted(AGENT.keys)) | st.text(max_size=5), anything))
def test_every_written_key_is_either_taken_or_reported(raw: dict[str, object]) -> None:
    decoded = decode(AGENT, raw, "agent.toml")
    assert len(decoded.values) + len(decoded.problems) >= len(
        {key for key in raw if key not in AGENT.aliases}
    )
    for problem in decoded.problems:
        assert problem.place is not None
        assert problem.place.file == "agent.toml"
