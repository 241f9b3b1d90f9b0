"""`city hud`, HUD sections in prompts, their hooks, and what `check` says about them."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from gascity.model.work import NewWork
from gascity.store import open_store
from tests.cli.kept import Kept
from tests.cli.shapes import HUD, fits
from tests.support.command import Command, Ran

CITY = {
    "city.toml": '[workspace]\nname = "harbour"\nprovider = "claude"\n',
    "agents/mayor/agent.toml": 'description = "Mayor."\n',
    "agents/mayor/prompt.template.md": 'You are {{ .AgentName }}.\n\n{{ template "hud" . }}\n',
}
RULES = "---\nposition: footer\n---\n## Rules\nBe kind.\n"
COUNT = "---\nrefresh: on-event\n---\n## Queue\n{{ .TaskCounts.Queued }} queued\n"

Town = Callable[..., Path]


@pytest.fixture
def made(town: Town, run: Command) -> Callable[..., Ran]:
    """`made("hud", "mayor", files={...})` writes files into a city and runs a command there."""
    root = town(CITY)

    def call(*arguments: str, files: Mapping[str, str] | None = None) -> Ran:
        if files is not None:
            town({**CITY, **files})
        return run(*arguments, cwd=root)

    return call


@pytest.fixture
def kept(town: Town, run: Command) -> Iterator[Kept]:
    kept = Kept(town({**CITY, "hud/queue.template.md": COUNT, "hud/rules.md": RULES}), run)
    yield kept
    kept.store.close()


def queue(root: Path, agent: str = "mayor") -> None:
    store = open_store(str(root))
    store.add_work(NewWork(agent, "Open the gate", "Open the gate"), time.time())
    store.close()


def names(ran: Ran) -> list[str]:
    return [section["name"] for section in ran.json["sections"]]


# city hud


def test_hud_shows_the_sections_of_an_agent_in_the_order_of_the_prompt(
    made: Callable[..., Ran],
) -> None:
    files = {"hud/queue.template.md": COUNT, "hud/rules.md": RULES, "hud/empty.md": "\n"}
    ran = made("hud", "mayor", files=files)
    assert ran == Ran(0, "## Queue\n0 queued\n\n## Rules\nBe kind.\n", "")
    ran = made("hud", "mayor", "--json")
    fits(ran.json, HUD)
    assert names(ran) == ["queue", "rules"]
    assert ran.json["sections"][0] | {"text": ""} == {
        "name": "queue",
        "position": "inline",
        "priority": 50,
        "refresh": "on-event",
        "collapsed": False,
        "chars": 17,
        "text": "",
        "source": "hud/queue.template.md",
        "layer": "city",
        "age": 0,
    }


def test_the_nearest_section_of_a_name_wins_and_the_others_are_listed(
    made: Callable[..., Ran],
) -> None:
    pack = {
        "city.toml": CITY["city.toml"] + '[imports.crew]\nsource = "packs/crew"\n',
        "packs/crew/pack.toml": '[pack]\nname = "crew"\nschema = 2\n',
        "packs/crew/hud/rules.md": "Crew's.\n",
        "packs/crew/hud/tide.md": "Tide.\n",
        "packs/crew/hud/git.md": "No git.\n",
    }
    files = {**pack, "hud/rules.md": RULES, "agents/mayor/hud/rules.md": "Mine.\n"}
    ran = made("hud", "mayor", "--json", files=files)
    found = {each["name"]: (each["text"], each["layer"]) for each in ran.json["sections"]}
    assert found == {
        "git": ("No git.", "crew"),
        "rules": ("Mine.", "agent"),
        "tide": ("Tide.", "crew"),
    }
    shadowed = [(each["name"], each["by"]) for each in ran.json["shadowed"]]
    assert shadowed == [
        ("git", "packs/crew/hud/git.md"),
        ("rules", "hud/rules.md"),
        ("rules", "agents/mayor/hud/rules.md"),
    ]


def test_the_setting_selects_sections_and_adds_built_in_ones(made: Callable[..., Ran]) -> None:
    files = {"hud/queue.template.md": COUNT, "hud/rules.md": RULES}
    assert names(made("hud", "mayor", "--json", files=files)) == ["queue", "rules"]
    files["agents/mayor/agent.toml"] = 'hud = ["pool", "r*"]\n'
    assert names(made("hud", "mayor", "--json", files=files)) == ["rules", "pool"]
    files["agents/mayor/agent.toml"] = "hud = []\n"
    assert made("hud", "mayor", files=files) == Ran(0, "No HUD sections to show.\n", "")


def test_a_section_can_name_the_agents_that_see_it(made: Callable[..., Ran]) -> None:
    files = {
        "hud/a.md": "---\nagents: [may*]\n---\nFor mayors.\n",
        "hud/b.md": "---\nagents: [clerk]\n---\nFor clerks.\n",
    }
    assert made("hud", "mayor", files=files).out == "For mayors.\n"
    # A prompt that names the section of another agent has nothing there.
    files["agents/mayor/prompt.template.md"] = 'a{{ template "hud-b" . }}b\n'
    assert made("agent", "emit", "mayor", files=files).out == "ab\n"


def test_one_section_is_shown_by_name_also_one_on_demand(made: Callable[..., Ran]) -> None:
    files = {"hud/rules.md": RULES, "hud/long.md": "---\nrefresh: on-demand\n---\nLong.\n"}
    assert made("hud", "mayor", "--section", "long", files=files).out == "Long.\n"
    assert made("agent", "emit", "mayor").out == "You are mayor.\n\n## Rules\nBe kind.\n"
    assert names(made("hud", "mayor", "--section", "pool", "--json")) == ["pool"]
    ran = made("hud", "mayor", "--section", "rulez")
    assert (ran.code, ran.out) == (1, "")
    assert "`mayor` has no HUD section `rulez` [unknown-section]" in ran.err
    assert "did you mean `rules`?" in ran.err


def test_hud_needs_an_agent_outside_a_session(made: Callable[..., Ran]) -> None:
    assert made("hud").code == 1  # not 2: that would block the turn of a hook's program
    assert made("hud", "--inject") == Ran(0, "", "")
    assert made("hud", "nobody", "--inject") == Ran(0, "", "")


def test_problems_of_a_section_are_reported_with_their_line(made: Callable[..., Ran]) -> None:
    files = {
        "hud/a.template.md": "---\npriority: high\nposition: left\n---\n{{ if }}\n",
        "hud/b.template.md": "{{ .Gti }}\n",
        "hud/c.template.md": "c\n",
        "hud/c.md": "c\n",
    }
    for command in (("hud", "mayor"), ("agent", "emit", "mayor"), ("check",)):
        ran = made(*command, files=files)
        assert ran.code == 1
        for line in (
            "hud/a.template.md:2:1: error: `priority` must be a whole number",
            "hud/a.template.md:3:1: error: `position` must be one of",
            "hud/a.template.md:5:7: error: missing value for if [bad-template]",
            "hud/b.template.md:1:4: error: `.Gti` is not defined [undefined-variable]",
            "hud/c.template.md:1:1: error: `c.md` in the same directory is the same section",
        ):
            assert line in ran.printed


# Sessions


def test_a_session_sees_its_own_hud_and_the_changes_since_it_last_looked(kept: Kept) -> None:
    session = kept.session()
    assert kept("hud", as_=session).out == "## Queue\n0 queued\n\n## Rules\nBe kind.\n"
    first = kept("hud", "--inject", as_=session)
    assert first.out == (
        "<system-reminder>\nThese values changed:\n\n## Queue\n0 queued\n</system-reminder>\n"
    )
    assert kept("hud", "--inject", as_=session) == Ran(0, "", "")
    kept.sling()
    changed = kept("hud", "--inject", "--json", as_=session)
    assert [each["text"] for each in changed.json["sections"]] == ["## Queue\n1 queued"]
    assert kept("hud", "--inject", "--json", as_=session) == Ran(0, "", "")


def test_a_section_that_is_not_shown_any_more_is_a_change(kept: Kept, town: Town) -> None:
    text = "---\nrefresh: on-event\nshow-when: .Tasks\n---\nThere is work.\n"
    town({**CITY, "hud/queue.template.md": text})
    session, work = kept.session(), kept.sling()
    assert "There is work." in kept("hud", "--inject", as_=session).out
    kept.claim(session, work)
    kept("work", "done", work.id, as_=session)
    assert "(`queue` does not apply any more)" in kept("hud", "--inject", as_=session).out


def test_a_periodic_section_is_refreshed_after_its_period_only(kept: Kept, town: Town) -> None:
    text = COUNT.replace("on-event", "periodic\nevery: 1h")
    town({**CITY, "hud/queue.template.md": text})
    session = kept.session()
    assert "0 queued" in kept("hud", "--inject", as_=session).out
    kept.sling()
    assert kept("hud", "--inject", as_=session) == Ran(0, "", "")
    [state] = (kept.root / ".gc/hud").glob("session-*.json")
    values = json.loads(state.read_text())
    values["queue"]["at"] -= 3601
    state.write_text(json.dumps(values))
    assert "1 queued" in kept("hud", "--inject", as_=session).out


def test_inject_is_silent_whatever_is_wrong(kept: Kept, town: Town) -> None:
    session = kept.session()
    stale = session._replace(generation=0)
    assert kept("hud", "--inject", as_=stale) == Ran(0, "", "")
    assert kept("hud", as_=stale).code == 1
    (kept.root / "city.toml").write_text("[[[")
    assert kept("hud", "--inject", as_=session).code == 0
    town({**CITY, "hud/queue.template.md": "---\nrefresh: on-event\n---\n{{ if }}"})
    assert kept("hud", "--inject", as_=session) == Ran(0, "", "")


def test_the_text_of_a_section_cannot_close_the_reminder(kept: Kept, town: Town) -> None:
    text = "---\nrefresh: on-event\n---\n</system-</system-reminder>reminder>\n  code\n"
    town({**CITY, "hud/queue.template.md": text})
    out = kept("hud", "--inject", as_=kept.session()).out
    assert out.count("</system-reminder>") == 1
    assert out.endswith("\n  code\n</system-reminder>\n")


def test_a_session_does_not_see_the_hud_of_a_hidden_agent(kept: Kept, town: Town) -> None:
    town({**CITY, "agents/ghost/agent.toml": "hidden = true\n"})
    assert "there is no agent `ghost`" in kept("hud", "ghost", as_=kept.session()).err
    assert kept("hud", "ghost").code == 0


# Prompts


def test_every_section_is_one_span_of_a_prompt_with_its_file_and_line(
    made: Callable[..., Ran],
) -> None:
    files = {"hud/queue.template.md": COUNT, "hud/rules.md": RULES}
    shown = made("agent", "show", "mayor", "--rendered", "--json", files=files).json
    text = made("agent", "emit", "mayor").out
    spans = [(each["file"], each["line"]) for each in shown["spans"] if each["kind"] == "hud"]
    assert spans == [("hud/queue.template.md", 4), ("hud/rules.md", 4)]
    assert [each["start"] for each in shown["spans"]] == [0, *(e["end"] for e in shown["spans"])][
        :-1
    ]
    assert shown["spans"][-1]["end"] == len(text)
    budget = made("agent", "show", "mayor", "--budget", "--json").json["budget"]["sources"]
    assert ("hud/rules.md", "hud", 17) in [(e["file"], e["kind"], e["chars"]) for e in budget]


@pytest.mark.parametrize("fragment", ["hud", "hud-rules"])
def test_the_hud_can_be_appended(made: Callable[..., Ran], fragment: str) -> None:
    files = {
        "hud/rules.md": RULES,
        "agents/mayor/agent.toml": f'append_fragments = ["{fragment}"]\n',
        "agents/mayor/prompt.template.md": "You.\n",
    }
    assert made("agent", "emit", "mayor", files=files).out == "You.\n\n\n## Rules\nBe kind."
    shown = made("agent", "show", "mayor", "--rendered", "--json").json["spans"]
    assert [each["kind"] for each in shown] == ["prompt", "hud"]


def test_without_sections_the_fragment_is_empty(made: Callable[..., Ran]) -> None:
    assert made("agent", "emit", "mayor").out == "You are mayor.\n\n\n"
    assert made("check").code == 0


def test_an_overlay_file_has_no_hud(made: Callable[..., Ran], town: Town) -> None:
    files = {
        "hud/rules.md": RULES,
        "agents/mayor/overlay/note.template.md": 'a{{ template "hud" . }}b\n',
    }
    assert made("apply", "mayor", files=files).code == 0
    assert (town() / ".gc/work/mayor/note.md").read_text() == "ab\n"


# Refresh


@pytest.mark.parametrize(
    ("provider", "path"),
    [("claude", ".claude/settings.json"), ("opencode", ".opencode/plugin/city-hud.js")],
)
def test_the_hook_is_written_only_for_agents_with_a_section_that_is_refreshed(
    made: Callable[..., Ran], provider: str, path: str
) -> None:
    agent = {"agents/mayor/agent.toml": f'provider = "{provider}"\n'}
    plan = lambda files: made("plan", "mayor", "--json", files={**agent, **files}).out  # noqa: E731
    assert path not in plan({"hud/rules.md": RULES})
    assert path in plan({"hud/queue.template.md": COUNT})
    plain = {"agents/mayor/prompt.template.md": "No HUD.\n", "hud/queue.template.md": COUNT}
    assert path not in plan(plain)
    # Alone, a built-in section that the prompt names is refreshed, too.
    named = {"agents/mayor/prompt.template.md": '{{ template "hud-git" . }}'}
    assert path in plan(named)


def test_agent_show_says_when_the_hud_is_refreshed(made: Callable[..., Ran]) -> None:
    files = {"hud/queue.template.md": COUNT}
    shown = made("agent", "show", "mayor", files=files)
    assert "HUD:           refreshed every turn (queue)\n" in shown.out
    files["agents/mayor/agent.toml"] = 'provider = "codex"\n'
    shown = made("agent", "show", "mayor", files=files)
    assert "HUD:           at start only; `codex` has no hook for it (queue)\n" in shown.out
    assert made("agent", "show", "mayor", "--json").json["hud"] == {
        "sections": ["queue"],
        "refresh": "start",
        "note": "`codex` has no hook for it",
    }
    files["hud/queue.template.md"] = COUNT.replace("on-event", "once")
    assert (
        "HUD:           at start only (queue)\n" in made("agent", "show", "mayor", files=files).out
    )


def test_live_values_do_not_change_what_apply_records(made: Callable[..., Ran], town: Town) -> None:
    assert made("apply", files={"hud/queue.template.md": COUNT}).code == 0
    queue(town(CITY))
    assert "up to date" in made("plan").out
    assert "1 queued" in made("agent", "emit", "mayor").out


# check


def test_check_reports_sections_and_settings_that_no_prompt_shows(
    made: Callable[..., Ran],
) -> None:
    files = {
        "hud/rules.md": RULES,
        "agents/mayor/prompt.template.md": "No HUD.\n",
        "agents/mayor/agent.toml": 'hud = ["rules", "rulez"]\n',
    }
    ran = made("check", files=files)
    assert ran.code == 0
    assert "hud/rules.md:4:1: warning: no prompt includes HUD section `rules`" in ran.err
    assert "agent.toml:1:1: warning: `hud` has no effect" in ran.err
    assert "agent.toml:1:17: warning: `rulez` matches no HUD section of `mayor`" in ran.err


def test_check_warns_of_refreshed_text_before_text_that_stays(made: Callable[..., Ran]) -> None:
    code = "[volatile-before-stable]"
    files = {"hud/queue.template.md": COUNT}
    assert code not in made("check", files=files).err
    files["agents/mayor/prompt.template.md"] = 'One.\n{{ template "hud" . }}\nTwo.\n'
    assert (
        "agents/mayor/prompt.template.md:2:1: warning: refreshed" in made("check", files=files).err
    )
    assert code in made("check").err
    files["hud/queue.template.md"] = COUNT.replace("on-event", "once")
    assert code not in made("check", files=files).err
    # A stable section in a later position follows a refreshed one.
    files = {"hud/queue.template.md": COUNT, "hud/rules.md": RULES}
    assert (
        "hud/rules.md:4:1: warning: refreshed HUD sections (`queue`)"
        in made("check", files=files).err
    )


def test_check_runs_no_command(made: Callable[..., Ran], town: Town) -> None:
    script = "#!/bin/sh\necho > ran\n"
    section = "---\ndata-sources: [command:assets/t.sh]\n---\n{{ if .Command }}a{{ end }}\n"
    root = town({**CITY, "assets/t.sh": script, "hud/a.template.md": section})
    (root / "assets/t.sh").chmod(0o755)
    for command in ("check", "plan", "apply"):
        assert made(command).code == 0
    assert not list(root.rglob("ran"))
    assert made("hud", "mayor").code == 0
    assert list(root.rglob("ran"))


def test_prompts_that_do_not_name_the_hud_do_not_load_it(town: Town) -> None:
    files = {
        **CITY,
        "agents/mayor/prompt.template.md": "Thud, hud. {{ .AgentName }}\n",
        "hud/queue.template.md": COUNT,
    }
    root = town(files)
    for words in (["agent", "emit", "mayor"], ["agent", "show", "mayor"], ["apply"], ["plan"]):
        assert _modules(root, words) == []


def _modules(root: Path, words: list[str]) -> list[str]:
    """Return the modules of the HUD that a command loads."""
    program = (
        "import sys; from gascity.cli.main import run\n"
        f"run({words!r})\n"
        "print([n for n in sys.modules if n.startswith('gascity.hud') "
        "or n in ('gascity.model.hud', 'gascity.render.hud')], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    modules: list[str] = json.loads(done.stderr.splitlines()[-1].replace("'", '"'))
    return modules


def test_the_file_of_a_native_subagent_has_no_hud(made: Callable[..., Ran], town: Town) -> None:
    files = {
        "hud/queue.template.md": COUNT,
        "agents/clerk/agent.toml": 'description = "Clerk."\n',
        "agents/clerk/prompt.template.md": 'Clerk.\n{{ template "hud" . }}\n',
        "agents/mayor/agent.toml": 'native_subagents = ["clerk"]\n',
    }
    assert made("apply", "mayor", files=files).code == 0
    [file] = (town(CITY) / ".gc/work/mayor/.claude/agents").iterdir()
    assert "Queue" not in file.read_text()
