"""Which providers refresh the HUD every turn: those that the built-in overlay has a hook for."""

import os
from functools import cache

from gascity.hud.sections import built_in_directory
from gascity.model.city import Agent, City
from gascity.model.wanted import PER_PROVIDER


def has_hook(city: City, agent: Agent) -> bool:
    """Return whether a hook of the agent's provider calls `city hud --inject`."""
    provider = city.provider_of(agent)
    family = provider.family if provider is not None else ""
    return not _providers().isdisjoint((family, agent.provider))


@cache
def _providers() -> frozenset[str]:
    return frozenset(os.listdir(f"{built_in_directory().path('overlay')}/{PER_PROVIDER}"))
