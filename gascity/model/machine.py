"""Facts about the machine that prompts may mention."""

from typing import NamedTuple


class Machine(NamedTuple):
    """Platform and date, for prompts."""

    platform: str
    date: str
