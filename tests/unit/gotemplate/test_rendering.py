"""Sets of files, spans, errors in nested templates, custom functions."""

from __future__ import annotations

import pytest

from gascity.gotemplate import (
    Template,
    TemplateError,
    TemplateSet,
    parse,
    render,
    render_text,
)
from gascity.gotemplate.nodes import Node


def spans(*files: Template, data: object = None, **options: object) -> list[tuple[object, ...]]:
    rendered = render(TemplateSet(files), files[-1].name, data or {}, **options)  # type: ignore[arg-type]
    return [(span.text, span.file, span.line, span.name) for span in rendered]


def test_every_span_has_its_file_line_and_fragment() -> None:
    lib = parse('{{define "rules"}}\nbe {{.How}}{{end}}', name="lib", file="frag/lib.md")
    main = parse('Hi\n{{- " you" -}}\n\n{{template "rules" .}}!', name="p", file="p.md")
    assert spans(lib, main, data={"How": "kind"}) == [
        ("Hi", "p.md", 1, "p"),
        (" you", "p.md", 2, "p"),
        ("\nbe ", "frag/lib.md", 1, "rules"),
        ("kind", "frag/lib.md", 2, "rules"),
        ("!", "p.md", 4, "p"),
    ]


def test_a_character_split_across_spans_belongs_to_the_first_span() -> None:
    assert spans(parse('{{"\\xc3"}}{{"\\xa9!"}}{{"\\xff"}}')) == [
        ("é", "main", 1, "main"),
        ("!", "main", 1, "main"),
        ("\ufffd", "main", 1, "main"),
    ]


def test_the_spans_joined_are_the_text() -> None:
    text = '{{range .L}}é{{.}}{{"\\xff"}}\n{{end}}{{block "b" .}}x{{end}}'
    joined = "".join(str(s[0]) for s in spans(parse(text), data={"L": [1, "ü"]}))
    assert joined == render_text(text, {"L": [1, "ü"]}) == "é1\ufffd\néü\ufffd\nx"


def test_template_first_includes_the_first_fragment_that_exists() -> None:
    lib = parse('{{define "note-b"}}B for {{.Who}}{{end}}', name="lib")
    main = parse('{{templateFirst . (printf "note-%s" "a") "" "note-b"}}', name="p")
    assert spans(lib, main, data={"Who": "me"}) == [
        ("B for ", "lib", 1, "note-b"),
        ("me", "lib", 1, "note-b"),
    ]


def test_template_first_passes_dot_and_returns_a_value() -> None:
    text = (
        '{{range .L}}{{templateFirst "a" "b" | printf "%4s|"}}{{end}}{{define "b"}}<{{.}}>{{end}}'
    )
    assert render_text(text, {"L": [1, 2]}) == " <1>| <2>|"


def test_template_first_takes_names_from_variables_and_from_dot() -> None:
    text = '{{$n := "b"}}{{templateFirst $n "c"}}{{range .L}}{{templateFirst .}}{{end}}'
    text += '{{templateFirst $ "b"}}{{define "b"}}<{{len .}}>{{end}}'
    assert render_text(text, {"L": ["b"], "M": 1}) == "<2><1><2>"


def test_template_first_without_any_fragment_is_empty() -> None:
    assert render_text('[{{templateFirst . "a" "b"}}]', {}) == "[]"


def test_the_text_of_template_first_has_the_type_string() -> None:
    text = '{{printf "%T" (templateFirst "b")}}{{define "b"}}x{{end}}'
    assert render_text(text, {}) == "string"


def test_a_later_definition_replaces_an_earlier_one_unless_it_is_blank() -> None:
    one = parse('{{define "d"}}one{{end}}', name="one")
    two = parse('{{define "d"}}two{{end}}', name="two")
    blank = parse('{{define "d"}} {{/* nothing */}}{{end}}', name="blank")
    assert TemplateSet([one, two, blank])["d"].name == "d"
    assert spans(one, two, blank, parse('{{template "d"}}'))[0][:2] == ("two", "two")


