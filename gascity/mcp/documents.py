"""The MCP servers in files of providers, JSON or TOML: read, changed one by one, shown.

Nothing but the servers named is changed: comments, order and all else survive.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gascity.model.plan import Shape
from gascity.render import jsonc, tables
from gascity.render.faults import DocumentFault as DocumentFault
from gascity.render.faults import position
from gascity.render.jsontree import tree

HIDDEN = "…"
NOT_SHOWN = "(not shown: the content cannot be parsed)\n"

_JSON = "json"
_SECRET = frozenset({"env", "environment", "headers", "http_headers"})
_Path = tuple[str | int, ...]


def read(text: str, format: str) -> dict[str, Any]:
    """The plain values of a text. Raises DocumentFault."""
    if format != _JSON:
        return tables.parse(text)
    root = tree(text)
    value: Any = root.value if root else {}
    if root and not isinstance(value, dict):
        raise DocumentFault("The whole is not an object", *position(text, root.start))
    return dict(value)


def servers(document: Mapping[str, Any], shape: Shape) -> dict[str, object]:
    """The servers by name, without the key that holds the name.

    An item of a list that has no name is no server. Raises DocumentFault where something else
    stands in their place.
    """
    found = _container(document, shape)
    if isinstance(found, Mapping):
        return dict(found)
    return {
        item[shape.list_name]: {key: item[key] for key in item if key != shape.list_name}
        for item in found
        if _name(item, shape) is not None
    }


def edit_servers(text: str, shape: Shape, puts: Mapping[str, object], drops: Iterable[str]) -> str:
    """Put servers in, and take out others that are there.

    Where that leaves no server, the key that held them goes too, unless a comment is there. Raises
    DocumentFault where something else would suffer.
    """
    before = read(text, shape.format)
    wanted = servers(before, shape)
    gone = [name for name in drops if name in wanted and name not in puts]
    for name in gone:
        text = _drop(text, shape, name)
        del wanted[name]
    for name, value in puts.items():
        text = _put(text, shape, name, value)
    if gone:
        text = _drop_empty(text, shape)
    after = read(text, shape.format)
    kept = jsonc.same(_others(before, shape.key), _others(after, shape.key))
    if not kept or not jsonc.same(servers(after, shape), {**wanted, **puts}):
        raise DocumentFault("The servers are written in a way that cannot be changed safely")
    return text


def hide(text: str, shape: Shape, names: Iterable[str] | None = None) -> str:
    """The text for showing: the values in environments and headers of its servers are hidden.

    `names` are the servers meant, all if None. A text that cannot be parsed is not shown.
    """
    try:
        document = read(text, shape.format)
        secret = _secret(document, shape, names)
    except DocumentFault:
        return NOT_SHOWN
    if shape.format == _JSON:
        leaves = [one for one in jsonc.leaves(text) if secret(one[0])]
        for _, start, end in reversed(leaves):
            text = f'{text[:start]}"{HIDDEN}"{text[end:]}'
        return text
    for one in reversed(tables.statements(text)):
        value = tables.at(document, one.path)
        if one.is_key and (hidden := _hidden(one.path, value, secret)) != value:
            text = text[: one.value] + tables.literal(hidden) + text[one.end :]
    return text


def canonical(value: object) -> bytes:
    """The same bytes for values that are the same as JSON."""
    import json

    return json.dumps(_canonical(value), sort_keys=True, separators=(",", ":")).encode()


def digest(value: object) -> str:
    from gascity.model.hashes import sha256_of

    return sha256_of(canonical(value))


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _canonical(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)  # a provider may write 1.0 as 1
    return value.isoformat() if hasattr(value, "isoformat") else value


def _container(document: Mapping[str, Any], shape: Shape) -> Any:
    """What holds the servers: a mapping or a list, as the shape has it."""
    value: Any = document
    for depth, key in enumerate(shape.key, 1):
        if key not in value:
            return [] if shape.list_name else {}
        value = value[key]
        is_list = bool(shape.list_name) and depth == len(shape.key)
        if not isinstance(value, list if is_list else Mapping):
            noun = "a list" if is_list else "a table of keys"
            raise DocumentFault(f"`{'.'.join(shape.key[:depth])}` is not {noun}")
    return value


def _name(item: object, shape: Shape) -> str | None:
    name = item.get(shape.list_name) if isinstance(item, Mapping) else None
    return name if isinstance(name, str) else None


def _paths(document: Mapping[str, Any], shape: Shape, name: str) -> list[_Path]:
    """Where a server of this name is."""
    found = _container(document, shape)
    if not shape.list_name:
        return [(*shape.key, name)] if name in found else []
    return [(*shape.key, i) for i, item in enumerate(found) if _name(item, shape) == name]


def _drop(text: str, shape: Shape, name: str) -> str:
    drop = jsonc.drop if shape.format == _JSON else tables.drop
    for path in reversed(_paths(read(text, shape.format), shape, name)):
        text = drop(text, path)
    return text


def _put(text: str, shape: Shape, name: str, value: Any) -> str:
    document = read(text, shape.format)
    paths = _paths(document, shape, name)
    last: str | int = name
    if shape.list_name:
        value = {shape.list_name: name, **value}
        last = len(_container(document, shape))
    if paths:
        path = paths[-1]
        if shape.format == _JSON:
            return jsonc.change(text, path, tables.at(document, path), value)
        return tables.put(text, path, value)
    path = (*shape.key, last)
    if shape.format != _JSON:
        return tables.add_table(text, path, value)
    return jsonc.put(text, path, value) if last != 0 else jsonc.put(text, shape.key, [value])


def _drop_empty(text: str, shape: Shape) -> str:
    """Take away the servers' key, and what is around it, as far as nothing is in it."""
    for length in range(len(shape.key), 0, -1):
        path = shape.key[:length]
        if shape.format != _JSON:
            text = tables.drop_empty(text, path)
        elif jsonc.is_empty(text, path):
            text = jsonc.drop(text, path)
    return text


def _others(document: Mapping[str, Any], key: tuple[str, ...]) -> dict[str, Any]:
    """A document without what is at `key`, and without what is empty then."""
    rest = {name: value for name, value in document.items() if name != key[0]}
    inner = document.get(key[0])
    if len(key) > 1 and isinstance(inner, Mapping) and (left := _others(inner, key[1:])):
        rest[key[0]] = left
    return rest


def _secret(
    document: Mapping[str, Any], shape: Shape, names: Iterable[str] | None
) -> Callable[[_Path], bool]:
    found, depth = _container(document, shape), len(shape.key)
    chosen: set[str | int | None] | None = None if names is None else {*names}
    named: dict[str | int, str | None] = {}
    if shape.list_name:
        named = {i: _name(item, shape) for i, item in enumerate(found)}

    def is_secret(path: _Path) -> bool:
        if path[:depth] != shape.key or not _SECRET.intersection(path[depth + 1 :]):
            return False
        return chosen is None or named.get(path[depth], path[depth]) in chosen

    return is_secret


def _hidden(path: _Path, value: Any, secret: Callable[[_Path], bool]) -> Any:
    if isinstance(value, dict):
        return {key: _hidden((*path, key), inner, secret) for key, inner in value.items()}
    if isinstance(value, list):
        return [_hidden((*path, i), inner, secret) for i, inner in enumerate(value)]
    return HIDDEN if secret(path) else value
