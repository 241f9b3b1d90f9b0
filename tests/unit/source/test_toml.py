import random
import sys
from collections.abc import Callable
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from gascity.model.problems import Place, Problem
from gascity.toml.positions import locate, value_position
from gascity.toml.read import MAX_BYTES, TomlError, TomlTable, has_bom, parse

CITY = '''\
# A city. [[rigs]] name = "not this"
name = "x"
"q\\u0041 b".'l i' = 1
day = 1979-05-27 07:32:00

[env]
A = """
[[rigs]]
B = 1
""\\" """""
B = \'\'\'
[env]
# ' " \'\'\'
[tools]
allow = [ "a", # x ]
  'b', { x = 1, # }
    y.z = [[2]],
  }, ]

[[rigs]]
name = "a"
[rigs.imports."my pack"]
source = 1
[[rigs.patches]]
agent = "q"
[rigs.patches.env]
Z = 1
[[rigs]]
[[rigs.patches]]
[[ rigs . patches ]]
  agent = 2
[patches]
agent = [{ name = "one" }, { name = "two" }]
'''
BOM = "\ufeff"


def fault(data: bytes) -> TomlError:
    with pytest.raises(TomlError) as caught:
        parse(data)
    return caught.value


def spelled(text: str, place: tuple[int, int]) -> str:
    """What stands from a place to the end of its line."""
    line, col = place
    return text.removeprefix(BOM).split("\n")[line - 1].removesuffix("\r")[col - 1 :]


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        pytest.param(("name",), 'name = "x"', '"x"', id="bare-key"),
        pytest.param(("qA b", "l i"), "'l i' = 1", "1", id="part-of-a-dotted-key"),
        pytest.param(("qA b",), '"q\\u0041 b".', '"q\\u0041 b".', id="table-of-a-dotted-key"),
        pytest.param(("day",), "day = ", "1979-05-27 07", id="date"),
        pytest.param(("env",), "[env]", "[env]", id="table"),
        pytest.param(("env", "A"), "A = ", '"""', id="key-of-a-table"),
        pytest.param(("env", "B"), "B = '''", "'''", id="not-in-a-string"),
        pytest.param(("tools", "allow"), "allow = [", "[ ", id="array"),
        pytest.param(("tools", "allow", 0), '"a"', '"a"', id="element"),
        pytest.param(("tools", "allow", 1), "'b'", "'b'", id="element-on-a-later-line"),
        pytest.param(("tools", "allow", 2), "{ x", "{ x", id="inline-table"),
        pytest.param(("tools", "allow", 2, "x"), "x = 1", "1", id="inline-key"),
        pytest.param(("tools", "allow", 2, "y", "z"), "z = [[", "[[2]]", id="inline-dotted-key"),
        pytest.param(("tools", "allow", 2, "y", "z", 0, 0), "2]]", "2]]", id="array-in-array"),
        pytest.param(("rigs",), "[[rigs]]", "[[rigs]]", id="array-of-tables"),
        pytest.param(("rigs", 0, "name"), 'name = "a"', '"a"', id="key-of-an-entry"),
        pytest.param(("rigs", 0, "imports"), '[rigs.imports."', "[rigs.", id="implied-table"),
        pytest.param(("rigs", 0, "imports", "my pack", "source"), "source", "1", id="quoted-table"),
        pytest.param(("rigs", 0, "patches", 0, "env", "Z"), "Z = 1", "1", id="table-of-an-entry"),
        pytest.param(("rigs", 1, "patches", 1), "[[ rigs . ", "[[ rigs", id="spaced-header"),
        pytest.param(("rigs", 1, "patches", 1, "agent"), "agent = 2", "2", id="indented-key"),
        pytest.param(("patches", "agent", 1, "name"), "name =", '"two"', id="inline-entries"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("start", ["", BOM], ids=["", "bom"])
def test_a_path_is_located_where_it_is_written(
    path: tuple[str | int, ...], key: str, value: str, newline: str, start: str
) -> None:
    text = start + CITY.replace("\n", newline)
    assert spelled(text, locate(text, path)).startswith(key)
    assert spelled(text, value_position(text, path)).startswith(value)


def test_entries_of_one_array_have_different_positions() -> None:
    places = [locate(CITY, ("rigs", index)) for index in (0, 1)]
    assert places[0] < places[1]
    assert [spelled(CITY, place) for place in places] == ["[[rigs]]", "[[rigs]]"]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        pytest.param(("env", "C"), "[env]", id="key"),
        pytest.param(("rigs", 1, "name"), "[[rigs]]", id="key-of-an-entry"),
        pytest.param(("tools", "allow", 9), "allow = [", id="element"),
        pytest.param(("name", 0), 'name = "x"', id="inside-a-string"),
        pytest.param(("nope", "A"), "# A city.", id="nothing"),
        pytest.param((), "# A city.", id="whole-file"),
    ],
)
def test_a_path_that_is_not_written_is_located_at_its_longest_prefix(
    path: tuple[str | int, ...], found: str
) -> None:
    assert spelled(CITY, locate(CITY, path)).startswith(found)
    assert value_position(CITY, path) == locate(CITY, path)


