"""JSON schemas of the files users write, generated from the tables that decode them."""

from collections.abc import Mapping

from gascity.model.fields import AGENT, Edit, Field, Kind, Table
from gascity.model.tables import (
    AGENT_NOT_ACTED_ON,
    CITY_NOT_ACTED_ON,
    IMPORT,
    MCP_SERVER,
    MCP_TOOL,
    NAMED_SESSION,
    NOT_ACTED_ON,
    NOTIFY,
    OPTION,
    PACK,
    PROVIDER,
    RIG,
    SECURITY,
    SESSION,
    TEMPLATES,
    WORKSPACE,
)

Schema = dict[str, object]

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_STRINGS: Schema = {"type": "array", "items": {"type": "string"}}
_KINDS: Mapping[Kind, Schema] = {
    Kind.STRING: {"type": "string"},
    Kind.PATH: {"type": "string"},
    Kind.COLOR: {"type": "string", "pattern": "^(#[0-9a-fA-F]{6}|[A-Za-z]+)$"},
    Kind.DURATION: {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d|w))+$"},
    Kind.INTEGER: {"type": "integer"},
    Kind.NUMBER: {"type": "number"},
    Kind.BOOLEAN: {"type": "boolean"},
    Kind.STRINGS: _STRINGS,
    Kind.STRING_MAP: {"type": "object", "additionalProperties": {"type": "string"}},
    Kind.ANY_MAP: {"type": "object"},
    Kind.TABLES: {"type": "array", "items": {"type": "object"}},
    Kind.ANY: {},
}
_EDIT_WORDS = {Edit.APPEND: "Appended to", Edit.REMOVE: "Removed from"}


def all_schemas() -> dict[str, Schema]:
    """Every schema by the name of its file."""
    return {
        "agent.schema.json": _document("agent.toml", _agent(_name())),
        "city.schema.json": _document("city.toml and city.local.toml", _city()),
        "pack.schema.json": _document("pack.toml", _pack()),
        "mcp.schema.json": _document("mcp/*.toml", _server()),
        "provider.schema.json": _document("providers/*.toml", _provider()),
    }


def _document(title: str, schema: Schema) -> Schema:
    return {"$schema": _DRAFT, "title": title, **schema}


def _name() -> Mapping[str, Schema]:
    return {"name": {"type": "string", "description": "Agent name; must equal the directory name."}}


def _field(field: Field, edit: Edit) -> Schema:
    if edit is not Edit.SET:
        return {**_STRINGS, "description": f"{_EDIT_WORDS[edit]} `{field.name}`."}
    schema: Schema = {**_KINDS[field.kind], "description": field.doc}
    if field.choices and field.kind is Kind.DURATION:
        return {
            "anyOf": [_KINDS[field.kind], {"enum": list(field.choices)}],
            "description": field.doc,
        }
    if field.choices and field.kind is Kind.STRINGS:
        schema["items"] = {"type": "string", "enum": list(field.choices)}
    elif field.choices:
        schema["enum"] = list(field.choices)
    if field.minimum is not None:
        schema["minimum"] = field.minimum
    if field.maximum is not None:
        schema["maximum"] = field.maximum
    if field.default is not None and field.default not in ((), {}):
        schema["default"] = field.default
    return schema


def _table(
    table: Table,
    more: Mapping[str, Schema] | None = None,
    ignored: Mapping[str, str] | None = None,
) -> Schema:
    """An object schema; dotted fields become nested objects, unknown keys are refused."""
    root = _object()
    for key, (field, edit) in table.keys.items():
        _put(root, key.split("."), _field(field, edit))
    properties = _properties(root)
    for old, new in table.aliases.items():
        field, edit = table.keys[new]
        properties[old] = {**_field(field, edit), "deprecated": True}
    for name, reason in (ignored or {}).items():
        properties.setdefault(name, {"deprecated": True, "description": f"No effect: {reason}."})
    properties |= more or {}
    required = [field.name for field in table.fields.values() if field.required]
    if required:
        root["required"] = required
    return root


