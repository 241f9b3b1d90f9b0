"""The agents and the problems of the city's files, as its commands report them."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from gascity.cli.agent_colours import css_colour
from gascity.web.commands import Commands

_FRESH = 3.0  # seconds for which a page shows what was read before


class Config(NamedTuple):
    """Current knowledge of the city's files. `read` is false before they were first read."""

    name: str
    agents: Mapping[str, Mapping[str, Any]] = {}
    rigs: Sequence[str] = ()
    problems: Sequence[Mapping[str, Any]] = ()
    read: bool = False

    @property
    def colours(self) -> Mapping[str, str]:
        """The colours of those agents that have one, by name."""
        colours = {name: css_colour(agent["color"] or "") for name, agent in self.agents.items()}
        return {name: colour for name, colour in colours.items() if colour}


class ConfigView:
    """Keeps the last answers of `agent list`, `check` and `rig list`; asks in the background.

    A page never waits for it: a city of 1,000 agents takes longer to check than a page may take.
    """

    def __init__(self, root: str, commands: Commands, publish: Callable[[], None]) -> None:
        self.current = Config(os.path.basename(root))
        self._commands = commands
        self._publish = publish
        self._asked = -_FRESH
        self._task: asyncio.Task[None] | None = None

    def refresh(self) -> None:
        """Read the files again, unless that has just been done."""
        now = time.monotonic()
        running = self._task is not None and not self._task.done()
        if not running and now - self._asked >= _FRESH:
            self._asked = now
            self._task = asyncio.create_task(self._read())

    async def wait(self) -> Config:
        """Return what is known, after the first read."""
        if not self.current.read:
            self.refresh()
            if self._task is not None:
                await asyncio.shield(self._task)
        return self.current

    async def _read(self) -> None:
        listed, checked, rigs = await asyncio.gather(
            self._commands.json("agent", "list"),
            self._commands.json("check"),
            self._commands.json("rig", "list"),
        )
        agents = {str(agent["name"]): agent for agent in listed.value.get("agents", ())}
        problems = [*checked.value.get("problems", ())] or [*listed.problems]
        names = [str(rig["name"]) for rig in rigs.value.get("rigs", ())]
        name = str(checked.value.get("name") or self.current.name)
        before, self.current = self.current, Config(name, agents, names, problems, True)
        if before != self.current:
            self._publish()
