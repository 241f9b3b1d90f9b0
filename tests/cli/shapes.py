"""Shapes of the JSON output of commands: keys and types. `fits` compares a value with one."""

from collections.abc import Mapping
from typing import Any


class OneOf:
    """Any of a few words."""

    def __init__(self, *words: str) -> None:
        self.words = words


class Either:
    """Any of several shapes."""

    def __init__(self, *shapes: object) -> None:
        self.shapes = shapes


class Each:
    """A table whose names are free and whose values all have one shape."""

    def __init__(self, shape: object) -> None:
        self.shape = shape


ANYTHING = object()
TEXT = Either(str, None)
NUMBER = Either(int, None)

PROBLEM = {
    "severity": OneOf("error", "warning"),
    "code": str,
    "file": TEXT,
    "line": NUMBER,
    "col": NUMBER,
    "message": str,
    "hint": TEXT,
}
AGENT = {
    "name": str,
    "bare": str,
    "rig": TEXT,
    "binding": TEXT,
    "provider": str,
    "description": str,
    "execution": str,
    "session_state": str,
    "hidden": bool,
    "color": TEXT,
    "min": int,
    "max": NUMBER,
    "source": str,
    "layer": OneOf("built-in", "user", "local", "pack", "city"),
    "state": OneOf("ok", "broken", "stale"),
}
SETTING = {
    "value": ANYTHING,
    "file": TEXT,
    "line": NUMBER,
    "layer": OneOf(
        "default",
        "provider",
        "pack defaults",
        "city defaults",
        "definition",
        "pack patch",
        "city patch",
        "rig patch",
        "local patch",
    ),
}
PROVIDER = {
    "name": str,
    "display_name": str,
    "command": TEXT,
    "path": TEXT,
    "installed": bool,
    "headless": bool,
    "mcp": TEXT,
    "skills": TEXT,
}
NAMES = Either([str], None)

