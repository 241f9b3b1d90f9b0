"""Laws of the typed settings records: they say what folding the layers says, and nothing else."""

import functools
import typing
from collections.abc import Iterator, Mapping
from typing import Literal, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gascity.model import settings as module
from gascity.model.fields import AGENT, Field, Kind, Table
from gascity.model.layers import (
    CITY_DEFAULTS,
    DEFINITION,
    LOCAL_PATCH,
    Layer,
    SettingsRecord,
    fold_field,
)
from gascity.model.settings import (
    AgentSettings,
    ProviderFacts,
    RigSettings,
    SecuritySettings,
    SessionSettings,
    WorkspaceSettings,
)
from gascity.model.tables import PROVIDER, RIG, SECURITY, SESSION, WORKSPACE
from gascity.model.values import parse_duration

RECORDS: list[tuple[type[SettingsRecord], Table]] = [
    (AgentSettings, AGENT),
    (ProviderFacts, PROVIDER),
    (RigSettings, RIG),
    (WorkspaceSettings, WORKSPACE),
    (SessionSettings, SESSION),
    (SecuritySettings, SECURITY),
]
each_record = pytest.mark.parametrize(("record", "table"), RECORDS)

words = st.sampled_from(["ash", "birch", "cedar", "elm"])
VALUES: dict[Kind, st.SearchStrategy[object]] = {
    Kind.STRING: words,
    Kind.PATH: words,
    Kind.COLOR: st.sampled_from(["red", "#8040ff"]),
    Kind.INTEGER: st.integers(0, 9),
    Kind.NUMBER: st.integers(0, 1) | st.floats(0, 1),
    Kind.BOOLEAN: st.booleans(),
    Kind.DURATION: st.sampled_from(["90s", "1h30m", "5ms"]),
    Kind.STRINGS: st.lists(words, max_size=3).map(tuple),
    Kind.STRING_MAP: st.dictionaries(words, words, max_size=3),
    Kind.ANY_MAP: st.dictionaries(words, st.integers(), max_size=3),
    Kind.TABLES: st.just(({"key": "effort"},)),
}


def written(table: Table, key: str) -> st.SearchStrategy[object]:
    field, edit = table.keys[key]
    if edit.value:
        return VALUES[Kind.STRINGS]
    if field.choices:
        return st.sampled_from(field.choices)
    return VALUES[field.kind]


@st.composite
def stacks(draw: st.DrawFn, table: Table) -> tuple[Layer, ...]:
    """Layers that write every field often enough: each takes a few keys of the table."""
    keys = st.lists(st.sampled_from(sorted(table.keys)), max_size=12, unique=True)
    return tuple(
        Layer(kind, "x.toml", {key: draw(written(table, key)) for key in draw(keys)})
        for kind in (CITY_DEFAULTS, DEFINITION, LOCAL_PATCH)
    )


def read(record: object, name: str) -> object:
    for part in name.split("."):
        record = getattr(record, part)
    return record


def expected(field: Field, value: object) -> object:
    return parse_duration(value) if field.kind is Kind.DURATION else value


@each_record
@given(data=st.data())
def test_every_attribute_is_the_folded_value_in_its_declared_type(
    record: type[SettingsRecord], table: Table, data: st.DataObject
) -> None:
    layers = data.draw(stacks(table))
    values = record(layers)
    for name, field in table.fields.items():
        folded = fold_field(layers, table, name).value
        assert read(values, name) == expected(field, folded), name
        if not field.required:
            assert fits(read(values, name), declared(record, name)), name


@each_record
def test_without_layers_every_attribute_is_the_default(
    record: type[SettingsRecord], table: Table
) -> None:
    for name, field in table.fields.items():
        assert read(record(()), name) == expected(field, field.default), name


@each_record
def test_a_record_declares_the_fields_of_its_table_and_no_others(
    record: type[SettingsRecord], table: Table
) -> None:
    assert sorted(leaves(record)) == sorted(table.fields)


@each_record
@given(data=st.data())
def test_records_are_equal_exactly_if_all_values_are(
    record: type[SettingsRecord], table: Table, data: st.DataObject
) -> None:
    one, other = data.draw(stacks(table)), data.draw(stacks(table))
    same = all(read(record(one), name) == read(record(other), name) for name in table.fields)
    assert (record(one) == record(other)) is same


def test_an_unknown_attribute_is_an_error() -> None:
    with pytest.raises(AttributeError, match="AgentLimits has no attribute 'retrys'"):
        read(AgentSettings(()), "limits.retrys")


def test_an_attribute_is_computed_once() -> None:
    settings = AgentSettings((Layer(DEFINITION, "agent.toml", {"env": {"A": "1"}}),))
    assert settings.env is settings.env
    assert settings.limits is settings.limits


@functools.cache
def hints(record: type[SettingsRecord]) -> dict[str, object]:
    names = {**vars(module), "Mapping": Mapping, "Literal": Literal, "ClassVar": typing.ClassVar}
    found = typing.get_type_hints(record, names)
    return {name: hint for name, hint in found.items() if not name.startswith("_")}


def leaves(record: type[SettingsRecord], prefix: str = "") -> Iterator[str]:
    for name, hint in hints(record).items():
        if isinstance(hint, type) and issubclass(hint, SettingsRecord):
            yield from leaves(hint, f"{prefix}{name}.")
        else:
            yield prefix + name


@functools.cache
def declared(record: type[SettingsRecord], name: str) -> object:
    *path, last = name.split(".")
    for part in path:
        nested = hints(record)[part]
        assert isinstance(nested, type)
        record = nested
    return hints(record)[last]


def fits(value: object, hint: object) -> bool:
    """Is a value of the type that an annotation says?"""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in arguments
    if origin is tuple:
        return isinstance(value, tuple) and all(fits(item, arguments[0]) for item in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(fits(v, arguments[1]) for v in value.values())
    if arguments:  # a union
        return any(fits(value, one) for one in arguments)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    assert isinstance(hint, type)
    return isinstance(value, hint)
