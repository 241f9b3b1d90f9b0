"""Settings that this version accepts but does not act on, each with the reason.

A setting is listed here, or it has a reader: `tests/unit/model/test_readers.py` checks that every
field of the settings tables has one of the two. `city check` reports a value of a listed setting
at its location, so that no setting is silently ignored.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gascity.model.setting_keys import AgentKey

# Of agents, wherever their settings are written.
AGENT_IGNORED: "Mapping[AgentKey, str]" = {
    "lifecycle": "headless runs end by themselves, and terminals run until they are stopped",
    "process_names": "processes are identified by their id",
}
# Of providers. Built-in providers have them, too, as facts for tools that read the provider files.
PROVIDER_IGNORED: Mapping[str, str] = {
    "process_names": "processes are identified by their id",
    "supports_hooks": "hooks come from the provider's overlay",
    "resume_style": "flags and subcommands are passed in the same way",
    "fork_flag": "sessions never fork a conversation",
}
# Of other tables: descriptive keys, which published files have for their readers.
OTHER_IGNORED: Mapping[str, Mapping[str, str]] = {
    "pack": {"requires_gc": "it is a version of another program"},
    "option": {"label": "it is for user interfaces", "type": "it is for user interfaces"},
}
