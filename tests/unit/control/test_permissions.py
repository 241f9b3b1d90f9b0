"""The table of what sessions may call."""

from collections.abc import Iterator

import click
import pytest

from gascity.cli.main import city
from gascity.control.permissions import REQUESTS, RULES, rule_of
from gascity.model.capabilities import ADMIN, WORDS


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield every command of the program, also those that help does not list."""
    context = click.Context(group)
    lazy = getattr(group, "commands_at", {})
    for name in dict.fromkeys((*group.list_commands(context), *lazy, *group.commands)):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name))


def test_every_command_has_an_entry_in_the_table() -> None:
    assert sorted(RULES) == sorted(commands(city))


def test_every_request_to_the_controller_is_that_of_a_command() -> None:
    assert set(REQUESTS.values()) <= RULES.keys()


def test_a_command_of_another_package_needs_the_word_for_all() -> None:
    assert rule_of("something new") == ("none", ADMIN)


def test_every_word_is_one_of_the_city() -> None:
    assert {rule.word for rule in RULES.values()} == set(WORDS)
    assert all(word.startswith("city.") for word in WORDS)


@pytest.mark.parametrize("command", ["session stop", "agent set", "undo", "pack add", "mail read"])
def test_a_command_that_changes_things_does_not_reach_those_of_others(command: str) -> None:
    assert rule_of(command).reach in ("none", "own")
