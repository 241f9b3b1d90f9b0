"""Permissions of sessions: one table of all commands, and how far each reaches.

A user may do everything. A session acts for itself: for a command it may reach nothing (NONE), its
own work, mail and session (OWN), also what belongs to agents that its `[agents_filter]` lets it see
(SEEN), or there is nothing to protect (FREE). A word in the agent's `[capabilities] allow` lifts
the limit of the commands that it is listed with; `city.admin` lifts all. These words are special:
neither an absent `allow` nor `*` grants them, so an agent that was written before they existed
gains nothing.

Commands go through `cli/identity.py`, requests to the controller through `control/server.py`; both
look here. A command without an entry is refused.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gascity.control.callers import Caller, not_your_session
from gascity.model.capabilities import (
    ADMIN,
    CONTROL,
    FILES,
    MAIL,
    PACKS,
    RIGS,
    SESSIONS,
    WORK,
)
from gascity.model.names import allowed, may_sling, parse_name
from gascity.model.problems import CityError, Problem

if TYPE_CHECKING:
    from gascity.model.city import Agent, City

NONE, OWN, SEEN, FREE = "none", "own", "seen", "free"


class Rule(NamedTuple):
    """Reach of a command that a session calls, and the capability that lifts the limit."""

    reach: str
    word: str


_OTHER = Rule(NONE, ADMIN)  # commands of installed packages
RULES = {
    # Its own work, mail and session
    "prime": Rule(SEEN, FILES),
    "hook": Rule(SEEN, WORK),
    "hud": Rule(SEEN, SESSIONS),
    "runtime drain-ack": Rule(OWN, SESSIONS),
    "runtime drain-check": Rule(OWN, SESSIONS),
    "runtime heartbeat": Rule(OWN, SESSIONS),
    "runtime request-restart": Rule(OWN, SESSIONS),
    # Work
    "sling": Rule(SEEN, WORK),
    "work list": Rule(SEEN, WORK),
    "work show": Rule(SEEN, WORK),
    "work logs": Rule(SEEN, WORK),
    "logs": Rule(SEEN, WORK),
    "work done": Rule(OWN, WORK),
    "work fail": Rule(OWN, WORK),
    "work diff": Rule(SEEN, WORK),
    "work tree": Rule(SEEN, WORK),
    "work merge": Rule(NONE, WORK),
    "work open": Rule(NONE, WORK),
    "work move": Rule(NONE, WORK),
    "work cancel": Rule(NONE, WORK),
    "work retry": Rule(NONE, WORK),
    # Sessions
    "session list": Rule(SEEN, SESSIONS),
    "session show": Rule(SEEN, SESSIONS),
    "session peek": Rule(SEEN, SESSIONS),
    "session logs": Rule(SEEN, SESSIONS),
    "session new": Rule(SEEN, SESSIONS),
    "session nudge": Rule(SEEN, SESSIONS),
    "session attach": Rule(NONE, SESSIONS),
    "session back": Rule(OWN, SESSIONS),
    "session stop": Rule(OWN, SESSIONS),
    "session clear": Rule(OWN, SESSIONS),
    "session reset": Rule(OWN, SESSIONS),
    "session kill": Rule(OWN, SESSIONS),
    "session wake": Rule(OWN, SESSIONS),
    "session delete": Rule(OWN, SESSIONS),
    "session rename": Rule(OWN, SESSIONS),
    "session pin": Rule(OWN, SESSIONS),
    "session unpin": Rule(OWN, SESSIONS),
    # Mail
    "mail send": Rule(SEEN, MAIL),
    "mail inbox": Rule(OWN, MAIL),
    "mail list": Rule(OWN, MAIL),
    "mail check": Rule(OWN, MAIL),
    "mail read": Rule(OWN, MAIL),
    "mail reply": Rule(OWN, MAIL),
    "mail archive": Rule(OWN, MAIL),
    # Its own notes
    "memory list": Rule(OWN, FILES),
    "memory show": Rule(OWN, FILES),
    "memory add": Rule(OWN, FILES),
    "memory remove": Rule(OWN, FILES),
    "memory update": Rule(NONE, FILES),
    # The state of the city
    "status": Rule(SEEN, SESSIONS),
    "why": Rule(SEEN, SESSIONS),
    "events": Rule(SEEN, SESSIONS),
    "cost": Rule(NONE, SESSIONS),
    "telemetry": Rule(NONE, CONTROL),
    # The city's files, and what is written from them
    "agent list": Rule(NONE, FILES),
    "agent show": Rule(NONE, FILES),
    "agent emit": Rule(NONE, FILES),
    "agent export": Rule(NONE, FILES),
    "agent explain": Rule(NONE, FILES),
    "agent new": Rule(NONE, FILES),
    "agent set": Rule(NONE, FILES),
    "agent rename": Rule(NONE, FILES),
    "agent remove": Rule(NONE, FILES),
    "skill list": Rule(NONE, FILES),
    "skill show": Rule(NONE, FILES),
    "skill check": Rule(NONE, FILES),
    "skill promote": Rule(NONE, FILES),
    "mcp list": Rule(NONE, FILES),
    "mcp check": Rule(NONE, FILES),
    "mcp call": Rule(OWN, ADMIN),  # a server of its own agent, under its scope
    "mcp serve": Rule(FREE, ADMIN),  # it identifies its caller at each call of a tool
    "provider list": Rule(NONE, FILES),
    "provider show": Rule(NONE, FILES),
    "provider check": Rule(NONE, FILES),
    "overlay list": Rule(NONE, FILES),
    "skill new": Rule(NONE, FILES),
    "mcp new": Rule(NONE, FILES),
    "set": Rule(NONE, FILES),
    "edit": Rule(NONE, FILES),
    "check": Rule(NONE, FILES),
    "diff": Rule(NONE, FILES),
    "report": Rule(NONE, FILES),
    "plan": Rule(NONE, FILES),
    "apply": Rule(NONE, FILES),
    "undo": Rule(NONE, FILES),
    "init": Rule(NONE, FILES),
    "import": Rule(NONE, FILES),
    "export": Rule(NONE, FILES),
    "migrate": Rule(NONE, FILES),
    # Packs and rigs
    "pack accept": Rule(NONE, PACKS),
    "pack new": Rule(NONE, PACKS),
    "pack add": Rule(NONE, PACKS),
    "pack remove": Rule(NONE, PACKS),
    "pack list": Rule(NONE, PACKS),
    "pack show": Rule(NONE, PACKS),
    "pack install": Rule(NONE, PACKS),
    "pack update": Rule(NONE, PACKS),
    "pack why": Rule(NONE, PACKS),
    "pack check": Rule(NONE, PACKS),
    "formula list": Rule(NONE, PACKS),
    "order list": Rule(NONE, PACKS),
    "rig add": Rule(NONE, RIGS),
    "rig list": Rule(NONE, RIGS),
    "rig remove": Rule(NONE, RIGS),
    # The controller
    "start": Rule(NONE, CONTROL),
    "stop": Rule(NONE, CONTROL),
    "restart": Rule(NONE, CONTROL),
    "reload": Rule(NONE, CONTROL),
    "doctor": Rule(NONE, CONTROL),
    "prune": Rule(NONE, CONTROL),
    "web": Rule(NONE, ADMIN),
    "completion": Rule(FREE, ADMIN),
    "help": Rule(FREE, ADMIN),
}
# Requests to the controller, as the commands that send them.
REQUESTS = {
    "sling": "sling",
    "status": "status",
    "stuck": "why",
    "stop": "stop",
    "reload": "reload",
    "ping": "completion",
    "tools": "mcp serve",
    "agents": "mcp serve",
    "gateway": "mcp call",
    "environment": "doctor",
    "pass-environment": "work retry",
}


def rule_of(command: str) -> Rule:
    """Return the rule of a command, by its name without `city`."""
    return RULES.get(command, _OTHER)


class Access:
    """Reach of one caller with one command. `load` returns the city when it is needed.

    `agents` are those that are already known by their qualified names.
    """

    def __init__(
        self,
        caller: Caller | None,
        command: str,
        load: "Callable[[], City]",
        agents: "Mapping[str, Agent] | None" = None,
    ) -> None:
        self.caller = caller
        self.command = command
        self.rule = rule_of(command)
        self._load = load
        self._city: City | None = None
        self._agents: dict[str, Agent | None] = dict(agents or {})

    @property
    def unlimited(self) -> bool:
        """Whether it may reach everything: a user, or a session whose agent has the word."""
        return self.caller is None or self.has(self.rule.word)

    def has(self, word: str) -> bool:
        """Return whether the caller may use what this word grants."""
        if self.caller is None:
            return True
        agent = self.agent(self.caller.agent)
        if agent is None or agent.broken:
            return False
        capabilities = agent.settings.capabilities
        words = {word, ADMIN} - set(capabilities.deny)
        return word not in capabilities.deny and not words.isdisjoint(capabilities.allow or ())

    def check_command(self) -> None:
        """Raise CityError if the caller may not use the command at all."""
        if self.caller is not None and self.rule.reach == NONE and not self.unlimited:
            raise self.refused(
                f"a session of `{self.caller.agent}` may not use `city {self.command}`"
            )

    def refused(self, message: str) -> CityError:
        """Return the error of a session that does what only a user may."""
        agent = self.caller.agent if self.caller is not None else ""
        hint = f'to allow it, add "{self.rule.word}" to `[capabilities] allow` of `{agent}`'
        return CityError(Problem("not-from-a-session", message, None, hint))

    def agent(self, name: str) -> "Agent | None":
        """Return an agent by its qualified name; None if it does not exist any more."""
        if name not in self._agents:
            from gascity.pipeline import find_agent

            city = self._loaded()
            try:
                found = find_agent(city, name)
            except CityError:
                found = None
            self._agents[name] = found
        return self._agents[name]

    def _loaded(self) -> "City":
        if self._city is None:
            self._city = self._load()
        return self._city

    def hides(self, name: str) -> bool:
        """Return whether an agent does not exist for the caller."""
        if self.caller is None or name == self.caller.agent or self.has(ADMIN):
            return False
        agent = self.agent(name)
        return agent is not None and agent.settings.hidden

    def sees(self, name: str) -> bool:
        """Return whether the caller may read about an agent's work and sessions."""
        if self.caller is None or name == self.caller.agent:
            return True
        if self.hides(name):
            return False
        mine = self.agent(self.caller.agent)
        return self.unlimited or (
            mine is not None
            and not mine.broken  # its filter may be missing
            and allowed(_names(name), mine.settings.agents_filter)
        )

    def check_agent(self, name: str, *, typed: bool = True) -> None:
        """Raise CityError if the caller may not start, nudge or write to an agent.

        As with `sling`, an agent that runs scripts must be listed by name, unless nothing is typed
        there.
        """
        if self.caller is None or self.unlimited:
            return
        mine = self.agent(self.caller.agent)
        script = typed and self._runs_scripts(name)
        if (
            mine is None
            or mine.broken
            or not may_sling(_names(name), mine.settings.agents_filter, script=script)
        ):
            raise self.refused(
                f"`[agents_filter]` of `{self.caller.agent}` does not allow `{name}`"
            )

    def _runs_scripts(self, name: str) -> bool:
        agent = self.agent(name)
        if agent is None:
            return False
        provider = self._loaded().providers.get(agent.provider)
        return provider is not None and provider.facts.script

    def check_owner(self, agent: str, session: str, what: str) -> None:
        """Raise CityError if something of this agent and session is out of the caller's reach."""
        caller = self.caller
        if caller is None or (session and session == caller.session):
            return
        if self.rule.reach == SEEN and self.sees(agent):
            return
        if not self.unlimited:
            message = f"{what} does not belong to this session"
            hint = (
                f'to allow it, add "{self.rule.word}" to `[capabilities] allow` of `{caller.agent}`'
            )
            raise not_your_session(message, hint)


def _names(name: str) -> tuple[str, ...]:
    """Return the forms of a name that a filter may use: with rig and binding, and without."""
    parsed = parse_name(name)
    return tuple(dict.fromkeys((name, parsed.without_rig, parsed.bare)))
