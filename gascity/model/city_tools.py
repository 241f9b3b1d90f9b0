"""Names of the city's own tools, which the MCP server `city` of `builtin:tools` offers."""

CITY_SERVER = "city"
CITY_TOOLS = (
    "agents_list",
    "agents_message",
    "agents_status",
    "agents_cancel",
    "work_list",
    "work_show",
    "work_done",
    "work_fail",
    "mail_send",
    "mail_inbox",
    "mail_read",
    "memory_add",
    "memory_search",
    "hud_read",
)
