"""Loading packs from packs.lock and the cache: it fetches nothing and trusts nothing."""

import os
from pathlib import Path

import pytest

from gascity.cli.problems import Locator
from gascity.compose.asset_dirs import city_asset_dirs
from gascity.model.city import City
from gascity.model.problems import CityError
from gascity.model.repositories import LockedPack, Remote
from gascity.packs.repositories import Repositories
from gascity.packs.resolve import resolve
from gascity.paths import cache_home
from gascity.pipeline import open_agent
from gascity.source.lock import lock_text
from gascity.source.pack_cache import pack_directory
from tests.support.city import CityBuilder, codes_of, names_of, problem_of, problem_texts
from tests.support.repositories import Origin
from tests.support.trees import build_tree

CREW = {"pack.toml": '[pack]\nname = "crew"\n', "agents/mayor/prompt.md": "Run the town.\n"}


class Silent:
    def begin(self, *task: object) -> None: ...
    def __call__(self, stage: str, done: int, total: int) -> None: ...


def install(city: CityBuilder) -> City:
    """The city with everything fetched and pinned."""
    found = resolve(str(city.root), os.environ, Repositories(os.environ, Silent()))
    assert found.text is not None
    (city.root / "packs.lock").write_text(found.text)
    return city.open()


def trees() -> list[Path]:
    return sorted(Path(cache_home(os.environ), "gascity/packs").glob("*/tree"))


@pytest.fixture
def crew(tmp_path: Path) -> Origin:
    return Origin(tmp_path / "crew", CREW)


def imports(**sources: str) -> str:
    return "".join(f'[imports.{name}]\nsource = "{at}"\n' for name, at in sources.items())


def test_what_is_not_pinned_is_one_problem_with_one_command(
    city: CityBuilder, crew: Origin
) -> None:
    town = city({"city.toml": imports(a=crew.url, b=f"{crew.url}//agents", c="git@h.org:x/y")})
    problem = problem_of(town, "import-not-locked")
    assert problem.message == "not in packs.lock: `a`, `b`, `c`"
    assert "`city pack install`" in (problem.hint or "")
    assert trees() == []


def test_a_cold_cache_is_one_problem_with_one_command(city: CityBuilder, crew: Origin) -> None:
    pins = [LockedPack(name, crew.url, "", "", crew.head, "0" * 64, ("city",)) for name in "ab"]
    town = city({"city.toml": imports(a=crew.url, b=crew.url), "packs.lock": lock_text(pins)})
    problem = problem_of(town, "import-not-installed")
    assert problem.message == "not in this machine's cache: `a`, `b`"
    assert "`city pack install`" in (problem.hint or "")


def test_a_patch_of_an_agent_that_was_not_read_is_no_second_problem(
    city: CityBuilder, crew: Origin
) -> None:
    patch = '[[patches.agent]]\nname = "a.mayor"\nmodel = "opus"\n'
    town = city({"city.toml": imports(a=crew.url) + patch})
    assert codes_of(town) == ["import-not-locked"]


def test_a_file_that_was_changed_in_the_cache_is_named_and_nothing_of_the_pack_is_read(
    city: CityBuilder, crew: Origin
) -> None:
    city.write({"city.toml": imports(crew=crew.url)})
    assert "crew.mayor" in names_of(install(city))
    (tree,) = trees()
    (tree / "agents/mayor/prompt.md").write_text("Obey me.\n")
    town = city.open()
    assert "`agents/mayor/prompt.md`" in problem_of(town, "pack-changed").message
    assert "crew.mayor" not in names_of(town)


def test_content_that_differs_from_the_lock_is_refused(city: CityBuilder, crew: Origin) -> None:
    city.write({"city.toml": imports(crew=crew.url)})
    install(city)
    lock = city.root / "packs.lock"
    text = lock.read_text()
    sha = text.partition('sha256 = "')[2][:64]
    lock.write_text(text.replace(sha, "0" * 64))
    assert codes_of(city.open()) == ["pack-changed"]


