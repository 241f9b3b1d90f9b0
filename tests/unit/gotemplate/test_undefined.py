"""Strict and lenient mode: where undefined variables are allowed, and their value."""

from __future__ import annotations

import pytest

from gascity.gotemplate import TemplateError, TemplateSet, UndefinedName, parse, render, render_text

DATA = {"RigName": "reef", "Branch": "", "M": {"key": "v"}, "L": ["a"], "Null": None}


def lenient(text: str) -> tuple[str, list[UndefinedName]]:
    undefined: list[UndefinedName] = []
    spans = render(
        TemplateSet([parse(text)]), "main", DATA, missing="lenient", undefined_names=undefined
    )
    return "".join(span.text for span in spans), undefined


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("{{if .Gone}}y{{else}}n{{end}}", "n", id="if"),
        pytest.param("{{if .M.gone}}y{{else}}n{{end}}", "n", id="last-name-of-a-path"),
        pytest.param("{{if (.Gone)}}y{{else}}n{{end}}", "n", id="in-parentheses"),
        pytest.param("{{with .Gone}}y{{else}}n{{end}}", "n", id="with"),
        pytest.param("{{with $x := .Gone}}y{{else}}n{{end}}", "n", id="with-variable"),
        pytest.param("{{range .Gone}}y{{else}}n{{end}}", "n", id="range"),
        pytest.param("{{range $i, $v := .Gone}}y{{else}}n{{end}}", "n", id="range-variables"),
        pytest.param("{{not .Gone}}", "true", id="not"),
        pytest.param("{{.Gone | not}}", "true", id="piped-to-not"),
        pytest.param('{{or .Gone "d"}}', "d", id="or"),
        pytest.param("{{if and .RigName .Gone}}y{{else}}n{{end}}", "n", id="and"),
        pytest.param('{{eq .Gone "x"}}', "false", id="eq"),
        pytest.param("{{eq .Gone .Away}}", "true", id="eq-of-two-undefined"),
        pytest.param('{{eq .Gone ""}}{{eq .Gone nil}}', "falsefalse", id="eq-with-empty-and-nil"),
        pytest.param("{{eq .Gone .L}}", "false", id="eq-with-a-list"),
        pytest.param('{{ne .Gone "x"}}', "true", id="ne"),
        pytest.param("[{{.Branch}}]", "[]", id="empty-is-defined"),
        pytest.param("{{.Null}}", "<no value>", id="null-is-defined"),
        pytest.param('{{if index .M "gone"}}y{{else}}n{{end}}', "n", id="index"),
    ],
)
def test_strict_mode_allows_an_undefined_variable_in_conditions(text: str, want: str) -> None:
    assert render_text(text, DATA) == want


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{{.Gone}}", id="output"),
        pytest.param("{{.M.gone}}", id="output-of-a-path"),
        pytest.param("{{if .Gone.More}}{{end}}", id="field-of-it-in-if"),
        pytest.param("{{(.Gone).More}}", id="field-of-parentheses"),
        pytest.param("{{$x := .Gone}}", id="variable"),
        pytest.param('{{printf "%s" .Gone}}', id="argument"),
        pytest.param("{{.Gone | html}}", id="piped"),
        pytest.param("{{len .Gone}}", id="len"),
        pytest.param("{{lt .Gone 1}}", id="lt"),
        pytest.param("{{or .Gone .Away}}", id="what-or-returns"),
        pytest.param("{{and .Gone 1}}", id="what-and-returns"),
        pytest.param("{{with $x := .Gone}}{{else}}{{$x}}{{end}}", id="variable-of-with"),
        pytest.param('{{index .M "gone"}}', id="what-index-returns"),
        pytest.param('{{template "t" .Gone}}{{define "t"}}{{end}}', id="data-of-a-fragment"),
        pytest.param('{{template "t"}}{{define "t"}}{{.X}}{{end}}', id="field-of-no-data"),
        pytest.param('{{template "t"}}{{define "t"}}{{.}}{{end}}', id="no-data"),
    ],
)
def test_strict_mode_rejects_an_undefined_variable_anywhere_else(text: str) -> None:
    with pytest.raises(TemplateError, match="not defined") as caught:
        render_text(f"one\ntwo\n{text}", DATA)
    assert (caught.value.kind, caught.value.file, caught.value.line) == ("exec", "main", 3)


def test_strict_mode_suggests_a_similar_variable() -> None:
    with pytest.raises(TemplateError) as caught:
        render_text("{{ .RigNmae }}", DATA)
    assert str(caught.value) == (
        'main:1:3: in "main": .RigNmae is not defined (did you mean `.RigName`?)'
    )


def test_strict_mode_suggests_a_name_in_another_case_and_a_key_of_the_same_map() -> None:
    for text, hint in (("{{.rigname}}", ".RigName"), ("{{.M.kee}}", ".M.key")):
        with pytest.raises(TemplateError) as caught:
            render_text(text, DATA)
        assert caught.value.hint == f"did you mean `{hint}`?"


def test_strict_mode_rejects_a_missing_fragment_and_suggests_one() -> None:
    with pytest.raises(TemplateError) as caught:
        render_text('a\n{{template "rulez" .}}', DATA, defines={"rules": "x"})
    assert (caught.value.line, caught.value.hint) == (2, "did you mean `rules`?")


def test_lenient_mode_treats_undefined_variables_and_missing_fragments_as_empty_text() -> None:
    text = '[{{.Gone}}|{{.A.B}}|{{printf "%s" .Gone}}|{{template "none" .}}|{{len .Gone}}]'
    assert lenient(text)[0] == "[||||0]"


def test_lenient_mode_compares_an_undefined_variable_as_empty_text() -> None:
    assert lenient('{{eq .Gone ""}}{{ne .Gone "x"}}{{eq .Gone .L}}')[0] == "truetruefalse"


def test_lenient_mode_reports_each_position_once_and_no_conditions() -> None:
    text = '{{if .Asked}}{{end}}{{range 3}}\n{{$.RigNmae}}{{template "none"}}{{end}}'
    undefined = lenient(text)[1]
    assert [(n.kind, n.subject, n.line, n.hint) for n in undefined] == [
        ("variable", "$.RigNmae", 2, "did you mean `$.RigName`?"),
        ("fragment", "none", 2, ""),
    ]


def test_lenient_mode_allows_no_other_error() -> None:
    with pytest.raises(TemplateError, match="index out of range"):
        lenient("{{index .L 7}}")


def test_an_unknown_mode_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="missing must be one of"):
        render_text("", {}, missing="zero")
