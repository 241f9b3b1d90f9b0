"""Git does not see our files, and sees everything else as before."""

import os
from pathlib import Path

import pytest

from gascity.workdir.git_excludes import (
    exclude_in_checkout,
    session_git_environment,
    with_block,
    write_session_excludes,
)
from gascity.workdir.write.worktree import prepare
from tests.support.git import commit, git, repository, status
from tests.support.trees import build_tree

STRANGE = [
    "*.md",
    "?",
    "[a]",
    "!not",
    "#hash",
    "back\\slash",
    "trailing  ",
    " leading",
    "dir with space/!x",
    "new\nline",
    "return\r",
    "\\",
    "naïve-日本",
    "-dash",
    os.fsdecode(b"\xff"),
]
NEIGHBOURS = ["a.md", "b", "a", "not", "hash", "trailing", "leading", "return", "backslash"]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


def exclude_file(repo: Path) -> Path:
    return repo / ".git/info/exclude"


def exclude(root: Path, *paths: str) -> bool:
    return exclude_in_checkout(str(root), paths, os.environ)


# A person's checkout


def test_our_files_do_not_show_in_a_checkout(repo: Path) -> None:
    build_tree(repo, {"AGENTS.md": "", ".claude/settings.json": "", "mine": ""})
    (repo / ".claude/skills").mkdir()
    (repo / ".claude/skills/plan").symlink_to("/nowhere")
    assert exclude(repo, "AGENTS.md", ".claude/settings.json", ".claude/skills/plan")
    assert status(repo) == ["?? mine"]


def test_exactly_the_named_paths_are_hidden(repo: Path) -> None:
    build_tree(repo, dict.fromkeys([*STRANGE, *NEIGHBOURS, "sub/*.md", "sub/a.md"], ""))
    exclude(repo, *STRANGE)
    assert status(repo) == sorted(f"?? {name}" for name in [*NEIGHBOURS, "sub/*.md", "sub/a.md"])


def test_the_rest_of_the_file_stays_byte_for_byte(repo: Path) -> None:
    theirs = b"# mine\r\n*.log\r\n\n\xff\xfe\n  \nno line end"
    exclude_file(repo).write_bytes(theirs)
    exclude(repo, "AGENTS.md")
    assert exclude_file(repo).read_bytes().endswith(theirs)
    exclude(repo, "AGENTS.md", "other")
    assert exclude_file(repo).read_bytes().count(b"city: begin") == 1
    assert exclude(repo)
    assert exclude_file(repo).read_bytes() == theirs


def test_nothing_is_written_when_nothing_changes(repo: Path) -> None:
    assert exclude(repo, "b", "a")
    before = exclude_file(repo).stat()
    assert not exclude(repo, "a", "b", "a")
    after = exclude_file(repo).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_without_an_exclude_file_one_is_made_only_if_needed(repo: Path) -> None:
    exclude_file(repo).unlink(missing_ok=True)
    if exclude_file(repo).parent.exists():
        exclude_file(repo).parent.rmdir()
    assert not exclude(repo)
    assert not exclude_file(repo).exists()
    build_tree(repo, {"AGENTS.md": ""})
    exclude(repo, "AGENTS.md")
    assert status(repo) == []


def test_a_file_that_cannot_be_read_is_not_replaced(repo: Path) -> None:
    exclude_file(repo).unlink(missing_ok=True)
    exclude_file(repo).parent.mkdir(exist_ok=True)
    exclude_file(repo).symlink_to("exclude")  # leads round in a circle
    with pytest.raises(OSError, match="symbolic links"):
        exclude(repo, "AGENTS.md")
    assert exclude_file(repo).is_symlink()


def test_every_root_has_a_block_of_its_own(repo: Path) -> None:
    build_tree(repo, {"AGENTS.md": "", "api/AGENTS.md": "", "web/AGENTS.md": ""})
    exclude(repo / "api", "AGENTS.md")
    exclude(repo / "web", "AGENTS.md")
    assert status(repo) == ["?? AGENTS.md"]
    exclude(repo / "api")
    assert status(repo) == ["?? AGENTS.md", "?? api/AGENTS.md"]


@pytest.mark.parametrize("name", ["we[i]rd *", "per%0Acent", "new\nline", "back\\slash", "cr\r"])
def test_a_root_may_be_called_anything(repo: Path, name: str) -> None:
    build_tree(repo, {f"{name}/AGENTS.md": ""})
    exclude(repo / name, "AGENTS.md")
    assert status(repo) == []
    exclude(repo, "x")
    assert status(repo) == []
    exclude(repo)
    exclude(repo / name)
    assert b"city" not in exclude_file(repo).read_bytes()


def test_the_block_of_a_root_that_is_gone_goes(repo: Path, tmp_path: Path) -> None:
    before = exclude_file(repo).read_bytes() if exclude_file(repo).exists() else b""
    exclude(repo, "AGENTS.md")
    moved = tmp_path / "moved"
    os.rename(repo, moved)
    exclude(moved, "CLAUDE.md")
    build_tree(moved, {"AGENTS.md": "", "CLAUDE.md": ""})
    assert status(moved) == ["?? AGENTS.md"]
    exclude(moved)
    assert exclude_file(moved).read_bytes() == before


def test_a_persons_word_wins(repo: Path) -> None:
    build_tree(repo, {"AGENTS.md": ""})
    exclude_file(repo).parent.mkdir(exist_ok=True)
    exclude_file(repo).write_text("!/AGENTS.md\n")
    exclude(repo, "AGENTS.md")
    assert status(repo) == ["?? AGENTS.md"]


