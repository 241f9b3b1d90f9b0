"""Any text and any data raises nothing but TemplateError, in bounded time and space."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gascity.gotemplate import Budget, TemplateError, parse, references, render_text

# fmt: off
PIECES = st.sampled_from([
    "{{", "}}", "{{-", "'", "-}}", "(", ")", "|", ".", "$", "$x", "$x:=", ".A", ".L", ".M.k",
    ",", "=", ":=", "if", "else", "end", "range", "with", "define", "template", "block",
    "break", "continue", "nil", "true", "1", "-2.5", "1i", "0x1p4", "'a'", '"s"',
    '"%v%5.2f%[9]d"', "`r`", "print", "printf", "index", "slice", "len", "and", "or", "not",
    "eq", "lt", "html", "js", "urlquery", "call", "templateFirst", "\\", "/*", "*/", "\n", "é",
    "_", "+", "}", "{",
])
# fmt: on
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=6,
)
MODES = st.sampled_from(["strict", "lenient", "error", "default"])
SMALL = Budget(steps=2_000, depth=20, output=2_000)


def failure(text: str, data: object, missing: str) -> TemplateError | None:
    try:
        assert len(render_text(text, data, missing=missing, budget=SMALL)) <= SMALL.output
        references(parse(text))
    except TemplateError as error:
        return error
    return None


def try_to_render(text: str, data: object, missing: str) -> None:
    error = failure(text, data, missing)
    if error is not None:
        assert error.kind in ("parse", "exec")
        assert 1 <= error.line <= text.count("\n") + 1
        assert str(error)


@given(st.text(), VALUES, MODES)
def test_no_text_raises_anything_but_a_template_error(text: str, data: object, mode: str) -> None:
    try_to_render("{{" + text + "}}", data, mode)
    try_to_render(text, data, mode)


@given(st.lists(PIECES, max_size=40).map(" ".join), VALUES, MODES)
def test_no_sequence_of_tokens_raises_anything_but_a_template_error(
    text: str, value: object, mode: str
) -> None:
    try_to_render("{{" + text, {"A": value, "L": [1, value], "M": {"k": value}}, mode)


@given(st.text(alphabet="%+-# 0123456789.*[]vdsqxXtTfFeEgGboOcUpw!é", max_size=12), VALUES, VALUES)
def test_no_format_raises_anything_but_a_template_error(
    fmt: str, first: object, second: object
) -> None:
    try_to_render("{{printf .F .A .B}}", {"F": fmt, "A": first, "B": second}, "default")


@given(st.text())
def test_a_text_without_actions_is_unchanged(text: str) -> None:
    text = text.replace("{{", "")
    assert render_text(text, None) == text


@given(st.text(), st.text())
def test_a_value_is_never_expanded_or_trimmed(before: str, value: str) -> None:
    before = before.replace("{", "")
    assert render_text(before + "{{.V}}", {"V": value}) == before + value


@given(st.text())
def test_printf_quotes_a_text_as_the_literal_of_the_same_text(value: str) -> None:
    literal = render_text('{{printf "%q" .V}}', {"V": value})
    assert render_text("{{" + literal + "}}", None) == value


class Trap:
    """An object whose attributes and methods must not be used."""

    secret = "leaked"

    def __str__(self) -> str:
        return "leaked"


class TrapText(str):
    def __str__(self) -> str:
        raise AssertionError("an overridden method was called")

    __len__ = __format__ = encode = isascii = __str__  # type: ignore[assignment]


@pytest.mark.parametrize(
    "text",
    ["{{.T}}", "{{.T.secret}}", "{{print .T}}", "{{.L}}", "{{range .L}}{{.}}{{end}}", "{{len .T}}"],
)
def test_an_object_is_rejected_before_any_of_its_methods_is_called(text: str) -> None:
    with pytest.raises(TemplateError, match="Python's type Trap"):
        render_text(text, {"T": Trap(), "L": [Trap()]}, missing="default")


@pytest.mark.parametrize(
    "text",
    [
        "{{.S.__class__}}",
        "{{.S.format}}",
        "{{.L.append}}",
        "{{.M.__class__}}",
        "{{.M.keys}}",
        "{{(index .L 0).real}}",
        '{{"{0.__class__}".format}}',
        "{{call .M.get}}",
    ],
)
def test_attributes_of_a_value_are_not_fields(text: str) -> None:
    with pytest.raises(TemplateError):
        render_text(text, {"S": "s", "L": [1], "M": {}})


def test_a_subclass_is_read_through_its_base_type() -> None:
    assert render_text('{{.T}}{{len .T}}{{printf "%q" .T}}', {"T": TrapText("a")}) == 'a1"a"'


HUGE = 1 << 62
CIRCLE: list[object] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{{range .Huge}}{{end}}", id="range-over-a-huge-number"),
        pytest.param('{{define "a"}}{{template "a"}}{{end}}{{template "a"}}', id="recursion"),
        pytest.param('{{templateFirst "a"}}{{define "a"}}{{templateFirst "a"}}{{end}}', id="first"),
        pytest.param("{{" + "(" * 50_000 + "1" + ")" * 50_000 + "}}", id="parentheses"),
        pytest.param("{{if 1}}" * 5_000 + "{{end}}" * 5_000, id="blocks"),
        pytest.param("{{$x := .S}}{{range 99}}{{$x = print $x $x}}{{end}}", id="doubling"),
        pytest.param('{{$x := .S}}{{range 99}}{{$x = printf "%s%s" $x $x}}{{end}}', id="printf"),
        pytest.param("{{$x := .S}}{{range 99}}{{$x = html $x $x}}{{end}}", id="html"),
        pytest.param('{{range 99}}{{printf "%1000000d" 1}}{{end}}', id="wide"),
        pytest.param('{{printf "%.9999999f" 1.5}}', id="precise"),
        pytest.param('{{printf "%1000000v" .Many}}', id="wide-list"),
        pytest.param(
            '{{$x := printf "%999999d" 1}}{{range 99999}}{{$n := len $x}}{{end}}', id="len"
        ),
        pytest.param("{{range 99999}}{{$n := slice $.Many 0}}{{end}}", id="copies"),
        pytest.param("{{range .Many}}{{range $.Many}}{{end}}{{end}}", id="loops"),
        pytest.param("{{.Circle}}", id="circle"),
        pytest.param("{{1" + "0" * 99_999 + "}}", id="long-number"),
        pytest.param("{{1" + "0" * 99_999 + "e}}", id="long-bad-number"),
        pytest.param("{{.Gone" + "e" * 99_999 + "}}", id="long-name"),
    ],
)
def test_a_template_that_exceeds_its_budget_is_stopped(text: str) -> None:
    data = {"Huge": HUGE, "S": "abcdefgh<", "Many": list(range(50_000)), "Circle": CIRCLE}
    with pytest.raises(TemplateError):
        render_text(text, data)


def test_a_long_but_shallow_template_is_rendered() -> None:
    chain = "{{if .A}}" + "{{else if .A}}" * 5_000 + "{{else}}end{{end}}"
    assert render_text(chain, {"A": ""}) == "end"
    deep = '{{define "a"}}{{if .}}.{{template "a" (slice . 1)}}{{end}}{{end}}{{template "a" .}}'
    assert render_text(deep, "x" * 900) == "." * 900


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        pytest.param(Budget(steps=20), "more than 20 steps", id="steps"),
        pytest.param(Budget(output=20), "longer than 20 characters", id="output"),
        pytest.param(Budget(depth=3), "nested more than 3 deep", id="depth"),
    ],
)
def test_the_caller_sets_the_budget(budget: Budget, message: str) -> None:
    text = '{{range 30}}ab{{end}}{{define "a"}}{{template "a"}}{{end}}{{template "a"}}'
    with pytest.raises(TemplateError, match=message) as caught:
        render_text(text, {}, missing="default", budget=budget)
    assert caught.value.kind == "exec"
