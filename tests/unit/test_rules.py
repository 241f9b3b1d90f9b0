"""House rules that no linter knows. Each failure says what to do instead.

Rules about imports are contracts in pyproject.toml (`lint-imports`): layers, "only cli imports
click", "code that decides does no I/O". The rules here look at calls and attributes.
"""

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "gascity", ROOT / "migrate" / "gascity_migrate")

# Files that may open other files for writing, and why.
MAY_WRITE = {
    "gascity/files.py": "the atomic writer itself",
    "gascity/paths.py": "creates .gc/.gitignore; runs before everything and imports nothing",
    "gascity/startup/answer_cache.py": "the answer cache imports nothing heavy; losing it is fine",
    "gascity/runtimes/": "logs and exit codes of runs, appended while the run is alive",
    "gascity/control/server.py": "the controller's lock file",
    "gascity/control/client.py": "the controller's log and start-up file",
    "gascity/store/sqlite/": "the database and its lock file",
    "gascity/portable/locks.py": "names the holder of a lock; `files` is a layer above",
    "gascity/__main__.py": "replaces a closed stdout or stderr by /dev/null",
}

# Files that may read the process environment, and why.
MAY_READ_ENVIRONMENT = {
    "gascity/cli/context.py": "puts the environment into the CommandContext that is passed down",
    "gascity/__main__.py": "passes it to the fast start-up paths, before cli is imported",
    "gascity/git.py": "GitPython inherits the environment; unset what the caller did not pass",
    "gascity/host.py": "a variable that forces the portable adapter, for tests",
}

# Files that may write to stdout, stderr or a terminal, and why.
MAY_PRINT = {
    "gascity/cli/terminal.py": "the writer itself",
    "gascity/cli/context.py": "`confirm` escapes its question",
    "gascity/startup/answer_cache.py": "writes stored bytes, which the writer made",
    "gascity/__main__.py": "prints the version, before cli is imported",
}

# Files whose functions and records may have `Any` in their signatures, and why.
MAY_USE_ANY = {
    "gascity/cli/command.py": "passes the arguments of click's constructors on",
    "gascity/cli/lists.py": "click converts values of any type",
    "gascity/startup/entry_points.py": "loads objects of installed packages, which have any type",
    "gascity/startup/lazy_imports.py": "stands for a module, whose attributes have any type",
    "gascity/cli/fast_sling.py": "reads the controller's reply, and must import nothing for it",
    "gascity/cli/status/__init__.py": "decodes the controller's reply into records by field name",
    "gascity/cli/check_cache.py": "decodes the cache of `check`",
    "gascity/control/gateway.py": "decodes the controller's reply",
    "gascity/store/sqlite/rows.py": "decodes columns",
    "gascity/toml/read.py": "decodes TOML; its callers choose the type",
    "gascity/jsonc/tree.py": "decodes JSON; its callers choose the type",
    "gascity/workdir/write/ledger.py": "decodes the ledger",
    "gascity/workdir/write/journal.py": "decodes the journal",
    "gascity/web/": "the JSON output of commands, and values of templates, which are not typed",
}

# Files that may write `dict[str, object]` in signatures, and why.
MAY_USE_PLAIN_DICTS = {
    "gascity/model/front_matter.py": "decodes YAML",
    "gascity/source/decode.py": "decodes TOML",
    "gascity/source/agents.py": "decodes TOML",
}

# Lines with `isinstance`. The aim is to read untyped values in one place, gascity/model/values.py.
MOST_TYPE_CHECKS = 200

# Files that may name a provider in code, and why. Everything else reads the provider's facts.
MAY_NAME_PROVIDERS = {
    "gascity/cli/init.py": "the order in which it chooses the default provider",
    "gascity/compose/city.py": "the provider of a city that names none",
    "gascity/source/providers.py": "that provider is loaded even if no file names it",
    "gascity/source/profiles.py": "values of another program's format",
    "gascity/render/agent_formats/": "values of other programs' formats",
    "migrate/": "readers of single tools' files",
}
_WORDS = {"shell", "cursor", "pi", "amp"}  # names of providers that are also other words

MAX_FUNCTION = 60  # lines
MAX_FILE = 630
MAY_BE_LONG = {
    "gascity/model/tables.py": "one entry for each setting of all files",
    "gascity/store/sqlite/store.py": "one method for each of the port",
}

_CLICK_PRINTS = {"echo", "secho", "echo_via_pager", "prompt", "confirm", "style", "edit", "pause"}
_STREAM_WRITES = {"write", "writelines", "buffer"}
_WRITE_MODES = frozenset("wax+")
_WRITE_FLAGS = {"O_WRONLY", "O_RDWR", "O_APPEND", "O_TRUNC"}
_WRITE_METHODS = {"write_text", "write_bytes"}


def modules() -> list[Path]:
    return sorted(path for package in PACKAGES for path in package.rglob("*.py"))


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_allowed(file: str, exceptions: dict[str, str]) -> bool:
    return any(file == name or (name[-1] == "/" and file.startswith(name)) for name in exceptions)


