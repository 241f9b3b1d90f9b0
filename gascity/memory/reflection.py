"""The message that a session gets after a work item is done."""

from gascity.model.city import City
from gascity.source.agents import is_profile
from gascity.source.disk import Disk


def reflection_text(city: City, file: str) -> str:
    """Return the message: a file, or the section `## Reflection` of a profile; empty if none."""
    disk = Disk(city.root)
    text = (disk.read(disk.absolute(file)) or b"").decode("utf-8", "replace")
    if is_profile(file):
        from gascity.model.profile import REFLECTION, read_profile

        section = read_profile(text).section(REFLECTION)
        text = section.text if section is not None else ""
    return text.strip()
