"""Properties of editing and merging: everything else stays unchanged in any text."""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gascity.jsonc import edit
from gascity.mcp import documents
from gascity.mcp.documents import DocumentError
from gascity.model.document_text import same, value_digest
from gascity.model.wanted import Shape
from gascity.workdir.decide.json_settings import apply_settings, layered, merge

words = st.sampled_from(["a", "b", "c", "amp.x", "", "é\n", 'q"', "mcpServers"])
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | words | st.text(max_size=5)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(words, values, max_size=4)
paths = st.lists(words, min_size=1, max_size=3).map(tuple)

BETWEEN = st.sampled_from(
    ["", "", "", " ", "\n", "\n  ", "\t", "\r\n", " // c, } \n", "/* ] */", " /* a\n b */ "]
)
Between = Callable[[], str]


def written(value: object, between: Between) -> str:
    """JSON with anything that may stand between its parts."""
    if not isinstance(value, dict | list) or not value:
        return between() + json.dumps(value) + between()
    if isinstance(value, dict):
        parts = [
            f"{between()}{json.dumps(k)}{between()}:{written(value[k], between)}" for k in value
        ]
    else:
        parts = [written(one, between) for one in value]
    last = f",{between()}" if "\n" in between() else ""
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{between()}{opening}{','.join(parts)}{last}{closing}{between()}"


@st.composite
def odd_texts(draw: st.DrawFn) -> str:
    bom = draw(st.sampled_from(["", "\ufeff"]))
    return bom + written(draw(objects), lambda: draw(BETWEEN))


@st.composite
def neat_texts(draw: st.DrawFn) -> str:
    """As editors and programs write it."""
    indent = draw(st.sampled_from([None, "  ", "    ", "\t"]))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")])) if not indent else None
    text = json.dumps(draw(objects), indent=indent, separators=separators, ensure_ascii=False)
    newline, end = draw(st.sampled_from(["\n", "\r\n"])), draw(st.sampled_from(["", "\n"]))
    return (text + end).replace("\n", newline)


texts = odd_texts() | neat_texts() | st.sampled_from(["", " \n", "// nothing\n", "// nothing"])


def comments(text: str) -> list[str]:
    strings = r'"(?:[^"\\]|\\.)*"'
    found = re.findall(rf"{strings}|(//[^\r\n]*|/\*.*?\*/)", text, re.DOTALL)
    return [one for one in found if one]


def with_value(document: dict[str, Any], path: tuple[str, ...], value: object) -> dict[str, Any]:
    inner = with_value(document.get(path[0], {}), path[1:], value) if path[1:] else value
    return {**document, path[0]: inner}


