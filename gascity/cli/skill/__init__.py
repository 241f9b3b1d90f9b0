"""`city skill`: list, validate and promote skills."""

from gascity.cli.command import LazyGroup

_COMMANDS = {
    "list": (".skill.list", "list_all", "List skills and where they come from."),
    "show": (".skill.show", "show_skill", "Show a skill, its files and its text."),
    "new": (".new_files", "new_skill", "Create a skill."),
    "check": (".skill.list", "check_skills", "Validate skills."),
    "promote": (".skill.promote", "promote_skill", "Copy a project's skill into the city."),
}

skill = LazyGroup(
    "skill",
    help="List, validate and promote skills.",
    commands_at=_COMMANDS,
    examples=("city skill list --agent mayor", "city skill check"),
    page="how-to/skills",
)
