"""The loop that pins: real repositories, a real cache, and a city that imports from them."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gascity.cli.problems import Locator
from gascity.model.problems import CityError
from gascity.model.repositories import LockedPack, Remote
from gascity.packs.graph import edges
from gascity.packs.repositories import Repositories
from gascity.packs.resolve import Resolution, resolve
from gascity.paths import cache_home
from gascity.pipeline import open_city
from gascity.source.lock import lock_text
from tests.support.repositories import Origin
from tests.support.trees import build_tree


def pack(name: str, imports: Mapping[str, tuple[str, str]] | None = None) -> dict[str, str]:
    """The files of a pack with one agent of its name: `{"binding": (source, version)}`."""
    text = f'[pack]\nname = "{name}"\n'
    for binding, (source, version) in (imports or {}).items():
        text += f'\n[imports.{binding}]\nsource = "{source}"\n'
        text += f'version = "{version}"\n' if version else ""
    return {"pack.toml": text, f"agents/{name}/prompt.md": f"You are {name}.\n"}


class Listener:
    """Remembers what was begun."""

    def __init__(self) -> None:
        self.begun: list[str] = []

    def begin(self, task: str, name: str) -> None:
        self.begun.append(f"{task} {name}")

    def __call__(self, stage: str, done: int, total: int) -> None:
        pass


class Town:
    """A city, and what its imports come to."""

    def __init__(self, root: Path) -> None:
        self.root = build_tree(root, {"city.toml": ""})
        self.heard: list[str] = []

    def imports(self, **imports: tuple[str, str]) -> None:
        """Write city.toml, with these imports and nothing else."""
        text = pack("x", imports)["pack.toml"].partition("\n\n")[2]
        (self.root / "city.toml").write_text(text)

    def resolve(self, *anew: str, everything: bool = False) -> Resolution:
        """Resolve, and write the lock as the commands do."""
        found = self.tried(*anew, everything=everything)
        assert found.problems == ()
        if found.text is not None:
            (self.root / "packs.lock").write_text(found.text)
        return found

    def tried(self, *anew: str, everything: bool = False) -> Resolution:
        listener = Listener()
        depot = Repositories(os.environ, listener)
        found = resolve(
            str(self.root),
            os.environ,
            depot,
            update=lambda name: everything or name in anew,
        )
        self.heard = listener.begun
        return found

    def agents(self) -> list[str]:
        city = open_city(str(self.root), os.environ)
        assert [p for p in city.all_problems if p.is_error] == []
        return sorted(str(one.name) for one in city.agents if one.name.binding)

    def commits(self) -> dict[str, str]:
        """What every import is read from, by binding."""
        city = open_city(str(self.root), os.environ)
        found = [one for _, one, _ in edges(city.pack, city.rig_imports)]
        return {one.binding: one.locked.commit for one in found if one.locked and one.pack}


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path / "town")


@pytest.fixture
def origin(tmp_path: Path) -> Callable[..., Origin]:
    """`origin("crew", pack("crew"))` is a repository with one release, v1.0.0."""

    def make(name: str, files: Mapping[str, str], tag: str = "v1.0.0") -> Origin:
        made = Origin(tmp_path / "origins" / name, files)
        made.tag(tag)
        return made

    return make


Make = Callable[..., Origin]


def test_an_import_is_pinned_together_with_what_its_pack_imports(town: Town, origin: Make) -> None:
    tools = origin("tools", pack("tools"))
    crew = origin("crew", pack("crew", {"tools": (tools.url, "^1.0")}))
    town.imports(crew=(crew.url, "^1"))
    found = town.resolve()
    assert [(lock.binding, lock.version, lock.commit, lock.parents) for lock in found.locks] == [
        ("crew", "^1", crew.head, ("city",)),
        ("tools", "^1.0", tools.head, ("crew",)),
    ]
    assert all(len(lock.sha256) == 64 for lock in found.locks)
    assert [lock.binding for lock in found.fetched] == ["crew", "tools"]
    assert town.agents() == ["crew.crew", "crew.tools"]


def test_what_is_locked_keeps_its_commit_and_the_lock_is_not_written_again(
    town: Town, origin: Make
) -> None:
    crew = origin("crew", pack("crew"))
    town.imports(crew=(crew.url, "^1"))
    town.resolve()
    first = crew.head
    crew.commit({"agents/mate/prompt.md": "You are the mate.\n"})
    crew.tag("v1.1.0")
    again = town.resolve()
    assert (again.text, again.fetched, again.changes) == (None, (), ())
    assert town.commits() == {"crew": first}
    assert town.heard == []


def test_only_named_packs_are_updated(town: Town, origin: Make) -> None:
    tools = origin("tools", pack("tools"))
    crew = origin("crew", pack("crew", {"tools": (tools.url, "^1.0")}))
    town.imports(crew=(crew.url, "^1"))
    town.resolve()
    old = town.commits()
    crew.commit({"README.md": "new\n"})
    crew.tag("v1.1.0")
    tools.commit({"README.md": "new\n"})
    tools.tag("v1.1.0")
    found = town.resolve("crew")
    assert [(move.old, move.new) for move in found.changes if move.old and move.new] != []
    assert town.commits() == {"crew": crew.head, "tools": old["tools"]}
    town.resolve("tools")
    assert town.commits() == {"crew": crew.head, "tools": tools.head}


def test_what_only_the_older_commit_imported_is_neither_asked_for_nor_kept(
    town: Town, origin: Make
) -> None:
    tools = origin("tools", pack("tools"))
    crew = origin("crew", pack("crew", {"tools": (tools.url, "branch:main")}))
    town.imports(crew=(crew.url, "^1"))
    town.resolve()
    crew.commit(pack("crew"))
    crew.tag("v1.1.0")
    found = town.resolve(everything=True)
    assert [lock.binding for lock in found.locks] == ["crew"]
    assert [(move.old and move.old.binding, move.new is None) for move in found.changes] == [
        ("crew", False),
        ("tools", True),
    ]
    assert not any(tools.url in task for task in town.heard)


def test_an_entry_without_import_is_removed(town: Town, origin: Make) -> None:
    crew, tools = origin("crew", pack("crew")), origin("tools", pack("tools"))
    town.imports(crew=(crew.url, "^1"), tools=(tools.url, "^1"))
    town.resolve()
    town.imports(tools=(tools.url, "^1"))
    found = town.resolve()
    assert [lock.binding for lock in found.locks] == ["tools"]
    assert "crew" not in (town.root / "packs.lock").read_text()


def test_parents_are_all_who_import_a_pack(town: Town, origin: Make) -> None:
    tools = origin("tools", pack("tools"))
    crew = origin("crew", pack("crew", {"tools": (tools.url, "^1")}))
    town.imports(crew=(crew.url, "^1"), tools=(tools.url, "^1"))
    (town.root / "city.toml").write_text(
        (town.root / "city.toml").read_text()
        + f'\n[[rigs]]\nname = "dock"\n[rigs.imports.tools]\nsource = "{tools.url}"\n'
        + 'version = "^1"\n'
    )
    found = town.resolve()
    assert {lock.binding: lock.parents for lock in found.locks} == {
        "crew": ("city",),
        "tools": ("city", "crew", "rig:dock"),
    }


def test_a_repository_is_asked_for_its_names_once(town: Town, origin: Make) -> None:
    crew = origin("crew", {**pack("crew"), **{f"b/{k}": v for k, v in pack("b").items()}})
    town.imports(
        a=(crew.url, "^1"), b=(f"{crew.url}//b", "~1.0"), c=(f"{crew.url}//b", "branch:main")
    )
    town.resolve()
    assert [task for task in town.heard if task.startswith("asking")] == [f"asking {crew.url}"]


def test_two_bindings_may_pin_two_commits_of_one_repository(town: Town, origin: Make) -> None:
    crew = origin("crew", pack("old"))
    first = crew.head
    crew.commit(pack("new"))
    crew.tag("v2.0.0")
    town.imports(before=(crew.url, "^1"), after=(crew.url, "^2"))
    town.resolve()
    assert town.commits() == {"before": first, "after": crew.head}
    assert town.agents() == ["after.new", "after.old", "before.old"]


def test_one_failure_is_a_problem_at_its_import_and_the_others_are_fetched(
    town: Town, origin: Make, tmp_path: Path
) -> None:
    crew = origin("crew", pack("crew"))
    town.imports(
        gone=(f"file://{tmp_path}/nowhere", "^1"), crew=(crew.url, "^1"), far=(crew.url, "^7")
    )
    found = town.tried()
    locator = Locator(str(town.root))
    assert [
        (p.code, p.place and p.place.file, locator.line_col(p.place)) for p in found.problems
    ] == [
        ("pack-unreachable", "city.toml", (2, 1)),
        ("version-missing", "city.toml", (11, 11)),
    ]
    assert found.problems[1].hint == "available: `v1.0.0`"
    assert [lock.binding for lock in found.fetched] == ["crew"]
    assert [lock.binding for lock in found.locks] == ["crew"]


def test_what_a_pack_imports_is_updated_though_the_pack_itself_cannot_be(
    town: Town, origin: Make
) -> None:
    tools = origin("tools", pack("tools"))
    crew = origin("crew", pack("crew", {"tools": (tools.url, "^1")}))
    town.imports(crew=(crew.url, "tag:v1.0.0"))
    first = crew.head
    town.resolve()
    crew.commit(pack("crew"))
    crew.delete_tag("v1.0.0")
    tools.commit({"agents/more/prompt.md": "You are more.\n"})
    newer = tools.tag("v1.1.0")
    found = town.tried(everything=True)
    assert [problem.code for problem in found.problems] == ["version-missing"]
    assert {lock.binding: lock.commit for lock in found.locks} == {"crew": first, "tools": newer}
    assert found.text is not None


def test_packs_that_import_each_other_do_not_keep_it_going(town: Town, origin: Make) -> None:
    crew = origin("crew", pack("crew"))
    tools = origin("tools", pack("tools", {"back": (crew.url, "branch:main")}))
    crew.commit(pack("crew", {"tools": (tools.url, "branch:main")}))
    town.imports(crew=(crew.url, "branch:main"))
    found = town.resolve()
    assert {lock.binding for lock in found.locks} == {"back", "crew", "tools"}
    city = open_city(str(town.root), os.environ)
    assert [p.code for p in city.problems if p.is_error] == ["import-cycle"]


def test_a_pack_may_import_its_neighbour_at_its_own_commit(town: Town, origin: Make) -> None:
    files = {
        **{f"crew/{k}": v for k, v in pack("crew", {"core": ("../core", "")}).items()},
        **{f"core/{k}": v for k, v in pack("core").items()},
    }
    packs = origin("packs", files)
    first = packs.head
    packs.commit({"core/README.md": "later\n"})
    town.imports(crew=(f"{packs.url}//crew", "^1"))
    found = town.resolve()
    core = found.locks[0]
    assert (core.binding, core.source, core.path) == ("core", f"{packs.url}//core", "core")
    assert (core.version, core.commit, core.parents) == (f"sha:{first}", first, ("crew",))
    assert town.agents() == ["crew.core", "crew.crew"]
    assert town.resolve().text is None
    packs.tag("v1.1.0")
    town.resolve("crew")
    assert town.commits() == {"crew": packs.head, "core": packs.head}


def test_a_commit_may_be_named_by_its_first_digits(town: Town, origin: Make) -> None:
    crew = origin("crew", pack("crew"))
    town.imports(crew=(crew.url, f"sha:{crew.head[:9]}"))
    assert [lock.commit for lock in town.resolve().locks] == [crew.head]
    assert town.resolve().text is None


def test_a_lock_in_the_public_form_keeps_its_commit_and_gets_a_hash(
    town: Town, origin: Make
) -> None:
    crew = origin("crew", pack("crew"))
    first = crew.head
    crew.commit({"README.md": "later\n"})
    town.imports(crew=(crew.url, "branch:main"))
    (town.root / "packs.lock").write_text(
        f'schema = 1\n[packs."{crew.url}"]\nversion = "branch:main"\ncommit = "{first}"\n'
    )
    found = town.resolve()
    assert [(lock.binding, lock.commit, len(lock.sha256)) for lock in found.locks] == [
        ("crew", first, 64)
    ]
    assert town.resolve().text is None


def test_a_lock_that_cannot_be_read_is_never_written_over(town: Town, origin: Make) -> None:
    crew = origin("crew", pack("crew"))
    town.imports(crew=(crew.url, "^1"))
    (town.root / "packs.lock").write_text("<<<<<<< ours\nschema = 1\n")
    with pytest.raises(CityError):
        town.tried()


def test_a_commit_that_does_not_hold_what_was_locked_is_refused(town: Town, origin: Make) -> None:
    crew = origin("crew", pack("crew"))
    town.imports(crew=(crew.url, "^1"))
    lock = LockedPack("crew", crew.url, "", "^1", crew.head, "0" * 64, ("city",))
    (town.root / "packs.lock").write_text(lock_text([lock]))
    (problem,) = town.tried().problems
    assert problem.code == "pack-changed"
    assert "does not match the hash in packs.lock" in problem.message


def test_a_wrong_hash_in_one_city_takes_nothing_from_the_others(town: Town, origin: Make) -> None:
    crew = origin("crew", pack("crew"))
    town.imports(crew=(crew.url, "^1"))
    (lock,) = town.resolve().locks
    shutil.rmtree(crew.root)
    shutil.rmtree(Path(cache_home(os.environ), "gascity/repos"))
    (town.root / "packs.lock").write_text(lock_text([lock._replace(sha256="0" * 64)]))
    assert [problem.code for problem in town.tried().problems] == ["pack-unreachable"]
    (town.root / "packs.lock").write_text(lock_text([lock]))
    assert town.tried().problems == ()


def test_a_pin_whose_version_is_none_is_still_called_by_its_release(origin: Make) -> None:
    crew = origin("crew", pack("crew"))
    crew.tag("v1.2.3")
    asked = Repositories(os.environ, Listener())
    asked.refs(Remote(crew.url))
    assert asked.tag_of(Remote(crew.url), crew.head, "garbage!") == "v1.2.3"


def test_two_bindings_of_one_repository_that_cannot_be_reached_ask_it_once(
    town: Town, tmp_path: Path
) -> None:
    url = f"file://{tmp_path}/nowhere"
    town.imports(a=(url, "^1"), b=(url, "^2"))
    assert len(town.tried().problems) == 2
    assert town.heard == [f"asking {url}"]


def test_a_city_cannot_import_without_end(
    town: Town, origin: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gascity.packs.resolve.MAX_PACKS", 2)
    crew = origin("crew", pack("crew"))
    town.imports(a=(crew.url, "^1"), b=(crew.url, "^1"), c=(crew.url, "^1"))
    assert [problem.code for problem in town.tried().problems] == ["too-many-packs"]
