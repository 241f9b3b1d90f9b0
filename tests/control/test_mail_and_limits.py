"""Mail that wakes, models that cost, providers that say stop: with programs made up on the spot."""

import json
from pathlib import Path

from gascity.model.work import DONE, FAILED, OPEN
from tests.support.running import RunningCity

AGENT = 'provider = "{}"\ndescription = "Answers."\n'


def model(town: RunningCity, body: str, **more: str) -> None:
    """A city whose agent `asked` talks to a program that answers as Claude Code does."""
    program = town.root.parent / "bin" / "model"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\ntext=$(cat)\n{body}\n")
    program.chmod(0o755)
    provider = f'[providers.model]\nbase = "builtin:claude"\ncommand = "{program}"\n'
    settings = more.get("agent", "")
    town.write(
        {
            "city.toml": provider + more.get("city", ""),
            "agents/asked/agent.toml": AGENT.format("model") + settings,
            "agents/asked/prompt.md": "You answer.\n",
        }
    )


def answer(result: str, cost: float = 0.5, **more: object) -> str:
    end_of_run = {"type": "result", "subtype": "success", "is_error": False, "result": result}
    text_of = json.dumps({**end_of_run, "session_id": "c-1", "total_cost_usd": cost, **more})
    return f"printf '%s\\n' '{text_of}'"


def text_of(town: RunningCity, file: str) -> str:
    return Path(town.root / ".gc/work" / file).read_text()


def test_a_models_answer_its_usage_and_its_cost_are_kept(town: RunningCity) -> None:
    usage = {"input_tokens": 7, "output_tokens": 3}
    model(town, answer("all done", usage=usage))
    town.start()
    [work] = town.settled(town.sling("please", agent="asked"))
    assert work.result is not None
    assert (work.status, work.result.summary, work.result.cost) == (DONE, "all done", 0.5)
    assert work.result.usage is not None
    assert dict(work.result.usage)["input"] == 7


def test_model_output_is_shown_as_text_and_logged_unchanged(town: RunningCity) -> None:
    uses = {"type": "assistant", "message": {"content": [{"type": "tool_use", "name": "Read"}]}}
    model(town, f"printf '%s\\n' '{json.dumps(uses)}'; echo hum >&2\n{answer('all done')}")
    town.start()
    [work] = town.settled(town.sling("please", agent="asked"))
    assert town.run("work", "logs", work.id).out == "[Read]\nhum\nall done\n"
    assert town.run("session", "logs", work.session).out == "[Read]\nhum\nall done\n"
    assert town.run("session", "peek", work.session, "--lines", "1").out == "all done\n"
    assert town.run("work", "logs", work.id, "--follow").out == "[Read]\nhum\nall done\n"
    printed = Path(work.log).read_text()
    assert town.run("work", "logs", work.id, "--raw").out == printed
    assert town.run("session", "logs", work.session, "--raw").out == printed


def test_a_run_that_broke_off_has_failed(town: RunningCity) -> None:
    model(town, """printf '%s\\n' '{"type":"system","subtype":"init","session_id":"c-1"}'""")
    town.start()
    [work] = town.settled(town.sling("please", agent="asked"))
    assert (work.status, work.reason.startswith("its output is incomplete")) == (FAILED, True)


def test_an_error_result_fails_the_work_although_the_program_ended_well(
    town: RunningCity,
) -> None:
    model(town, answer("could not", is_error=True, subtype="error_during_execution"))
    town.start()
    [work] = town.settled(town.sling("please", agent="asked"))
    assert work.status == FAILED


def test_work_cut_short_by_a_permission_is_not_done(town: RunningCity) -> None:
    step = '{"type":"step_finish","sessionID":"c-1","part":{"reason":"tool-calls"}}'
    model(town, f"printf '%s\\n' '{step}'")
    settings = (town.root / "city.toml").read_text()
    settings += '[providers.model.headless]\noutput = "opencode-json"\n'
    town.write({"city.toml": settings})
    town.start()
    [work] = town.settled(town.sling("please", agent="asked"))
    expected = (FAILED, "it stopped at a tool call that needed a permission")
    assert (work.status, work.reason) == expected


def test_tools_that_were_refused_are_named_in_the_result(town: RunningCity) -> None:
    denials = [{"tool_name": name, "tool_input": {}} for name in ("Bash", "Write", "Bash")]
    model(town, answer("all done", permission_denials=denials))
    town.start()
    [work] = town.settled(town.sling("please", agent="asked"))
    assert work.result is not None
    assert work.status == DONE
    assert work.result.summary == "all done\n[permission denied: Bash, Write]"


def test_a_server_that_does_not_start_fails_the_run_by_name(town: RunningCity) -> None:
    states = [{"name": "docs", "status": "failed"}, {"name": "of-the-user", "status": "failed"}]
    begins = json.dumps({"type": "system", "subtype": "init", "mcp_servers": states})
    model(town, f"printf '%s\\n' '{begins}'\n{answer('all done')}")
    server = 'name = "docs"\ndescription = "Finds."\ncommand = "docs"\n'
    (town.root / "mcp").mkdir()
    (town.root / "mcp/docs.toml").write_text(server)
    town.start()
    [work] = town.settled(town.sling("please", agent="asked"))
    assert (work.status, work.reason) == (FAILED, "MCP server `docs` (failed) did not start")


