"""New names of v1 agents and packs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gascity.model.names import is_name
from gascity_migrate.names import (
    as_import,
    binding_for,
    distinct_names,
    renamed_reference,
    without_credentials,
)
from gascity_migrate.v1_tables import NamedPack

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_a_name_in_one_dir_stays_unchanged() -> None:
    assert distinct_names([("web", "diver"), ("", "mayor")]) == {
        ("web", "diver"): "diver",
        ("", "mayor"): "mayor",
    }


def test_a_name_in_several_dirs_gets_the_dir_as_prefix() -> None:
    names = distinct_names([("web", "diver"), ("Tables.jl", "diver"), ("", "diver")])
    assert list(names.values()) == ["web--diver", "Tables-jl--diver", "diver"]


def test_the_last_part_of_a_path_becomes_the_prefix() -> None:
    names = distinct_names([("/srv/web/", "diver"), ("/home/web", "diver")])
    assert list(names.values()) == ["web--diver", "web--diver-2"]


def test_existing_names_are_not_reused() -> None:
    names = distinct_names([("web", "diver"), ("app", "diver")], ["Web--diver"])
    assert list(names.values()) == ["web--diver-2", "app--diver"]


def test_references_follow_the_names() -> None:
    names = distinct_names([("web", "diver"), ("app", "diver"), ("", "mayor")])
    assert renamed_reference(names, "web/diver") == "web/web--diver"
    assert renamed_reference(names, "diver", "app") == "app--diver"
    assert renamed_reference(names, "mayor", "app") == "mayor"
    assert renamed_reference(names, "diver") == "diver"
    assert renamed_reference(names, "ferry.diver", "web") == "ferry.diver"
    assert renamed_reference(names, "else/mayor") == "else/mayor"


def test_a_dir_that_is_not_a_rig_is_not_part_of_a_reference() -> None:
    names = distinct_names([("", "diver"), ("yard", "diver"), ("/srv/web", "cook")])
    assert renamed_reference(names, "yard/diver", rigs={"yard"}) == "yard/yard--diver"
    assert renamed_reference(names, "yard/diver", rigs={"web"}) == "yard--diver"
    assert renamed_reference(names, "diver", "yard", {"web"}) == "yard--diver"
    assert renamed_reference(names, "/srv/web/cook") == "cook"
    assert renamed_reference(names, "diver", "web", {"web"}) == "diver"


homes = st.tuples(st.sampled_from(["", "web", "a/web", "Web", "w.e"]), st.sampled_from("xyz"))


@given(st.lists(homes), st.lists(st.sampled_from(["web--x", "w-e--y"])))
def test_all_agents_get_different_names(pairs: list[tuple[str, str]], taken: list[str]) -> None:
    names = distinct_names(pairs, taken)
    assert set(names) == set(pairs)
    lowered = [name.lower() for name in names.values()]
    assert len(set(lowered)) == len(lowered)
    assert not set(lowered) & set(taken)
    assert all(is_name(name) for name in names.values())


@pytest.mark.parametrize(
    ("source", "binding"),
    [
        ("../core", "core"),
        ("packs/ferry/", "ferry"),
        ("https://example.org/o/ferry.git", "ferry"),
        ("https://example.org/o/r.git//packs/ferry#main", "ferry"),
        ("https://github.com/o/r/tree/main/packs/ferry", "ferry"),
        ("git@example.org:ferry.git", "ferry"),
        ("packs/Tables.jl", "Tables-jl"),
        ("..", "pack"),
    ],
)
def test_an_include_is_bound_to_its_last_part(source: str, binding: str) -> None:
    assert binding_for(source, []) == binding
    assert binding_for(source, [binding.upper()]) == f"{binding}-2"


@given(st.text())
def test_every_binding_is_a_name(source: str) -> None:
    assert is_name(binding_for(source, [])[:100])


@pytest.mark.parametrize(
    ("source", "table"),
    [
        ("../core", {"source": "../core"}),
        ("./odd#name", {"source": "./odd#name"}),
        ("https://h/r.git//p#v1.2", {"source": "https://h/r.git//p#v1.2"}),
        (f"https://h/r//p#{COMMIT}", {"source": "https://h/r//p", "version": f"sha:{COMMIT}"}),
        ("ferry", {"source": "https://h/r//packs/ferry#next"}),
        ("pinned", {"source": "git@h:r", "version": f"sha:{COMMIT}"}),
        ("near", {"source": "../near/p"}),
        ("unknown", {"source": "unknown"}),
    ],
)
def test_an_include_is_an_import_of_the_same_content(source: str, table: dict[str, str]) -> None:
    packs = [
        NamedPack("ferry", "https://h/r", "next", "/packs/ferry", ()),
        NamedPack("pinned", "git@h:r", COMMIT, "", ()),
        NamedPack("near", "../near", "main", "p", ()),
    ]
    assert as_import(source, packs) == table


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        ("https://ann:sesame@example.org/a.git", "https://example.org/a.git"),
        ("https://token@example.org/a.git//b#main", "https://example.org/a.git//b#main"),
        ("ssh://git:sesame@example.org/a.git", "ssh://git@example.org/a.git"),
        ("ssh://git@example.org:2222/a.git", "ssh://git@example.org:2222/a.git"),
        ("git@example.org:a/b.git", "git@example.org:a/b.git"),
        ("https://example.org/a@b.git", "https://example.org/a@b.git"),
        ("packs/a@b", "packs/a@b"),
    ],
)
def test_an_import_never_contains_a_password(source: str, plain: str) -> None:
    assert without_credentials(source) == plain
    assert as_import(source)["source"] == plain