def test_a_pack_may_not_import_from_outside_its_repository(tmp_path: Path) -> None:
    outside = CityBuilder(tmp_path / "outside")
    outside.write(CREW)
    for source in (str(outside.root), "../outside", "../../outside", "~/outside"):
        text = f'[pack]\nname = "p"\n\n[imports.x]\nsource = "{source}"\n'
        origin = Origin(tmp_path / f"p{len(source)}", {"sub/pack.toml": text})
        town = CityBuilder(tmp_path / f"town{len(source)}")
        town.write({"city.toml": imports(p=f"{origin.url}//sub")})
        found = resolve(str(town.root), os.environ, Repositories(os.environ, Silent()))
        (town.root / "packs.lock").write_text(found.text or "schema = 1\n")
        codes = {problem.code for problem in (*found.problems, *town.open().all_problems)}
        assert codes & {"path-leaves-pack", "pack-path-missing"}, source
        assert not any("mayor" in name for name in names_of(town.open()))


def test_an_address_with_a_password_is_refused_and_not_repeated(city: CityBuilder) -> None:
    for source in (
        "https://ann:hunter2@example.org/crew",
        "ann:hunter2@example.org:crew",
        "hunter2@github.com/o/r",
        "git://hunter2@example.org/x",
        "https:/ann:hunter2@example.org/x",
    ):
        town = city({"city.toml": imports(crew=source)})
        assert any(problem.is_error for problem in town.all_problems)
        assert "hunter2" not in problem_texts(town), source


def test_sessions_that_a_pack_names_are_those_of_its_agents_in_the_city(
    city: CityBuilder, crew: Origin
) -> None:
    crew.commit({"pack.toml": CREW["pack.toml"] + '[[named_session]]\ntemplate = "mayor"\n'})
    city.write({"city.toml": imports(crew=crew.url) + '[[rigs]]\nname = "web"\n'})
    (session,) = install(city).named_sessions
    assert session.settings.template == "crew.mayor"
    rig = f'[[rigs]]\nname = "web"\n\n[rigs.imports.crew]\nsource = "{crew.url}"\n'
    city.write({"city.toml": rig})
    (session,) = install(city).named_sessions
    assert (session.settings.template, session.settings.dir) == ("crew.mayor", "web")


def test_a_pack_of_a_repository_may_import_from_the_city_and_from_no_other_place_of_the_machine(
    tmp_path: Path,
) -> None:
    town = CityBuilder(tmp_path / "town")
    build_tree(tmp_path / "outside", CREW)
    text = '[pack]\nname = "p"\n\n' + imports(x="//../outside", y="//packs/own")
    origin = Origin(tmp_path / "p", {"pack.toml": text})
    own = {f"packs/own/{path}": content for path, content in CREW.items()}
    town.write({"city.toml": imports(p=origin.url), **own})
    city = install(town)
    assert "leads out of the city" in problem_of(city, "path-leaves-pack").message
    (mayor,) = [agent for agent in city.agents if agent.name.bare == "mayor"]
    assert mayor.home.directory == "packs/own/agents/mayor"


def test_a_pack_from_elsewhere_may_not_import_a_repository_of_this_machine(
    city: CityBuilder, crew: Origin, tmp_path: Path
) -> None:
    text = '[pack]\nname = "p"\n\n' + imports(crew=crew.url)
    near = Origin(tmp_path / "near", {"pack.toml": text})
    city.write({"city.toml": imports(p=near.url)})
    assert "p.mayor" in names_of(install(city))

    far = "git://example.org/far"
    cached = Path(pack_directory(str(trees()[0].parents[2]), Remote(near.url), near.head))
    there = Path(pack_directory(str(trees()[0].parents[2]), Remote(far), near.head))
    cached.parent.rename(there.parent)
    lock = city.root / "packs.lock"
    lock.write_text(lock.read_text().replace(near.url, far))
    city.write({"city.toml": imports(p=far)})
    town = city.open()
    assert codes_of(town) == ["path-leaves-pack"]
    assert "p.mayor" not in names_of(town)


def test_every_hash_in_the_lock_is_verified(city: CityBuilder, crew: Origin) -> None:
    city.write({"city.toml": imports(a=crew.url, b=crew.url)})
    install(city)
    good, bad = (
        LockedPack(name, crew.url, "", "", crew.head, sha256, ("city",))
        for name, sha256 in (("a", ""), ("b", "0" * 64))
    )
    city.write({"packs.lock": lock_text([good, bad])})
    assert codes_of(city.open()) == ["pack-changed", "pack-not-reviewed"]


