"""Servers in files of providers."""

import datetime
import tomllib

import pytest

from gascity.mcp.documents import (
    DocumentError,
    edit_servers,
    hide,
    read,
    servers,
)
from gascity.model.document_text import canonical, value_digest
from gascity.model.wanted import Shape

CLAUDE = Shape("claude", "json", ("mcpServers",))
AMP = Shape("amp", "json", ("amp.mcpServers",))
NESTED = Shape("x", "json", ("mcp", "servers"))
CODEX = Shape("codex", "toml", ("mcp_servers",))
VIBE = Shape("vibe", "toml", ("mcp_servers",), "name")
LIST = Shape("x", "json", ("servers",), "name")

SERVER = {"command": "run", "args": ["-v"], "env": {"TOKEN": "s3cret"}}

CONFIG = """\
# A person's own file
model = "o9"  # the best

[mcp_servers.github]  # theirs
url = "https://x.example"
http_headers = { Authorization = "Bearer s3cret" }

# Profiles follow
[profiles.fast]
effort = "low"
"""


def test_json_and_toml_are_read_as_plain_values() -> None:
    assert read('{"a": [1]} // c', "json") == {"a": [1]}
    assert read("\ufeffa = [1] # c\r\nb = 2024-01-02", "toml") == {
        "a": [1],
        "b": datetime.date(2024, 1, 2),
    }
    assert type(read(CONFIG, "toml")["mcp_servers"]) is dict
    assert read("", "json") == read("", "toml") == {}


