"""The caller of a city tool, and what its agent's rules allow.

The controller answers both: it has the city in memory and sees changes of the files at once. While
no controller runs, this process identifies the caller and loads the city itself. In either case the
caller must prove for every call that it is the session it claims to be.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gascity.control.callers import Caller, Claim, claim_in, identify, stale_session
from gascity.control.client import send_request
from gascity.control.tools.watch import WorkWatch
from gascity.model.city_tools import CITY_SERVER
from gascity.model.problems import CityError, Problem
from gascity.model.values import JsonObject, TableView, as_table

if TYPE_CHECKING:
    from gascity.control.run_config import RunConfig
    from gascity.model.city import Agent, City
    from gascity.store.port import Store

_NOT_A_SESSION = "this is not a session of the city"


class CallerScope(NamedTuple):
    """A caller that has proved who it is. A user has neither agent nor session, and no limits."""

    agent: str = ""
    session: str = ""
    work: str = ""  # the item it works on
    refused: Mapping[str, str] = {}  # tools that it may not use, and why

    @property
    def is_user(self) -> bool:
        return not self.session


class CityServer(NamedTuple):
    """Context of a server process: its city, its environment, and whom it serves."""

    root: str
    environ: Mapping[str, str]
    directory: str
    as_user: bool  # serves the user's own client, not a session
    load: "Callable[[], RunConfig]"  # loads the city, for calls without a controller
    watch: WorkWatch  # shared by all calls that wait

    def claim(self) -> Claim | None:
        """Return the session that the environment names; CityError if that is not its caller.

        Fails closed: without a session, only a server that was started for a user serves one.
        """
        claim = claim_in(self.environ)
        if claim is None and not self.as_user:
            raise _not_a_session("CITY_SESSION_ID is not set")
        if claim is not None and self.as_user:
            raise _not_a_session("--as human is not available inside a session")
        return claim

    def send(self, request: Mapping[str, object]) -> JsonObject | None:
        """Send a request as the caller; None if no controller answers it. CityError if refused."""
        claim = self.claim()
        token = {} if claim is None else {"token": list(claim)}
        reply = send_request(self.root, {**request, **token})
        if reply is None or "problems" not in reply:
            return reply
        if "errors" not in reply:
            return None  # a controller of an earlier version
        raise CityError(*map(problem_of, TableView(reply).tables("errors")))

    def identify(self, store: "Store") -> Caller | None:
        """Return the calling session; None for a user. CityError if it cannot prove it."""
        import os

        caller = identify(store, self.root, self.claim(), os.getpid())
        if caller is not None and caller.stale:
            raise stale_session(caller)
        return caller

    def open_store(self) -> "Store":
        from gascity.store import open_store

        return open_store(self.root)

    def scope(self) -> CallerScope:
        """Return who calls and what it may use; CityError if it cannot prove who it is."""
        try:
            reply = self.send({"op": "tools"})
            if reply is None:
                store = self.open_store()
                try:
                    reply = scope_object(self.load(), store, self.identify(store))
                finally:
                    store.close()
        except CityError as error:
            raise CityError(*map(explained, error.problems)) from None
        return _scope(reply)


def problem_of(written: TableView) -> Problem:
    """Return a problem that another process reported as JSON."""
    hint = written.text("hint") or None
    return Problem(written.text("code"), written.text("message"), None, hint)


def make_server(
    root: str,
    environ: Mapping[str, str],
    directory: str,
    as_user: bool,
    load: "Callable[[], RunConfig]",
) -> CityServer:
    """Return what a server process knows, with nothing opened or loaded yet."""
    from gascity.store import open_store

    watch = WorkWatch(lambda: open_store(root))
    return CityServer(root, environ, directory, as_user, load, watch)


def _scope(reply: Mapping[str, object]) -> CallerScope:
    refused = {name: str(why) for name, why in as_table(reply["refused"]).items()}
    return CallerScope(str(reply["agent"]), str(reply["session"]), str(reply["work"]), refused)


def scope_object(run_config: "RunConfig", store: "Store", caller: Caller | None) -> JsonObject:
    """Return the caller and the tools that its agent's settings refuse it, as JSON values."""
    if caller is None:
        return CallerScope()._asdict()
    config = run_config.agent_of_caller(caller.agent)
    session = store.session(caller.session)
    can_ask = session is not None and session.interactive
    refused = refused_tools(config.city, config.agent, can_ask)
    return CallerScope(caller.agent, caller.session, caller.work, refused)._asdict()


def refused_tools(city: "City", agent: "Agent", can_ask: bool) -> dict[str, str]:
    """Return the tools that an agent's `[tools]` and `[capabilities]` refuse, and why."""
    from gascity.control.tools.table import TOOLS
    from gascity.render.tool_scope import refusal_message, tool_rules

    capabilities = {tool.name: tool.capabilities for tool in TOOLS}
    rules = tool_rules(
        city.provider_of(agent), agent, CITY_SERVER, own_capabilities=capabilities, bare_names=True
    )
    refusals = {name: rules.refusal(name, can_ask=can_ask) for name in capabilities}
    return {
        name: refusal_message(str(agent.name), f"{CITY_SERVER}/{name}", refusal)
        for name, refusal in refusals.items()
        if refusal is not None
    }


def _not_a_session(reason: str) -> CityError:
    hint = "pass the variables CITY_SESSION_* of the session on to `city mcp serve`"
    return CityError(Problem("not-your-session", reason, None, hint))


def explained(problem: Problem) -> Problem:
    """Say first what a caller without a valid session needs to know."""
    if problem.code in ("not-your-session", "stale-session"):
        return problem._replace(message=f"{_NOT_A_SESSION}: {problem.message}")
    return problem
