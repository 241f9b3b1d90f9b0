"""Modules that click imports and commands do not need are loaded on first use."""

import subprocess
import sys


def ran(*lines: str) -> str:
    """What a new interpreter prints: here, every module is long loaded."""
    program = "\n".join(
        ("import sys", "from gascity.startup.lazy_imports import defer", "defer()", *lines)
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.strip()


def test_making_a_command_takes_no_more_than_what_stands_in() -> None:
    made = 'click.option("--loud", help="Say more.")(lambda: None)'
    assert ran("import click", made, 'print("ast" in sys.modules)') == "False"


def test_whatever_else_is_asked_comes_from_the_module() -> None:
    asked = "print(str(inspect.signature(lambda a, b=1: 0)), platform.python_implementation())"
    answer = f"(a, b=1) {sys.implementation.name}"
    assert ran("import inspect, platform", asked).lower() == answer


def test_who_imports_it_later_gets_the_module_itself() -> None:
    early = ("import inspect as early", "early.isclass", "import inspect")
    assert ran(*early, "print(inspect.__file__.endswith('inspect.py'))") == "True"
    assert ran(*early, "print(early.isclass is inspect.isclass)") == "True"


def test_a_help_text_of_several_lines_is_cleaned_as_ever() -> None:
    text = r"inspect.cleandoc('First.\n\n    Second.\n      Third.\n')"
    assert ran("import inspect", f"print({text})") == "First.\n\nSecond.\n  Third."


def test_a_module_that_is_loaded_stays() -> None:
    program = "import inspect, sys\nfrom gascity.startup.lazy_imports import defer\ndefer()\n"
    program += "assert sys.modules['inspect'] is inspect and inspect.__file__"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_the_system_is_what_the_module_says() -> None:
    early = "import platform; early = platform.system()"
    assert ran(early, "platform.machine()", "print(early == platform.system())") == "True"


def test_the_words_of_click_stay_as_they_are() -> None:
    script = "print(gettext.gettext('Options'), gettext.ngettext('one', 'many', 2))"
    assert ran("import gettext", script) == "Options many"
    assert ran("import gettext", script, 'print("locale" in sys.modules)').endswith("False")


def test_what_else_gettext_does_comes_from_the_module() -> None:
    asked = "print(gettext.NullTranslations().gettext('Options'), gettext.gettext('Options'))"
    assert ran("import gettext", asked) == "Options Options"
