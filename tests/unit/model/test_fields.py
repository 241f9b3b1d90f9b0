"""The tables of settings are right by themselves: each field is documented and fits its kind."""

import pytest

from gascity.model import tables
from gascity.model.fields import AGENT, Edit, Field, Kind, Merge, Table
from gascity.model.tables import (
    AGENT_NOT_ACTED_ON,
    CITY_NOT_ACTED_ON,
    CITY_TABLES,
    NOT_ACTED_ON,
    PACK_TABLES,
)
from gascity.source.decode import decode

TABLES = [AGENT, *(one for one in vars(tables).values() if isinstance(one, Table))]
every_table = pytest.mark.parametrize("table", TABLES, ids=[one.name for one in TABLES])


def test_all_tables_are_looked_at() -> None:
    names = {table.name for table in TABLES}
    assert {"agent", "provider", "workspace", "rig", "import", "pack", "mcp", "option"} <= names
    assert len(names) == len(TABLES)


@every_table
def test_a_field_is_documented_in_one_sentence(table: Table) -> None:
    for field in table.fields.values():
        assert field.doc.endswith((".", "…")), field.name
        assert field.doc[0].isupper() or field.doc[0] in "\"'`", field.name
        assert "\n" not in field.doc, field.name


@every_table
def test_a_default_fits_its_kind_and_is_immutable(table: Table) -> None:
    for field in table.fields.values():
        assert not isinstance(field.default, list), field.name
        if field.default is not None:
            assert misfits(table, field) == [], field.name


def misfits(table: Table, field: Field) -> list[str]:
    """What decoding has to say when a file writes the default."""
    raw: object = list(field.default) if isinstance(field.default, tuple) else field.default
    for part in reversed(field.name.split(".")):
        raw = {part: raw}
    assert isinstance(raw, dict)
    return [p.message for p in decode(table, raw, "x").problems if p.code != "missing-key"]


@every_table
def test_choices_have_no_doubles_and_no_stray_spaces(table: Table) -> None:
    for field in table.fields.values():
        assert len(set(field.choices)) == len(field.choices), field.name
        assert all(choice == choice.strip() for choice in field.choices), field.name


@every_table
def test_a_rule_of_merging_fits_the_kind(table: Table) -> None:
    kinds = {
        Merge.REPLACE: set(Kind),
        Merge.OVERLAY: {Kind.STRING_MAP, Kind.ANY_MAP},
        Merge.DEEP: {Kind.ANY_MAP},
        Merge.GROW: {Kind.STRINGS},
        Merge.FRAGMENTS: {Kind.STRINGS},
    }
    for field in table.fields.values():
        assert field.kind in kinds[field.merge], field.name


@every_table
def test_bounds_and_requirements_make_sense(table: Table) -> None:
    for field in table.fields.values():
        assert field.minimum is None or field.kind in (Kind.INTEGER, Kind.NUMBER), field.name
        assert not (field.required and field.default is not None), field.name


@every_table
def test_aliases_lead_to_fields_and_hide_none(table: Table) -> None:
    for old, new in table.aliases.items():
        assert new in table.keys
        assert old not in table.keys


@every_table
def test_no_two_fields_are_written_with_the_same_key(table: Table) -> None:
    edits = sum(
        1 + (f.kind is Kind.STRINGS) + (f.kind in (Kind.STRINGS, Kind.STRING_MAP, Kind.ANY_MAP))
        for f in table.fields.values()
    )
    assert len(table.keys) == edits


@every_table
def test_no_field_is_also_the_name_of_a_table_of_fields(table: Table) -> None:
    """`tools = …` and `tools.allow = …` cannot both be settings."""
    assert not table.prefixes & set(table.fields)


@every_table
def test_every_key_names_its_field(table: Table) -> None:
    for key, (field, edit) in table.keys.items():
        assert key == field.name + edit.value


@pytest.mark.parametrize(
    ("table", "ignored"),
    [
        pytest.param(AGENT, AGENT_NOT_ACTED_ON, id="agent"),
        *(
            pytest.param(next(t for t in TABLES if t.name == name), keys, id=name)
            for name, keys in NOT_ACTED_ON.items()
        ),
    ],
)
def test_no_setting_is_both_acted_on_and_not(table: Table, ignored: dict[str, str]) -> None:
    known = {key.partition(".")[0] for key in (*table.keys, *table.aliases)}
    assert not known & set(ignored)
    assert all(reason and not reason.endswith(".") for reason in ignored.values())


def test_no_table_of_a_file_is_both_read_and_not() -> None:
    assert not set(CITY_NOT_ACTED_ON) & set(CITY_TABLES)
    assert not set(CITY_NOT_ACTED_ON) & set(PACK_TABLES)


@pytest.mark.parametrize(
    ("name", "default"),
    [
        pytest.param("max_active_sessions", 1, id="one-session"),
        pytest.param("min_active_sessions", 0, id="none-without-work"),
        pytest.param("limits.max_attempts", 3, id="three-attempts"),
        pytest.param("limits.retries", 0, id="no-retries"),
        pytest.param("limits.log_bytes", 10_000_000, id="ten-megabytes-of-log"),
        pytest.param("tools.allow", None, id="all-tools"),
        pytest.param("skills_filter.allow", None, id="all-skills"),
        pytest.param("agents_filter.deny", (), id="no-agent-denied"),
        pytest.param("scope", None, id="no-scope"),
        pytest.param("wake_on_mail", True, id="mail-wakes"),
        pytest.param("overlay_tracked", "cover", id="overlays-cover"),
    ],
)
def test_the_defaults_are_those_of_the_design(name: str, default: object) -> None:
    assert AGENT.fields[name].default == default


def test_the_default_session_limit_of_a_city_is_eight() -> None:
    assert tables.WORKSPACE.fields["max_active_sessions"].default == 8


def test_lists_and_maps_can_be_edited_and_scalars_cannot() -> None:
    edits = {key: AGENT.keys[key][1] for key in AGENT.keys}
    assert edits["pre_start_append"] is Edit.APPEND
    assert edits["pre_start_remove"] is Edit.REMOVE
    assert edits["env_remove"] is Edit.REMOVE
    assert "env_append" not in edits
    assert "nudge_append" not in edits
