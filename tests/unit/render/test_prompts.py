"""Prompts: precedence of fragments, strict and lenient files, spans, what is appended."""

import os
from pathlib import Path

import pytest

from gascity.model.city import City
from gascity.model.problems import Problem
from gascity.pipeline import open_city
from gascity.prompts import Machine, Prompts
from gascity.render.prompt_text import RenderedPrompt
from gascity.source.disk import Disk
from gascity.workdir.check import check_prompt
from gascity.workdir.check_templates import unused_fragments
from tests.support.city import CityBuilder, agent_of

TODAY = Machine("linux", "2026-02-03")


def rendered(city: City, name: str) -> RenderedPrompt:
    return Prompts(city, Disk(city.root), TODAY).of(agent_of(city, name))


def prompt_problems(city: City) -> list[Problem]:
    """Check all prompts of a city and its fragments."""
    prompts = Prompts(city, Disk(city.root), TODAY)
    agents = [agent for agent in city.agents if not agent.broken]
    findings = [check_prompt(prompts, agent) for agent in agents]
    included = {name for found in findings for name in found.fragments}
    problems = [problem for found in findings for problem in found.problems]
    return list(dict.fromkeys((*problems, *unused_fragments(prompts, agents, included))))


def wrong(city: City) -> list[str]:
    return sorted(problem.code for problem in prompt_problems(city))


def fragment(name: str, text: str) -> str:
    return f'{{{{ define "{name}" }}}}{text}{{{{ end }}}}'


PACK = {"pack.toml": "", "packs/p/pack.toml": '[pack]\nname = "p"\n'}
IMPORT = '[imports.p]\nsource = "./packs/p"\n'


def test_a_plain_prompt_is_sent_byte_for_byte_front_matter_and_braces_included(
    city: CityBuilder,
) -> None:
    text = '---\nname: x\n---\r\n{{ .Nothing }} {{ template "gone" }}\n'
    done = rendered(city({"agents/a/prompt.md": text}), "a")
    assert done.text == text
    assert done.problems == ()


def test_an_agent_with_only_a_description_is_told_who_it_is(city: CityBuilder) -> None:
    opened = city({"agents/a/agent.toml": 'display_name = "The Mayor"\ndescription = "Rules."\n'})
    assert rendered(opened, "a").text == "You are The Mayor. Rules.\n"


def test_variables_and_the_agents_env_are_expanded(city: CityBuilder) -> None:
    opened = city(
        {
            "city.toml": '[workspace]\nname = "Town"\n',
            "agents/a/agent.toml": '[env]\nMOOD = "calm"\nCityName = "never seen"\n',
            "agents/a/prompt.template.md": "{{.AgentName}} of {{.CityName}} is {{.MOOD}}",
        }
    )
    assert rendered(opened, "a").text == "a of Town is calm"


@pytest.mark.parametrize(
    ("levels", "winner"),
    [
        pytest.param(("pack",), "pack", id="an-import-alone"),
        pytest.param(("pack", "city"), "city", id="the-city-over-an-import"),
        pytest.param(("pack", "city", "agent"), "agent", id="the-agent-over-all"),
    ],
)
def test_the_nearest_fragment_wins(city: CityBuilder, levels: tuple[str, ...], winner: str) -> None:
    homes = {"pack": "packs/p", "city": ".", "agent": "agents/a"}
    files = {
        f"{homes[level]}/template-fragments/f.template.md": fragment("f", level) for level in levels
    }
    opened = city(
        {
            **PACK,
            "city.toml": IMPORT,
            "agents/a/prompt.template.md": '{{ template "f" . }}',
            **files,
        }
    )
    assert rendered(opened, "a").text == winner


def test_a_later_import_covers_an_earlier_one(city: CityBuilder) -> None:
    opened = city(
        {
            "city.toml": '[imports.x]\nsource = "./x"\n[imports.y]\nsource = "./y"\n',
            "x/pack.toml": '[pack]\nname = "x"\n',
            "y/pack.toml": '[pack]\nname = "y"\n',
            "x/template-fragments/f.template.md": fragment("f", "x"),
            "y/template-fragments/f.template.md": fragment("f", "y"),
            "agents/a/prompt.template.md": '{{ template "f" . }}',
        }
    )
    assert rendered(opened, "a").text == "y"


