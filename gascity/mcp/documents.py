"""Read and edit the MCP servers in providers' files, JSON or TOML, and hide their secrets.

An edit changes only the servers it names: comments, order and everything else are preserved. Each
edit is verified by parsing the result again.
"""

from collections.abc import Callable, Iterable, Mapping

from gascity.jsonc import edit
from gascity.jsonc.tree import tree
from gascity.model.document_text import BOM, position, same
from gascity.model.document_text import DocumentError as DocumentError
from gascity.model.secrets import HIDDEN, is_reference
from gascity.model.values import JsonObject, as_list, as_table
from gascity.model.wanted import Shape
from gascity.toml.read import parse_text

NOT_SHOWN = "(not shown: the content cannot be parsed)\n"

_JSON = "json"
_SECRET = frozenset({"env", "environment", "headers", "http_headers"})
_Path = tuple[str | int, ...]


def read(text: str, format: str) -> JsonObject:
    """Parse a text to plain values. Raises DocumentError."""
    if format != _JSON:
        return parse_text(text.removeprefix(BOM))
    root = tree(text)
    if root and not isinstance(root.value, dict):
        raise DocumentError("The document is not an object", *position(text, root.start))
    return dict(root.value) if root else {}


def servers(document: Mapping[str, object], shape: Shape) -> JsonObject:
    """Return the servers by name, without the key that holds the name.

    A list item without a name is not a server. Raises DocumentError if something else is in
    their place.
    """
    if not shape.list_name:
        return dict(as_table(_container(document, shape)))
    return {
        name: {key: value for key, value in as_table(item).items() if key != shape.list_name}
        for item in as_list(_container(document, shape))
        if (name := _name(item, shape)) is not None
    }


def edit_servers(text: str, shape: Shape, puts: Mapping[str, object], drops: Iterable[str]) -> str:
    """Set the servers in `puts` and remove those in `drops`.

    If no server is left, the key that held them is removed too, unless it has a comment. Raises
    DocumentError if the edit would change anything else.
    """
    before = read(text, shape.format)
    expected = servers(before, shape)
    removed = [name for name in drops if name in expected and name not in puts]
    for name in removed:
        text = _drop(text, shape, name)
        del expected[name]
    for name, value in puts.items():
        text = _put(text, shape, name, value)
    if removed:
        text = _drop_empty(text, shape)
    after = read(text, shape.format)
    unchanged = same(_others(before, shape.key), _others(after, shape.key))
    if not unchanged or not same(servers(after, shape), {**expected, **puts}):
        raise DocumentError("The servers are written in a form that cannot be edited safely")
    return text


def hide(text: str, shape: Shape, names: Iterable[str] | None = None) -> str:
    """Return the text with the values of its servers' environments and headers hidden.

    References to variables stay. `names` selects the servers, None all. A text that cannot be
    parsed is hidden entirely.
    """
    try:
        document = read(text, shape.format)
        secret = _secret(document, shape, names)
    except DocumentError:
        return NOT_SHOWN
    if shape.format == _JSON:
        leaves = [leaf for leaf in edit.leaves(text) if secret(leaf[0])]
        for _, start, end in reversed(leaves):
            if not is_reference(text[start + 1 : end - 1]):
                text = f'{text[:start]}"{HIDDEN}"{text[end:]}'
        return text
    from gascity.toml import edit as toml_edit
    from gascity.toml.positions import marks, outermost

    for mark in reversed(outermost(marks(text))):
        value = toml_edit.value_at(document, mark.path)
        if not mark.is_header and (hidden := _hidden(mark.path, value, secret)) != value:
            text = text[: mark.value] + toml_edit.literal(hidden) + text[mark.end :]
    return text


def _container(document: Mapping[str, object], shape: Shape) -> object:
    """Return the mapping or list that holds the servers; empty if it does not exist."""
    value: object = document
    for depth, key in enumerate(shape.key, 1):
        table = as_table(value)
        if key not in table:
            return [] if shape.list_name else {}
        value = table[key]
        is_list = bool(shape.list_name) and depth == len(shape.key)
        if not isinstance(value, list if is_list else Mapping):
            noun = "a list" if is_list else "a table of keys"
            raise DocumentError(f"`{'.'.join(shape.key[:depth])}` is not {noun}")
    return value


def _name(item: object, shape: Shape) -> str | None:
    match item:
        case {shape.list_name: str(name)}:
            return name
    return None


def _paths(document: Mapping[str, object], shape: Shape, name: str) -> list[_Path]:
    """Return the paths of the servers with this name; a list may have several."""
    container = _container(document, shape)
    if not shape.list_name:
        return [(*shape.key, name)] if name in as_table(container) else []
    items = enumerate(as_list(container))
    return [(*shape.key, index) for index, item in items if _name(item, shape) == name]


def _drop(text: str, shape: Shape, name: str) -> str:
    from gascity.toml import edit as toml_edit

    drop = edit.drop if shape.format == _JSON else toml_edit.drop
    for path in reversed(_paths(read(text, shape.format), shape, name)):
        text = drop(text, path)
    return text


def _put(text: str, shape: Shape, name: str, value: object) -> str:
    document = read(text, shape.format)
    paths = _paths(document, shape, name)
    last: str | int = name
    if shape.list_name:
        value = {shape.list_name: name, **as_table(value)}
        last = len(as_list(_container(document, shape)))
    if paths:
        from gascity.toml import edit as toml_edit

        path = paths[-1]
        if shape.format == _JSON:
            return edit.change(text, path, toml_edit.value_at(document, path), value)
        return toml_edit.put_value(text, path, value)
    path = (*shape.key, last)
    if shape.format != _JSON:
        from gascity.toml.edit import add_table

        return add_table(text, path, as_table(value))
    return edit.put(text, path, value) if last != 0 else edit.put(text, shape.key, [value])


def _drop_empty(text: str, shape: Shape) -> str:
    """Remove the key that holds the servers, and the keys around it, if they are empty."""
    for length in range(len(shape.key), 0, -1):
        path = shape.key[:length]
        if shape.format != _JSON:
            from gascity.toml.edit import drop_empty

            text = drop_empty(text, path)
        elif edit.is_empty(text, path):
            text = edit.drop(text, path)
    return text


def _others(document: Mapping[str, object], key: tuple[str, ...]) -> JsonObject:
    """Return a document without the value at `key`, and without tables that are then empty."""
    rest = {name: value for name, value in document.items() if name != key[0]}
    inner = document.get(key[0])
    if len(key) > 1 and (left := _others(as_table(inner), key[1:])):
        rest[key[0]] = left
    return rest


def _secret(
    document: Mapping[str, object], shape: Shape, names: Iterable[str] | None
) -> Callable[[_Path], bool]:
    """Return a predicate: whether the value at a path must be hidden."""
    container, depth = _container(document, shape), len(shape.key)
    chosen: set[str | int | None] | None = None if names is None else {*names}
    named: dict[str | int, str | None] = {}
    if shape.list_name:
        named = {i: _name(item, shape) for i, item in enumerate(as_list(container))}

    def is_secret(path: _Path) -> bool:
        if path[:depth] != shape.key or not _SECRET.intersection(path[depth + 1 :]):
            return False
        return chosen is None or named.get(path[depth], path[depth]) in chosen

    return is_secret


def _hidden(path: _Path, value: object, secret: Callable[[_Path], bool]) -> object:
    match value:
        case dict():
            return {key: _hidden((*path, key), inner, secret) for key, inner in value.items()}
        case list():
            return [_hidden((*path, i), inner, secret) for i, inner in enumerate(value)]
    return HIDDEN if secret(path) and not is_reference(str(value)) else value
