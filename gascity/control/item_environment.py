"""Environment variables that users pass with their work items, and items that lack some.

The controller has the environment of the process that started it, which may be days old. So
`sling`, `work retry` and `reload` pass the caller's PATH and the variables that the agent refers to
(`${NAME}` in its `env` or in its MCP servers). The values are used for the runs of that item. They
are kept in memory only: after a restart of the controller they are gone, and an item that needs
them waits until a user retries it. A session passes nothing.

A request first has only the names of the caller's variables. If the agent refers to one of them,
the reply is `wants`, and the client sends the request again with these values.
"""

import os
from collections.abc import Collection, Mapping

from gascity.control.blocked import missing_program, missing_variables
from gascity.control.decide import reasons
from gascity.control.decide.types import Blocked
from gascity.control.run_config import AgentRunConfig
from gascity.model.values import TableView, as_list


class ItemEnvironments:
    """The controller's own environment, and what single items have instead."""

    def __init__(self, own: dict[str, str]) -> None:
        self.own = own  # also used by everything else in the controller; only PATH etc. change
        # Queued items that lack something, when last looked at, by agent and id.
        self._held: dict[str, dict[str, Blocked]] = {}
        self._values: dict[str, Mapping[str, str]] = {}
        self._failed: dict[str, Blocked] = {}  # items whose start failed for lack of a variable

    def of(self, work: str) -> Mapping[str, str]:
        """Return the environment for an item; an empty id is no item."""
        values = self._values.get(work)
        return merged_environment(self.own, values) if values else self.own

    def values(self, work: str) -> Mapping[str, str]:
        return self._values.get(work, {})

    def keep(self, work: str, values: Mapping[str, str]) -> None:
        """Keep the variables that a user passed for an item."""
        self._failed.pop(work, None)
        changed = {name: value for name, value in values.items() if self.own.get(name) != value}
        if changed:
            self._values[work] = changed

    def forget(self, work: str) -> None:
        """Drop the variables of a finished item."""
        self._values.pop(work, None)
        for table in (self._failed, *self._held.values()):
            table.pop(work, None)

    def replace_own(self, values: Mapping[str, str]) -> None:
        """Replace variables of the controller itself."""
        self.own.update(values)
        self._failed.clear()

    def start_failed(self, work: str, why: Blocked) -> None:
        """Keep an item from starting again before a user passes what it lacks."""
        self._failed[work] = reasons.missing_environment(work, why.message)

    def held(self, agent: str) -> Mapping[str, Blocked]:
        """Return the items of an agent that lack something, oldest first."""
        return self._held.get(agent, {})

    def all_held(self) -> dict[str, Blocked]:
        return {id: why for held in self._held.values() for id, why in held.items()}

    def all_ready(self, config: AgentRunConfig) -> bool:
        """Return whether no item of the agent can lack anything. Saves asking for each of them."""
        if self._values or self._failed or self._held.get(config.name):
            return False
        return self._obstacle(config, "") is None

    def obstacle(self, config: AgentRunConfig, work: str) -> tuple[Blocked | None, bool]:
        """Return what an item lacks, and whether that is new; remember it."""
        held = self._held.setdefault(config.name, {})
        before = held.pop(work, None)
        why = self._failed.get(work) or self._obstacle(config, work)
        if why is not None:
            held[work] = why
        return why, why is not None and why != before

    def _obstacle(self, config: AgentRunConfig, work: str) -> Blocked | None:
        environ = self.of(work)
        missing = missing_variables(config, environ)
        if missing:
            return reasons.missing_environment(work, f"`{missing[0]}` is not set")
        return missing_program(config, environ)


def merged_environment(own: Mapping[str, str], passed: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with passed variables; their PATH comes before the own one.

    So a program is found wherever either of the two has it.
    """
    paths = [part for each in (passed, own) for part in each.get("PATH", "").split(os.pathsep)]
    path = os.pathsep.join(dict.fromkeys(part for part in paths if part))
    return {**own, **passed, **({"PATH": path} if path else {})}


def passed_environment(
    request: Mapping[str, object], names: Collection[str]
) -> tuple[dict[str, str], list[str]]:
    """Return the variables that a request passes, and the names that it should pass.

    `names` are those that the agent refers to.
    """
    view = TableView(request)
    path, values = view.text("path"), view.table("environ")
    passed = {"PATH": path} if path else {}
    if values is not None:
        passed |= {name: str(value) for name, value in values.values.items() if name in names}
        return passed, []
    known = set(map(str, as_list(request.get("variables"))))
    return passed, sorted(known & set(names))