def test_an_error_in_a_fragment_has_the_fragment_its_file_and_its_callers() -> None:
    lib = parse('\n{{define "inner"}}\n  {{.X.Y}}{{end}}', name="lib", file="lib.md")
    mid = parse('{{define "outer"}}\n{{template "inner" .}}{{end}}', name="mid", file="mid.md")
    main = parse('{{if true}}\n\n{{template "outer" .}}{{end}}', name="p", file="p.md")
    with pytest.raises(TemplateError) as caught:
        spans(lib, mid, main, data={"X": "text"})
    error = caught.value
    assert (error.kind, error.file, error.line, error.col, error.name) == (
        "exec",
        "lib.md",
        3,
        6,
        "inner",
    )
    assert error.trail == (("mid.md", 2, "outer"), ("p.md", 3, "p"))


def test_an_error_inside_template_first_has_its_callers() -> None:
    with pytest.raises(TemplateError) as caught:
        render_text('\n{{templateFirst "a"}}{{define "a"}}{{index 1 2}}{{end}}', {})
    assert (caught.value.name, caught.value.trail) == ("a", (("main", 2, "main"),))


def test_a_parse_error_names_the_file_the_line_and_the_fragment() -> None:
    with pytest.raises(TemplateError) as caught:
        parse('a\n{{define "d"}}\n  {{ nosuch }}{{end}}', name="n", file="dir/f.md")
    error = caught.value
    assert (error.kind, error.file, error.line, error.name) == ("parse", "dir/f.md", 3, "d")
    assert str(error) == 'dir/f.md:3:5: in "d": function "nosuch" not defined'


def test_columns_count_bytes_from_zero() -> None:
    with pytest.raises(TemplateError) as caught:
        render_text("é{{index 1 2}}", {})
    assert caught.value.col == 4


def test_rendering_an_unknown_template_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(TemplateError, match="did you mean `main`"):
        render(TemplateSet([parse("x")]), "mian", {})


def test_custom_functions_receive_and_return_plain_values() -> None:
    seen: list[object] = []

    def keep(*args: object) -> object:
        seen.extend(args)
        return [1, "two", None]

    text = '{{keep 1 .M (index "a" 0) nil "s" | len}}'
    assert render_text(text, {"M": {"k": 1}}, functions={"keep": keep}) == "3"
    assert seen == [1, {"k": 1}, 97, None, "s"]
    assert [type(value) for value in seen if isinstance(value, int)] == [int, int]


def test_an_exception_in_a_custom_function_is_an_error_at_its_call() -> None:
    with pytest.raises(TemplateError, match="error calling half") as caught:
        render_text("\n{{half 1}}", {}, functions={"half": lambda _: 1 / 0})
    assert (caught.value.kind, caught.value.line) == ("exec", 2)


def test_a_custom_function_must_not_return_an_object() -> None:
    with pytest.raises(TemplateError, match="type object"):
        render_text("{{f}}", {}, functions={"f": object})


def dump(value: object) -> object:
    """Return a node or template as nested lists."""
    if isinstance(value, tuple):
        return [dump(item) for item in value]
    if isinstance(value, Node | Template):
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        return [type(value), *((name, dump(getattr(value, name))) for name in slots)]
    return value


def test_a_rendering_leaves_the_parsed_template_unchanged() -> None:
    text = '{{range $i, $x := .L}}{{if $i}}{{continue}}{{end}}{{$x | printf "%q"}}{{else}}-{{end}}'
    template = parse(text + '{{with $y := .M}}{{$y = "z"}}{{.}}{{end}}{{block "b" .}}c{{end}}')
    before = dump(template)
    for data in ({"L": ["a", "b"], "M": "m"}, {"L": [], "M": ""}):
        render(TemplateSet([template]), "main", data)
    assert dump(template) == before
