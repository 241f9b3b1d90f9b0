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
    found = translate({"name": "diver", "pool": POOL})
    assert found.values == {
        "min_active_sessions": 1,
        "max_active_sessions": 4,
        "scale_check": "wc -l < queue",
        "namepool": "names.txt",
        "drain_timeout": "2m",
        "on_boot": "true",
        "on_death": "false",
    }
    assert found.written["max_active_sessions"] == "pool.max"
    assert found.written["scale_check"] == "pool.check"
    assert "pool" not in found.values


def test_everything_a_pool_says_is_a_setting_or_one_we_know_of() -> None:
    for key in translate({"pool": POOL}).values:
        assert key in AGENT.keys or key in AGENT_NOT_ACTED_ON


def test_what_an_agent_says_itself_stands_before_its_pool() -> None:
    found = translate({"max_active_sessions": 2, "pool": {"min": 1, "max": 9}})
    assert found.values == {"max_active_sessions": 2, "min_active_sessions": 1}
    assert found.written == {"min_active_sessions": "pool.min"}
    assert found.dropped == (("pool.max", "overridden by `max_active_sessions`"),)


def test_a_pool_keeps_what_nobody_knows() -> None:
    found = translate({"pool": {"max": 2, "machines": ["a"]}})
    assert found.values == {"max_active_sessions": 2, "pool": {"machines": ["a"]}}


@pytest.mark.parametrize("order", [1, -1])
def test_injected_fragments_stand_before_appended_ones(order: int) -> None:
    written = [("append_fragments", ["b", "a"]), ("inject_fragments", ["a", "c"])]
    found = translate(dict(written[::order]))
    assert found.values == {"append_fragments": ["a", "c", "b"]}
    assert found.written == ({} if order == 1 else {"append_fragments": "inject_fragments"})


def test_a_patch_that_injects_more_fragments_appends_them() -> None:
    found = translate({"agent": "diver", "inject_fragments_append": ["a"]}, patch=True)
    assert found.values == {"append_fragments_append": ["a"]}
    assert found.written == {"append_fragments_append": "inject_fragments_append"}


def test_fragments_of_the_wrong_type_stay_so_that_they_are_reported() -> None:
    both = {"inject_fragments": "a", "append_fragments": ["b"]}
    assert translate(both).values == both
    assert translate({"inject_fragments": "a"}).values == {"append_fragments": "a"}


def test_a_prompt_has_todays_name_except_in_a_patch() -> None:
    table = {"prompt_template": "prompts/diver.md.tmpl"}
    assert translate(table).values == {"prompt": "prompts/diver.md.tmpl"}
    assert translate(table).written == {"prompt": "prompt_template"}
    assert translate(table, patch=True).values == table


def test_two_prompts_stay_two_so_that_they_are_reported() -> None:
    both = {"prompt": "a.md", "prompt_template": "b.md"}
    assert translate(both).values == both


@pytest.mark.parametrize("rig", ["web", "Tables.jl", "a-b_c"])
def test_a_dir_that_is_a_rigs_name_is_where_the_agent_lives(rig: str) -> None:
    found = translate({"name": "diver", "dir": rig})
    assert found.values == {"rigs": [rig]}
    assert found.written == {"rigs": "dir"}
    assert found.identity == {"name": "diver", "dir": rig}


@pytest.mark.parametrize("path", ["/srv/web", "work/web", "~", ".", "../web", "{{.Rig}}"])
def test_any_other_dir_is_where_the_agent_works(path: str) -> None:
    found = translate({"dir": path})
    assert found.values == {"work_dir": path}
    assert found.written == {"work_dir": "dir"}


def test_a_dir_gives_way_to_what_says_the_same_today() -> None:
    assert translate({"dir": "/srv", "work_dir": "x"}).dropped == (
        ("dir", "overridden by `work_dir`"),
    )
    found = translate({"dir": "web", "rigs": ["app"]})
    assert (found.values, found.dropped) == (
        {"rigs": ["app"]},
        (("dir", "overridden by `rigs`"),),
    )


def test_no_dir_and_an_empty_one_are_the_same() -> None:
    assert translate({"dir": ""}).values == {}


def test_where_the_rigs_are_known_any_other_dir_is_where_the_agent_works() -> None:
    assert translate({"dir": "web"}, rigs={"web"}).values == {"rigs": ["web"]}
    assert translate({"dir": "yard"}, rigs={"web"}).values == {"work_dir": "yard"}


def test_what_is_empty_in_a_table_was_never_set() -> None:
    table = {"scope": "", "args": [], "append_fragments": [], "nudge": "a", "pool": {"check": ""}}
    found = translate(table)
    assert found.values == {"nudge": "a"}
    assert found.dropped == ()
    assert found.unset == ("scope", "args", "append_fragments", "pool.check")


def test_in_a_patch_an_empty_text_says_something_and_an_empty_list_only_of_two_keys() -> None:
    table = {"nudge": "", "pre_start": [], "append_fragments": [], "args": []}
    found = translate(table, patch=True)
    assert found.values == {"nudge": "", "args": []}
    assert found.unset == ("pre_start", "append_fragments")
    cleared = translate({"inject_fragments": []}, patch=True)
    assert cleared.values == {"append_fragments": []}


def test_the_dir_of_a_patch_only_says_whom_it_changes() -> None:
    found = translate({"name": "diver", "dir": "web", "nudge": "go"}, patch=True)
    assert found.values == {"nudge": "go"}
    assert found.identity == {"name": "diver", "dir": "web"}


def test_tombstones_are_dropped_with_their_reason() -> None:
    table = {"skills": ["a"], "mcp": [], "shadow": "silent", "skills_append": []}
    found = translate(table)
    assert found.values == {}
    assert dict(found.dropped).keys() == table.keys()
    assert dict(found.dropped)["skills"] == AGENT_NOT_ACTED_ON["skills"]


def test_keys_we_do_not_act_on_and_unknown_ones_stay_for_whoever_reports_them() -> None:
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
    found = translate(table, patch=patch)
    accounted = {
        *(found.written.get(key, key).partition(".")[0] for key in found.values),
        *(key.partition(".")[0] for key, _ in found.dropped),
        *found.identity,
        *found.unset,
    }
    merged = {"inject_fragments", "append_fragments"} if "append_fragments" in found.values else ()
    empty = {key for key, value in table.items() if key == "pool" and value == {}}
    assert set(table) - accounted <= {*merged, *empty}


@given(st.dictionaries(keys, values, max_size=8))
def test_what_was_translated_is_translated_no_further(table: dict[str, object]) -> None:
    once = translate(table).values
    again = translate(once)
    assert again.values == once