def test_a_rigs_import_covers_the_city_for_agents_of_that_rig_only(city: CityBuilder) -> None:
    opened = city(
        {
            "city.toml": (
                '[[rigs]]\nname = "r"\npath = "r"\n[rigs.imports.p]\nsource = "./packs/p"\n'
                '[[rigs]]\nname = "s"\npath = "s"\n'
            ),
            "r/": "",
            "s/": "",
            **PACK,
            "packs/p/template-fragments/f.template.md": fragment("f", "rig"),
            "template-fragments/f.template.md": fragment("f", "city"),
            "agents/a/agent.toml": 'scope = "rig"\n',
            "agents/a/prompt.template.md": '{{ template "f" . }}',
        }
    )
    assert rendered(opened, "r/a").text == "rig"
    assert rendered(opened, "s/a").text == "city"


def test_a_prompt_replaced_by_a_patch_sees_its_writers_fragments_first(city: CityBuilder) -> None:
    opened = city(
        {
            **PACK,
            "city.toml": IMPORT + '[[patches.agent]]\nname = "p.a"\nprompt = "a.template.md"\n',
            "patches/a.template.md": '{{ template "f" . }}',
            "packs/p/agents/a/prompt.md": "old",
            "packs/p/agents/a/template-fragments/f.template.md": fragment("f", "agent"),
            "template-fragments/f.template.md": fragment("f", "city"),
        }
    )
    assert rendered(opened, "p.a").text == "city"


def test_appended_fragments_follow_in_the_seeds_order_without_repeats(city: CityBuilder) -> None:
    files = {
        f"template-fragments/{name}.template.md": fragment(name, name)
        for name in ("own", "pack", "city")
    }
    opened = city(
        {
            "pack.toml": '[agent_defaults]\nappend_fragments = ["pack", "own"]\n',
            "city.toml": '[agent_defaults]\nappend_fragments = ["city", "pack"]\n',
            "agents/a/agent.toml": 'append_fragments = ["own"]\n',
            "agents/a/prompt.template.md": "prompt",
            **files,
        }
    )
    assert rendered(opened, "a").text == "prompt\n\nown\n\npack\n\ncity"


def test_appending_to_a_plain_prompt_warns_once_with_the_fix(city: CityBuilder) -> None:
    opened = city(
        {
            "agents/a/agent.toml": 'append_fragments = ["f"]\n',
            "agents/a/prompt.md": "plain",
            "template-fragments/f.template.md": fragment("f", "more"),
        }
    )
    done = rendered(opened, "a")
    assert done.text == "plain"
    (problem,) = done.problems
    assert problem.code == "append-on-plain"
    assert problem.hint == "rename agents/a/prompt.md to agents/a/prompt.template.md"


def test_a_default_that_appends_is_silent_about_plain_prompts(city: CityBuilder) -> None:
    opened = city(
        {
            "city.toml": '[agent_defaults]\nappend_fragments = ["f"]\n',
            "agents/a/prompt.md": "plain",
            "template-fragments/f.template.md": fragment("f", "more"),
        }
    )
    assert wrong(opened) == []


def test_the_city_is_strict_about_what_nothing_defines(city: CityBuilder) -> None:
    opened = city({"agents/a/prompt.template.md": "Hello\n{{ .CityNam }}"})
    (problem,) = rendered(opened, "a").problems
    assert problem.code == "template-failed"
    assert problem.place is not None
    assert (problem.place.file, problem.place.line) == ("agents/a/prompt.template.md", 2)
    assert problem.hint is not None
    assert "CityName" in problem.hint


def test_an_imported_pack_is_lenient_with_one_warning_a_template(city: CityBuilder) -> None:
    opened = city(
        {
            **PACK,
            "city.toml": IMPORT,
            "packs/p/agents/a/prompt.template.md": '[{{.Gone}}|{{.Lost}}|{{template "no" .}}]',
        }
    )
    done = rendered(opened, "p.a")
    assert done.text == "[||]"
    (problem,) = done.problems
    assert problem.code == "undefined-in-pack"
    assert not problem.is_error


