"""Checks that the documentation matches the program and is complete."""

import ast
import functools
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

import click
import pytest

from gascity.cli.main import city
from gascity.control.decide.reasons import cap_code
from tests.docs.pages import (
    ROOT,
    Block,
    Page,
    Sandbox,
    all_pages,
    differences,
    keep_ellipses,
    matches,
    steps,
)
from tests.support.memory import MEMORY

PAGES = all_pages()
OTHERS = [ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "AGENTS.md")]
ERRORS = next(page for page in PAGES if page.name == "docs/reference/errors.md")
WAITING = next(page for page in PAGES if page.name == "docs/reference/waiting.md")

_MAKERS = frozenset(
    "Problem warning city_error TomlError StoreError SourceAddressError PackError Rejection"
    " refuse _refuse _note skipped skipped_server NotWritableError".split()
)
_CAPS = {cap_code(what) for what in ("city", "rig name", "agent name")}
_CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")
_INTENDED_USAGE_ERROR = "usage"
# Layer names that look like commands.
_NOT_COMMANDS = ("city defaults", "city patch", "city events")


def problem_codes() -> set[str]:
    """Return every code with which the program creates a problem."""
    found: set[str] = set()
    for tree in _program():
        named = _constants(tree)
        for node in ast.walk(tree):
            codes = {*_made(node, _MAKERS, named), *_codes(node)}
            found.update(code for code in codes if _CODE.match(code))
    return found


def blocked_codes() -> set[str]:
    """Return every code that explains why work is blocked."""
    nodes = (node for tree in _program() for node in ast.walk(tree))
    return {code for node in nodes for code in _made(node, {"Blocked"}, {})} | _CAPS


@functools.cache
def _program() -> list[ast.Module]:
    packages = ("gascity", "migrate/gascity_migrate")
    paths = [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]
    return [ast.parse(path.read_text()) for path in paths]


def _constants(tree: ast.Module) -> dict[str, str]:
    """Return the string constants of a module by name."""
    found = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                found[name] = text
    return found


def _made(node: ast.AST, makers: Set[str], named: Mapping[str, str]) -> Iterator[str]:
    """Yield the first string argument of a call to one of `makers`."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args):
            if name in makers:
                names = [named.get(arg.id, "") for arg in args[:1] if isinstance(arg, ast.Name)]
                texts = [arg.value for arg in args if _is_text(arg)]
                yield from [text for text in (*names, *texts) if text][:1]


def _codes(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Assign(targets=[ast.Name(id="code")], value=ast.IfExp(body=one, orelse=other)):
            yield from [text.value for text in (one, other) if _is_text(text)]
        case ast.Return(value=ast.Tuple(elts=[ast.Constant(value=str(code)), _, _])):
            yield code
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "code" and _is_text(value):
                    yield value.value


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def headings(page: Page) -> list[str]:
    return re.findall(r"^## (.+)$", page.text, re.MULTILINE)


def test_every_problem_code_has_a_section_and_every_section_a_code():
    assert set(headings(ERRORS)) == problem_codes()


def test_every_blocked_code_has_a_section():
    assert set(headings(WAITING)) == blocked_codes()


@pytest.mark.parametrize("page", [ERRORS, WAITING], ids=lambda page: page.name)
def test_codes_are_in_alphabetical_order(page: Page):
    assert headings(page) == sorted(headings(page))


@pytest.mark.parametrize("code", headings(ERRORS))
def test_every_section_shows_its_code(code: str):
    shown = [line for b in ERRORS.blocks() if b.section == code for line in b.lines]
    forms = (f"[{code}]", f'"code": "{code}"', f'"text":"{code}: ')  # the last one: over MCP
    assert any(form in line for line in shown for form in forms)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Tables are laid out with the real paths, which pytest's own directories would make longer
    than those that the pages show."""
    with tempfile.TemporaryDirectory(prefix="d", dir=MEMORY) as directory:
        yield Path(directory)


@pytest.mark.parametrize(
    ("page", "section"),
    [
        pytest.param(page, section, id=f"{page.name}{'#' if section else ''}{section}")
        for page in PAGES
        for section in page.sections()
        if any(block.run and block.kind in ("console", "toml") for block in page.blocks())
    ],
)
def test_a_page_shows_the_output_of_the_program(page: Page, section: str, short_path: Path):
    if page.missing:
        pytest.skip(f"{page.missing} is not installed")
    wrong = [
        f"{page.name}:{block.line}: $ {step.command}\n" + "\n".join(printed)
        for block, step, printed in differences(page, section, short_path)
    ]
    assert not wrong, "\n\n".join(wrong)


