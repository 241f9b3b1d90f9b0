"""Count the modules and functions of gascity that a command enters.

    python benchmarks/walk.py                        the commands in the table below
    python benchmarks/walk.py agent explain mayor    one command, in a copy of the example city
    python benchmarks/walk.py --modules apply        also list the modules, most functions first

A module or function counts if at least one call enters it (`sys.setprofile`), so an import that
only defines names and classes does not. The figures show how much code a reader has to know to
follow one command; they do not measure time.
"""

import argparse
import collections
import contextlib
import io
import os
import shutil
import sys
import tempfile
from inspect import CO_OPTIMIZED
from types import FrameType

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGE = os.path.join(ROOT, "gascity") + os.sep
LIMITS = {"agent explain": 60, "agent show": 60, "check": 60, "apply": 90}
COMMANDS = (
    ("agent", "explain", "planner"),
    ("agent", "show", "planner"),
    ("agent", "list"),
    ("check",),
    ("plan", "planner"),
    ("apply", "planner"),
    ("sling", "shell", "true", "--no-start"),
)


def walk(arguments: tuple[str, ...], city: str) -> dict[str, set[str]]:
    """Run one command in a copy of a city: the functions entered, by module."""
    entered: dict[str, set[str]] = collections.defaultdict(set)

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        if code.co_flags & CO_OPTIMIZED:  # neither a module nor the body of a class
            entered[_module(code.co_filename)].add(code.co_qualname)

    from gascity.__main__ import _answer

    with tempfile.TemporaryDirectory() as home:
        copy = shutil.copytree(city, os.path.join(home, "city"))
        os.environ.update(HOME=home, NO_COLOR="1")
        os.chdir(copy)
        with contextlib.redirect_stdout(_stream()), contextlib.redirect_stderr(_stream()):
            sys.setprofile(profile)
            try:
                _answer(list(arguments))
            finally:
                sys.setprofile(None)
                os.chdir(ROOT)
    return entered


def _module(file: str) -> str:
    name = os.path.relpath(file, ROOT).removesuffix(".py").replace(os.sep, ".")
    return name.removesuffix(".__init__")


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), "utf-8")


def _walk_apart(arguments: tuple[str, ...], city: str) -> dict[str, set[str]]:
    """Like `walk`, in its own process, because modules stay imported."""
    import json

    reader, writer = os.pipe()
    if os.fork() == 0:
        found = {name: sorted(functions) for name, functions in walk(arguments, city).items()}
        os.write(writer, json.dumps(found).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answer:
        data = answer.read()
    os.wait()
    return {name: set(functions) for name, functions in json.loads(data).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--city", default=os.path.join(ROOT, "example_city"))
    parser.add_argument("--modules", action="store_true", help="list the modules entered")
    parser.add_argument("command", nargs="*")
    options = parser.parse_args()
    commands = (tuple(options.command),) if options.command else COMMANDS
    print(f"{'COMMAND':<32}{'MODULES':>8}{'FUNCTIONS':>11}  LIMIT")
    for command in commands:
        entered = _walk_apart(command, options.city)
        words = " ".join(command)
        limit = next((most for name, most in LIMITS.items() if words.startswith(name)), None)
        count = sum(len(functions) for functions in entered.values())
        mark = f"{limit}{'  over' if len(entered) > limit else ''}" if limit else "-"
        print(f"{words:<32}{len(entered):>8}{count:>11}  {mark}")
        if options.modules:
            for name, functions in sorted(entered.items(), key=lambda item: -len(item[1])):
                print(f"    {name:<44}{len(functions):>4}")


if __name__ == "__main__":
    main()
