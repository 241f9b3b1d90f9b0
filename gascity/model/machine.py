"""The machine as far as prompts tell of it."""

from gascity.model.records import NamedTuple


class Machine(NamedTuple):
    """What of the machine may stand in a prompt."""

    platform: str
    date: str