def test_a_server_of_the_user_does_not_decide_about_a_run(town: RunningCity) -> None:
    states = [{"name": "of-the-user", "status": "failed"}]
    begins = json.dumps({"type": "system", "subtype": "init", "mcp_servers": states})
    model(town, f"printf '%s\\n' '{begins}'\n{answer('all done')}")
    town.start()
    [work] = town.settled(town.sling("please", agent="asked"))
    assert work.status == DONE


def test_unread_mail_wakes_an_agent_once(town: RunningCity) -> None:
    model(town, 'printf "%s\\n" "$text" >> ../heard\n' + answer("read it"))
    town.start()
    assert town.run("mail", "send", "asked", "The kettle boils.").code == 0
    town.until(lambda: not town.store.unread_counts())
    town.until(lambda: not town.sessions())
    assert text_of(town, "heard").count("The kettle boils.") == 1


def test_a_run_that_fails_over_its_mail_is_not_run_for_ever(town: RunningCity) -> None:
    model(town, "echo run >> ../heard; exit 1")
    town.start()
    town.run("mail", "send", "asked", "The kettle boils.")
    town.until(lambda: not town.store.unread_counts())
    town.until(lambda: not town.sessions())
    assert text_of(town, "heard") == "run\n"


def test_a_nudge_reaches_a_headless_session_with_its_next_item(town: RunningCity) -> None:
    model(town, 'printf "%s\\n" "$text" >> ../heard\n' + answer("ok"))
    town.start()
    first = town.settled(town.sling("first", agent="asked"))[0]
    assert town.run("session", "nudge", first.session, "Mind the gap.").code == 0
    town.settled(town.sling("second", agent="asked", session=first.session))
    assert text_of(town, "heard") == "first\nsecond\n\nMind the gap.\n"


def test_a_session_resumes_its_conversation_for_reserved_work(town: RunningCity) -> None:
    model(town, 'echo "$*" >> ../heard\n' + answer("ok"))
    town.start()
    first = town.settled(town.sling("first", agent="asked"))[0]
    town.settled(town.sling("second", agent="asked", session=first.session))
    town.settled(town.sling("third", agent="asked"))
    lines = text_of(town, "heard").splitlines()
    assert "--resume c-1" in lines[1]
    assert ["--resume" in line for line in lines] == [False, True, False]


def test_a_rate_limit_is_waited_out_and_is_no_failure(town: RunningCity) -> None:
    limited = answer("limit reached", is_error=True, api_error_status=429)
    model(town, f"test -e ../again && {{ {answer('ok')}; exit 0; }}\n{limited}\nexit 1")
    town.start()
    id = town.sling("please", agent="asked")
    session = town.until(lambda: next(iter(town.store.sessions(agent="asked")), None))
    town.until(lambda: town.store.session(session.id).state == "rate-limited")
    work = town.work(id)
    assert (work.status, work.failures) == (OPEN, 0)
    assert work.not_before is not None
    slung = town.run("sling", "asked", "too", "--json").json
    assert "rate-limited" in [one["code"] for one in slung["blocked_by"]]


def test_a_timeout_during_retries_reports_the_answer_of_the_provider(town: RunningCity) -> None:
    retry = {"type": "system", "subtype": "api_retry", "error_status": 401, "error": "no_key"}
    tell = f"printf '%s\\n' '{json.dumps(retry)}'"
    limits = '[limits]\ntimeout = "300ms"\n'
    model(town, f"{tell}\nexec sleep 1000", agent=limits)
    town.start()
    [work] = town.settled(town.sling("please", agent="asked"))
    assert (work.status, work.failures) == (FAILED, 1)
    assert work.reason == "time limit exceeded while a request was being retried: 401 no_key"
    model(town, f"{tell.replace('401', '429')}\nexec sleep 1000", agent=limits)
    id = town.sling("please", agent="asked")
    town.until(lambda: "rate-limited" in [s.state for s in town.sessions(live=None)])
    assert (town.work(id).status, town.work(id).failures) == (OPEN, 0)


def test_the_status_names_a_server_whose_last_valid_file_is_used(town: RunningCity) -> None:
    model(town, answer("ok"))
    file = town.root / "mcp/docs.toml"
    valid = 'name = "docs"\ndescription = "Docs."\ncommand = "true"\n'
    file.parent.mkdir()
    file.write_text(valid)
    town.start()
    assert town.settled(town.sling("one", agent="asked"))[0].status == DONE
    file.write_text("command =\n")
    assert town.run("reload").code == 0
    assert town.settled(town.sling("two", agent="asked"))[0].status == DONE
    [problem] = town.run("status", "--json").json["problems"]
    assert problem["code"] == "stale-agent"
    assert problem["message"].startswith("mcp/docs.toml has errors, so its last valid version is")
    file.write_text(valid)
    assert town.run("reload").code == 0
    assert town.run("status", "--json").json["problems"] == []


