"""`city agent new --from FILE`: create an agent from an agent file of another tool."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from gascity.cli.context import CommandContext
from gascity.cli.edit import editing, new_errors
from gascity.cli.output import item_lines
from gascity.files import refuse_links
from gascity.model.city import City
from gascity.model.problems import CityError, Problem
from gascity.pipeline import open_city
from gascity.startup.entry_points import entry_points, load

_READERS = "gascity.agent_files"


class LostKey(NamedTuple):
    """A key of an agent file that has no counterpart, with its line and the reason."""

    file: str
    line: int
    key: str
    reason: str


class AgentFileContent(NamedTuple):
    """Content of one agent file: its format, and the files of the new directory."""

    format: str
    files: Mapping[str, bytes]
    not_carried: tuple[LostKey, ...]


def create_from_file(
    context: CommandContext, name: str, file: str, settings: Mapping[str, str]
) -> int:
    """Create an agent from a file; `settings` override what the file sets.

    Writes nothing if the file cannot be read or the city would not be valid with the agent.
    """
    (_, reader), *_ = entry_points(_READERS)
    content: AgentFileContent = load(reader)(context, file, name, settings)
    home = f"agents/{name}"
    created = [f"{home}/{path}" for path in content.files]
    with editing(context) as city:
        refuse_links(city.root, os.path.join(city.root, created[0]))
        try:
            _write(context, city, {f"{home}/{path}": text for path, text in content.files.items()})
        except CityError as error:
            raise CityError(*(_with_hint(each, home, file) for each in error.problems)) from None
    value = {
        "name": name,
        "created": created,
        "format": content.format,
        "not_carried": [lost._asdict() for lost in content.not_carried],
    }
    return context.output(value, lambda: _lines(context, name, created, content))


def _write(context: CommandContext, city: City, contents: Mapping[str, bytes]) -> None:
    """Write the files; remove them again if the city has new errors with them."""
    from gascity.workdir.write.transaction import replace_city_files

    def check() -> None:
        errors = new_errors(city, open_city(city.root, context.environ))
        if errors:
            context.draft_texts = {file: data.decode() for file, data in contents.items()}
            raise CityError(*errors)

    paths = {os.path.join(city.root, file): data for file, data in contents.items()}
    replace_city_files(city.root, "new", paths, check=check)


def _with_hint(problem: Problem, home: str, source: str) -> Problem:
    """Return a problem; one of a file that is removed again names the source as the cause."""
    if problem.place is None or not problem.place.file.startswith(f"{home}/"):
        return problem
    return problem._replace(hint=f"nothing was written; correct {source}")


def _lines(
    context: CommandContext, name: str, created: list[str], content: AgentFileContent
) -> list[str]:
    lines = [f"Created (format: {content.format}):", *(f"  {file}" for file in created)]
    if content.not_carried:
        lines.append("Not carried:")
    for lost in content.not_carried:
        text = f"{lost.file}:{lost.line} {lost.key}: {lost.reason}"
        lines += item_lines(text, context.width)
    return [*lines, f"Next: `city agent show {name}`"]
