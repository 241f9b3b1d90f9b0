"""V1 packs for tests, covering every form that published packs use."""

# Tables with each key that published tables carry, prompts and fragments of the older suffix,
# overlays that agents name, and parts that this program carries and does not run.
FERRY = {
    "pack.toml": """\
# The ferry and its people.
[pack]
name = "ferry"
schema = 1
version = "0.3.0"
includes = ["../dock"]

[formulas]
dir = "formulas"

[[agent]]
name = "harbour-master"
description = "Says who sails when."
scope = "city"
prompt_template = "prompts/harbour-master.md.tmpl"
overlay_dir = "overlays/office"
nudge = "Look at the timetable."
idle_timeout = "1h"
max_active_sessions = 1
work_dir = ".gc/work/harbour-master"
wake_mode = "fresh"
session_live = ["true"]

[[agent]]
name = "diver"
scope = "rig"
prompt_template = "prompts/diver.md"
overlay_dir = "overlays/deck"
inject_fragments = ["manners"]
append_fragments = ["tides"]
pre_start = ["true"]
work_query = "cat queue"
install_agent_hooks = ["claude"]
rig_filter = ["web"]

[agent.pool]
min = 1
max = 3
check = "wc -l < queue"
namepool = "names/divers.txt"

[[agent]]
name = "lookout"
scope = "rig"
start_command = "watch ./sea"
fallback = true
provider = "shell"
min_active_sessions = 0

[[agent]]
name = "cook"
dir = "web"
prompt_template = "agents/cook/prompt.template.md"

[[doctor]]
name = "tools"
script = "scripts/tools.sh"

[[commands]]
name = "tide"
description = "Says the tide."
script = "scripts/tide.sh"
""",
    "prompts/harbour-master.md.tmpl": 'You are {{.AgentName}}.\n{{template "manners" .}}\n',
    "prompts/diver.md": "Dive, and fill in {{what}} yourself.\n",
    "prompts/shared/manners.md.tmpl": '{{define "manners"}}Be kind.{{end}}',
    "prompts/shared/tides.template.md": '{{define "tides"}}Mind the tide.{{end}}',
    "overlays/office/desk.txt": "pen\n",
    "overlays/deck/rope.txt": "hemp\n",
    "names/divers.txt": "Ama\nHaenyeo\n",
    "agents/cook/prompt.template.md": "Cook for {{.RigName}}.\n",
    "agents/mate/prompt.md": "Help.\n",
    "formulas/sail.toml": 'formula = "sail"\n',
    "formulas/orders/ebb/order.toml": '[order]\ngate = "cooldown"\n',
    "scripts/tools.sh": "exit 0\n",
    "scripts/tide.sh": "echo ebb\n",
}
DOCK = {
    "pack.toml": '[pack]\nname = "dock"\nschema = 1\n\n[[agents]]\nname = "docker"\n'
    'scope = "city"\nprompt_template = "docker.md"\n',
    "docker.md": "Load.\n",
}
CITY = """\
[workspace]
provider = "shell"

[imports.ferry]
source = "packs/ferry"

[[rigs]]
name = "web"
path = "web"
"""


def ferry_town() -> dict[str, str]:
    """A city that imports the ferry."""
    return {
        "city.toml": CITY,
        "web/README": "",
        **{f"packs/ferry/{name}": text for name, text in FERRY.items()},
        **{f"packs/dock/{name}": text for name, text in DOCK.items()},
    }