def test_a_table_is_located_at_its_own_header_even_below_a_subtable() -> None:
    assert locate("[a.b]\n[a]\n", ("a",)) == (2, 1)


def test_a_byte_order_mark_takes_no_column() -> None:
    text = BOM + "a = 1"
    assert has_bom(text.encode())
    assert not has_bom(b"a = 1")
    assert parse(text.encode()) == {"a": 1}
    assert locate(text, ("a",)) == (1, 1)
    assert value_position(text, ("a",)) == (1, 5)
    assert fault(b"\xef\xbb\xbfa = x").col == 5


def test_toml_1_1_is_read() -> None:
    text = 'a = {\n  b = "\\e\\x41", # why\n}\r\nt = 07:32\n'
    assert parse(text.encode())["a"] == {"b": "\x1bA"}


@pytest.mark.parametrize(
    ("data", "code", "place", "hint"),
    [
        pytest.param(b"a = 1\nb = '\xc3\xa9\xff'", "bad-utf8", (2, 7), "UTF-8", id="utf-8"),
        pytest.param(b"#" * (MAX_BYTES + 1), "too-large", (1, 1), None, id="size"),
        pytest.param(b"a = 1\nb = abc # x", "bad-toml", (2, 5), "quotes", id="unquoted"),
        pytest.param(b"t = 30m", "bad-toml", (1, 7), "quotes", id="unquoted-duration"),
        pytest.param(b"t = [x, y]", "bad-toml", (1, 6), "quotes", id="unquoted-in-array"),
        pytest.param(b"a = True", "bad-toml", (1, 5), "`true`", id="python-boolean"),
        pytest.param(b"a =", "bad-toml", (1, 4), "missing", id="no-value"),
        pytest.param(b'a = "x\nb = 1', "bad-toml", (1, 7), "close", id="open-string"),
        pytest.param(b"a = 'x\nb = 1", "bad-toml", (1, 5), "close", id="open-literal-string"),
        pytest.param(b'a = """x\nb = 1', "bad-toml", (1, 5), "close", id="open-long-string"),
        pytest.param(b'a = 1\n"x', "bad-toml", (2, 1), "close", id="open-key"),
        pytest.param(b'a = [\n"x",\nb = 1', "bad-toml", (3, 1), "close the array", id="open-array"),
        pytest.param(b'a = ["x" "y"]', "bad-toml", (1, 10), "comma", id="no-comma"),
        pytest.param(b"a = 1\r\na = [\r\n2]", "bad-toml", (2, 1), "above", id="key-twice"),
        pytest.param(b"[a]\n[b]\n [a]", "bad-toml", (3, 2), "above", id="table-twice"),
        pytest.param(b"x = { a = 1, a = 2 }", "bad-toml", (1, 14), "above", id="inline-twice"),
        pytest.param(b"a = 1\x00", "bad-toml", (1, 6), "control", id="nul"),
        pytest.param(b"a = '\x07'", "bad-toml", (1, 6), "control", id="bell"),
        pytest.param(b'a = "C:\\dir"', "bad-toml", (1, 10), "backslash", id="backslash"),
        pytest.param(b"a: 1", "bad-toml", (1, 2), "key = value", id="yaml"),
        pytest.param("é = 1".encode(), "bad-toml", (1, 1), "quotes", id="odd-key"),
        pytest.param(b"a = " + b"[" * 9999, "bad-toml", (1, 1), None, id="deep-array"),
        pytest.param(b"a." * 9999 + b"a = 1", "bad-toml", (1, 1), None, id="deep-key"),
        pytest.param(b"a = 1\nb = " + b"9" * 9999, "bad-toml", (2, 5), None, id="long-number"),
    ],
)
def test_an_error_has_a_message_a_position_and_a_hint(
    data: bytes, code: str, place: tuple[int, int], hint: str | None
) -> None:
    found = fault(data)
    assert found.code == code
    assert (found.line, found.col) == place
    assert "(at " not in found.message
    assert (hint in (found.hint or "")) if hint else found.hint is None


@given(st.binary())
def test_any_bytes_are_parsed_or_rejected_with_a_toml_error(data: bytes) -> None:
    read_or_refuse(data)


