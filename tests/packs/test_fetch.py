"""Repositories of others: what they name, and how a commit of theirs is had."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gascity import git as asked
from gascity.git import GitError
from gascity.packs.fetch import Mirror
from gascity.packs.repositories import PackError
from tests.support.git import git
from tests.support.repositories import Origin


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path / "origin", {"pack.toml": '[pack]\nname = "one"\n'})


@pytest.fixture
def mirror(tmp_path: Path, origin: Origin) -> Mirror:
    return mirror_of(tmp_path, origin.url)


def mirror_of(tmp_path: Path, url: str, cache: str = "cache", **environ: str) -> Mirror:
    return Mirror(str(tmp_path / cache), url, {**os.environ, **environ})


def commits_in(mirror: Mirror) -> int:
    return int(git(Path(mirror.directory), "rev-list", "--all", "--count"))


def away(origin: Origin) -> None:
    """The server is gone."""
    origin.root.rename(origin.root.with_name("elsewhere"))


# Names


def test_a_repository_names_its_branches_tags_and_head(origin: Origin, mirror: Mirror) -> None:
    first = origin.tag("v1.0.0")
    origin.branch("next")
    second = origin.commit({"a.md": "a\n"})
    origin.branch("main")
    refs = mirror.refs()
    assert refs.head == first
    assert refs.default_branch == "main"
    assert refs.tags == {"v1.0.0": first}
    assert refs.branches == {"main": first, "next": second}


def test_an_annotated_tag_resolves_to_its_commit(origin: Origin, mirror: Mirror) -> None:
    commit = origin.tag("v1.0.0", annotated=True)
    assert git(origin.root, "rev-parse", "v1.0.0") != commit
    assert mirror.refs().tags == {"v1.0.0": commit}


def test_a_detached_head_is_on_no_branch(origin: Origin, mirror: Mirror) -> None:
    git(origin.root, "checkout", "--quiet", "--detach")
    refs = mirror.refs()
    assert (refs.head, refs.default_branch) == (origin.head, "")


def test_an_empty_repository_names_nothing(tmp_path: Path) -> None:
    refs = mirror_of(tmp_path, Origin(tmp_path / "empty").url).refs()
    assert (refs.head, refs.default_branch, refs.tags, refs.branches) == ("", "", {}, {})


def test_a_name_that_would_deceive_a_terminal_is_not_taken(origin: Origin, mirror: Mirror) -> None:
    git(origin.root, "update-ref", "refs/heads/a\u202eb", "HEAD")
    assert list(mirror.refs().branches) == ["main"]


# Commits


def test_a_commit_is_fetched_without_its_history(origin: Origin, mirror: Mirror) -> None:
    commit = origin.commit({"a.md": "a\n"})
    assert mirror.ensure(commit) == commit
    assert commits_in(mirror) == 1


def test_what_is_here_is_not_asked_for(origin: Origin, mirror: Mirror) -> None:
    commit = mirror.ensure(origin.head)
    away(origin)
    assert mirror.ensure(commit) == commit
    assert mirror.ensure(commit[:7]) == commit


def test_two_commits_of_one_repository_are_here_side_by_side(
    origin: Origin, mirror: Mirror
) -> None:
    first, second = origin.head, origin.commit({"a.md": "a\n"})
    assert [mirror.ensure(second), mirror.ensure(first)] == [second, first]
    away(origin)
    assert [mirror.ensure(second), mirror.ensure(first)] == [second, first]


def test_the_beginning_of_a_commit_is_found_among_the_names(origin: Origin, mirror: Mirror) -> None:
    commit = origin.commit({"a.md": "a\n"})
    assert mirror.ensure(commit[:7]) == commit
    assert commits_in(mirror) == 1


def test_the_beginning_of_a_commit_is_found_in_the_history(origin: Origin, mirror: Mirror) -> None:
    first = origin.head
    mirror.ensure(origin.commit({"a.md": "a\n"}))
    assert mirror.ensure(first[:8]) == first


def test_a_beginning_that_several_commits_share_is_refused(origin: Origin, mirror: Mirror) -> None:
    stream = "".join(
        f"commit refs/heads/many\ncommitter A <a@b> {n} +0000\ndata 0\n\n" for n in range(2000)
    )
    subprocess.run(
        ["git", "fast-import", "--quiet"], cwd=origin.root, input=stream.encode(), check=True
    )
    names = [name[:4] for name in git(origin.root, "rev-list", "many").split()]
    shared = next(name for name in names if names.count(name) > 1)
    with pytest.raises(PackError) as caught:
        mirror.ensure(shared)
    assert caught.value.code == "pack-commit-gone"
    assert caught.value.hint == "write more digits of the commit"


def test_a_server_that_gives_no_single_commit_gives_all(tmp_path: Path, origin: Origin) -> None:
    first = origin.head
    origin.commit({"a.md": "a\n"})
    old = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "protocol.version",
        "GIT_CONFIG_VALUE_0": "0",
    }
    mirror = mirror_of(tmp_path, origin.url, **old)
    assert mirror.ensure(first) == first
    assert commits_in(mirror) == 2


def test_a_commit_that_was_pushed_away_is_still_in_the_mirror(
    origin: Origin, mirror: Mirror
) -> None:
    old = mirror.ensure(origin.commit({"a.md": "a\n"}))
    new = origin.force_push({"a.md": "b\n"})
    assert [mirror.ensure(new), mirror.ensure(old)] == [new, old]


def test_a_commit_removed_by_force_push_cannot_be_fetched_again(
    tmp_path: Path, origin: Origin
) -> None:
    old = origin.commit({"a.md": "a\n"})
    origin.force_push({"a.md": "b\n"})
    with pytest.raises(PackError) as caught:
        mirror_of(tmp_path, origin.url).ensure(old)
    assert caught.value.code == "pack-commit-gone"
    assert caught.value.message == f"the commit {old[:12]} does not exist in {origin.url}"
    assert "force-push" in (caught.value.hint or "")
    assert "city pack update" in (caught.value.hint or "")


def test_the_commit_of_a_deleted_tag_cannot_be_fetched_again(
    tmp_path: Path, origin: Origin
) -> None:
    origin.branch("release")
    old = origin.commit({"a.md": "a\n"})
    origin.tag("v1.0.0")
    known = mirror_of(tmp_path, origin.url, "known")
    known.ensure(old)
    origin.branch("main")
    git(origin.root, "branch", "--quiet", "-D", "release")
    origin.delete_tag("v1.0.0")
    origin.forget()
    assert known.ensure(old) == old
    with pytest.raises(PackError, match="does not exist in"):
        mirror_of(tmp_path, origin.url).ensure(old)


def test_a_branch_may_become_a_folder_of_branches(origin: Origin, mirror: Mirror) -> None:
    origin.branch("a")
    first = origin.commit({"a.md": "a\n"})
    origin.commit({"a.md": "b\n"})
    mirror.ensure(first[:10])  # all branches are here now
    git(origin.root, "branch", "--quiet", "--move", "a", "a/b")
    second = origin.commit({"b.md": "b\n"})
    origin.commit({"b.md": "c\n"})
    assert mirror.ensure(second[:10]) == second


@pytest.mark.parametrize("commit", ["", "--all", "HEAD", "main", "v1.0.0", "a b"])
def test_what_is_no_commit_is_not_looked_for(mirror: Mirror, commit: str) -> None:
    with pytest.raises(PackError, match="is not a commit"):
        mirror.ensure(commit)


# Mirrors that are not as they should be


def truncated(mirror: Path) -> None:
    (pack,) = (mirror / "objects/pack").glob("*.pack")
    pack.chmod(0o644)
    pack.write_bytes(pack.read_bytes()[:40])


def without_objects(mirror: Path) -> None:
    for file in (mirror / "objects/pack").iterdir():
        file.unlink()


def without_head(mirror: Path) -> None:
    (mirror / "HEAD").write_text("")


def empty(mirror: Path) -> None:
    subprocess.run(["rm", "-rf", *map(str, mirror.iterdir())], check=True)


def without_places(mirror: Path) -> None:
    subprocess.run(["rm", "-rf", str(mirror / "objects/pack")], check=True)


@pytest.mark.parametrize(
    "damage", [truncated, without_objects, without_places, without_head, empty]
)
@pytest.mark.parametrize("which", ["the same", "another"])
def test_a_damaged_mirror_is_made_again(
    origin: Origin, mirror: Mirror, damage: object, which: str
) -> None:
    commit = mirror.ensure(origin.head)
    assert callable(damage)
    damage(Path(mirror.directory))
    wanted = commit if which == "the same" else origin.commit({"a.md": "a\n"})
    assert [mirror.ensure(wanted), mirror.ensure(commit)] == [wanted, commit]


def test_a_commit_that_lacks_one_of_its_files_is_fetched_again(
    origin: Origin, mirror: Mirror
) -> None:
    commit = mirror.ensure(origin.head)
    place = Path(mirror.directory)
    (pack,) = (place / "objects/pack").glob("*.pack")
    content = pack.read_bytes()
    without_objects(place)
    subprocess.run(["git", "unpack-objects", "-q"], cwd=place, input=content, check=True)
    blob = git(origin.root, "rev-parse", "HEAD:pack.toml")
    (place / "objects" / blob[:2] / blob[2:]).unlink()
    assert mirror.ensure(commit) == commit
    assert git(place, "cat-file", "-t", blob) == "blob"


def test_what_a_killed_git_left_is_taken_away(origin: Origin, mirror: Mirror) -> None:
    mirror.ensure(origin.head)
    place = Path(mirror.directory)
    left = [place / name for name in ("shallow.lock", "objects/pack/tmp_pack_x", "HEAD.lock")]
    for file in left:
        file.write_text("half")
    commit = origin.commit({"a.md": "a\n"})
    assert mirror.ensure(commit) == commit
    assert not any(file.exists() for file in left)


def test_a_mirror_that_grew_too_large_is_created_again(
    origin: Origin, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror.ensure(origin.head)
    second = origin.commit({"a.md": "a\n"})
    monkeypatch.setattr(asked, "MOST_BYTES", 100_000)
    (Path(mirror.directory) / "objects/pack/more.pack").write_bytes(b"x" * 100_000)
    assert mirror.ensure(second) == second
    assert commits_in(mirror) == 1


def test_several_processes_may_fetch_at_once(tmp_path: Path, origin: Origin) -> None:
    commits = [origin.head, *(origin.commit({"a.md": f"{n}\n"}) for n in range(3))]
    code = (
        "import os, sys; from gascity.packs.fetch import Mirror;"
        "print(Mirror(sys.argv[1], sys.argv[2], os.environ).ensure(sys.argv[3]))"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "cache"), origin.url, commit],
            stdout=subprocess.PIPE,
            text=True,
        )
        for commit in commits
    ]
    assert [process.communicate(timeout=60)[0].strip() for process in running] == commits


def test_the_cache_is_private_to_the_user(origin: Origin, mirror: Mirror) -> None:
    mirror.ensure(origin.head)
    for path in (mirror.cache, f"{mirror.cache}/repos", mirror.directory):
        assert os.stat(path).st_mode & 0o777 == 0o700


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, origin: Origin) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(PackError, match=f"{tmp_path}/cache") as caught:
        mirror_of(tmp_path, origin.url).ensure(origin.head)
    assert caught.value.code == "cache-unwritable"


@pytest.mark.parametrize("part", [".", "repos", "mirror"])
def test_a_mirror_that_others_may_write_to_is_not_used(
    origin: Origin, mirror: Mirror, part: str
) -> None:
    mirror.ensure(origin.head)
    place = Path(mirror.directory if part == "mirror" else f"{mirror.cache}/{part}")
    place.chmod(0o770)
    with pytest.raises(PackError, match="other users can write to it") as caught:
        mirror.ensure(origin.head)
    assert caught.value.code == "cache-unwritable"


def test_a_disk_that_git_finds_full_is_no_fault_of_the_server(
    tmp_path: Path, origin: Origin
) -> None:
    stand_in = tmp_path / "bin/git"
    stand_in.parent.mkdir()
    words = "fatal: write error: No space left on device"
    stand_in.write_text(
        f'#!/bin/sh\ncase "$*" in *" fetch "*) echo "{words}" >&2; exit 128;; esac\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    stand_in.chmod(0o755)
    mirror = mirror_of(tmp_path, origin.url, PATH=f"{stand_in.parent}:{os.environ['PATH']}")
    with pytest.raises(PackError, match="No space left") as caught:
        mirror.ensure(origin.head)
    assert caught.value.code == "cache-unwritable"
    assert "free disk space" in (caught.value.hint or "")


# What is not run, and not said


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% {mark}",
        "--upload-pack=touch {mark}",
        "--upload-pack=touch${{IFS}}{mark}",
        "-oProxyCommand=touch {mark}:x",
        "ssh://-oProxyCommand=touch {mark}/x",
        "fd::17",
        "http://127.0.0.1:1/x",
    ],
)
def test_an_address_runs_nothing(tmp_path: Path, url: str) -> None:
    mark = tmp_path / "mark"
    url = url.format(mark=mark)
    for question in (
        lambda: asked.remote_refs(url, os.environ),
        lambda: asked.fetch(
            str(Origin(tmp_path / "x").root / ".git"), url, ["a"], os.environ, None
        ),
    ):
        with pytest.raises(GitError):
            question()
    assert not mark.exists()


def test_a_served_repository_runs_nothing_here(
    tmp_path: Path, origin: Origin, mirror: Mirror
) -> None:
    mark = tmp_path / "mark"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    script.chmod(0o755)
    for key in ("core.fsmonitor", "uploadpack.packObjectsHook", "core.sshCommand", "core.pager"):
        git(origin.root, "config", key, str(script))
    git(origin.root, "config", "filter.evil.smudge", str(script))
    for hook in ("pre-receive", "post-checkout", "reference-transaction", "post-update"):
        (origin.root / ".git/hooks" / hook).symlink_to(script)
    commit = mirror.ensure(git(origin.root, "-c", "core.fsmonitor=false", "rev-parse", "HEAD"))
    assert mirror.refs().head == commit
    assert not mark.exists()


def test_hooks_of_the_user_do_not_run_in_a_mirror(tmp_path: Path, origin: Origin) -> None:
    mark = tmp_path / "mark"
    hooks = tmp_path / "template/hooks"
    hooks.mkdir(parents=True)
    (hooks / "reference-transaction").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (hooks / "reference-transaction").chmod(0o755)
    settings = tmp_path / "gitconfig"
    settings.write_text(f"[init]\ntemplateDir = {hooks.parent}\n[core]\nhooksPath = {hooks}\n")
    mirror_of(tmp_path, origin.url, GIT_CONFIG_GLOBAL=str(settings)).ensure(origin.head)
    assert not mark.exists()


def test_a_mirror_is_found_from_inside_a_hook(
    tmp_path: Path, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, commit = Origin(tmp_path / "other", {"a": "a"}), origin.head
    with monkeypatch.context() as inside:
        inside.setenv("GIT_DIR", f"{other.root}/.git")
        inside.setenv("GIT_INDEX_FILE", "nowhere")
        inside.setenv("GIT_QUARANTINE_PATH", str(tmp_path))
        inside.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path / "objects"))
        mirror = mirror_of(tmp_path, origin.url)
        assert mirror.refs().head == commit
        assert mirror.ensure(commit) == commit


@pytest.mark.parametrize("secret", ["s3cret", "s3@cret", "s3:cr@et"])
def test_no_password_is_ever_printed(tmp_path: Path, secret: str) -> None:
    url = f"https://zoe:{secret}@127.0.0.1:1/x"
    with pytest.raises(PackError) as caught:
        mirror_of(tmp_path, url).refs()
    cause = caught.value.__cause__
    assert isinstance(cause, GitError)
    said = [caught.value.message, caught.value.hint, str(cause), cause.stderr, *cause.arguments]
    assert "127.0.0.1" in caught.value.message
    assert not any(word in str(said) for word in (secret, "zoe", "et@", "cret"))


def test_server_messages_cannot_control_the_terminal(tmp_path: Path) -> None:
    script = tmp_path / "ssh"
    script.write_text("#!/bin/sh\nprintf 'fatal: \\033[2Jgone\\n' >&2\nexit 1\n")
    script.chmod(0o755)
    with pytest.raises(PackError) as caught:
        mirror_of(tmp_path, "ssh://127.0.0.1/x", GIT_SSH_COMMAND=str(script)).refs()
    assert "[2Jgone" in caught.value.message
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("own", ["nothing", "GIT_SSH_COMMAND", "core.sshCommand"])
def test_ssh_never_prompts_and_uses_the_users_config(tmp_path: Path, own: str) -> None:
    for name in ("ssh", "mine"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "$0 $*" >> {tmp_path}/called\nexit 1\n')
        program.chmod(0o755)
    settings = tmp_path / "gitconfig"
    chosen = f"{tmp_path}/mine -F own"
    settings.write_text(f"[core]\nsshCommand = {chosen}\n" if own == "core.sshCommand" else "")
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GIT_CONFIG_GLOBAL": str(settings)}
    if own == "GIT_SSH_COMMAND":
        environ[own] = chosen
    with pytest.raises(PackError):
        mirror_of(tmp_path, "ssh://git@127.0.0.1/x", **environ).refs()
    called = (tmp_path / "called").read_text()
    assert ("ssh -oBatchMode=yes" if own == "nothing" else "mine -F own") in called
    assert ("BatchMode" in called) == (own == "nothing")


# Servers that do not answer


class Silent:
    """A server that takes a call and says nothing."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.settimeout(60)
        self.url = f"git://127.0.0.1:{self.socket.getsockname()[1]}/x"

    def was_left(self) -> bool:
        """Wait until a caller has come, and gone."""
        caller, _ = self.socket.accept()
        with caller:
            caller.settimeout(60)
            while caller.recv(4096):
                pass
        return True