def test_a_day_that_has_cost_enough_takes_no_more_work(town: RunningCity) -> None:
    model(town, answer("ok", cost=2.0), agent="[limits]\ncost_per_day = 1.5\n")
    town.start()
    town.settled(town.sling("one", agent="asked"))
    slung = town.run("sling", "asked", "two", "--json").json
    assert [one["code"] for one in slung["blocked_by"]] == ["cost-limit"]
    town.until(lambda: not town.sessions())
    assert town.work(slung["work"]).status == OPEN
    assert "$1.50" in town.run("why", slung["work"]).out


def test_an_item_that_has_cost_enough_is_not_tried_again(town: RunningCity) -> None:
    limits = "[limits]\ncost_per_item = 0.8\nretries = 9\n"
    model(town, answer("bad", is_error=True) + "; exit 1", agent=limits)
    town.start()
    [work] = town.settled(town.sling("one", agent="asked"))
    assert (work.status, work.attempts) == (FAILED, 2)
    assert "$0.80" in work.reason


def test_a_cost_limit_that_cannot_be_enforced_blocks_the_agent(town: RunningCity) -> None:
    town.write(
        {
            "agents/hand/agent.toml": AGENT.format("shell") + "[limits]\ncost_per_day = 1\n",
            "agents/hand/prompt.md": "Run.\n",
        }
    )
    town.start()
    slung = town.run("sling", "hand", "true", "--json").json
    assert [one["code"] for one in slung["blocked_by"]] == ["cost-unknown"]


def test_from_inside_a_session_work_is_slung_on_within_limits(town: RunningCity) -> None:
    files = {}
    allowed = '[agents_filter]\nallow = ["hand", "shell"]\n'
    for name, more in (("boss", allowed), ("hand", ""), ("other", "")):
        files[f"agents/{name}/agent.toml"] = AGENT.format("shell") + more
        files[f"agents/{name}/prompt.md"] = "Run.\n"
    town.write({"city.toml": "", **files})
    town.start()
    script = (
        "city sling hand 'city sling hand again; echo $? > ../deep' --wait; echo $? > ../first\n"
        "city sling other true; echo $? > ../second\n"
        "city sling shell true --wait; echo $? > ../third\n"
    )
    [work] = town.settled(town.sling(script, agent="boss"))
    assert work.status == DONE
    assert [text_of(town, name).strip() for name in ("first", "second", "third", "deep")] == [
        "0",
        "1",
        "0",
        "1",
    ]
    slung = [one for one in town.store.list_work() if one.parent == work.id]
    assert {one.depth for one in slung} == {1}
    assert "may not sling to `other`" in town.log(work.id)


def test_a_missing_variable_keeps_a_session_from_starting(town: RunningCity) -> None:
    env = '[env]\nTOKEN = "${SURELY_NOT_SET_ANYWHERE}"\n'
    model(town, answer("ok"), agent=env)
    town.start()
    slung = town.run("sling", "asked", "please", "--json").json
    town.until(lambda: town.store.get_note("blocked asked"))
    assert town.store.get_note("blocked asked").startswith("missing-env")
    assert town.work(slung["work"]).attempts == 0
    again = town.run("sling", "asked", "please", "--json").json
    assert [one["code"] for one in again["blocked_by"]] == ["missing-env"]


def test_mail_to_a_session_wakes_only_that_session_and_only_once(town: RunningCity) -> None:
    body = 'printf "%s: %s\\n" "$GC_ALIAS" "$text" >> ../heard\n' + answer("read it")
    model(town, body, agent="min_active_sessions = 2\nmax_active_sessions = 3\n")
    town.start()
    town.until(lambda: len(town.sessions()) == 2)
    assert town.run("mail", "send", "asked-2", "The kettle boils.").code == 0
    town.until(lambda: not town.store.unread_counts())
    assert [run.about for run in town.store.runs()] == ["mail 1"]
    assert text_of(town, "heard").startswith("asked-2: You have a new message.")


def test_a_mail_run_that_a_user_stops_is_not_repeated(town: RunningCity) -> None:
    model(town, "sleep 1000", city='[session]\nshutdown_timeout = "100ms"\n')
    town.start()
    town.run("mail", "send", "asked", "The kettle boils.")
    session = town.until(lambda: next((s for s in town.sessions() if s.pid), None))
    assert town.run("session", "stop", session.id).code == 0
    assert not town.store.unread_counts()
    assert len(town.store.runs()) == 1


def test_mail_given_to_a_run_is_remembered_across_a_restart(town: RunningCity) -> None:
    wait = "while [ ! -e ../go ]; do sleep 0.02; done; echo run >> ../heard\n"
    model(town, wait + answer("ok"))
    town.start()
    town.run("mail", "send", "asked", "The kettle boils.")
    town.until(lambda: any(session.pid for session in town.sessions()))
    assert town.run("restart").code == 0
    (town.root / ".gc/work/go").touch()
    town.until(lambda: not town.store.unread_counts())
    town.until(lambda: not town.sessions())
    assert text_of(town, "heard") == "run\n"
