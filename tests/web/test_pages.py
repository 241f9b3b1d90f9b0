"""Contents of the pages: the store, the answers of commands, problems; hostile text is harmless."""

import time
from pathlib import Path

import pytest

from gascity.control.client import ControllerState
from gascity.control.delegation import delegation_root, read_tree
from gascity.model.work import DONE, FAILED, POOL, RUNNING, ClaimToken, Run, Session
from gascity.store.port import Store
from gascity.web.config_view import Config
from tests.support.git import commit, git
from tests.web.conftest import FILES, Browser, sling

HOSTILE = "<script>alert(1)</script>\x1b]0;owned\x07\u202egnp.exe\"'><img src=x onerror=alert(2)>"


def session(store: Store, id: str = "5e551011", **fields: object) -> Session:
    now = time.time()
    made = Session(id, "mayor", POOL, 1, "mayor-1", RUNNING, "there is work", now, now, started=now)
    return store.add_session(made._replace(generation=1, **fields))  # type: ignore[arg-type]


def run_of(store: Store, work: str, **fields: object) -> Run:
    made = Run(0, "5e551011", 1, work, "process", time.time(), "", "")
    return store.add_run(made._replace(**fields))  # type: ignore[arg-type]


def test_the_first_page_shows_failed_work_sessions_queue_and_events(
    browser: Browser, store: Store
) -> None:
    failed, queued = sling(store, "Repair the crane"), sling(store, "Paint the gate")
    store.finish(failed.id, FAILED, None, time.time(), token=None, reason="no paint")
    session(store)
    page = browser.get("/").text
    assert page.index("Repair the crane") < page.index("mayor-1") < page.index("Paint the gate")
    assert "no paint" in page
    assert "work.created" in page
    assert f"/work/{queued.id}" in page
    assert "city status" in page


def test_agents_and_their_sessions_have_the_colour_of_the_agent(
    browser: Browser, store: Store, harbour: Path
) -> None:
    session(store)
    sling(store)
    file = harbour / "agents/mayor/agent.toml"
    paths = ("/agents", "/agents/mayor", "/sessions", "/sessions/5e551011", "/")
    for color, mark in {
        '"#ff8800"': '<circle cx="4" cy="4" r="4" fill="#ff8800"/>',
        '"purple"': '<circle cx="4" cy="4" r="4" fill="purple"/>',
        '"accent"': "",  # a word of a theme that only one program has
    }.items():
        file.write_text(f"color = {color}\n")
        browser.site.config.current = Config("harbour")
        browser.site.config._asked = -9.0
        browser.get("/agents")  # waits until the files are read
        for path in paths:
            page = browser.get(path).text
            assert mark in page if mark else "colour-mark" not in page, path


def test_a_new_city_says_what_to_do_next(browser: Browser) -> None:
    page = browser.get("/").text
    assert "No work yet" in page
    assert "city sling" in page
    for path in ("/work", "/sessions", "/delegation"):
        assert 'class="panel empty"' in browser.get(path).text


@pytest.mark.parametrize("start", ["9" * 5000, "-1", "x"])
def test_a_list_that_starts_nowhere_starts_at_its_beginning(browser: Browser, start: str) -> None:
    for path in ("/agents", "/sessions"):
        assert browser.get(f"{path}?start={start}").status == 200


def test_a_city_without_a_controller_is_shown_read_only(browser: Browser, store: Store) -> None:
    work = sling(store)
    browser.site.reader.controller = ControllerState(False)
    page = browser.get(f"/work/{work.id}").text
    assert "Read-only" in page
    assert "city start" in page
    assert "<fieldset disabled" in page
    answer = browser.post("/actions/cancel", {"work": work.id}, x_fragment="1")
    assert answer.status == 422
    assert "Read-only" in answer.text
    assert not any("cancel" in command for command in browser.commands.ran)


def test_a_city_with_errors_is_shown_with_its_problems(browser: Browser, harbour: Path) -> None:
    (harbour / "agents/mayor/agent.toml").write_text("modle = 3\n")
    browser.get("/agents")  # waits until the files are read
    page = browser.get("/").text
    assert "Problems of the configuration" in page
    assert "agents/mayor/agent.toml" in page
    assert "unknown-key" in page