def test_imports_that_lead_too_deep_are_a_problem_however_they_are_reached(
    city: CityBuilder,
) -> None:
    files = {}
    for at in range(400):
        text = f'[pack]\nname = "p{at}"\n\n' + imports(n=f"../p{at + 1}")
        files[f"packs/p{at}/pack.toml"] = text
    files["packs/p400/pack.toml"] = '[pack]\nname = "p400"\n'
    tops = {f"t{at}": f"packs/p{at}" for at in range(400, -1, -20)}
    town = city({"city.toml": imports(**tops), **files})
    assert set(codes_of(town)) == {"too-many-packs"}


def test_packs_that_are_reached_by_countless_ways_are_each_read_once(city: CityBuilder) -> None:
    files = {"packs/p40/pack.toml": '[pack]\nname = "p40"\n[[named_session]]\ntemplate = "last"\n'}
    files["packs/p40/agents/last/prompt.md"] = "Be the last.\n"
    for at in range(40):
        text = f'[pack]\nname = "p{at}"\n\n' + imports(x=f"../p{at + 1}", y=f"../p{at + 1}")
        files[f"packs/p{at}/pack.toml"] = text
    town = city({"city.toml": imports(top="packs/p0"), **files})
    assert codes_of(town) == []
    (session,) = town.named_sessions
    assert session.settings.template == "top.last"
    assert city_asset_dirs(town)[0].directory == "packs/p40"


def test_a_changed_version_is_reported_with_the_locked_one(city: CityBuilder, crew: Origin) -> None:
    city.write({"city.toml": imports(crew=crew.url) + 'version = "branch:main"\n'})
    install(city)
    city.write({"city.toml": imports(crew=crew.url) + 'version = "^2"\n'})
    problem = problem_of(city.open(), "import-not-locked")
    assert problem.message == "`crew` is pinned for `branch:main`, but the import requests `^2`"


def test_marks_of_a_merge_in_the_lock_are_the_one_problem(city: CityBuilder, crew: Origin) -> None:
    city.write({"city.toml": imports(crew=crew.url)})
    install(city)
    lock = city.root / "packs.lock"
    lock.write_text("<<<<<<< ours\n" + lock.read_text())
    (problem,) = city.open().all_problems
    assert (problem.message, problem.hint) == (
        "the file has an unresolved git merge conflict",
        "keep either side, then run `city pack install`",
    )


def test_an_agent_of_a_missing_pack_is_reported_by_its_import(
    city: CityBuilder, crew: Origin
) -> None:
    city.write({"city.toml": imports(crew=crew.url)})
    with pytest.raises(CityError) as caught:
        open_agent(str(city.root), os.environ, "crew.mayor")
    assert [p.code for p in caught.value.problems] == ["import-not-locked", "unknown-agent"]


def test_a_version_of_a_directory_is_reported_as_without_effect(city: CityBuilder) -> None:
    manifest = '[imports.own]\nsource = "packs/own"\nversion = "^1"\n'
    city.write({"city.toml": manifest, "packs/own/pack.toml": '[pack]\nname = "own"\n'})
    (problem,) = city.open().all_problems
    assert (problem.code, problem.is_error) == ("not-acted-on", False)
    assert Locator(str(city.root)).line_col(problem.place) == (3, 1)


def test_a_repository_that_has_packs_in_directories_names_them(
    city: CityBuilder, tmp_path: Path
) -> None:
    files = {"a/pack.toml": "", "beta/pack.toml": "", "gamma/pack.toml": ""}
    origin = Origin(tmp_path / "many", files)
    city.write({"city.toml": imports(many=origin.url)})
    for _ in range(2):
        found = resolve(str(city.root), os.environ, Repositories(os.environ, Silent()))
        (problem,) = found.problems
        assert problem.message == f"{origin.url} has no pack.toml"
        assert problem.hint == "it has packs in `a`, `beta`, `gamma`"
