"""`city memory`, the fragment `memory`, and starter knowledge."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import REAL_PATH
from tests.cli.shapes import MEMORY_CHANGE, MEMORY_LIST, MEMORY_SHOW, MEMORY_UPDATE, PLAN, fits
from tests.support.command import Command
from tests.support.trees import build_tree

TEMPLATE = 'Work.\n\n{{ template "memory" . }}\n'
OWN = "agents/coding/memory"


@pytest.fixture
def root(town: Callable[..., Path]) -> Path:
    return town({"agents/coding/prompt.template.md": TEMPLATE})


def _note(root: Path, path: str, text: str, day: str = "2026-01-01") -> None:
    build_tree(root, {path: f"---\nat: {day}\n---\n{text}\n"})


def _names(run: Command, root: Path, *words: str) -> list[str]:
    answer = run("memory", "list", *words, "--json", cwd=root).json
    fits(answer, MEMORY_LIST)
    return [note["name"] for note in answer["memory"]]


def test_a_note_is_written_listed_shown_and_removed(run: Command, root: Path) -> None:
    added = run(
        *("memory", "add", "Run `make db`.", "--agent", "coding", "--tag", "tests"),
        *("--title", "Database first!", "--json"),
        cwd=root,
    ).json
    fits(added, MEMORY_CHANGE)
    path, name = added["path"], added["name"]
    assert path.startswith(f"{OWN}/2")
    assert path.endswith("-database-first.md")
    assert "tags: [tests]\n" in (root / path).read_text()
    shown = run("memory", "show", name, "--agent", "coding", "--json", cwd=root).json
    fits(shown, MEMORY_SHOW)
    assert (shown["tags"], shown["starter"]) == (["tests"], False)
    assert shown["text"] == "# Database first!\n\nRun `make db`."
    assert run("memory", "remove", f"{name}.md", "--agent", "coding", cwd=root).code == 0
    assert not (root / path).exists()


def test_a_second_note_with_the_same_title_replaces_nothing(run: Command, root: Path) -> None:
    paths = [run("memory", "add", "same", "--json", cwd=root).json["path"] for _ in range(3)]
    assert len(set(paths)) == 3
    assert paths[2].startswith("memory/2")
    assert paths[2].endswith("-same-3.md")


def test_an_agents_own_note_overrides_the_citys_and_the_newest_comes_first(
    run: Command, root: Path
) -> None:
    _note(root, "memory/ports.md", "CITY", "2026-03-01")
    _note(root, "memory/names.md", "NAMES", "2026-02-01")
    _note(root, f"{OWN}/ports.md", "OWN")
    assert _names(run, root, "--agent", "coding") == ["names", "ports"]
    assert run("agent", "emit", "coding", cwd=root).out == (
        "Work.\n\n### names\n\nNAMES\n\n### ports\n\nOWN\n"
    )
    assert _names(run, root) == ["ports", "names", "ports"]
    assert _names(run, root, "own") == ["ports"]


def test_each_note_in_a_prompt_is_a_span_of_its_file(run: Command, root: Path) -> None:
    _note(root, f"{OWN}/ports.md", "Use 8081.")
    answer = run("agent", "show", "coding", "--rendered", "--json", cwd=root).json
    spans = [(span["file"], span["line"]) for span in answer["spans"] if span["kind"] == "memory"]
    assert spans == [(f"{OWN}/ports.md", 4)]


def test_the_limit_of_the_fragment_is_a_setting(run: Command, root: Path) -> None:
    _note(root, f"{OWN}/long.md", "word " * 100)
    (root / "agents/coding/agent.toml").write_text("[limits]\nmemory_chars = 40\n")
    text = run("agent", "emit", "coding", cwd=root).out
    assert len(text) - len("Work.\n\n\n") <= 40
    assert text.endswith("…\n")


def test_a_prompt_that_does_not_name_the_fragment_reads_no_notes(
    run: Command, town: Callable[..., Path]
) -> None:
    root = town({"agents/coding/prompt.template.md": "Your memory is short.\n"})
    (root / "memory").mkdir()
    (root / "memory/bad.md").write_bytes(b"\xff")
    assert run("check", cwd=root).code == 0
    assert run("agent", "emit", "coding", cwd=root).out == "Your memory is short.\n"


def test_imported_and_built_in_agents_have_their_notes_in_the_citys_state(
    run: Command, harbour: Path
) -> None:
    for agent in ("dock/crew.pilot", "shell"):
        answer = run("memory", "add", "x", "--agent", agent, "--json", cwd=harbour).json
        assert os.path.dirname(answer["path"]) == f".gc/memory/{agent}"
        assert len(_names(run, harbour, "--agent", agent)) == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(("add", "  "), "empty-note", id="empty"),
        pytest.param(("add", "x" * 70_000), "too-large", id="long"),
        pytest.param(("add", "x", "--tag", "a b"), "bad-note", id="tag"),
        pytest.param(("add", "x", "--title", "a\nb"), "bad-note", id="title"),
        pytest.param(("add", "x", "--agent", "codin"), "unknown-agent", id="agent"),
        pytest.param(("show", "../../city.toml"), "unknown-note", id="path"),
        pytest.param(("remove", "nothing"), "unknown-note", id="name"),
    ],
)
def test_a_wrong_note_is_refused_and_nothing_is_written(
    run: Command, root: Path, arguments: tuple[str, ...], code: str
) -> None:
    ran = run("memory", *arguments, "--json", cwd=root)
    assert (ran.code, [each["code"] for each in ran.json["problems"]]) == (1, [code])
    assert not (root / "memory").exists()


def test_text_comes_as_argument_or_from_standard_input(run: Command, root: Path) -> None:
    assert run("memory", "add", cwd=root).code == 2
    assert run("memory", "add", "x", "--stdin", cwd=root).code == 2


def test_a_note_of_the_city_is_not_removed_through_an_agent(run: Command, root: Path) -> None:
    _note(root, "memory/ports.md", "x")
    ran = run("memory", "remove", "ports", "--agent", "coding", "--json", cwd=root)
    assert (ran.code, ran.json["problems"][0]["code"]) == (1, "not-own-note")
    assert (root / "memory/ports.md").exists()


def test_a_note_is_never_written_through_a_linked_directory(
    run: Command, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "memory").symlink_to(outside)
    assert run("memory", "add", "x", cwd=root).code == 1
    assert list(outside.iterdir()) == []


# Starter knowledge


def _steps(run: Command, root: Path) -> list[tuple[str, str, str]]:
    answer = run("plan", "coding", "--json", cwd=root).json
    fits(answer, PLAN)
    steps = answer["agents"][0]["steps"]
    return [(s["op"], s["path"], s["reason"]) for s in steps if "/memory/" in s["path"]]


def test_plan_shows_starter_knowledge_and_apply_copies_it_once(run: Command, root: Path) -> None:
    expected = [f"{OWN}/common-pitfalls.md", f"{OWN}/git-conventions.md"]
    assert _steps(run, root) == [("write", path, "starter: built-in") for path in expected]
    assert run("plan", "--check", cwd=root).code == 1
    assert f"write    {expected[0]}  (starter: built-in)" in run("plan", cwd=root).out
    done = run("apply", "coding", "--json", cwd=root).json["agents"][0]["done"]
    assert [step["path"] for step in done if step["op"] == "write"] == expected
    assert (root / expected[0]).read_text().endswith("\n#starter\n")
    assert _steps(run, root) == []
    answer = run("memory", "list", "--agent", "coding", "--json", cwd=root).json
    assert [(note["tags"], note["starter"]) for note in answer["memory"]] == [
        (["starter"], True)
    ] * 2


def test_a_deleted_starter_file_stays_deleted_and_an_edited_one_unchanged(
    run: Command, root: Path
) -> None:
    run("apply", cwd=root)
    (root / OWN / "git-conventions.md").unlink()
    (root / OWN / "common-pitfalls.md").write_text("Mine.\n")
    assert run("apply", "--force", cwd=root).code == 0
    assert [file.name for file in (root / OWN).iterdir()] == ["common-pitfalls.md"]
    assert (root / OWN / "common-pitfalls.md").read_text() == "Mine.\n"
    assert run("plan", "--check", cwd=root).code == 0
    run("agent", "set", "coding", "type=coding", cwd=root)
    run("agent", "rename", "coding", "coder", cwd=root)
    assert run("apply", cwd=root).code == 0
    assert [file.name for file in (root / "agents/coder/memory").iterdir()] == [
        "common-pitfalls.md"
    ]


def test_a_file_of_the_user_with_the_same_name_is_kept(run: Command, root: Path) -> None:
    build_tree(root, {f"{OWN}/git-conventions.md": "Mine.\n"})
    run("apply", cwd=root)
    assert (root / OWN / "git-conventions.md").read_text() == "Mine.\n"
    (root / OWN / "git-conventions.md").unlink()
    run("apply", cwd=root)
    assert not (root / OWN / "git-conventions.md").exists()


def test_knowledge_of_the_city_overrides_a_packs_and_that_the_built_in(
    run: Command, town: Callable[..., Path]
) -> None:
    knowledge = "templates/knowledge/coding"
    root = town(
        {
            "city.toml": '[imports.crew]\nsource = "packs/crew"\n',
            "agents/builder/prompt.md": "Build.\n",
            "agents/builder/agent.toml": 'type = "coding"\n',
            "packs/crew/pack.toml": '[pack]\nname = "crew"\nschema = 2\n',
            f"packs/crew/{knowledge}/git-conventions.md": "PACK\n",
            f"packs/crew/{knowledge}/style.md": "PACK\n",
            f"{knowledge}/style.md": "CITY\n",
        }
    )
    run("apply", cwd=root)
    own = root / "agents/builder/memory"
    first = {file.stem: file.read_text().splitlines()[4] for file in own.iterdir()}
    assert first == {
        "common-pitfalls": "# Common pitfalls",
        "git-conventions": "PACK",
        "style": "CITY",
    }


def test_a_new_agent_of_a_type_starts_with_its_knowledge(run: Command, root: Path) -> None:
    answer = run("agent", "new", "tester", "--type", "qa", "--json", cwd=root).json
    assert "agents/tester/memory/testing-patterns.md" in answer["created"]
    assert "### testing-patterns" in run("agent", "emit", "tester", cwd=root).out
    wrong = run("agent", "new", "x", "--type", "codng", "--json", cwd=root)
    assert (wrong.code, wrong.json["problems"][0]["code"]) == (1, "unknown-type")
    assert not (root / "agents/x").exists()


def test_a_damaged_record_is_reported_and_copies_nothing(run: Command, root: Path) -> None:
    build_tree(root, {".gc/ledger/starter.json": "{"})
    ran = run("apply", cwd=root)
    assert ran.code == 1
    assert "[damaged-state]" in ran.err
    assert not (root / OWN).exists()


# Updates of starter knowledge

LINES = [f"line {number}\n" for number in range(9)]


@pytest.fixture
def updated(run: Command, town: Callable[..., Path], private_home: Path) -> Path:
    """A city whose knowledge was copied, and then changed at its end."""
    (private_home / "programs/git").symlink_to(shutil.which("git", path=REAL_PATH) or "")
    knowledge = "templates/knowledge/style/rules.md"
    root = town({"agents/style/prompt.md": "x\n", knowledge: "".join(LINES)})
    run("apply", cwd=root)
    (root / knowledge).write_text("".join([*LINES[:-1], "NEW\n"]))
    return root


RULES = "agents/style/memory/rules.md"


@pytest.mark.parametrize(
    ("mine", "status", "first", "last"),
    [
        pytest.param(None, "updated", "line 0", "NEW", id="not-edited"),
        pytest.param(0, "merged", "MINE", "NEW", id="other-lines"),
        pytest.param(8, "conflict", "line 0", "MINE", id="same-lines"),
    ],
)
def test_a_new_version_is_merged_unless_both_changed_the_same_lines(
    run: Command, updated: Path, mine: int | None, status: str, first: str, last: str
) -> None:
    file = updated / RULES
    if mine is not None:
        file.write_text(file.read_text().replace(f"line {mine}\n", "MINE\n"))
    steps = run("plan", "style", "--json", cwd=updated).json["agents"][0]["steps"]
    assert [step["op"] for step in steps if step["path"] == RULES] == ["keep"]
    before = file.read_text()
    assert run("memory", "update", "--dry-run", cwd=updated).code == 0
    assert file.read_text() == before
    answer = run("memory", "update", "--json", cwd=updated).json
    fits(answer, MEMORY_UPDATE)
    assert [each["status"] for each in answer["updates"]] == [status]
    body = file.read_text().split("---\n\n")[1].splitlines()
    assert (body[0], body[8]) == (first, last)
    assert [each["code"] for each in answer["problems"]] == (
        ["merge-conflict"] if status == "conflict" else []
    )


def test_conflicts_are_written_with_markers_only_on_request(run: Command, updated: Path) -> None:
    file = updated / RULES
    file.write_text(file.read_text().replace("line 8\n", "MINE\n"))
    run("memory", "update", "--conflicts", cwd=updated)
    assert "<<<<<<< yours\nMINE\n=======\nNEW\n>>>>>>> new version\n" in file.read_text()
    again = run("memory", "update", "--json", cwd=updated).json
    assert [each["status"] for each in again["updates"]] == ["current"]


def test_an_update_does_not_bring_back_a_deleted_file(run: Command, updated: Path) -> None:
    (updated / RULES).unlink()
    assert run("memory", "update", "--json", cwd=updated).json["updates"] == []
    assert not (updated / RULES).exists()


def test_the_record_has_the_hash_and_content_of_each_copy(updated: Path) -> None:
    record = json.loads((updated / ".gc/ledger/starter.json").read_text())
    assert record["files"][RULES].keys() == {"sha256", "source", "text"}
