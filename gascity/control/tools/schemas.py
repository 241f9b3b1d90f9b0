"""The part of JSON Schema that tools use: makers of schemas, and a check of arguments."""

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]  # JSON Schema

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


def text(description: str = "", **more: object) -> Schema:
    """Return the schema of a string."""
    return {"type": "string", **({"description": description} if description else {}), **more}


def number(description: str = "", **more: object) -> Schema:
    """Return the schema of a number."""
    return {"type": "number", **({"description": description} if description else {}), **more}


def integer(description: str = "", **more: object) -> Schema:
    """Return the schema of a whole number."""
    return {**number(description, **more), "type": "integer"}


def flag(description: str = "") -> Schema:
    """Return the schema of a boolean."""
    return {"type": "boolean", **({"description": description} if description else {})}


def list_of(items: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def record(properties: Mapping[str, Schema], *required: str, closed: bool = False) -> Schema:
    """Return the schema of an object; a closed one has no other keys."""
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties)}
    schema |= {"required": list(required)} if required else {}
    return {**schema, "additionalProperties": False} if closed else schema


def violations(value: object, schema: Schema, name: str = "") -> Iterator[str]:
    """Yield everything that is wrong with a value."""
    kind = schema.get("type")
    if kind is not None and not _is_of(value, kind):
        yield f"{name or 'the value'} is not of type {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{name} is none of {', '.join(schema['enum'])}"
    match value:
        case int() | float():
            yield from _outside(value, schema, name)
        case str():
            yield from _in_text(value, schema, name)
        case dict():
            yield from _in_object(value, schema, name)
        case list():
            for item in value:
                yield from violations(item, schema.get("items", {}), f"each item of {name}")


def _is_of(value: object, kind: str) -> bool:
    return type(value) in _TYPES[kind]


def _outside(value: float, schema: Schema, name: str) -> Iterator[str]:
    if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{name} is not between {schema.get('minimum')} and {schema.get('maximum')}"


def _in_text(value: str, schema: Schema, name: str) -> Iterator[str]:
    if len(value) > schema.get("maxLength", len(value)):
        yield f"{name} has {len(value):,} characters; at most {schema['maxLength']:,} are allowed"
    if len(value) < schema.get("minLength", 0):
        yield f"{name} is empty"
    if not _is_plain(value):
        yield f"{name} contains a NUL or half of a surrogate pair"


def _is_plain(value: str) -> bool:
    """Return whether a file and a command line can have this text; JSON can express more."""
    try:
        return b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False


def _in_object(value: Mapping[str, object], schema: Schema, name: str) -> Iterator[str]:
    properties, other = schema.get("properties", {}), schema.get("additionalProperties", True)
    for key in schema.get("required", ()):
        if key not in value:
            yield f"`{key}` is missing"
    for key, item in value.items():
        path = f"`{name.strip('`')}.{key}`" if name else f"`{key}`"
        if key in properties:
            yield from violations(item, properties[key], path)
        elif other is False:
            known = ", ".join(properties) or "none"
            yield f"{path} is not an argument of this tool (arguments: {known})"
        elif other is not True:
            yield from violations(item, other, path)