PROBLEMS = {"problems": [PROBLEM]}
CHECK = {"problems": [PROBLEM], "name": str, "agents": int, "rigs": int, "packs": int}
CHECK_VERBOSE = {
    **CHECK,
    "imports": [{"binding": str, "adds": [{"kind": str, "name": str, "agents": [str]}]}],
}
PROJECT_ITEM = {
    "kind": OneOf("instructions", "server", "skill", "agent", "command", "settings"),
    "name": str,
    "layer": OneOf("project"),
    "path": str,
    "line": int,
    "shadows": [str],
    "shadowed_by": TEXT,
    "same_as": TEXT,
}
AGENT_LIST = {"agents": [AGENT]}
HUD_SECTION = {
    "name": str,
    "position": OneOf("header", "inline", "sidebar", "footer"),
    "priority": int,
    "refresh": OneOf("once", "on-event", "periodic", "on-demand"),
    "collapsed": bool,
    "chars": int,
    "text": str,
    "source": str,
    "layer": str,
    "age": int,
}
HUD = {
    "agent": str,
    "sections": [HUD_SECTION],
    "shadowed": [{"name": str, "source": str, "by": str}],
    **PROBLEMS,
}
AGENT_SHOW = {
    **AGENT,
    "project": [PROJECT_ITEM],
    "tags": [str],
    "tools": {"allow": NAMES, "deny": NAMES, "ask": NAMES},
    "subagents": [
        {"name": str, "file": TEXT, "left_out": [{"key": str, "reason": str}]},
    ],
    "hud": Either({"sections": [str], "refresh": OneOf("turn", "start"), "note": str}, None),
    "prompt": {"files": [str], "sha256": TEXT, "chars": NUMBER},
    "fields": Each(SETTING),
}
AGENT_PEERS = {"name": str, "sends_to": [str], "receives_from": [str]}
AGENT_EXPLAIN = {"fields": Each([SETTING])}
LOST = {"field": str, "value": str, "reason": str}
AGENT_EXPORT = {
    "format": str,
    "directory": str,
    "files": [
        {
            "agent": str,
            "path": str,
            "op": OneOf("write", "keep", "remove", "same"),
            "lost": [LOST],
        }
    ],
    "problems": [PROBLEM],
}
CITY_EXPORT = {
    "provider": str,
    "directory": str,
    "files": [
        {"kind": TEXT, "name": TEXT, "path": str, "op": OneOf("write", "keep", "remove", "same")}
    ],
    "lost": [{"kind": str, "name": str, **LOST}],
    "problems": [PROBLEM],
}
SKILL_LIST = {
    "skills": [
        {
            "name": str,
            "description": str,
            "origin": str,
            "path": str,
            "sink": TEXT,
            "shadows": [str],
            "problems": [PROBLEM],
        }
    ]
}
AGENT_SKILLS = {**SKILL_LIST, "project": [PROJECT_ITEM], "problems": [PROBLEM]}
PROVIDER_LIST = {"providers": [PROVIDER]}
PROVIDER_SHOW = {
    "providers": [PROVIDER],
    "fields": Each({**SETTING, "layer": str}),
}
RIG_LIST = {
    "rigs": [{"name": str, "path": TEXT, "prefix": str, "agents": Either([str], int), "git": bool}]
}
STEP = {
    "op": OneOf("worktree", "write", "link", "merge", "remove", "keep"),
    "path": str,
    "source": str,
    "layer": str,
    "reason": str,
}
PLAN = {
    "agents": [
        {
            "name": str,
            "workdir": TEXT,
            "steps": [STEP],
            "project": [PROJECT_ITEM],
            "problems": [PROBLEM],
        }
    ]
}
APPLIED = {
    "agents": [
        {"name": str, "workdir": TEXT, "done": [STEP], "kept": [STEP], "problems": [PROBLEM]}
    ]
}
OVERLAY_LIST = {
    "files": [{"path": str, "source": str, "layer": str, "provider": TEXT, "mode": str}],
    "shadowed": [{"path": str, "source": str, "by": str}],
    "kept": [{"path": str, "source": str, "reason": str}],
    "project": [PROJECT_ITEM],
}
MCP_LIST = {
    "provider": TEXT,
    "target": TEXT,
    "targets": [str],
    "workdir": str,
    "servers": [
        {
            "name": str,
            "description": str,
            "transport": str,
            "command": TEXT,
            "args": [str],
            "url": TEXT,
            "env": [str],
            "headers": [str],
            "source": str,
            "origin": str,
            "status": OneOf("projected", "skipped"),
            "reason": TEXT,
        }
    ],
    "shadowed": [{"name": str, "source": str, "by": str}],
    "project": [PROJECT_ITEM],
    "problems": [PROBLEM],
}

CARRIED = {
    "kind": OneOf("formula", "order", "command", "doctor"),
    "name": str,
    "binding": TEXT,
    "rig": TEXT,
    "file": str,
    "description": str,
    "shadows": [str],
    "problems": [PROBLEM],
}
ORDER = {
    **CARRIED,
    "trigger": TEXT,
    "when": TEXT,
    "action": TEXT,
    "formula": TEXT,
}
FORMULA_LIST = {"formulas": [CARRIED], "run": bool, "problems": [PROBLEM]}
ORDER_LIST = {"orders": [ORDER], "run": bool, "problems": [PROBLEM]}
SHELVED = {"name": str, "file": str, "description": str}
PACK_SHOW = {
    "binding": TEXT,
    "rig": TEXT,
    "name": str,
    "description": str,
    "source": TEXT,
    "version": TEXT,
    "commit": TEXT,
    "path": str,
    "accepted": bool,
    "executes": [{"kind": str, "name": str, "value": str, "file": str, "line": Either(int, None)}],
    "imports": [str],
    **{key: [SHELVED] for key in ("agents", "overlay", "skills", "mcp", "fragments", "hud")},
    "formulas": [CARRIED],
    "orders": [ORDER],
    "commands": [{**CARRIED, "words": [str]}],
    "doctor": [CARRIED],
    "run": bool,
    "problems": [PROBLEM],
}


