"""Translation of v1 agent tables to current settings."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gascity.model.fields import AGENT
from gascity.model.tables import AGENT_NOT_ACTED_ON
from gascity_migrate.v1_tables import TranslatedAgent, translate

POOL = {
    "min": 1,
    "max": 4,
    "check": "wc -l < queue",
    "namepool": "names.txt",
    "drain_timeout": "2m",
    "on_boot": "true",
    "on_death": "false",
}


def test_a_pool_becomes_settings_of_the_agent_itself() -> None:
    translated = translate({"name": "diver", "pool": POOL})
    assert translated.values == {
        "min_active_sessions": 1,
        "max_active_sessions": 4,
        "scale_check": "wc -l < queue",
        "namepool": "names.txt",
        "drain_timeout": "2m",
        "on_boot": "true",
        "on_death": "false",
    }
    assert translated.written["max_active_sessions"] == "pool.max"
    assert translated.written["scale_check"] == "pool.check"
    assert "pool" not in translated.values


def test_every_pool_key_is_a_known_setting() -> None:
    for key in translate({"pool": POOL}).values:
        assert key in AGENT.keys or key in AGENT_NOT_ACTED_ON


def test_an_agents_own_value_takes_precedence_over_its_pool() -> None:
    translated = translate({"max_active_sessions": 2, "pool": {"min": 1, "max": 9}})
    assert translated.values == {"max_active_sessions": 2, "min_active_sessions": 1}
    assert translated.written == {"min_active_sessions": "pool.min"}
    assert translated.dropped == (("pool.max", "overridden by `max_active_sessions`"),)


def test_a_pool_keeps_unknown_keys() -> None:
    translated = translate({"pool": {"max": 2, "machines": ["a"]}})
    assert translated.values == {"max_active_sessions": 2, "pool": {"machines": ["a"]}}


@pytest.mark.parametrize("order", [1, -1])
def test_injected_fragments_precede_appended_ones(order: int) -> None:
    written = [("append_fragments", ["b", "a"]), ("inject_fragments", ["a", "c"])]
    translated = translate(dict(written[::order]))
    assert translated.values == {"append_fragments": ["a", "c", "b"]}
    assert translated.written == ({} if order == 1 else {"append_fragments": "inject_fragments"})


def test_a_patch_that_injects_more_fragments_appends_them() -> None:
    translated = translate({"agent": "diver", "inject_fragments_append": ["a"]}, patch=True)
    assert translated.values == {"append_fragments_append": ["a"]}
    assert translated.written == {"append_fragments_append": "inject_fragments_append"}


def test_fragments_of_the_wrong_type_are_kept_for_decoding() -> None:
    both = {"inject_fragments": "a", "append_fragments": ["b"]}
    assert translate(both).values == both
    assert translate({"inject_fragments": "a"}).values == {"append_fragments": "a"}


def test_prompt_template_becomes_prompt_except_in_a_patch() -> None:
    table = {"prompt_template": "prompts/diver.md.tmpl"}
    assert translate(table).values == {"prompt": "prompts/diver.md.tmpl"}
    assert translate(table).written == {"prompt": "prompt_template"}
    assert translate(table, patch=True).values == table


def test_two_prompts_are_kept_for_decoding() -> None:
    both = {"prompt": "a.md", "prompt_template": "b.md"}
    assert translate(both).values == both


@pytest.mark.parametrize("rig", ["web", "Tables.jl", "a-b_c"])
def test_a_dir_that_could_be_a_rig_becomes_rigs(rig: str) -> None:
    translated = translate({"name": "diver", "dir": rig})
    assert translated.values == {"rigs": [rig]}
    assert translated.written == {"rigs": "dir"}
    assert translated.identity == {"name": "diver", "dir": rig}


@pytest.mark.parametrize("path", ["/srv/web", "work/web", "~", ".", "../web", "{{.Rig}}"])
def test_any_other_dir_becomes_work_dir(path: str) -> None:
    translated = translate({"dir": path})
    assert translated.values == {"work_dir": path}
    assert translated.written == {"work_dir": "dir"}


def test_current_keys_take_precedence_over_dir() -> None:
    assert translate({"dir": "/srv", "work_dir": "x"}).dropped == (
        ("dir", "overridden by `work_dir`"),
    )
    translated = translate({"dir": "web", "rigs": ["app"]})
    assert (translated.values, translated.dropped) == (
        {"rigs": ["app"]},
        (("dir", "overridden by `rigs`"),),
    )


def test_an_empty_dir_counts_as_not_set() -> None:
    assert translate({"dir": ""}).values == {}


def test_a_dir_that_is_not_a_known_rig_becomes_work_dir() -> None:
    assert translate({"dir": "web"}, rigs={"web"}).values == {"rigs": ["web"]}
    assert translate({"dir": "yard"}, rigs={"web"}).values == {"work_dir": "yard"}


def test_empty_values_in_a_table_count_as_not_set() -> None:
    table = {"scope": "", "args": [], "append_fragments": [], "nudge": "a", "pool": {"check": ""}}
    translated = translate(table)
    assert translated.values == {"nudge": "a"}
    assert translated.dropped == ()
    assert translated.unset == ("scope", "args", "append_fragments", "pool.check")


def test_a_patch_keeps_empty_strings_and_only_two_empty_lists() -> None:
    table = {"nudge": "", "pre_start": [], "append_fragments": [], "args": []}
    translated = translate(table, patch=True)
    assert translated.values == {"nudge": "", "args": []}
    assert translated.unset == ("pre_start", "append_fragments")
    cleared = translate({"inject_fragments": []}, patch=True)
    assert cleared.values == {"append_fragments": []}


def test_the_dir_of_a_patch_only_selects_the_agent() -> None:
    translated = translate({"name": "diver", "dir": "web", "nudge": "go"}, patch=True)
    assert translated.values == {"nudge": "go"}
    assert translated.identity == {"name": "diver", "dir": "web"}


def test_tombstones_are_dropped_with_their_reason() -> None:
    table = {"skills": ["a"], "mcp": [], "shadow": "silent", "skills_append": []}
    translated = translate(table)
    assert translated.values == {}
    assert dict(translated.dropped).keys() == table.keys()
    assert dict(translated.dropped)["skills"] == AGENT_NOT_ACTED_ON["skills"]


def test_ignored_and_unknown_keys_are_kept() -> None:
    table = {"work_query": "x", "rig_filter": ["a"], "install_agent_hooks": ["claude"], "oops": 1}
    assert translate(table) == TranslatedAgent(table, {}, {}, ())


def test_settings_keep_the_order_of_the_file() -> None:
    table = {"nudge": "a", "dir": "web", "pool": {"max": 2}, "prompt_template": "p", "env": {}}
    keys = list(translate(table).values)
    assert keys == ["nudge", "rigs", "max_active_sessions", "prompt", "env"]


OLD = ("pool", "inject_fragments", "prompt_template", "dir", "fallback", "skills", "name")
keys = st.sampled_from([*OLD, *sorted(key for key in AGENT.keys if "." not in key), "unknown"])
values = (
    st.none()
    | st.integers()
    | st.text(string.ascii_letters + "/.", max_size=5)
    | st.lists(st.sampled_from("abc"), max_size=3)
    | st.dictionaries(st.sampled_from([*POOL, "odd"]), st.integers(), max_size=4)
)


@given(st.dictionaries(keys, values, max_size=8), st.booleans())
def test_no_key_is_lost(table: dict[str, object], patch: bool) -> None:
    translated = translate(table, patch=patch)
    accounted = {
        *(translated.written.get(key, key).partition(".")[0] for key in translated.values),
        *(key.partition(".")[0] for key, _ in translated.dropped),
        *translated.identity,
        *translated.unset,
    }
    merged = (
        {"inject_fragments", "append_fragments"} if "append_fragments" in translated.values else ()
    )
    empty = {key for key, value in table.items() if key == "pool" and value == {}}
    assert set(table) - accounted <= {*merged, *empty}


@given(st.dictionaries(keys, values, max_size=8))
def test_translating_twice_changes_nothing(table: dict[str, object]) -> None:
    once = translate(table).values
    again = translate(once)
    assert again.values == once