def test_work_is_filtered_by_words_status_and_agent(browser: Browser, store: Store) -> None:
    login, other = sling(store, "Fix the login"), sling(store, "Write docs", agent="clerk")
    store.finish(other.id, DONE, None, time.time(), token=None)
    assert login.id in browser.get("/work?q=LOGIN").text
    assert f"row-{other.id}" not in browser.get("/work?q=login").text
    assert f"row-{login.id}" not in browser.get("/work?status=done").text
    assert f"row-{login.id}" not in browser.get("/work?agent=clerk").text
    assert "Nothing matches" in browser.get("/work?q=nonsense").text
    assert "city work list --status done" in browser.get("/work?status=done").text
    page = browser.get("/work?status=queued&q=a%27b").text
    assert "city work list --status queued --limit 0 | grep -iF" in page


def test_a_list_has_pages_of_its_own(browser: Browser, store: Store) -> None:
    with store.transaction():
        items = [sling(store, f"Item number {number}") for number in range(60)]
    first = browser.get("/work").text
    assert f'"row-{items[-1].id}"' in first
    assert f'"row-{items[0].id}"' not in first
    older = first.partition('href="/work?before=')[2].partition('"')[0]
    second = browser.get(f"/work?before={older}").text
    assert f'"row-{items[0].id}"' in second
    assert f'"row-{items[-1].id}"' not in second


def test_a_work_item_shows_why_it_waits_and_what_it_cost(browser: Browser, store: Store) -> None:
    session(store)
    work = sling(store, "Paint the gate", body="Paint the gate\n\nin blue")
    run_of(store, work.id, ended=time.time(), cost=0.25, outcome="failed")
    page = browser.get(f"/work/{work.id}").text
    assert "$0.25" in page
    assert "in blue" in page
    assert f"city why {work.id}" in page
    assert browser.get("/work/w-99").status == 404


@pytest.mark.parametrize("path", ["/", "/work", "/work/w-1", "/sessions", "/delegation/w-1"])
def test_hostile_text_is_harmless(browser: Browser, store: Store, path: str) -> None:
    work = sling(store, HOSTILE, body=HOSTILE)
    session(store, name=HOSTILE, reason=HOSTILE, work=work.id)
    store.finish(work.id, FAILED, None, time.time(), token=None, reason=HOSTILE)
    page = browser.get(path).text
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert not {"\x1b", "\x07", "\u202e"}.intersection(page)
    assert "\\x1b]0;owned" in page


def test_hostile_queries_are_harmless(browser: Browser) -> None:
    for path in ("/work?q=", "/sessions?q=", "/agents?q=", "/packs?q=", "/sling?text=", "/work/"):
        page = browser.get(f"{path}%3Cscript%3Ealert(1)%3C/script%3E").text
        assert "<script>alert" not in page


def test_a_session_shows_its_runs_and_messages(browser: Browser, store: Store) -> None:
    found = session(store)
    run_of(store, "", ended=time.time(), outcome="succeeded", about="mail 3")
    store.add_nudge(found.id, "use the new paint", time.time())
    page = browser.get(f"/sessions/{found.id}").text
    assert "use the new paint" in page
    assert "mail 3" in page
    assert "city session show mayor-1" in page
    assert browser.get("/sessions/nobody").status == 404


def test_the_settings_of_an_agent_show_every_layer(browser: Browser) -> None:
    page = browser.get("/agents/mayor").text
    assert "city agent explain mayor" in page
    assert "agents/mayor/agent.toml:2" in page
    assert "city.toml" in page
    assert "Keeps the &lt;harbour&gt; open." in page
    assert "s3cr3t-harbour" not in page


def test_the_line_of_a_setting_is_shown_without_secrets(browser: Browser) -> None:
    page = browser.get("/agents/mayor?file=agents/mayor/agent.toml&line=2").text
    assert 'class="hit"' in page
    assert "idle_timeout" in page
    assert "s3cr3t-harbour" not in page


@pytest.mark.parametrize("file", ["../../etc/passwd", "/etc/passwd", "packs/crew/pack.toml"])
def test_only_files_of_the_settings_are_shown(browser: Browser, file: str) -> None:
    page = browser.get(f"/agents/mayor?file={file}&line=1").text
    assert 'id="source"' not in page


def test_the_other_views_of_an_agent_are_answers_of_commands(browser: Browser) -> None:
    assert "You are the mayor." in browser.get("/agents/mayor?view=prompt").text
    assert "tokens" in browser.get("/agents/mayor?view=prompt").text
    assert "ledger" in browser.get("/agents/mayor?view=skills").text
    assert "No MCP servers" in browser.get("/agents/mayor?view=servers").text
    assert "No overlay files" in browser.get("/agents/mayor?view=overlay").text
    assert "crew.pilot" in browser.get("/agents/mayor?view=peers").text
    plan = browser.get("/agents/mayor?view=plan").text
    assert "/actions/apply" in plan
    assert "SKILL.md" in plan or "ledger" in plan
    assert browser.get("/agents/nobody").status == 404