def test_a_lenient_fragment_does_not_make_the_citys_prompt_lenient(city: CityBuilder) -> None:
    opened = city(
        {
            **PACK,
            "city.toml": IMPORT,
            "packs/p/template-fragments/f.template.md": fragment("f", "[{{.Gone}}]"),
            "agents/a/prompt.template.md": '{{ template "f" . }}',
            "agents/b/prompt.template.md": '{{ template "f" . }}{{ .Gone }}',
        }
    )
    assert rendered(opened, "a").text == "[]"
    codes = [problem.code for problem in rendered(opened, "b").problems]
    assert "template-failed" in codes


@pytest.mark.parametrize(
    ("city_toml", "pack_toml", "works"),
    [
        pytest.param('templates = "strict"\n', "", False, id="the-import-is-made-strict"),
        pytest.param("", '[templates]\nmode = "strict"\n', False, id="the-pack-says-strict"),
        pytest.param(
            'templates = "lenient"\n', '[templates]\nmode = "strict"\n', True, id="the-import-wins"
        ),
    ],
)
def test_a_pack_or_its_import_may_change_the_mode(
    city: CityBuilder, city_toml: str, pack_toml: str, works: bool
) -> None:
    opened = city(
        {
            "city.toml": IMPORT + city_toml,
            "packs/p/pack.toml": f'[pack]\nname = "p"\n{pack_toml}',
            "packs/p/agents/a/prompt.template.md": "{{ .Gone }}",
        }
    )
    errors = [problem for problem in rendered(opened, "p.a").problems if problem.is_error]
    assert (errors == []) is works


def test_a_text_that_is_no_template_is_passed_on_as_it_stands_in_a_pack(city: CityBuilder) -> None:
    text = "Close {{bead_id}} | {{x | replace: y}}"
    opened = city({**PACK, "city.toml": IMPORT, "packs/p/agents/a/prompt.template.md": text})
    done = rendered(opened, "p.a")
    assert done.text == text
    (problem,) = done.problems
    assert problem.code == "bad-template"
    assert not problem.is_error


def test_an_error_in_a_fragment_names_the_fragment_and_its_own_line(city: CityBuilder) -> None:
    opened = city(
        {
            "template-fragments/f.template.md": '{{ define "f" }}\n\n{{ .Gone }}{{ end }}',
            "agents/a/prompt.template.md": '{{ template "f" . }}',
        }
    )
    (problem,) = rendered(opened, "a").problems
    assert problem.place is not None
    assert (problem.place.file, problem.place.line) == ("template-fragments/f.template.md", 3)
    assert "fragment `f`" in problem.message


def test_spans_cover_the_text_without_gaps(city: CityBuilder) -> None:
    opened = city(
        {
            "template-fragments/f.template.md": fragment("f", "é{{ .AgentName }}"),
            "agents/a/agent.toml": 'append_fragments = ["f"]\n',
            "agents/a/prompt.template.md": 'One\n{{ template "f" . }}\nTwo {{ .CityName }}',
        }
    )
    done = rendered(opened, "a")
    assert [p.start for p in done.pieces] == [0, *(p.end for p in done.pieces[:-1])]
    assert done.pieces[-1].end == len(done.text)
    assert {p.kind for p in done.pieces} == {"prompt", "fragment", "appended"}


def test_available_agents_respects_filter_visibility_and_mode(city: CityBuilder) -> None:
    opened = city(
        {
            "city.toml": "implicit_agents = false\n",
            "agents/a/agent.toml": '[agents_filter]\nallow = ["b*", "h*", "p*"]\ndeny = ["bad"]\n',
            "agents/a/prompt.template.md": '{{ template "available-agents" . }}',
            "agents/bob/agent.toml": 'display_name = "Bob"\ndescription = "builds things"\n',
            "agents/bad/agent.toml": 'description = "is denied"\n',
            "agents/carl/agent.toml": 'description = "is not allowed"\n',
            "agents/hid/agent.toml": 'hidden = true\ndescription = "is hidden"\n',
            "agents/people/agent.toml": 'mode = "primary"\ndescription = "is for people"\n',
        }
    )
    text = rendered(opened, "a").text
    assert [line for line in text.splitlines() if line.startswith("- ")] == [
        "- bob: Bob - builds things"
    ]


