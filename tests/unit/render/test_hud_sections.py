"""A HUD section is rendered from values, or left out."""

from collections.abc import Mapping

import pytest

from gascity.model.hud import HudSection, read_section
from gascity.render.hud import ParsedSection, RenderedSection, render_section


def parsed(front: str, body: str, **changes: object) -> ParsedSection:
    section = read_section("hud/a.template.md", f"---\n{front}\n---\n{body}")
    assert section.problems == ()
    return ParsedSection(section._replace(**changes))  # type: ignore[arg-type]


def rendered(
    front: str, body: str, values: Mapping[str, object] = {}, percentage: int | None = None
) -> RenderedSection:
    return render_section(parsed(front, body), values, percentage)


def test_the_sources_of_a_section_are_those_its_text_and_its_settings_name() -> None:
    section = parsed(
        "data-sources: [mail, command:t.sh]\nshow-when: .Git\ncollapse-threshold: 5",
        "{{ range .Tasks }}{{ .ID }}{{ end }}{{ .Command }}",
    )
    assert section.sources == {"mail", "command:t.sh", "command:", "git", "context", "tasks"}


def test_a_plain_file_is_used_unchanged() -> None:
    section = read_section("hud/a.md", "\n{{ .X }}\n")
    assert render_section(ParsedSection(section), {}, None).text == "{{ .X }}"


@pytest.mark.parametrize(
    ("values", "text"), [({"Git": {"Changed": 2}}, "x"), ({"Git": {"Changed": 0}}, ""), ({}, "")]
)
def test_a_section_is_shown_when_its_condition_is_true(
    values: Mapping[str, object], text: str
) -> None:
    made = rendered("show-when: gt .Git.Changed 0", "x", values)
    assert (made.text, made.problems) == (text, ())


def test_a_condition_that_cannot_be_true_is_reported() -> None:
    made = rendered("show-when: gt .Git.Branch 0", "x", {"Git": {"Branch": "main"}})
    assert made.text == ""
    [problem] = made.problems
    assert (problem.code, problem.is_error) == ("template-failed", False)


def test_a_section_that_needs_an_unknown_value_is_left_out_with_a_warning() -> None:
    made = rendered("priority: 1", "one\n{{ .Context.Tokens }}\n")
    assert made.text == ""
    [problem] = made.problems
    assert (problem.code, problem.is_error) == ("template-failed", False)
    assert problem.place is not None
    assert problem.place.line == 5


def test_a_value_that_is_not_known_can_be_asked_for() -> None:
    assert rendered("priority: 1", "a{{ if .Context }}b{{ end }}").text == "a"


def test_a_collapsed_section_is_its_heading_and_then_cut() -> None:
    front, body = "collapse-threshold: 70\nmax-length: 5", "## A heading\n\nmore {{ .X }}\n"
    low, high = (rendered(front, body, {"X": "text"}, percentage) for percentage in (69, 70))
    assert (low.text, low.collapsed) == ("## A…", True)
    assert (high.text, high.collapsed) == ("## A…", False)
    unknown = rendered("collapse-threshold: 1", body, {"X": "t"})
    assert (unknown.text, unknown.collapsed) == ("## A heading", True)


def test_errors_of_templates_are_at_their_line() -> None:
    broken = parsed('show-when: "gt ("', "\nfine\n{{ if }}\n")
    body, condition = sorted(broken.problems)
    assert (body.code, condition.code) == ("bad-hud", "bad-template")
    assert body.place is not None
    assert condition.place is not None
    assert (body.place.line, condition.place.line) == (2, 6)
    assert render_section(broken, {}, None).text == ""


def test_a_name_that_no_session_defines_is_an_error_unless_the_pack_is_lenient() -> None:
    section = parsed("priority: 1", "{{ .Gti.Branch }} {{ .AgentName }} {{ if .Other }}{{ end }}")
    [problem] = section.undefined(["AgentName"])
    assert problem.code == "undefined-variable"
    assert problem.hint == "did you mean `Git`?"
    lenient: HudSection = section.section._replace(lenient=True)
    assert list(ParsedSection(lenient).undefined([])) == []
