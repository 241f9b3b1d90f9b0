"""Whom a word means: an agent, or a session."""

from gascity.cli.context import Context
from gascity.cli.session_find import find_session
from gascity.model.problems import CityError
from gascity.model.work import Session
from gascity.store.port import Store


def agent_name(context: Context, store: Store | None, reference: str) -> str:
    """An agent's qualified name; one that has work or sessions is known though it is gone."""
    if store is not None and _is_known(store, reference):
        return reference
    return str(context.agent(reference)[1].name)


def _is_known(store: Store, name: str) -> bool:
    return bool(store.list_work(agent=name, limit=1) or store.sessions(agent=name))


def agent_or_session(context: Context, store: Store | None, reference: str) -> str | Session:
    """An agent's name before a session's; neither: what is wrong with it as an agent's name."""
    try:
        return agent_name(context, store, reference)
    except CityError:
        if store is None or not store.find_sessions(reference):
            raise
        return find_session(context, reference)