WORK_TREE = {
    "work": str,
    "title": str,
    "agent": str,
    "depth": int,
    "status": str,
    "seconds": NUMBER,
    "cost": NUMBER,
    "children": [dict],
}
WORK_DIFF = {
    "work": str,
    "base": str,
    "branch": str,
    "files": [{"path": str, "added": NUMBER, "removed": NUMBER}],
    "patch": str,
}
WORK_MERGE = {
    "work": str,
    "into": str,
    "method": OneOf("fast-forward", "merge", "squash", "none", "pull-request"),
    "commit": TEXT,
    "pushed": bool,
    "pr": TEXT,
    "deleted": bool,
    "kept": [str],
}


PRUNE = {
    "items": [
        {
            "kind": OneOf("worktree", "branch", "session", "pack"),
            "path": str,
            "size": int,
            "reason": str,
            "removed": bool,
        }
    ]
}


NOTE = {
    "name": str,
    "agent": TEXT,
    "path": str,
    "tags": [str],
    "chars": int,
    "at": str,
    "starter": bool,
}
MEMORY_LIST = {"memory": [NOTE], "problems": [PROBLEM]}
MEMORY_SHOW = {**NOTE, "text": str, "problems": [PROBLEM]}
MEMORY_CHANGE = {"name": str, "path": str}
MEMORY_UPDATE = {
    "updates": [
        {
            "agent": str,
            "path": str,
            "source": str,
            "origin": str,
            "status": OneOf("current", "updated", "merged", "conflict"),
        }
    ],
    "written": [str],
}
_CHANGE = OneOf("added", "removed", "changed")
_NAMED_CHANGE = {"name": str, "change": _CHANGE, "source": str}
DIFF = {
    "revision": str,
    "from": str,
    "agents": [
        {
            "name": str,
            "change": _CHANGE,
            "fields": [
                {"name": str, "old": ANYTHING, "new": ANYTHING, "file": TEXT, "line": NUMBER}
            ],
            "prompt": ANYTHING,
            "skills": [_NAMED_CHANGE],
            "servers": [_NAMED_CHANGE],
            "files": [_NAMED_CHANGE],
            "tools": {"gained": [str], "lost": [str]},
        }
    ],
    "packs": [{"binding": str, "source": str, "old": TEXT, "new": TEXT}],
    "problems": [PROBLEM],
}


_COSTS = {
    "runs": int,
    "tokens": int,
    "cost": Either(float, int, None),
    "usage": Each(int),
    "unpriced": int,
}
COST = {
    "by": OneOf("agent", "rig", "day"),
    "since": Either(float, None),
    "rows": [{"key": str, **_COSTS}],
    "total": _COSTS,
}
TELEMETRY = {"endpoint": str, "runs": int}


def fits(value: Any, shape: object, where: str = "$") -> None:
    """Fail with the place where a value has another shape than it should; more keys are allowed."""
    if shape is ANYTHING:
        return
    if isinstance(shape, Mapping):
        assert isinstance(value, dict), f"{where} should be an object: {value!r}"
        for key, inner in shape.items():
            assert key in value, f"{where} lacks `{key}`"
            fits(value[key], inner, f"{where}.{key}")
    elif isinstance(shape, list):
        assert isinstance(value, list), f"{where} should be a list: {value!r}"
        for index, item in enumerate(value):
            fits(item, shape[0], f"{where}[{index}]")
    elif isinstance(shape, Each):
        assert isinstance(value, dict), f"{where} should be an object: {value!r}"
        for key, inner in value.items():
            fits(inner, shape.shape, f"{where}.{key}")
    elif isinstance(shape, OneOf):
        assert value in shape.words, f"{where} should be one of {shape.words}: {value!r}"
    elif isinstance(shape, Either):
        assert any(_is(value, one) for one in shape.shapes), f"{where} has a wrong type: {value!r}"
    else:
        assert _is(value, shape), f"{where} has a wrong type: {value!r}"


def _is(value: object, shape: object) -> bool:
    if shape is None:
        return value is None
    if isinstance(shape, list):
        return isinstance(value, list) and all(_is(item, shape[0]) for item in value)
    if shape is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(shape, type) and isinstance(value, shape)