@pytest.mark.parametrize(
    ("text", "form", "line", "col"),
    [
        pytest.param('{\n"a": }', "json", 2, 6, id="json"),
        pytest.param("// c\n [1]", "json", 2, 2, id="json-list"),
        pytest.param("a = 1\nb = \n", "toml", 2, 5, id="toml"),
        pytest.param('a = """', "toml", 1, 5, id="toml-end"),
        pytest.param(f"a = {'9' * 5000}", "toml", 1, 5, id="toml-digits"),
        pytest.param(f"a = {'[' * 5000}", "toml", 1, 1, id="toml-depth"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_place(
    text: str, form: str, line: int, col: int
) -> None:
    with pytest.raises(DocumentError) as caught:
        read(text, form)
    assert (caught.value.line, caught.value.col) == (line, col)
    assert "(at " not in caught.value.message


def test_servers_are_found_in_maps_and_lists() -> None:
    assert servers({"mcpServers": {"a": SERVER}}, CLAUDE) == {"a": SERVER}
    named = {"servers": [{"name": "a", "url": "u"}, {"url": "nameless"}, 3]}
    assert servers(named, LIST) == {"a": {"url": "u"}}
    assert servers({}, CLAUDE) == servers({"mcp": {}}, NESTED) == servers({}, LIST) == {}


@pytest.mark.parametrize(
    ("document", "shape", "message"),
    [
        pytest.param({"mcpServers": []}, CLAUDE, "`mcpServers` is not a table", id="list"),
        pytest.param({"mcpServers": None}, CLAUDE, "`mcpServers` is not a table", id="null"),
        pytest.param({"mcp": 1}, NESTED, "`mcp` is not a table", id="parent"),
        pytest.param({"servers": {}}, LIST, "`servers` is not a list", id="map"),
    ],
)
def test_something_else_in_the_place_of_servers_is_refused(
    document: dict[str, object], shape: Shape, message: str
) -> None:
    with pytest.raises(DocumentError, match=message):
        servers(document, shape)


def test_a_server_comes_and_goes_and_json_is_as_before() -> None:
    text = """\
{
    // mine
    "inputs": [], // used below
    "mcpServers": {
        "b": {}
    }
}
"""
    added = edit_servers(text, CLAUDE, {"a": SERVER}, [])
    assert servers(read(added, "json"), CLAUDE) == {"b": {}, "a": SERVER}
    assert '// mine\n    "inputs": [], // used below\n' in added
    assert edit_servers(added, CLAUDE, {}, ["a", "unknown"]) == text


def test_comments_inside_a_server_survive_a_change_of_it() -> None:
    text = """\
{
  "mcpServers": {
    "a": {
      "command": "x", // why
      "cwd": "/"
    }
  }
}
"""
    new = edit_servers(text, CLAUDE, {"a": {"command": "y", "cwd": "/"}}, [])
    assert new == text.replace('"x"', '"y"')


def test_a_key_with_a_dot_is_one_key() -> None:
    text = edit_servers('{"amp.mcpServers":{"b":{}},"amp":{}}', AMP, {"a": {"url": "u"}}, ["b"])
    assert text == '{"amp.mcpServers":{"a":{"url":"u"}},"amp":{}}'


@pytest.mark.parametrize(
    ("shape", "text", "left"),
    [
        pytest.param(CLAUDE, '{"x": 1, "mcpServers": {"a": {}}}', '{"x": 1}', id="json"),
        pytest.param(CLAUDE, '{"mcpServers": {"a": {}}}', "{}", id="json-alone"),
        pytest.param(NESTED, '{"mcp": {"servers": {"a": {}}}}', "{}", id="json-nested"),
        pytest.param(
            NESTED,
            '{"mcp": {"x": 1, "servers": {"a": {}}}}',
            '{"mcp": {"x": 1}}',
            id="json-neighbour",
        ),
        pytest.param(
            CLAUDE,
            '{\n  "mcpServers": {\n    // mine\n    "a": {}\n  }\n}',
            '{\n  "mcpServers": {\n    // mine\n  }\n}',
            id="json-comment",
        ),
        pytest.param(LIST, '{"servers": [{"name": "a"}]}', "{}", id="json-list"),
        pytest.param(CODEX, "x = 1\n\n[mcp_servers.a]\nurl = 1\n", "x = 1\n", id="toml"),
        pytest.param(CODEX, "[mcp_servers]\n[mcp_servers.a]\n[b]\n", "[b]\n", id="toml-header"),
        pytest.param(CODEX, "mcp_servers = { a = {} }\n", "", id="toml-inline"),
        pytest.param(
            CODEX,
            "[mcp_servers]  # mine\n[mcp_servers.a]\nurl = 1\n",
            "[mcp_servers]  # mine\n",
            id="toml-comment",
        ),
        pytest.param(VIBE, '[[mcp_servers]]\nname = "a"\n\n[x]\n', "[x]\n", id="toml-list"),
    ],
)
def test_the_key_of_the_servers_goes_with_the_last_unless_a_comment_is_there(
    shape: Shape, text: str, left: str
) -> None:
    assert edit_servers(text, shape, {}, ["a"]) == left


def test_an_empty_key_that_nobody_emptied_stays() -> None:
    assert edit_servers('{"mcpServers": {}}', CLAUDE, {}, ["a"]) == '{"mcpServers": {}}'


def test_a_server_in_toml_is_a_table_behind_the_others() -> None:
    added = edit_servers(CONFIG, CODEX, {"new.one": {**SERVER, "timeout": 1.5, "on": True}}, [])
    block = """\
[mcp_servers."new.one"]
command = "run"
args = ["-v"]
env = { TOKEN = "s3cret" }
timeout = 1.5
on = true

"""
    assert added == CONFIG.replace("# Profiles follow", block + "# Profiles follow")
    assert edit_servers(added, CODEX, {}, ["new.one"]) == CONFIG


def test_of_a_server_in_toml_only_what_differs_is_rewritten() -> None:
    text = """\
[mcp_servers.a]
# how to start it
command = "x"  # why
args = ["1"]

# its environment
[mcp_servers.a.env]
A = "1"
B = "2"  # two

[[other]]
"""
    puts = {"a": {"command": "y", "cwd": "/", "env": {"B": "2", "C": "3"}}}
    assert edit_servers(text, CODEX, puts, []) == (
        text.replace('"x"', '"y"')
        .replace('args = ["1"]\n', 'cwd = "/"\n')
        .replace('A = "1"\n', "")
        .replace("# two\n", '# two\nC = "3"\n')
    )


def test_the_last_of_two_servers_of_one_name_counts_and_both_go() -> None:
    text = (
        '[[mcp_servers]]\nname = "a"\nx = 1  # one\n\n[[mcp_servers]]\nname = "a"\nx = 2  # two\n'
    )
    assert edit_servers(text, VIBE, {"a": {"x": 3}}, []) == text.replace("2  #", "3  #")
    assert edit_servers(text, VIBE, {}, ["a"]) == ""


def test_parts_of_a_server_that_lie_apart_go_together() -> None:
    text = "[mcp_servers.a]\nx = 1\n\n[b]\ny = 2\n\n[mcp_servers.a.env]\nz = 3\n\n[c]\n"
    assert edit_servers(text, CODEX, {}, ["a"]) == "[b]\ny = 2\n\n[c]\n"


def test_a_table_of_dotted_keys_gets_more_of_them() -> None:
    text = "[t]\nq = 1\n\n[mcp_servers]\na.x = 1\na.y = 2  # two\nb.x = 1\n"
    new = edit_servers(text, CODEX, {"a": {"x": 1, "y": 2, "z": 3}}, [])
    assert new == text.replace("# two\n", "# two\na.z = 3\n")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[mcp_servers.a.env]\nA = '1'\n", id="implied"),
        pytest.param("mcp_servers.a.env.A = '1'\n[x]\n", id="dotted"),
        pytest.param("[mcp_servers]\na.env.A = '1'\n", id="dotted-in-table"),
        pytest.param("[[mcp_servers.a]]\nA = '1'\n", id="array"),
        pytest.param("mcp_servers.a = 1\n", id="number"),
        pytest.param("[mcp_servers]\na = {}", id="no-newline"),
        pytest.param("[mcp_servers.a]\n[mcp_servers.a.command]\nx = 1\n[x]\n", id="other-type"),
        pytest.param("[mcp_servers.a]\r\ncommand = '''\r\n]#'''\r\n[x]\r\n", id="crlf"),
    ],
)
def test_however_a_server_is_written_it_becomes_what_is_put(text: str) -> None:
    after = tomllib.loads(edit_servers(text, CODEX, {"a": SERVER}, []))
    assert after == {**tomllib.loads(text), "mcp_servers": {"a": SERVER}}


def test_line_ends_of_toml_stay() -> None:
    text = CONFIG.replace("\n", "\r\n")
    new = edit_servers("\ufeff" + text, CODEX, {"a": SERVER}, [])
    assert new.startswith("\ufeff# A person's own file\r\n")
    assert "\n" not in new.replace("\r\n", "")


def test_a_server_of_a_list_has_its_name_first() -> None:
    text = '[[mcp_servers]]\nname = "b"\n[mcp_servers.env]\nA = "1"\n'
    added = edit_servers(text, VIBE, {"a": {"url": "u"}}, [])
    assert added == text + '\n[[mcp_servers]]\nname = "a"\nurl = "u"\n'
    changed = edit_servers(added, VIBE, {"b": {"env": {"A": "2"}}}, ["a"])
    assert changed == text.replace('"1"', '"2"')
    assert edit_servers("", LIST, {"a": {"url": "u"}}, []) == (
        '{\n  "servers": [\n    {\n      "name": "a",\n      "url": "u"\n    }\n  ]\n}\n'
    )


def test_comments_inside_one_long_value_survive_a_change() -> None:
    text = 'x = 1\nmcp_servers = [\n  { name = "b" }, # theirs\n]\n'
    added = edit_servers(text, VIBE, {"a": {"url": "u"}}, [])
    assert added == text.replace("theirs\n", 'theirs\n  { name = "a", url = "u" },\n')
    assert edit_servers(added, VIBE, {}, ["a"]) == text


def test_a_value_that_cannot_be_read_back_is_refused() -> None:
    with pytest.raises(DocumentError, match="cannot be edited safely"):
        edit_servers("", CODEX, {"a": {"timeout": float("nan")}}, [])


def test_secrets_of_servers_are_hidden_in_json() -> None:
    text = """\
{
  "env": {"KEEP": "shown"}, // a comment
  "mcpServers": {
    "a": {"command": "x", "env": {"T": "s1", "T": "s2"}, "args": ["shown"]},
    "b": {"headers": {"A": "s3"}, "more": [{"environment": {"N": 4}}]}
  },
  "mcpServers": {"env": {"command": "shown", "http_headers": {"A": "s5"}}}
}
"""
    shown = hide(text, CLAUDE)
    assert [one for one in ("s1", "s2", "s3", "4", "s5") if one in shown] == []
    assert shown.count("shown") == text.count("shown")
    assert "// a comment" in shown
    assert read(shown, "json")["mcpServers"]["env"]["http_headers"] == {"A": "…"}
    assert "s3" in hide(text, CLAUDE, names=["a"])
    assert "s1" not in hide(text, CLAUDE, names=["a"])


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers = { a = { url = 'u', env = { T = 's1', N = 4 } } }\n",
        "[mcp_servers.a]\nurl = 'u' # c\nenv = { T = 's1' }\nhttp_headers = { U = 's10' }\n",
        "[mcp_servers.a]\nurl = 'u'\n[mcp_servers.a.env]\nT = '''\ns1'''\n",
        "mcp_servers.a.url = 'u'\nmcp_servers.a.headers.T = 's1'\n",
    ],
)
def test_secrets_of_servers_are_hidden_in_toml(text: str) -> None:
    shown = hide(f"[env]\nT = 'shown'\n{text}" if text[0] == "[" else text, CODEX)
    assert "s1" not in shown
    assert "…" in shown
    assert ("shown" in shown) == (text[0] == "[")
    assert read(shown, "toml")["mcp_servers"]["a"]["url"] == "u"