def without(document: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    if path[0] not in document:
        return document
    if not path[1:]:
        return {key: value for key, value in document.items() if key != path[0]}
    return {**document, path[0]: without(document[path[0]], path[1:])}


def passes_objects(document: Any, path: tuple[str, ...]) -> bool:
    for key in path:
        if not isinstance(document, dict):
            return False
        document = document.get(key, {})
    return True


@given(odd_texts())
def test_comments_and_blanks_have_no_meaning(text: str) -> None:
    assert edit.parse(text) == json.loads(re.sub(r",([}\]])", r"\1", bare(text)))


def bare(text: str) -> str:
    strings = r'"(?:[^"\\]|\\.)*"'
    keep = re.compile(rf"({strings})|//[^\n]*|/\*.*?\*/|\s+|\ufeff", re.DOTALL)
    return keep.sub(lambda found: found[1] or "", text)


@given(texts, paths, values)
def test_putting_a_value_changes_only_that_value(
    text: str, path: tuple[str, ...], value: object
) -> None:
    before = edit.parse(text)
    assume(passes_objects(before, path))
    after = edit.put(text, path, value)
    assert same(edit.parse(after), with_value(before, path, value))
    assert edit.put(after, path, value) == after


@given(texts, paths, values)
def test_adding_a_key_keeps_all_comments_and_line_ends(
    text: str, path: tuple[str, ...], value: object
) -> None:
    before = edit.parse(text)
    assume(passes_objects(before, path) and without(before, path) == before)
    after = edit.put(text, path, value)
    assert comments(after) == comments(text)
    if "\n" in text and "\n" not in text.replace("\r\n", ""):
        assert "\n" not in after.replace("\r\n", "")
    assert after.endswith("\n") or not text.endswith("\n")


@given(texts, paths, values)
def test_putting_and_dropping_a_key_restores_the_value(
    text: str, path: tuple[str, ...], value: object
) -> None:
    before = edit.parse(text)
    assume(passes_objects(before, path) and without(before, path) == before)
    added = edit.put(text, path, value)
    dropped = edit.drop(added, path)
    assert same(edit.parse(dropped), without(edit.parse(added), path))
    assert comments(dropped) == comments(text)
    if len(path) == 1:
        assert same(edit.parse(dropped), before)


@given(texts, paths)
def test_dropping_a_key_keeps_all_others(text: str, path: tuple[str, ...]) -> None:
    before = edit.parse(text)
    assume(passes_objects(before, path))
    after = edit.drop(text, path)
    assert same(edit.parse(after), without(before, path))
    if without(before, path) == before:
        assert after == text


@given(texts, objects)
def test_applied_settings_are_read_back(text: str, after: dict[str, Any]) -> None:
    before = edit.parse(text)
    assert same(edit.parse(apply_settings(text, before, after)), after)
    assert apply_settings(text, before, before) == text


@given(texts, st.data())
def test_changing_one_key_changes_nothing_else(text: str, data: st.DataObject) -> None:
    before = edit.parse(text)
    after = merge(None, before, data.draw(objects)).value
    new = apply_settings(text, before, after)
    assert same(edit.parse(new), after)
    assert comments(new) == comments(text)


@given(st.text(st.sampled_from('{}[]",:/*\n 1a\\'), max_size=20))
def test_any_text_is_parsed_or_rejected_with_a_position(text: str) -> None:
    fault = fault_of(text)
    lines = text.split("\n")
    if fault:
        assert 1 <= fault.line <= len(lines)
        assert 1 <= fault.col <= len(lines[fault.line - 1]) + 1


def fault_of(text: str) -> edit.JsoncError | None:
    try:
        edit.parse(text)
    except edit.JsoncError as fault:
        return fault
    return None


# Servers

names = st.sampled_from(["one", "two", "three"])
entry = st.dictionaries(
    st.sampled_from(["command", "url", "env", "args"]),
    words | st.lists(words, max_size=2) | st.dictionaries(words, words, max_size=2),
    min_size=1,
    max_size=3,
)
entries = st.dictionaries(names, entry, max_size=3)
SHAPES = {
    "json": Shape("x", "json", ("amp.x",)),
    "json-deep": Shape("x", "json", ("a", "b")),
    "json-list": Shape("x", "json", ("mcpServers",), "name"),
    "toml": Shape("x", "toml", ("mcp_servers",)),
    "toml-list": Shape("x", "toml", ("mcp_servers",), "name"),
}


def toml_text(tables: Mapping[str, Any], form: str, *, is_list: bool) -> str:
    """Servers in one of the ways that TOML has for them, among other things."""
    if is_list:
        tables = {name: {"name": name, **value} for name, value in tables.items()}
    lines = ["# top", 'model = "m"  # why', ""]
    inline = {name: literal(value) for name, value in tables.items()}
    if form == "inline":
        pairs = [one if is_list else f"{name} = {one}" for name, one in inline.items()]
        lines.append(
            f"mcp_servers = {'[' if is_list else '{'}{', '.join(pairs)}{']' if is_list else '}'}"
        )
    elif form == "dotted" and not is_list:
        lines += [f"mcp_servers.{name} = {one}" for name, one in inline.items()]
    for name, value in tables.items() if form in ("tables", "deep") or not lines[3:] else ():
        lines += [f"# about {name}", "[[mcp_servers]]" if is_list else f"[mcp_servers.{name}]"]
        for key, inner in value.items():
            if form == "tables" or not isinstance(inner, dict):
                lines.append(f"{key} = {literal(inner)}  # on {key}")
        for key, inner in value.items():
            if form == "deep" and isinstance(inner, dict):
                lines.append(f"[mcp_servers.{key}]" if is_list else f"[mcp_servers.{name}.{key}]")
                lines += [f"{literal(k)} = {literal(v)}" for k, v in inner.items()]
        lines.append("")
    return "\n".join([*lines, "# about p", "[profiles.p]", "x = [", '  "]", # inside', "]"])


def literal(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{literal(k)} = {literal(v)}' for k, v in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    return json.dumps(value).replace("\x7f", "\\u007f")


@st.composite
def toml_texts(draw: st.DrawFn, *, is_list: bool) -> str:
    form = draw(st.sampled_from(["tables", "deep", "dotted", "inline"]))
    return toml_text(draw(entries), form, is_list=is_list)


@given(st.data(), entries, st.sets(names))
@pytest.mark.parametrize("kind", SHAPES)
def test_only_the_given_servers_are_changed(
    kind: str, data: st.DataObject, puts: dict[str, Any], drops: set[str]
) -> None:
    shape = SHAPES[kind]
    is_list = bool(shape.list_name)
    text = data.draw(toml_texts(is_list=is_list) if shape.format == "toml" else texts)
    try:
        before = documents.servers(documents.read(text, shape.format), shape)
    except DocumentError:
        assume(False)
    new = documents.edit_servers(text, shape, puts, drops)
    after = documents.servers(documents.read(new, shape.format), shape)
    kept = {name: value for name, value in before.items() if name not in drops}
    assert same(after, {**kept, **puts})
    assert documents.edit_servers(text, shape, {}, []) == text
    if shape.format == "toml":
        rest = tomllib.loads(new)
        assert rest.pop("model") == "m"
        assert rest.pop("profiles") == {"p": {"x": ["]"]}}
        assert rest.keys() <= {"mcp_servers"}
        own = re.findall("# (?:top|why|inside|about .*)", text)
        assert re.findall("# (?:top|why|inside|about .*)", new) == own


@given(entries, entries)
@pytest.mark.parametrize("is_list", [False, True])
@pytest.mark.parametrize("form", ["tables", "deep", "dotted", "inline"])
def test_adding_and_removing_servers_restores_the_toml(
    form: str, is_list: bool, there: dict[str, Any], ours: dict[str, Any]
) -> None:
    shape = SHAPES["toml-list" if is_list else "toml"]
    text = toml_text(
        {f"their-{name}": value for name, value in there.items()}, form, is_list=is_list
    )
    added = documents.edit_servers(text, shape, ours, [])
    gone = documents.edit_servers(added, shape, {}, ours)
    assert tomllib.loads(gone).get("mcp_servers", {}) == tomllib.loads(text).get("mcp_servers", {})
    if form in ("tables", "deep"):
        assert gone.rstrip("\n") == text


# Merging

acts = st.fixed_dictionaries(
    {"command": st.sampled_from(["x", "y", "z"])}, optional={"timeout": st.integers(0, 1)}
)
hook = st.fixed_dictionaries(
    {"hooks": st.lists(acts, min_size=1, max_size=2)},
    optional={"matcher": st.sampled_from(["", "Bash"])},
)
hooks = st.dictionaries(
    st.sampled_from(["Stop", "PreToolUse"]),
    st.lists(hook | acts, min_size=1, max_size=3),
    max_size=2,
)


def filled(value: Any) -> bool:
    """Is there no empty object or list in it: who made one cannot be told later."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return bool(value) and all(map(filled, inner))
    return True


settings = st.builds(
    lambda plain, some: {**plain, **({"hooks": some} if some else {})}, objects, hooks
).map(lambda one: layered([one]))
full = st.dictionaries(words, values.filter(filled), max_size=3)
full_settings = st.builds(
    lambda plain, some: {**plain, **({"hooks": some} if some else {})}, full, hooks
).map(lambda one: layered([one]))


@given(settings)
def test_an_empty_file_receives_all_managed_settings(ours: dict[str, Any]) -> None:
    assert merge(None, {}, ours) == (ours, (), ours)


@given(settings)
def test_a_file_without_managed_settings_stays_unchanged(theirs: dict[str, Any]) -> None:
    assert merge(None, theirs, None) == (theirs, (), {})


@given(settings, settings)
def test_merging_again_changes_nothing(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    first = merge(None, theirs, ours)
    for base in (ours, first.base):
        again = merge(base, first.value, ours)
        assert same(again.value, first.value)
        assert list(again.value) == list(first.value)
        assert set(again.theirs) == set(first.theirs)


@given(settings, settings, settings)
def test_repeated_merges_equal_one_merge(
    base: dict[str, Any], theirs: dict[str, Any], ours: dict[str, Any]
) -> None:
    first = merge(base, theirs, ours)
    one = first
    for _ in range(20):
        one = merge(one.base, one.value, ours)
        assert same(one.value, first.value)
        assert same(merge(base, one.value, ours).value, first.value)


@given(full_settings, settings)
def test_removing_managed_settings_restores_the_file(
    theirs: dict[str, Any], ours: dict[str, Any]
) -> None:
    merged = merge(None, theirs, ours)
    assert same(merge(merged.base, merged.value, None).value, theirs)


@given(full_settings, settings, settings)
def test_removing_managed_settings_after_many_updates_restores_the_file(
    theirs: dict[str, Any], first: dict[str, Any], second: dict[str, Any]
) -> None:
    one = merge(None, theirs, first)
    two = merge(one.base, one.value, second)
    assert same(merge(two.base, two.value, None).value, theirs)


@given(settings, settings, settings)
def test_settings_of_the_user_stay(
    base: dict[str, Any], theirs: dict[str, Any], ours: dict[str, Any]
) -> None:
    value = merge(base, theirs, ours).value
    for key in theirs.keys() - base.keys():
        if key != "hooks" and not isinstance(theirs[key], dict):
            assert same(value[key], theirs[key])
    for event, found in theirs.get("hooks", {}).items():
        known = [*base.get("hooks", {}).get(event, []), *ours.get("hooks", {}).get(event, [])]
        foreign = [one for one in found if one not in known]
        assert (
            [one for one in value["hooks"][event] if one in foreign] == foreign if foreign else True
        )


@given(st.lists(settings, max_size=4), st.data())
def test_merging_layers_is_associative(layers: list[dict[str, Any]], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(layers)))
    whole = layered(layers)
    assert same(layered([layered(layers[:cut]), *layers[cut:]]), whole)
    assert same(layered([*layers, *layers[-1:]]), whole)


@given(values, values)
def test_values_are_the_same_exactly_if_their_digests_are(one: object, other: object) -> None:
    assert same(one, other) == (value_digest(one) == value_digest(other))
    assert value_digest(one) == value_digest(json.loads(json.dumps(one)))