def blocks(kind: str) -> list[tuple[Page, Block]]:
    return [(page, block) for page in PAGES for block in page.blocks() if block.kind == kind]


def test_every_toml_block_names_its_file():
    nameless = [f"{p.name}:{b.line}" for p, b in blocks("toml") if b.run and b.file is None]
    assert nameless == []


def shown_commands() -> Iterator[tuple[str, str]]:
    for page, block in blocks("console"):
        if block.section != _INTENDED_USAGE_ERROR:
            for step in steps(block):
                for part in parts_of(step.command):
                    if part[:1] == ["city"]:
                        yield f"{page.name}:{block.line}", shlex.join(part)


def parts_of(command: str) -> Iterator[list[str]]:
    """Yield the words of each command in a shell command line."""
    words = shlex.shlex(command, posix=True, punctuation_chars="|&;()<>\n")
    words.whitespace_split = True
    words.whitespace = " \t"
    part: list[str] = []
    for word in words:
        if set(word) <= set("|&;()<>\n"):
            yield part
            part = []
        else:
            part.append(word)
    yield part


def mentioned_commands() -> Iterator[tuple[str, str]]:
    texts = [(page.name, page.text) for page in PAGES]
    texts += [(path.name, path.read_text()) for path in OTHERS]
    for name, text in texts:
        prose = re.sub(r"^\s*```.*?^\s*```", "", text, flags=re.MULTILINE | re.DOTALL)
        for command in re.findall(r"`(city [^`]+)`", prose):
            if command not in _NOT_COMMANDS:
                yield name, command


def usage_error(command: str, *, whole: bool) -> str | None:
    """Return what is wrong with a command line; `whole` also checks for missing arguments."""
    words = shlex.split(command)[1:]
    here: click.Command = city
    context = click.Context(city, info_name="city")
    taken = 0
    while words:
        word = words.pop(0)
        if word.startswith("-"):
            name, equals, _ = word.partition("=")
            option = next((p for p in here.get_params(context) if name in p.opts), None)
            if option is None:
                return f"`{context.command_path}` has no option {name}"
            if isinstance(option, click.Option) and not option.is_flag and not equals:
                words = words[1:]
        elif isinstance(here, click.Group):
            found = here.get_command(context, word)
            if found is None:
                return f"`{context.command_path}` has no command {word}"
            here, context = found, click.Context(found, context, info_name=word)
        else:
            taken += 1
    arguments = [p for p in here.params if isinstance(p, click.Argument)]
    if whole and taken < sum(argument.required for argument in arguments):
        return f"`{context.command_path}` needs more arguments"
    if all(argument.nargs == 1 for argument in arguments) and taken > len(arguments):
        return f"`{context.command_path}` takes fewer arguments"
    return None


def test_commands_in_console_blocks_are_valid():
    faults = [(at, usage_error(command, whole=True)) for at, command in shown_commands()]
    assert [fault for fault in faults if fault[1]] == []


def test_commands_in_prose_are_valid():
    faults = [(at, usage_error(command, whole=False)) for at, command in mentioned_commands()]
    assert [fault for fault in faults if fault[1]] == []


def all_commands(group: click.Group, context: click.Context) -> Iterator[click.Command]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None:
            yield command
            if isinstance(command, click.Group):
                yield from all_commands(command, context)


def test_help_refers_to_pages_that_exist():
    commands = all_commands(city, click.Context(city, info_name="city"))
    pages = {page for command in commands if (page := getattr(command, "page", ""))}
    assert pages
    assert [page for page in sorted(pages) if not (ROOT / "docs" / f"{page}.md").exists()] == []


def test_invalid_commands_are_detected():
    assert usage_error("city agent lst", whole=True)
    assert usage_error("city agent list --jsn", whole=True)
    assert usage_error("city agent show", whole=True)
    assert usage_error("city agent show a b", whole=True)
    assert not usage_error("city --city x agent set a b=c d=e --unset f", whole=True)