def test_secrets_of_servers_are_hidden_in_lists() -> None:
    text = '[[mcp_servers]]\nname = "a"\n[mcp_servers.env]\nT = "s1"\n'
    assert hide(text, VIBE) == text.replace("s1", "…")
    assert hide(text, VIBE, names=["b"]) == text
    items = '{"servers": [{"name": "a", "env": {"T": "s1"}}]}'
    assert hide(items, LIST, names=["a"]) == items.replace("s1", "…")


def test_references_of_servers_are_shown_beside_hidden_values() -> None:
    text = '{"mcpServers": {"a": {"env": {"T": "${HOST}", "U": "s1", "V": "${X:-s2}"}}}}'
    assert hide(text, CLAUDE) == text.replace("s1", "…").replace("${X:-s2}", "…")
    text = 'mcp_servers.a.env = { T = "{env:HOST}", U = "s1" }\n'
    assert hide(text, CODEX) == text.replace("s1", "…")


@pytest.mark.parametrize(
    "text", ['{"mcpServers": {"a": {"env": {"T": "s1"', '{"mcpServers": ["s1"]}']
)
def test_what_cannot_be_parsed_is_not_shown_at_all(text: str) -> None:
    shown = hide(text, CLAUDE)
    assert "s1" not in shown
    assert shown.count("\n") == 1


def test_the_order_of_keys_is_no_difference() -> None:
    assert canonical({"b": 1, "a": [1.0, {"y": 2, "x": None}]}) == (
        b'{"a":[1,{"x":null,"y":2}],"b":1}'
    )
    assert value_digest({"a": 1, "b": "é"}) == value_digest({"b": "é", "a": 1})
    assert value_digest({"a": 1}) != value_digest({"a": True})
    assert canonical(datetime.date(2024, 1, 2)) == b'"2024-01-02"'
    assert len(value_digest(None)) == 64