@given(st.text(st.sampled_from("ab.=[]{}'\"#\\\n\r\t ,_-+019eTZ:x\x00é\ufeff")))
def test_any_text_is_parsed_or_rejected_and_can_be_scanned(text: str) -> None:
    read_or_refuse(text.encode())
    line, col = locate(text, ("a", 0, "b"))
    assert line >= 1
    assert col >= 1


def read_or_refuse(data: bytes) -> None:
    found = None
    try:
        assert isinstance(parse(data), dict)
    except TomlError as refusal:
        found = refusal
    if found:
        assert found.code in ("bad-utf8", "bad-toml")
        assert 1 <= found.line <= data.count(b"\n") + 1
        assert 1 <= found.col <= len(data) + 1


@pytest.mark.parametrize(
    "unit",
    ["[[r]]\nk.l = 1\n", "# c\n", 'x = "\\n"\n', "[a.b]\n", "a = " + "[" * 300 + "]" * 300 + "\n"],
)
def test_scanning_takes_linear_time(unit: str) -> None:
    def calls(size: int) -> int:
        text = unit * (size // len(unit))
        counted = 0

        def count(frame: object, event: str, arg: object) -> None:
            nonlocal counted
            del frame, arg
            counted += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            locate(text, ("zzz",))
        finally:
            sys.setprofile(before)
        return counted

    assert calls(100_000) < 11 * calls(10_000)


class Writer:
    """Writes a document in ways drawn at random, and notes where it puts every path."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.text = rng.choice(["", BOM])
        self.newline = rng.choice(["\n", "\r\n"])
        self.keys: dict[tuple[str | int, ...], int] = {}
        self.values: dict[tuple[str | int, ...], int] = {}

    def section(self, path: tuple[str | int, ...], table: dict[str, Any]) -> None:
        later = {}
        for name, value in table.items():
            if value and self._may_have_header(value) and self.rng.random() < 0.6:
                later[name] = value
            else:
                self._statement(path, name, value)
        for name, value in later.items():
            self._headers((*path, name), value)

    def _may_have_header(self, value: Any) -> bool:
        is_list = isinstance(value, list) and all(isinstance(item, dict) for item in value)
        return is_list or isinstance(value, dict)

    def _headers(self, path: tuple[str | int, ...], value: Any) -> None:
        if isinstance(value, dict):
            below = all(v and isinstance(v, dict) for v in value.values())
            if below and self.rng.random() < 0.5:
                for name, inner in value.items():
                    self._headers((*path, name), inner)
                    self.keys.setdefault(path, self.keys[(*path, name)])
                return
            self.keys[path] = self._header(path, "[", "]")
            self.section(path, value)
            return
        for index, entry in enumerate(value):
            self.keys[(*path, index)] = self._header(path, "[[", "]]")
            self.keys.setdefault(path, self.keys[(*path, index)])
            self.section((*path, index), entry)

    def _header(self, path: tuple[str | int, ...], left: str, right: str) -> int:
        self._noise()
        at = len(self.text)
        names = [self._key(part) for part in path if isinstance(part, str)]
        self.text += left + self._space() + self._dot().join(names) + self._space() + right
        self._end_line()
        return at

    def _statement(self, path: tuple[str | int, ...], name: str, value: Any) -> None:
        self._noise()
        if isinstance(value, dict) and value and self.rng.random() < 0.5:
            for inner, leaf in value.items():
                self.keys.setdefault((*path, name), len(self.text))
                self.text += self._key(name) + self._dot()
                self._pair((*path, name), inner, leaf)
                self._end_line()
            return
        self._pair(path, name, value)
        self._end_line()

    def _pair(self, path: tuple[str | int, ...], name: str, value: Any) -> None:
        self.keys[(*path, name)] = len(self.text)
        self.text += self._key(name) + self._space() + "=" + self._space()
        self._value((*path, name), value)

    def _value(self, path: tuple[str | int, ...], value: Any) -> None:
        self.values[path] = len(self.text)
        if isinstance(value, list):
            self._items("[", "]", list(enumerate(value)), lambda i, v: self._element(path, i, v))
        elif isinstance(value, dict):
            self._items("{", "}", list(value.items()), lambda k, v: self._pair(path, k, v))
        else:
            self.text += self._scalar(value)

    def _element(self, path: tuple[str | int, ...], index: int, value: Any) -> None:
        self.keys[(*path, index)] = len(self.text)
        self._value((*path, index), value)

    def _items(self, left: str, right: str, items: list[Any], write: Any) -> None:
        self.text += left
        for number, (name, value) in enumerate(items):
            self._gap()
            write(name, value)
            self._gap()
            if number < len(items) - 1 or self.rng.random() < 0.3:
                self.text += ","
        self._gap()
        self.text += right

    def _scalar(self, value: Any) -> str:
        if not isinstance(value, str):
            return str(tomlkit.item(value).as_string())
        plain = not any((char < " " and char not in "\n\t") or char == "\x7f" for char in value)
        ways = [str(tomlkit.item(value).as_string())]
        if plain and "'" not in value and "\n" not in value:
            ways.append(f"'{value}'")
        if plain and "'''" not in value and not value.endswith("'"):
            ways.append(f"'''\n{value}'''")
        if plain:
            escaped = value.replace("\\", "\\\\").replace('"""', '""\\"')
            ways.append(f'"""\n{escaped}"""')
        return self.rng.choice(ways)

    def _key(self, name: str) -> str:
        ways = [str(tomlkit.key(name).as_string()), str(tomlkit.item(name).as_string())]
        if name.isprintable() and "'" not in name:
            ways.append(f"'{name}'")
        if name:
            ways.append(f'"\\U{ord(name[0]):08x}{tomlkit.item(name[1:]).as_string()[1:]}')
        return self.rng.choice(ways)

    def _space(self) -> str:
        return self.rng.choice(["", " ", "\t"])

    def _dot(self) -> str:
        return self._space() + "." + self._space()

    def _gap(self) -> None:
        self.text += self.rng.choice(["", " ", self.newline, f" # ]}}, '{self.newline}\t"])

    def _noise(self) -> None:
        self.text += self.rng.choice(["", self.newline, f'# [x] "{self.newline}', "  "])

    def _end_line(self) -> None:
        self.text += self.rng.choice(["", " ", " # = [[x]] '''"]) + self.newline


AWKWARD = ["a", "b-c", "1", "", "a.b", "a b", "é", "'", '"', "\\", "\n", "[x]", "#", "="]
WORDS = st.one_of(st.sampled_from(AWKWARD), st.text(max_size=4)).filter(
    lambda word: "\r" not in word
)
SCALARS = st.one_of(
    WORDS,
    st.sampled_from(["[[a]]\nb = 1\n", "'''", '"""', "x # y", "a\\\n b", 'x""', "x''", "'"]),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.floats(allow_nan=False),
    st.datetimes(),
    st.dates(),
    st.times(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(WORDS, inner, max_size=3),
        st.lists(st.dictionaries(WORDS, inner, max_size=3), min_size=1, max_size=3),
    ),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(WORDS, VALUES, max_size=4)


def place_of(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset].removeprefix(BOM)
    return before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1


@given(DOCUMENTS, st.randoms(use_true_random=False))
def test_every_path_is_located_in_every_notation(
    document: dict[str, Any], rng: random.Random
) -> None:
    writer = Writer(rng)
    writer.section((), document)
    text = writer.text
    assert parse(text.encode()) == document
    for path, offset in writer.keys.items():
        assert locate(text, path) == place_of(text, offset)
        assert value_position(text, path) == place_of(text, writer.values.get(path, offset))


@given(st.dictionaries(WORDS, st.dictionaries(WORDS, SCALARS, max_size=3), max_size=3))
def test_a_path_is_located_where_tomlkit_writes_it(document: dict[str, Any]) -> None:
    text = tomlkit.dumps(document)
    for table, keys in document.items():
        header = f"[{tomlkit.key(table).as_string()}]"
        assert spelled(text, locate(text, (table,))) == header
        for key in keys:
            start = f"{tomlkit.key(key).as_string()} = "
            assert spelled(text, locate(text, (table, key))).startswith(start)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda table: table.text("number"), "`x.number` should be a string, not the number 1"),
        (lambda table: table.texts("text"), "`x.text` should be a list of strings, not a string"),
        (
            lambda table: table.texts("mixed"),
            "`x.mixed` should be a list of strings, but contains the number 2",
        ),
        (lambda table: table.table("text"), "`x.text` should be a table, not a string"),
        (
            lambda table: table.tables("inner"),
            "`x.inner` should be an array of tables, not a table",
        ),
        (
            lambda table: [*table.named_tables("mixed")],
            "`x.mixed` should be a table of tables, not a list",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_a_problem_and_reads_as_unset(
    read: Callable[[TomlTable], object], message: str
) -> None:
    problems: list[Problem] = []
    raw = {"number": 1, "text": "a", "mixed": ["a", 2], "inner": {"key": "b"}}
    assert not read(TomlTable(raw, "x.toml", ("x",), problems))
    assert [(problem.code, problem.message) for problem in problems] == [("bad-type", message)]


def test_a_nested_table_knows_its_key_path() -> None:
    problems: list[Problem] = []
    raw = {"rows": [{"name": "a"}, {"name": 2}]}
    rows = TomlTable(raw, "x.toml", (), problems).tables("rows")
    assert [row.text("name") for row in rows] == ["a", ""]
    assert [problem.place for problem in problems] == [Place("x.toml", ("rows", 1, "name"))]
