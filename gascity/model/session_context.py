"""Context of templates besides the city: facts about the machine and the session."""

from typing import NamedTuple


class Machine(NamedTuple):
    """Platform and date, for prompts."""

    platform: str
    date: str


class SessionContext(NamedTuple):
    """Values that depend on the session or the machine; empty where there is none."""

    work_dir: str = ""
    branch: str = ""
    default_branch: str = ""
    session: str = ""
    platform: str = ""
    date: str = ""
    id: str = ""  # of the session, for live values of the HUD