def test_only_an_ellipsis_matches_anything():
    assert matches(["a", "…", "d…"], ["a", "b", "c", "d e"])
    assert matches(["…"], [])
    assert not matches(["a", "…"], ["b", "a"])
    assert not matches(["a.c"], ["abc"])


def test_rewriting_keeps_ellipses():
    shown = ["started (pid …).", "…", "w-1  done  …  echo"]
    printed = ["running (pid 42).", "a", "b", "w-1  done  3s  echo"]
    assert keep_ellipses(shown, printed) == ["running (pid …).", "…", "w-1  done  …  echo"]
    assert keep_ellipses(["a", "b"], ["a", "x", "b"]) == ["a", "x", "b"]


def test_generated_pages_are_up_to_date():
    done = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_navigation_lists_every_page():
    named = re.findall(r"^\s*- .+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    there = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(named) == sorted(there)


@pytest.mark.parametrize("path", [ROOT / "README.md", *OTHERS], ids=lambda path: path.name)
def test_links_in_pages_outside_docs_are_valid(path: Path):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text())
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


def test_no_page_contains_a_path_of_this_machine():
    machine = (str(ROOT), tempfile.gettempdir() + "/", f"{MEMORY}/")
    assert [page.name for page in PAGES if any(path in page.text for path in machine)] == []


def test_agents_md_fits_one_page():
    assert len((ROOT / "AGENTS.md").read_text().splitlines()) <= 60


def test_agents_md_and_architecture_list_the_import_layers():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    assert "\n".join(f"    {layer}" for layer in layers) in (ROOT / "AGENTS.md").read_text()
    assert "\n".join(layers) in (ROOT / "docs/architecture.md").read_text()


@pytest.mark.parametrize("name", ["AGENTS.md", "CONTRIBUTING.md", "docs/architecture.md"])
def test_files_that_pages_for_developers_name_exist(name: str):
    text = (ROOT / name).read_text()
    files = [*re.findall(r"`([\w./-]+/[\w./-]*)`", text), *re.findall(r"`([\w-]{5,}\.py)`", text)]
    bases = (ROOT, ROOT / "gascity", ROOT / "migrate", ROOT / "gascity/store")
    made_up = ("tinker", "__snapshots__")  # the example of a new provider; many directories
    missing = {file for file in files if not any((base / file).exists() for base in bases)}
    assert [file for file in sorted(missing) if not any(part in file for part in made_up)] == []


def test_architecture_describes_every_package_and_module():
    text = (ROOT / "docs/architecture.md").read_text()
    paths = [path for path in (ROOT / "gascity").iterdir() if path.suffix == ".py" or path.is_dir()]
    names = {path.name for path in paths if (path / "__init__.py").exists() or path.is_file()}
    assert [name for name in names if not name.startswith("__") and f"`{name}`" not in text] == []


def test_every_dependency_is_explained():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "docs/explanation/dependencies.md").read_text()
    run, _, rest = text.partition("## Development")
    work = rest.partition("## Not used")[0]
    wanted = [(name, run) for name in project["dependencies"]]
    wanted += [(name, work) for name in project["optional-dependencies"]["dev"]]
    names = [(re.split(r"[<>=]", name)[0], section) for name, section in wanted]
    assert [name for name, section in names if not re.search(rf"\| .*{name}", section)] == []


def test_the_demo_runs_in_a_pipe_and_cleans_up(tmp_path: Path):
    sandbox = Sandbox(tmp_path)
    for tool in ("mktemp", "unlink"):
        found = Path("/usr/bin") / tool
        os.symlink(found, sandbox.bin / tool)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    printed = "\n".join(sandbox.run(f'TMPDIR="{scratch}" sh "{ROOT}/docs/demo.sh"; echo "exit $?"'))
    assert "exit 0" in printed
    assert "\x1b" not in printed
    assert "(rig patch)" in printed
    assert "(pack patch)" in printed
    assert "merge    .mcp.json  (city: mcp/star-catalog.toml): servers: star-catalog" in printed
    assert "0 queued, 0 running, 20 done, 0 failed" in printed
    assert printed.index("controller  not running") < printed.rindex("controller  running")
    assert printed.count("controller.started") == 3  # the command itself, and two controllers
    assert "Result:       field 20: 20260 stars" in printed
    assert list(scratch.iterdir()) == []