@pytest.fixture
def silent() -> Iterator[Silent]:
    server = Silent()
    yield server
    server.socket.close()


def test_a_silent_server_is_left(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked, "SILENCE", 0.3)
    with pytest.raises(PackError, match="has sent nothing for") as caught:
        mirror_of(tmp_path, silent.url).refs()
    assert caught.value.code == "pack-unreachable"
    assert silent.was_left()


def test_a_server_that_finds_no_end_is_left(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked, "LONGEST", 0.3)
    with pytest.raises(PackError, match="did not finish within"):
        mirror_of(tmp_path, silent.url).ensure("a" * 40)
    assert silent.was_left()


def test_an_interrupt_ends_git_too(tmp_path: Path, silent: Silent) -> None:
    code = (
        "import os, sys; from gascity.packs.fetch import Mirror;"
        "Mirror(sys.argv[1], sys.argv[2], os.environ).refs()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), silent.url],
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    caller, _ = silent.socket.accept()
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=60)
    assert b"KeyboardInterrupt" in words
    with caller:
        caller.settimeout(60)
        while caller.recv(4096):
            pass


def test_a_command_that_is_ended_ends_git_too(tmp_path: Path, silent: Silent) -> None:
    (tmp_path / "city.toml").write_text("")
    process = subprocess.Popen(
        [sys.executable, "-m", "gascity", "pack", "add", silent.url],
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    caller, _ = silent.socket.accept()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    with caller:
        caller.settimeout(10)
        while caller.recv(4096):
            pass


def test_a_repository_that_is_too_large_is_not_fetched(
    origin: Origin, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = origin.commit({"noise": os.urandom(3_000_000)})
    monkeypatch.setattr(asked, "MOST_BYTES", 1_000_000)
    with pytest.raises(PackError, match="larger than the limit of 1 MB"):
        mirror.ensure(commit)
    assert asked.bytes_of(mirror.directory) < 1_000_000


def test_an_unreachable_server_is_reported_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(PackError) as caught:
        mirror_of(tmp_path, f"file://{tmp_path}/nowhere").refs()
    assert caught.value.code == "pack-unreachable"
    assert "does not appear to be a git repository" in caught.value.message
    assert f"git ls-remote file://{tmp_path}/nowhere" in (caught.value.hint or "")


def test_without_git_it_is_git_that_is_missing(tmp_path: Path, origin: Origin) -> None:
    mirror = mirror_of(tmp_path, origin.url, PATH=str(tmp_path))
    with pytest.raises(PackError, match="the program `git` was not found"):
        mirror.refs()
    with pytest.raises(PackError, match="the program `git` was not found"):
        mirror.ensure(origin.head)


# Progress


def test_progress_is_reported_stage_by_stage(tmp_path: Path, origin: Origin) -> None:
    told: list[tuple[str, int, int]] = []
    commit = origin.commit({f"{n}.md": f"{n}\n" for n in range(50)})
    mirror = Mirror(str(tmp_path / "cache"), origin.url, os.environ, lambda *one: told.append(one))
    mirror.ensure(commit)
    stages = list(dict.fromkeys(stage for stage, _, _ in told))
    assert stages == ["connecting", "counting", "compressing", "receiving"]
    assert told[-1][1] == told[-1][2] > 50


def test_only_a_conversation_loads_the_library() -> None:
    code = "import sys; import gascity.packs.extract; print('git' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