def _object() -> Schema:
    return {"type": "object", "properties": {}, "additionalProperties": False}


def _properties(schema: Schema) -> dict[str, object]:
    found = schema["properties"]
    assert isinstance(found, dict)
    return found


def _put(root: Schema, path: list[str], schema: Schema) -> None:
    for name in path[:-1]:
        nested = _properties(root).setdefault(name, _object())
        assert isinstance(nested, dict)
        root = nested
    _properties(root)[path[-1]] = schema


def _agent(more: Mapping[str, Schema]) -> Schema:
    return _table(AGENT, more, AGENT_NOT_ACTED_ON)


def _patch(target: str) -> Schema:
    words = {
        "name": "Agent to change.",
        "agent": "Agent to change.",
        "dir": "Rig whose instance to change.",
        "rig": 'Rig whose instance to change; "*": all rigs.',
    }
    more: dict[str, Schema] = {
        name: {"type": "string", "description": word} for name, word in words.items()
    }
    return {**_agent(more), "required": [target]}


def _provider() -> Schema:
    option: Schema = {"type": "array", "items": _table(OPTION)}
    return _table(PROVIDER, {"options_schema": option}, NOT_ACTED_ON["provider"])


def _server() -> Schema:
    words = MCP_SERVER.fields["tools"].doc
    return _table(MCP_SERVER, {"tools": {**_map_of(_table(MCP_TOOL)), "description": words}})


def _map_of(schema: Schema) -> Schema:
    return {"type": "object", "additionalProperties": schema}


def _list_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _imports() -> Schema:
    return _map_of(_table(IMPORT, None, NOT_ACTED_ON["import"]))


def _pack() -> Schema:
    properties: dict[str, object] = {
        "pack": _table(PACK, None, NOT_ACTED_ON["pack"]),
        "imports": _imports(),
        "agent_defaults": _agent({}),
        "patches": {"type": "object", "properties": {"agent": _list_of(_patch("name"))}},
        "providers": _map_of(_provider()),
        "named_session": _list_of(_table(NAMED_SESSION)),
        "templates": _table(TEMPLATES),
        **_ignored(),
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _city() -> Schema:
    rig = _table(
        RIG,
        {
            "imports": {"anyOf": [_imports(), _STRINGS]},
            "patches": _list_of(_patch("agent")),
            "overrides": {**_list_of(_patch("agent")), "deprecated": True},
        },
        NOT_ACTED_ON["rig"],
    )
    kept: Schema = {
        "anyOf": [{"type": "boolean"}, _STRINGS],
        "default": True,
        "description": "Implicit agents: all (true), none (false), or the listed ones.",
    }
    properties: dict[str, object] = {
        "include": {**_STRINGS, "description": "Further files with these tables."},
        "implicit_agents": kept,
        "workspace": _table(WORKSPACE, None, NOT_ACTED_ON["workspace"]),
        "imports": _imports(),
        "defaults": {
            "type": "object",
            "properties": {"rig": {"type": "object", "properties": {"imports": _imports()}}},
        },
        "agent_defaults": _agent({}),
        "agents": {**_agent({}), "deprecated": True},
        "patches": {"type": "object", "properties": {"agent": _list_of(_patch("name"))}},
        "rigs": _list_of(rig),
        "providers": _map_of(_provider()),
        "named_session": _list_of(_table(NAMED_SESSION)),
        "session": _table(SESSION, None, NOT_ACTED_ON["session"]),
        "templates": _table(TEMPLATES),
        "security": _table(SECURITY),
        "notify": _table(NOTIFY),
        **_ignored(),
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _ignored() -> dict[str, object]:
    return {
        name: {"deprecated": True, "description": f"No effect: {reason}."}
        for name, reason in CITY_NOT_ACTED_ON.items()
    }
