"""References lists the variables and fragments of a template without rendering it."""

from __future__ import annotations

from gascity.gotemplate import parse, references


def mentions(text: str, kind: str) -> list[tuple[str, int, int, bool]]:
    return [(r.name, r.line, r.col, r.tentative) for r in references(parse(text)) if r.kind == kind]


def test_a_variable_is_the_first_name_of_a_path_with_its_position() -> None:
    assert mentions("a {{.X}}\n{{$.Y.Z}} {{print (.W) .X}}", "variable") == [
        ("X", 1, 4, False),
        ("Y", 2, 3, False),
        ("W", 2, 19, False),
        ("X", 2, 23, False),
    ]


def test_names_inside_range_and_with_are_not_variables_unless_they_start_at_the_root() -> None:
    text = "{{range .L}}{{.Name}}{{$.Root}}{{else}}{{.E}}{{end}}{{with .W}}{{.In}}{{end}}"
    assert [m[0] for m in mentions(text, "variable")] == ["L", "Root", "E", "W"]


def test_with_dot_and_if_keep_the_root() -> None:
    text = (
        "{{with .}}{{.A}}{{end}}{{with $}}{{.B}}{{end}}{{if .C}}{{.D}}{{else if .E}}{{.F}}{{end}}"
    )
    assert [m[0] for m in mentions(text, "variable")] == list("ABCDEF")


def test_a_reference_that_may_be_undefined_is_tentative() -> None:
    text = "{{if .A}}{{end}}{{or .B .C.D}}{{.E | not}}{{if .F.G}}{{end}}{{print .H}}{{eq .I 1}}"
    assert {m[0]: m[3] for m in mentions(text, "variable")} == {
        "A": True,
        "B": True,
        "C": False,
        "E": True,
        "F": False,
        "H": False,
        "I": True,
    }


def test_a_fragment_is_rooted_if_it_receives_the_data_of_the_template() -> None:
    all_references = references(parse('{{template "a" .}}{{template "b"}}{{template "c" .X}}'))
    fragments = [(r.name, r.rooted) for r in all_references if r.kind == "fragment"]
    assert fragments == [("a", True), ("b", False), ("c", False)]


def test_fragments_of_template_first_are_tentative_and_computed_names_are_patterns() -> None:
    text = '{{templateFirst . (printf "note-%s" .Key) "note" .Name}}'
    assert mentions(text, "fragment") == [("note", 1, 42, True)]
    assert [m[0] for m in mentions(text, "pattern")] == ["note-%s", ""]
    assert [m[0] for m in mentions(text, "variable")] == ["Key", "Name"]


def test_a_definition_has_its_own_references() -> None:
    file = parse('{{define "d"}}{{.In}}{{end}}{{.Out}}', name="f", file="f.md")
    assert [r.name for r in references(file)] == ["Out"]
    (inner,) = references(file.defines["d"])
    assert (inner.name, inner.within, inner.file) == ("In", "d", "f.md")
