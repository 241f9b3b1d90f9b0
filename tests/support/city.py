"""Temporary cities for tests, and resolved cities as text."""

import os
from collections.abc import Mapping
from pathlib import Path

from gascity.cli.problems import Locator, in_order, problem_lines
from gascity.model.city import Agent, City
from gascity.model.fields import AGENT
from gascity.model.problems import Problem
from gascity.pipeline import open_city
from tests.support.trees import build_tree


class CityBuilder:
    """Writes a city's files and opens it; adds an empty city.toml if none is given."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, files: Mapping[str, str | bytes] | None = None) -> City:
        self.write({"city.toml": "", **(files or {})})
        return self.open()

    def write(self, files: Mapping[str, str | bytes]) -> Path:
        return build_tree(self.root, files)

    def open(self, *, all_providers: bool = False) -> City:
        return open_city(str(self.root), os.environ, all_providers=all_providers)


def agent_of(city: City, name: str) -> Agent:
    """Return the agent with exactly this qualified name."""
    return next(agent for agent in city.agents if str(agent.name) == name)


def names_of(city: City) -> list[str]:
    return [str(agent.name) for agent in city.agents]


def codes_of(city: City) -> list[str]:
    return sorted(problem.code for problem in city.all_problems)


def problem_of(city: City, code: str) -> Problem:
    """Return the only problem with this code."""
    (found,) = [problem for problem in city.all_problems if problem.code == code]
    return found


def problem_texts(city: City) -> str:
    """Return all problems as the command line prints them."""
    locator = Locator(city.root)
    problems = in_order(city.all_problems, locator)
    return "\n".join(line for problem in problems for line in problem_lines(problem, locator))


def city_text(city: City) -> str:
    """Return a resolved city as text: each agent, each configured setting and its history.

    Leaves out values from the provider's own file, which have their own tests.
    """
    locator = Locator(city.root)
    parts = [f"city {city.name}"]
    parts += [f"rig {rig.name} prefix {rig.prefix} at {rig.path}" for rig in city.rigs]
    for agent in city.agents:
        source = agent.home.directory if agent.layer != "built-in" else "built-in"
        parts.append(f"\n{agent.name} [{agent.provider}] {source} ({agent.layer})")
        if agent.layer == "built-in":
            continue
        for name in AGENT.fields:
            chain = [
                s for s in agent.setting(name).chain() if s.kind not in ("default", "provider")
            ]
            for depth, setting in enumerate(chain):
                place = setting.place
                line, _ = locator.line_col(place)
                spot = f"{place.file}:{line}" if place and line else place.file if place else ""
                word = f"  {name} = " if depth == 0 else "    covers "
                parts.append(f"{word}{setting.value!r}  ({setting.kind}, {spot})")
    problems = problem_texts(city)
    return "\n".join([*parts, *(("", problems) if problems else ())]) + "\n"