def opened_for_writing(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of `open(…, "w")`, `os.open` with a write flag, and `write_text`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _WRITE_FLAGS | _WRITE_METHODS:
            yield node.lineno
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "open":
                mode = next((k.value for k in node.keywords if k.arg == "mode"), None)
                mode = node.args[1] if len(node.args) > 1 else mode
                if isinstance(mode, ast.Constant) and _WRITE_MODES.intersection(str(mode.value)):
                    yield node.lineno


def reads_environment(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of `os.environ` and `os.getenv`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb"):
            if isinstance(node.value, ast.Name) and node.value.id == "os":
                yield node.lineno


def prints(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of `print`, `click.echo` and the like, and writes to a standard stream."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("print", "input"):
                yield node.lineno
        if isinstance(node, ast.Attribute) and node.attr in _CLICK_PRINTS | _STREAM_WRITES:
            owner = ast.unparse(node.value)
            if (owner == "click" and node.attr in _CLICK_PRINTS) or (
                owner in ("sys.stdout", "sys.stderr", "stream") and node.attr in _STREAM_WRITES
            ):
                yield node.lineno
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "write" and ast.unparse(node).startswith("os.write(sys.std"):
                yield node.lineno


def signatures(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the types of parameters, results and fields of records; not those of local names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            every = node.args
            named = [*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg]
            types = [each.annotation for each in named if each is not None]
            yield from (each for each in (*types, node.returns) if each is not None)
        if isinstance(node, ast.ClassDef):
            yield from (each.annotation for each in node.body if isinstance(each, ast.AnnAssign))


def uses_any(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of signatures with `Any`."""
    for each in signatures(tree):
        if re.search(r"\bAny\b", ast.unparse(each)):
            yield each.lineno


def uses_plain_dicts(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of signatures with `dict[str, object]`."""
    for each in signatures(tree):
        if "dict[str, object]" in ast.unparse(each):
            yield each.lineno


def test_signatures_do_not_use_any() -> None:
    found = [
        f"{file}:{line}"
        for path in modules()
        if not is_allowed(file := relative(path), MAY_USE_ANY) and file.startswith("gascity/")
        for line in uses_any(parsed(path))
    ]
    assert not found, (
        f"{', '.join(found)}: `Any` hides mistakes. Read decoded values with "
        "gascity/model/values.py (TableView, as_text, …), write `object` for a value that is only "
        "passed on, or define a record. A real exception goes into MAY_USE_ANY in "
        "tests/unit/test_rules.py."
    )


def test_signatures_name_what_a_dict_is() -> None:
    found = [
        f"{file}:{line}"
        for path in modules()
        if not is_allowed(file := relative(path), MAY_USE_PLAIN_DICTS)
        and file.startswith("gascity/")
        for line in uses_plain_dicts(parsed(path))
    ]
    assert not found, (
        f"{', '.join(found)}: write JsonObject (gascity/model/values.py) for JSON that is "
        "printed or sent, and a NamedTuple for anything else."
    )


def test_untyped_values_are_read_in_one_place() -> None:
    files = (ROOT / "gascity").rglob("*.py")
    lines = sum("isinstance" in line for path in files for line in path.read_text().splitlines())
    assert lines < MOST_TYPE_CHECKS, (
        f"{lines} lines of gascity check types with isinstance: read decoded values with "
        "gascity/model/values.py (TableView, as_text, …), or `match` on their structure."
    )


def test_only_the_writer_prints() -> None:
    found = [
        f"{file}:{line}"
        for path in modules()
        if not is_allowed(file := relative(path), MAY_PRINT)
        for line in prints(parsed(path))
    ]
    assert not found, (
        f"{', '.join(found)}: do not print here. Text from packs, models and git may control the "
        "terminal: use print_stdout, print_stderr, print_json or write_content of "
        "gascity/cli/output.py, `confirm` of cli/context.py, or yield lines to context.output."
    )


def test_only_the_writer_opens_files_for_writing() -> None:
    found = [
        f"{file}:{line}"
        for path in modules()
        if not is_allowed(file := relative(path), MAY_WRITE)
        for line in opened_for_writing(parsed(path))
    ]
    assert not found, (
        f"{', '.join(found)}: do not open files for writing here. A half-written file must never "
        "be visible: use a function of gascity/files.py (create_file, replace_file, write_file) or "
        "gascity/workdir/write/transaction.py for several files. A real exception goes into "
        "MAY_WRITE in tests/unit/test_rules.py, with its reason."
    )


def test_only_the_context_reads_the_environment() -> None:
    found = [
        f"{file}:{line}"
        for path in modules()
        if not is_allowed(file := relative(path), MAY_READ_ENVIRONMENT)
        for line in reads_environment(parsed(path))
    ]
    assert not found, (
        f"{', '.join(found)}: do not read os.environ here. cli/context.py reads it once and passes "
        "it down as `environ`, so that tests and the controller can choose it: add a parameter. A "
        "real exception goes into MAY_READ_ENVIRONMENT in tests/unit/test_rules.py."
    )


@pytest.mark.parametrize(
    ("rule", "exceptions"),
    [
        (opened_for_writing, MAY_WRITE),
        (reads_environment, MAY_READ_ENVIRONMENT),
        (prints, MAY_PRINT),
        (uses_any, MAY_USE_ANY),
        (uses_plain_dicts, MAY_USE_PLAIN_DICTS),
    ],
)
def test_every_exception_is_needed(
    rule: Callable[[ast.AST], Iterator[int]], exceptions: dict[str, str]
) -> None:
    used = [
        name
        for name in exceptions
        for path in modules()
        if is_allowed(relative(path), {name: ""}) and any(rule(parsed(path)))
    ]
    unused = exceptions.keys() - set(used)
    assert not unused, f"no longer needed in tests/unit/test_rules.py, remove: {sorted(unused)}"


@pytest.mark.parametrize(
    "code",
    ['open(p, "w")', 'open(p, mode="ab")', "os.open(p, os.O_WRONLY)", 'Path(p).write_text("")'],
)
def test_the_rule_sees_a_write(code: str) -> None:
    assert list(opened_for_writing(ast.parse(code))) == [1]


@pytest.mark.parametrize("code", ["open(p)", 'open(p, "rb")', "os.open(p, os.O_RDONLY)"])
def test_the_rule_lets_reads_pass(code: str) -> None:
    assert list(opened_for_writing(ast.parse(code))) == []


@pytest.mark.parametrize(
    "code",
    [
        "print(x)",
        "click.echo(x)",
        "click.confirm(x)",
        "sys.stderr.write(x)",
        "sys.stdout.buffer.write(x)",
        "os.write(sys.stdout.fileno(), x)",
    ],
)
def test_the_rule_sees_output(code: str) -> None:
    assert set(prints(ast.parse(code))) == {1}


@pytest.mark.parametrize("code", ["sys.stdout.flush()", "os.write(pipe, x)", "print_stdout(x)"])
def test_the_rule_lets_the_writer_pass(code: str) -> None:
    assert list(prints(ast.parse(code))) == []


@pytest.mark.parametrize(
    "code",
    [
        "def f(x: Any) -> None: ...",
        "def f(*, x: dict[str, Any]) -> None: ...",
        "def f(**x: Any) -> None: ...",
        "def f() -> 'list[Any]': ...",
        "class C:\n    x: Any",
    ],
)
def test_the_rule_sees_any(code: str) -> None:
    assert len(list(uses_any(ast.parse(code)))) == 1


def test_the_rule_lets_local_names_pass() -> None:
    assert not list(uses_any(ast.parse("def f(x: object) -> None:\n    y: Any = x")))


def test_the_rule_sees_a_plain_dict() -> None:
    assert list(uses_plain_dicts(ast.parse("def f() -> list[dict[str, object]]: ..."))) == [1]


def test_the_rule_sees_the_environment() -> None:
    assert list(reads_environment(ast.parse("os.environ['A']\nos.getenv('B')"))) == [1, 2]


def test_one_function_finds_programs_on_the_path() -> None:
    found = [relative(path) for path in modules() if "shutil.which(" in path.read_text()]
    assert not found, f"{found}: use `which` of gascity/paths.py, which reads the caller's PATH"


def test_providers_are_data() -> None:
    providers = {path.stem for path in (ROOT / "gascity/providers").glob("*.toml")} - _WORDS
    named = {
        relative(path): node.value
        for path in modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and node.value in providers
    }
    found = {file: name for file, name in named.items() if not is_allowed(file, MAY_NAME_PROVIDERS)}
    assert not found, f"write code for a fact in gascity/providers/*.toml, not for a name: {found}"


def test_no_function_is_too_long() -> None:
    lengths = {
        f"{relative(path)}: {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    long = {name: lines for name, lines in lengths.items() if lines > MAX_FUNCTION}
    assert not long, f"split by what they do, so that each part has a name: {long}"


def test_no_file_is_too_long() -> None:
    lengths = {relative(path): len(path.read_text().splitlines()) for path in modules()}
    long = {file for file, lines in lengths.items() if lines > MAX_FILE}
    assert long == MAY_BE_LONG.keys(), "split by subject, not by size"


def docstrings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def test_a_docstring_says_what_the_thing_is() -> None:
    """ "What …" and "How …" describe the thing from outside; the noun or the verb comes first."""
    questions = [
        f"{relative(path)}: {text.splitlines()[0]}"
        for path in modules()
        for text in docstrings(parsed(path))
        if text.startswith(("What ", "Who ", "Whoever ", "How ", "Where "))
    ]
    assert not questions, f"start with the thing itself: {questions}"


def test_each_public_class_name_is_used_once() -> None:
    files = defaultdict(list)
    for path in sorted((ROOT / "gascity").rglob("*.py")):
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(str(path.relative_to(ROOT)))
    twice = {name: where for name, where in files.items() if len(where) > 1}
    assert not twice, f"give one of each a more precise name: {twice}"
