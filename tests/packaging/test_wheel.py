"""The sdist and the wheel have what is in the repository, and make a working city."""

import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import gascity
from tests.packaging.conftest import ROOT, do, environment

DATA = ("system_agents", "example_city")

pytestmark = pytest.mark.packaging


def tracked(*trees: str) -> dict[str, tuple[bool, bytes]]:
    """Files of the repository by path: can it be run, and its bytes."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("only a git checkout can tell what belongs to it")
    options = ("--cached", "--others", "--exclude-standard", "-z", "--", *trees)
    names = do(git, "ls-files", *options, cwd=ROOT).split("\0")
    paths = {name: ROOT / name for name in names if name and (ROOT / name).is_file()}
    return {
        name: (bool(path.stat().st_mode & 0o100), path.read_bytes()) for name, path in paths.items()
    }


def packed(wheel: Path, prefix: str) -> dict[str, tuple[bool, bytes]]:
    with zipfile.ZipFile(wheel) as archive:
        return {
            one.filename.removeprefix(prefix): (
                bool((one.external_attr >> 16) & 0o100),
                archive.read(one),
            )
            for one in archive.infolist()
            if one.filename.startswith(prefix) and not one.is_dir()
        }


@pytest.mark.parametrize("tree", DATA)
def test_the_wheel_has_every_file_of_a_shipped_tree(wheel: Path, tree: str) -> None:
    ours = {name.removeprefix(f"{tree}/"): file for name, file in tracked(tree).items()}
    theirs = packed(wheel, f"gascity/_data/{tree}/")
    assert sorted(theirs) == sorted(ours)
    assert {name for name in ours if theirs[name][1] != ours[name][1]} == set()


@pytest.mark.parametrize("tree", DATA)
def test_what_can_be_run_can_be_run_out_of_the_wheel(wheel: Path, tree: str) -> None:
    ours = {name.removeprefix(f"{tree}/"): file for name, file in tracked(tree).items()}
    theirs = packed(wheel, f"gascity/_data/{tree}/")
    assert {n for n, (runs, _) in theirs.items() if runs} == {
        n for n, (runs, _) in ours.items() if runs
    }


def test_the_wheel_has_both_packages_whole_and_nothing_beside_them(wheel: Path) -> None:
    package = packed(wheel, "")
    assert {name.split("/")[0] for name in package} == {
        "gascity",
        "gascity_migrate",
        f"gascity-{gascity.__version__}.dist-info",
    }
    theirs = {
        name: data
        for name, (_, data) in package.items()
        if name.split("/")[0].startswith("gascity") and not name.startswith("gascity/_data/")
        if ".dist-info/" not in name
    }
    assert theirs == {
        name.removeprefix("migrate/"): data
        for tree in ("gascity", "migrate/gascity_migrate")
        for name, (_, data) in tracked(tree).items()
    }
    assert not [name for name in package if "__pycache__" in name or "/.gc/" in name]


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    info = packed(wheel, f"gascity-{gascity.__version__}.dist-info/")
    assert b"city = gascity.__main__:main" in info["entry_points.txt"][1]
    assert b"migrate = gascity_migrate.cli:migrate" in info["entry_points.txt"][1]
    metadata = info["METADATA"][1].decode()
    assert f"\nVersion: {gascity.__version__}\n" in metadata
    assert "\nRequires-Python: >=3.11\n" in metadata
    assert "licenses/LICENSE" in info
    assert "gascity/py.typed" in packed(wheel, "")


def test_the_sdist_can_run_the_tests(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"pyproject.toml", "README.md", "LICENSE", "Makefile", "tests/conftest.py"}
    assert wanted <= names
    assert set(tracked("tests/cli", "tests/unit", *DATA)) <= names


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("environment"), wheel)


@pytest.fixture
def city(installed: Path, tmp_path: Path) -> Callable[..., str]:
    """The installed program, run away from the checkout."""

    def run(*arguments: str) -> str:
        env = {"PYTHONPATH": "", "PATH": f"{installed}/bin:/usr/bin:/bin"}
        return do(installed / "bin/city", *arguments, cwd=tmp_path, env=env)

    return run


def test_what_runs_is_what_was_installed(installed: Path, tmp_path: Path) -> None:
    code = "import gascity.resources as r; print(r.__file__); print(r.data_dir('example_city'))"
    lines = do(installed / "bin/python", "-c", code, cwd=tmp_path, env={"PYTHONPATH": ""})
    assert all(line.startswith(str(installed)) for line in lines.splitlines())


def test_the_installed_program_makes_a_city_and_finds_nothing_wrong(
    city: Callable[..., str], tmp_path: Path
) -> None:
    assert city("--version") == f"city {gascity.__version__}\n"
    assert "Created city plain in " in city("init", "plain")
    out = city("--city", "plain", "check", "--strict")
    assert out.endswith("no problems\n")
    assert "claude" in city("--city", "plain", "agent", "list")
    assert (tmp_path / "plain/.gc/schemas/city.schema.json").is_file()


def test_the_installed_program_makes_the_example_city(
    city: Callable[..., str], tmp_path: Path
) -> None:
    city("init", "--example", "example")
    out = city("--city", "example", "check", "--strict")
    assert out.endswith("no problems\n")
    made = tmp_path / "example"
    ours = {name.removeprefix("example_city/"): file for name, file in tracked(DATA[1]).items()}
    assert {
        name: (bool((made / name).stat().st_mode & 0o100), (made / name).read_bytes())
        for name in ours
    } == ours


def test_the_installed_program_knows_its_roles_and_providers(
    city: Callable[..., str], tmp_path: Path
) -> None:
    city("init", "plain")
    with (tmp_path / "plain/city.toml").open("a") as file:
        file.write('\n[imports.roles]\nsource = "builtin:roles"\n')
    out = city("--city", "plain", "agent", "list")
    assert all(f"roles.{name} " in out for name in "worker do prd buddy ask free".split())
    assert "antigravity" in city("--city", "plain", "provider", "list")