SERVER = 'name = "city"\ndescription = "x"\ncommand = "city"\n'


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({}, False),
        ({"mcp/city.toml": SERVER}, True),
        (
            {"mcp/city.toml": SERVER, "agents/a/agent.toml": '[mcp_filter]\ndeny = ["city"]\n'},
            False,
        ),
        ({"mcp/city.toml": SERVER, "agents/a/agent.toml": 'provider = "shell"\n'}, False),
    ],
)
def test_the_tool_for_messages_is_named_where_the_agent_has_it(
    city: CityBuilder, files: dict[str, str], named: bool
) -> None:
    opened = city(
        {
            "agents/a/prompt.template.md": '{{ template "available-agents" . }}',
            "agents/bob/agent.toml": 'description = "builds things"\n',
            **files,
        }
    )
    text = rendered(opened, "a").text
    assert ("agents_message" in text) is named
    assert 'city sling AGENT "TEXT" --wait' in text


@pytest.mark.parametrize(("allow", "expected"), [("*", []), ("shell", ["- shell:"])])
def test_who_runs_scripts_is_available_only_to_those_that_name_it(
    city: CityBuilder, allow: str, expected: list[str]
) -> None:
    opened = city(
        {
            "city.toml": 'implicit_agents = ["shell"]\n',
            "agents/a/agent.toml": f'[agents_filter]\nallow = ["{allow}"]\n',
            "agents/a/prompt.template.md": '{{ template "available-agents" . }}',
        }
    )
    lines = rendered(opened, "a").text.splitlines()
    assert [line.split(" ", 2)[:2] for line in lines if line.startswith("- ")] == [
        line.split(" ") for line in expected
    ]


def test_reserved_fragments_are_never_there_unasked(city: CityBuilder) -> None:
    opened = city({"agents/a/prompt.template.md": "just this"})
    assert rendered(opened, "a").text == "just this"


def test_environment_ends_with_the_date(city: CityBuilder) -> None:
    opened = city({"agents/a/prompt.template.md": '{{ template "environment" . }}'})
    lines = rendered(opened, "a").text.splitlines()
    assert lines[0] == "- Provider: claude"
    assert lines[-1] == "- Date: 2026-02-03"


def test_skills_lists_what_the_agent_has(city: CityBuilder) -> None:
    opened = city(
        {
            "agents/a/agent.toml": 'append_fragments = ["skills"]\n',
            "agents/a/prompt.template.md": "x",
            "skills/knit/SKILL.md": "---\nname: knit\ndescription: Knits: with wool.\n---\n",
        }
    )
    assert rendered(opened, "a").text == "x\n\nSkills you have:\n- knit: Knits: with wool."


def test_a_fragment_of_the_city_covers_a_reserved_one(city: CityBuilder) -> None:
    opened = city(
        {
            "template-fragments/e.template.md": fragment("environment", "mine"),
            "agents/a/prompt.template.md": '{{ template "environment" . }}',
        }
    )
    assert rendered(opened, "a").text == "mine"


def test_template_first_takes_the_first_fragment_there_is(city: CityBuilder) -> None:
    opened = city(
        {
            "template-fragments/n.template.md": fragment("note-default", "plain note"),
            "agents/a/prompt.template.md": (
                '{{ templateFirst . (printf "note-%s" .ProviderKey) "note-default" }}'
            ),
        }
    )
    assert rendered(opened, "a").text == "plain note"


def test_functions_of_published_packs_work(city: CityBuilder) -> None:
    opened = city(
        {
            "agents/a/prompt.template.md": (
                '{{ cmd }} {{ basename "x/y.z" }} {{ session "mayor" }} {{ q "a\\"b" }}'
            )
        }
    )
    assert rendered(opened, "a").text == 'gc y.z mayor "a\\"b"'