def test_a_block_that_lost_its_end_is_taken_for_a_persons() -> None:
    data = with_block(b"", "/", b"/AGENTS.md\n")
    broken = data.partition(b"# city: end")[0] + b"theirs\n"
    assert with_block(broken, "/", b"") == broken


def test_a_byte_order_mark_stays_the_first_thing_in_the_file() -> None:
    theirs = b"\xef\xbb\xbf*.log\n"
    marked = with_block(theirs, "/", b"/AGENTS.md\n")
    assert marked.startswith(b"\xef\xbb\xbf# city")
    assert with_block(marked, "/", b"/x\n").count(b"\xef\xbb\xbf") == 1
    assert with_block(marked, "/", b"") == theirs


# A session in a worktree


@pytest.fixture
def tree(repo: Path, tmp_path: Path) -> Path:
    path = tmp_path / "tree"
    prepare(str(repo), str(path), "city/ann/w", None, os.environ, lock=str(tmp_path / "lock"))
    return path


def session(tree: Path, *paths: str, environ: dict[str, str] | None = None) -> dict[str, str]:
    """What a session in that directory gets in its environment."""
    known = {**os.environ, **(environ or {})}
    file = os.path.join(known["HOME"], "session.excludes")
    write_session_excludes(file, str(tree), paths, known)
    return {**(environ or {}), **session_git_environment(file, known)}


def test_our_files_do_not_show_in_a_session(tree: Path) -> None:
    build_tree(tree, dict.fromkeys([*STRANGE, *NEIGHBOURS], ""))
    env = session(tree, *STRANGE)
    assert status(tree, env) == sorted(f"?? {name}" for name in NEIGHBOURS)
    git(tree, "add", "--all", env=env)
    git(tree, "commit", "--quiet", "--message", "all", env=env)
    assert set(git(tree, "ls-files", "-z").split("\0")) == {*NEIGHBOURS, "README.md", ""}


def test_nobody_else_is_affected(tree: Path, repo: Path, tmp_path: Path) -> None:
    before = git(repo, "config", "--list")
    other = tmp_path / "other"
    git(repo, "worktree", "add", "--quiet", str(other))
    for place in (tree, repo, other):
        build_tree(place, {"AGENTS.md": ""})
    env = session(tree, "AGENTS.md")
    assert status(tree, env) == []
    assert status(repo) == status(other) == status(tree) == ["?? AGENTS.md"]
    assert git(repo, "config", "--list") == before
    assert b"AGENTS" not in exclude_file(repo).read_bytes()


def test_a_session_in_a_directory_below_the_top(tree: Path) -> None:
    build_tree(tree, {"api/AGENTS.md": "", "AGENTS.md": ""})
    assert status(tree, session(tree / "api", "AGENTS.md")) == ["?? AGENTS.md"]


@pytest.mark.parametrize("where", ["setting", "tilde", "xdg", "home"])
def test_what_a_person_ignores_everywhere_stays_ignored(
    tree: Path, private_home: Path, where: str
) -> None:
    environ = {"GIT_CONFIG_GLOBAL": str(private_home / ".gitconfig")}
    if where in ("setting", "tilde"):
        file = private_home / "ignored by me"
        named = "~/ignored by me" if where == "tilde" else str(file)
        git(tree, "config", "--global", "core.excludesFile", named, env=environ)
    elif where == "xdg":
        environ["XDG_CONFIG_HOME"] = str(private_home / "elsewhere")
        file = private_home / "elsewhere/git/ignore"
    else:
        file = private_home / ".config/git/ignore"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"*.swp\n.idea/")
    build_tree(tree, {"AGENTS.md": "", "x.swp": "", ".idea/y": "", "mine": ""})
    assert status(tree, session(tree, "AGENTS.md", environ=environ)) == ["?? mine"]
    assert file.read_bytes() == b"*.swp\n.idea/"


def test_a_missing_or_unreadable_file_of_the_person_is_as_none(tree: Path, tmp_path: Path) -> None:
    build_tree(tree, {"AGENTS.md": "", "mine": ""})
    for named in (tmp_path / "no-such", tmp_path):
        git(tree, "config", "core.excludesFile", str(named))
        assert status(tree, session(tree, "AGENTS.md")) == ["?? mine"]


def test_from_inside_a_session_nothing_is_piled_up(tree: Path, private_home: Path) -> None:
    env = session(tree, "AGENTS.md")
    file = private_home / "session.excludes"
    before = file.read_bytes()
    assert not write_session_excludes(str(file), str(tree), ["AGENTS.md"], {**os.environ, **env})
    assert file.read_bytes() == before
    inner = session(tree, "CLAUDE.md", environ=env)
    build_tree(tree, {"CLAUDE.md": "", "AGENTS.md": ""})
    assert status(tree, inner) == ["?? AGENTS.md"]


def test_settings_that_are_in_the_environment_stay(tree: Path) -> None:
    mine = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "c"}
    env = session(tree, "AGENTS.md", environ=mine)
    build_tree(tree, {"AGENTS.md": ""})
    assert git(tree, "config", "a.b", env=env) == "c"
    assert status(tree, env) == []


@pytest.mark.parametrize("count", ["", "many"])
def test_a_count_that_is_none_is_nothing(tree: Path, count: str) -> None:
    env = session_git_environment("/x", {"GIT_CONFIG_COUNT": count})
    assert git(tree, "config", "core.excludesFile", env=env) == "/x"


def test_tracked_files_stay_tracked(tree: Path) -> None:
    commit(tree, {"AGENTS.md": "1\n"})
    build_tree(tree, {"AGENTS.md": "2\n"})
    assert status(tree, session(tree, "AGENTS.md")) == [" M AGENTS.md"]