def test_an_agent_that_is_known_is_sent_in_parts(browser: Browser) -> None:
    browser.get("/agents")
    page = browser.get("/agents/mayor")
    assert "content-length" not in page.headers
    assert page.text.count("</html>") == page.text.count("<main") == 1


def test_packs_show_what_they_add(browser: Browser) -> None:
    assert "/packs/crew" in browser.get("/packs").text
    assert "crew.pilot" in browser.get("/packs/crew").text
    assert "Unknown pack" in browser.get("/packs/nothing").text


def test_a_delegation_is_a_tree_with_durations_and_costs(browser: Browser, store: Store) -> None:
    session(store)
    root = sling(store, "Plan the regatta")
    child = sling(store, "Invite the crews", parent=root.id, depth=1)
    below = sling(store, "Print the letters", parent=child.id, depth=2)
    now = time.time()
    run_of(store, child.id, started=now - 90, ended=now, cost=0.5)
    run_of(store, below.id, started=now - 30, ended=now, cost=0.25)
    tree = read_tree(store, delegation_root(store, below), now)
    [node] = tree.children
    [leaf] = node.children
    assert [tree.work.id, node.work.id, leaf.work.id] == [root.id, child.id, below.id]
    assert [each.total_cost for each in (tree, node, leaf)] == [0.75, 0.75, 0.25]
    assert len(read_tree(store, root, now, most=2).children[0].children) == 0
    page = browser.get(f"/delegation/{child.id}").text
    assert "$0.75" in page
    assert f"/delegation/{root.id}" in browser.get("/delegation").text


def test_an_open_page_loads_only_its_main_part(browser: Browser, store: Store) -> None:
    sling(store)
    part = browser.get("/work", x_fragment="main").text
    assert "Open the gate" in part
    assert "<html" not in part
    assert '<nav aria-label="Pages"' not in part


def test_a_broken_store_is_reported_on_the_page(browser: Browser, harbour: Path) -> None:
    (harbour / ".gc").mkdir(exist_ok=True)
    (harbour / ".gc/city.db").write_bytes(b"not a database" * 200)
    assert "The store cannot be read" in browser.get("/").text
    assert "problems" in browser.get("/work").text


def test_a_token_of_a_claim_is_never_shown(browser: Browser, store: Store) -> None:
    session(store)
    work = sling(store)
    store.claim(ClaimToken("5e551011", 1), time.time(), work=work.id)
    run_of(store, work.id, token="f" * 64)
    for path in (f"/work/{work.id}", "/sessions/5e551011"):
        assert "f" * 64 not in browser.get(path).text


def test_the_effect_of_a_change_is_shown_since_a_revision(browser: Browser, harbour: Path) -> None:
    page = browser.get("/changes").text
    assert "unknown-revision" in page  # not in a git repository
    assert "git init" in page
    git(harbour, "init", "-q")
    commit(harbour, {**FILES, ".gitignore": ".gc/\n"})
    page = browser.get("/changes").text
    assert "Nothing changed" in page
    assert "city diff</code>" in page
    (harbour / "agents/mayor/prompt.md").write_text("You are the <mayor>.\n")
    (harbour / "agents/mayor/agent.toml").write_text('idle_timeout = "3h"\n')
    page = browser.get("/changes?rev=HEAD~0").text
    assert "city diff HEAD~0" in page
    assert "You are the &lt;mayor&gt;." in page
    assert '<code class="removed">2h</code> → <code class="added">3h</code>' in page
    assert "agents/mayor/agent.toml:1" in page
    assert "s3cr3t" not in page
    assert "Nothing matches" in browser.get("/changes?q=pilot").text
    for wrong in ("nonsense", "--markdown", "a%00b", "x" * 300):
        page = browser.get(f"/changes?rev={wrong}")
        assert page.status == 200
        assert "unknown-revision" in page.text


@pytest.mark.parametrize("path", ["/agents/--help", "/packs/--json", "/agents/a%00b", "/packs/%00"])
def test_a_name_in_an_address_is_never_an_option(browser: Browser, path: str) -> None:
    browser.commands.ran.clear()
    assert browser.get(path).status == 404
    ran = [command for command in browser.commands.ran if command[:2] != ("agent", "list")]
    assert not any("explain" in command or "show" in command for command in ran)