def test_work_dir_is_a_template_of_the_same_variables(city: CityBuilder) -> None:
    opened = city(
        {
            "agents/a/agent.toml": 'work_dir = "work/{{.AgentBase}}-{{.CityName}}"\n',
            "agents/a/prompt.template.md": "{{ .WorkDir }}",
        }
    )
    assert rendered(opened, "a").text == f"{opened.root}/work/a-town"


def test_the_default_branch_is_the_rigs_then_gits_then_main(
    city: CityBuilder, tmp_path: Path
) -> None:
    def branch(rig: str) -> str:
        opened = city(
            {
                "city.toml": rig,
                "agents/a/agent.toml": 'scope = "rig"\n',
                "agents/a/prompt.template.md": "{{ .DefaultBranch }}",
            }
        )
        return rendered(opened, "r/a").text

    place = tmp_path / "rig"
    (place / ".git").mkdir(parents=True)
    declared = f'[[rigs]]\nname = "r"\npath = "{place}"\n'
    assert branch(declared) == "main"
    (place / ".git/HEAD").write_text("ref: refs/heads/trunk\n")
    assert branch(declared) == "trunk"
    assert branch(declared + 'default_branch = "release"\n') == "release"


def test_check_finds_fragments_that_nobody_uses(city: CityBuilder) -> None:
    opened = city(
        {
            "template-fragments/f.template.md": fragment("used", "x") + fragment("idle", "y"),
            "agents/a/prompt.template.md": '{{ template "used" . }}',
        }
    )
    (problem,) = prompt_problems(opened)
    assert problem.code == "unused-fragment"
    assert "`idle`" in problem.message


def test_check_finds_undefined_variables_in_branches_not_taken(city: CityBuilder) -> None:
    opened = city(
        {
            "agents/a/prompt.template.md": (
                "{{ if .RigName }}{{ .RigNam }}{{ end }}{{ if .X }}{{ end }}"
            )
        }
    )
    assert rendered(opened, "a").problems == ()
    assert wrong(opened) == ["undefined-variable"]


def test_an_unknown_appended_fragment_is_an_error_where_it_is_written(city: CityBuilder) -> None:
    opened = city(
        {
            "agents/a/agent.toml": 'append_fragments = ["glosary"]\n',
            "agents/a/prompt.template.md": "x",
            "template-fragments/g.template.md": fragment("glossary", "y"),
        }
    )
    (problem,) = rendered(opened, "a").problems
    assert problem.code == "missing-fragment"
    assert problem.hint == "did you mean `glossary`?"


def test_secrets_of_the_environment_do_not_reach_a_prompt_unless_it_names_them(
    city: CityBuilder,
) -> None:
    opened = city(
        {
            "agents/a/agent.toml": '[env]\nAPI_TOKEN = "${API_TOKEN}"\n',
            "agents/a/prompt.template.md": "token: {{ .API_TOKEN }}",
        }
    )
    assert rendered(opened, "a").text == "token: ${API_TOKEN}"


def test_every_prompt_of_the_example_city_is_as_recorded(tmp_path: Path, snapshot: object) -> None:
    import shutil

    from gascity.resources import data_dir

    root = shutil.copytree(data_dir("example_city"), tmp_path / "hilltop")
    opened = open_city(str(root), os.environ)
    prompts = Prompts(opened, Disk(opened.root), TODAY)
    parts = []
    for agent in opened.agents:
        if agent.layer != "built-in":
            parts.append(f"-- {agent.name} --\n{prompts.of(agent).text}\n")
    assert "\n".join(parts).replace(str(root), "<city>") == snapshot


def test_a_broken_fragment_file_does_not_stop_agents_that_do_without_it(city: CityBuilder) -> None:
    opened = city(
        {
            "template-fragments/broken.template.md": '{{ define "b" }}{{ if }}{{ end }}',
            "agents/a/prompt.template.md": "fine",
            "agents/b/prompt.template.md": '{{ template "b" . }}',
        }
    )
    assert (rendered(opened, "a").text, rendered(opened, "a").problems) == ("fine", ())
    assert {p.code for p in rendered(opened, "b").problems} == {"bad-template", "template-failed"}
    assert "bad-template" in wrong(opened)
