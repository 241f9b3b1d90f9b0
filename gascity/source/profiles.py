"""Reads a `profile.md` as an agent's definition, and finds its settings in the file.

The JSON blocks are translated to the keys of agent.toml and decoded by the same table, so defaults,
patches, `explain` and error messages work as for agent.toml.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gascity.jsonc import edit
from gascity.jsonc.tree import JsoncError, JsonNode, tree
from gascity.model.document_text import position
from gascity.model.fields import AGENT
from gascity.model.front_matter import Opaque
from gascity.model.layers import DEFINITION, Layer
from gascity.model.names import did_you_mean
from gascity.model.problems import KeyPath, Place, Problem, warning
from gascity.model.profile import (
    CONFIG,
    JSON_SECTIONS,
    REFLECTION,
    SERVERS,
    TOOLS,
    JsonBlock,
    Profile,
    ProfileSection,
    profile_prompt,
    read_profile,
)
from gascity.model.values import JsonObject, as_list, as_text
from gascity.render.agent_text import yaml_text

_MATTER = {"id": "", "name": "display_name", "description": "description", "tags": ""}
_TOOL_LISTS = {"allowed": "tools.allow", "denied": "tools.deny", "ask": "tools.ask"}
_RUNTIMES = {"claude_sdk": "claude"}
_MODES = {"auto": "auto-edit"}
# Keys of Config that agents have under other names, or not at all.
_CONFIG_KEYS = ("permission_mode", "max_tokens_per_task", "runtime", "agent_name")
_SERVER_TOOL = re.compile(r"mcp__([\w-]+?)__([\w*-]+)")
_SECTIONS = (*JSON_SECTIONS, REFLECTION)


class ProfileSettings(NamedTuple):
    """The settings of a profile as a table of agent.toml, where each is written, and problems."""

    table: JsonObject
    written: Mapping[str, str]
    problems: tuple[Problem, ...]
    has_prompt: bool


def profile_settings(text: str, file: str, name: str) -> ProfileSettings:
    """Translate a profile to the keys of agent.toml."""
    return _ProfileReader(read_profile(text), text, file, name).settings()


def profile_layer(file: str, decoded: Layer, written: Mapping[str, str]) -> Layer:
    """Return the decoded settings as a layer whose places are in the profile."""
    return Layer(DEFINITION, file, decoded.values, (), {**written, **(decoded.written or {})})


class _ProfileReader:
    def __init__(self, profile: Profile, text: str, file: str, name: str) -> None:
        self.profile = profile
        self.text = text
        self.file = file
        self.name = name
        self.table: JsonObject = {}
        self.written: dict[str, str] = {}
        self.problems: list[Problem] = []

    def settings(self) -> ProfileSettings:
        self._add_identity()
        for title in JSON_SECTIONS:
            section = self.profile.section(title)
            value = self._json(section) if section else None
            if value is not None:
                self._add_section(title, value)
        self._check_sections()
        has_prompt = bool(profile_prompt(self.profile).text)
        return ProfileSettings(self.table, self.written, tuple(self.problems), has_prompt)

    def _add_identity(self) -> None:
        matter = self.profile.matter
        if matter is None:
            if self.text.startswith("---"):
                message = "the front matter is not closed with `---`"
                self._refuse("bad-front-matter", message, 1)
            values: Mapping[str, object] = {}
        else:
            values = matter.values
            if matter.error:
                message = f"invalid front matter: {matter.error}"
                self._refuse("bad-front-matter", message, matter.error_line)
        for key, value in values.items():
            line = matter.lines.get(key, 1) if matter else 1
            if key not in _MATTER or isinstance(value, Opaque):
                hint = did_you_mean(key, _MATTER)
                self._refuse("unknown-key", f"unknown key `{key}`", line, hint)
            elif key == "id" and value != self.name:
                message = f'`id` is "{value}" but the directory is `{self.name}`'
                hint = "an agent has the name of its directory"
                place = Place(self.file, line=line, col=1)
                self.problems.append(warning("name-mismatch", message, place, hint))
            elif _MATTER[key]:
                self._put(_MATTER[key], value, key)
        if "display_name" not in self.table and self.profile.title:
            self._put("display_name", self.profile.title, "name")

    def _json(self, section: ProfileSection) -> object | None:
        """Return the value of a section's JSON block; None if there is none that can be read."""
        if not section.blocks:
            message = f"`## {section.title}` has no JSON block, so it sets nothing"
            place = Place(self.file, line=section.line, col=1)
            hint = "write its settings in a block that starts with ```json"
            self.problems.append(warning("no-json", message, place, hint))
            return None
        if len(section.blocks) > 1:
            line = position(self.text, section.blocks[1].offset)[0] - 1
            message = f"`## {section.title}` has two JSON blocks"
            self._refuse("two-blocks", message, line, "keep one of them")
            return None
        root = self._parsed(section.blocks[0])
        return root.value if root else None

    def _parsed(self, block: JsonBlock) -> JsonNode | None:
        try:
            root = tree(block.text)
        except JsoncError as error:
            line, col = _moved(self.text, block, error.line, error.col)
            self._refuse("bad-json", error.message, line, "fix the JSON block", col)
            return None
        if root is None:
            line = position(self.text, block.offset)[0]
            self._refuse("bad-json", "the block is empty", line)
            return None
        for repeated in _repeated_keys(root):
            line, col = position(self.text, block.offset + repeated[1])
            self._refuse("bad-json", f"`{repeated[0]}` is set twice", line, None, col)
        return root

    def _add_section(self, title: str, value: object) -> None:
        match title, value:
            case ("MCP Servers", list()):
                self._add_servers(value)
            case ("Tools", dict()):
                self._add_tools(value)
            case ("Config", dict()):
                self._add_config(value)
            case _:
                kind = "a list of names" if title == SERVERS else "an object"
                self._refuse("bad-type", f"`## {title}` should be {kind}", (title,))

    def _add_servers(self, names: list[object]) -> None:
        inline = next((at for at, name in enumerate(names) if not isinstance(name, str)), None)
        if inline is not None:
            hint = "write its definition to mcp/NAME.toml, and its name here"
            self._refuse("inline-server", "a server is a name here", (SERVERS, inline), hint)
            return
        self._put("mcp_filter.allow", names, SERVERS)

    def _add_tools(self, value: JsonObject) -> None:
        for key, words in value.items():
            if key not in _TOOL_LISTS:
                hint = did_you_mean(key, _TOOL_LISTS)
                self._refuse("unknown-key", f"unknown key `{key}`", (TOOLS, key), hint)
            else:
                self._put(_TOOL_LISTS[key], _tools(words), f"{TOOLS}.{key}")

    def _add_config(self, value: JsonObject) -> None:
        for key, setting in value.items():
            if key not in _CONFIG_KEYS:
                self.table[key] = setting
                for name in _names_in(key, setting):
                    self.written.setdefault(name, f"{CONFIG}.{name}")
        mode = value.get("permission_mode")
        if mode is not None:
            translated = _MODES.get(str(mode), mode)
            options = self.table.setdefault("option_defaults", {})
            if isinstance(options, dict):
                options["permission_mode"] = translated
            self.written.setdefault("option_defaults", f"{CONFIG}.permission_mode")
        if "max_tokens_per_task" in value:
            message = "`max_tokens_per_task` has no effect: tokens are not limited"
            place = Place(self.file, (CONFIG, "max_tokens_per_task"))
            hint = "use `limits.cost_per_item`"
            self.problems.append(warning("not-acted-on", message, place, hint))
        self._add_runtime(value)

    def _add_runtime(self, value: JsonObject) -> None:
        runtime = value.get("runtime")
        if runtime is None or "provider" in value:
            return
        if runtime == "supervisor":
            hint = "an agent whose `tools.allow` lists only the tools of the city does the same"
            message = "there is no supervisor runtime"
            self._refuse("no-supervisor", message, (CONFIG, "runtime"), hint)
        elif runtime == "acpx":
            self._put("provider", value.get("agent_name", "claude"), f"{CONFIG}.runtime")
        elif runtime in _RUNTIMES:
            self._put("provider", _RUNTIMES[str(runtime)], f"{CONFIG}.runtime")
        else:
            self.table["runtime"] = runtime
            self.written["runtime"] = f"{CONFIG}.runtime"

    def _check_sections(self) -> None:
        for section in self.profile.sections:
            place = Place(self.file, line=section.line, col=1)
            if not section.is_known:
                message = f"`## {section.title}` is not a known section; it is part of the prompt"
                self.problems.append(warning("unknown-section", message, place))
            elif section.title == REFLECTION and section.text.strip():
                self._add_reflection(section)

    def _add_reflection(self, section: ProfileSection) -> None:
        """Set `reflection` to the profile itself, whose section is the message."""
        if "reflection" in self.table:
            message = "`reflection` and `## Reflection` both set the message"
            self._refuse("set-twice", message, section.line, "keep one of them")
        else:
            self._put("reflection", f"./{self.file.rpartition('/')[2]}", REFLECTION)

    def _put(self, name: str, value: object, spelled: str) -> None:
        *above, last = name.split(".")
        table = self.table
        for key in above:
            inner = table.setdefault(key, {})
            if not isinstance(inner, dict):
                return  # reported as a wrong type
            table = inner
        table[last] = value
        self.written[name] = spelled

    def _refuse(
        self, code: str, message: str, at: KeyPath | int, hint: str | None = None, col: int = 1
    ) -> None:
        """Add an error at a setting or at a line."""
        line, path = (at, ()) if isinstance(at, int) else (None, at)
        place = Place(self.file, path, line, col if line else None)
        self.problems.append(Problem(code, message, place, hint))


def _names_in(key: str, value: object) -> Iterator[str]:
    """Yield the settings that a key of Config sets: itself, or those of its table."""
    match value:
        case dict() if key not in AGENT.keys:
            for name, inner in value.items():
                yield from _names_in(f"{key}.{name}", inner)
        case _:
            yield key


def _tools(value: object) -> object:
    """Return a list with each tool of a server as `server/tool`; other values unchanged."""
    match value:
        case list():
            return [_tool(word) for word in value]
    return value


def _tool(word: object) -> object:
    found = _SERVER_TOOL.fullmatch(as_text(word))
    return f"{found[1]}/{found[2]}" if found else word


def _repeated_keys(node: JsonNode) -> Iterator[tuple[str, int]]:
    seen: set[str | int] = set()
    for part in node.parts:
        if part.name in seen:
            yield str(part.name), part.start
        seen.add(part.name)
        yield from _repeated_keys(part.node)


def _moved(text: str, block: JsonBlock, line: int, col: int) -> tuple[int, int]:
    """Return a position in a block as a position in the file."""
    return position(text, block.offset)[0] + line - 1, col


def locate_in_profile(text: str, path: KeyPath) -> tuple[int, int]:
    """Return line and column of a setting: a key of the front matter, or of a JSON block."""
    profile = read_profile(text)
    head = str(path[0]) if path else ""
    if head in _MATTER:
        lines = profile.matter.lines if profile.matter else {}
        return lines.get(head, profile.title_line or 1), 1
    title, rest = (head, path[1:]) if head in _SECTIONS else (CONFIG, path)
    section = profile.section(title)
    if section is None or not section.blocks:
        return (section.line if section else 1), 1
    block = section.blocks[0]
    at = 0
    try:
        node = tree(block.text)
    except JsoncError:
        node = None
    for name in rest:
        part = next((p for p in node.parts if p.name == name), None) if node else None
        if part is None:
            break
        at, node = part.start, part.node
    return position(text, block.offset + at)


def edit_profile(text: str, changes: Mapping[str, object | None]) -> str:
    """Change settings in the JSON blocks of a profile; None removes one.

    Everything else keeps its bytes. A block that is missing is added at the end. Raises JsoncError
    if a block is not valid.
    """
    for name, value in changes.items():
        text = _edit(text, name, value)
    return text


def _edit(text: str, name: str, value: object | None) -> str:
    edited = _edit_matter(text, name, value)
    if edited is not None:
        return edited
    title, path = _spelling(text, name)
    section = read_profile(text).section(title)
    block = section.blocks[0] if section and section.blocks else None
    if block is None:
        if value is None:
            return text
        whole = json.dumps(value) if not path else edit.put("{}", path, value)
        head = "" if section else f"\n## {title}\n"
        addition = f"{head}```json\n{whole}\n```\n"
        at = section.offset if section else len(text)
        return text[:at] + addition + text[at:]
    inner = block.text.rstrip("\n")
    if not path:
        inner = "[]" if value is None else json.dumps(value)
    else:
        inner = edit.drop(inner, path) if value is None else edit.put(inner, path, value)
    end = block.offset + len(block.text)
    return f"{text[: block.offset]}{inner}\n{text[end:]}"


def _edit_matter(text: str, name: str, value: object | None) -> str | None:
    """Change a setting that the front matter has; None if it does not have it."""
    matter = read_profile(text).matter
    key = next((key for key, setting in _MATTER.items() if setting == name), "")
    if matter is None or matter.error or key not in matter.lines:
        return None
    if value is not None and not isinstance(value, str):
        return None
    lines = text.split("\n")
    first = matter.lines[key] - 1
    ends = (at for at in range(first + 1, len(lines)) if not lines[at].startswith((" ", "\t")))
    end = "\r" if lines[first].endswith("\r") else ""
    new = [] if value is None else [yaml_text({key: value}) + end]
    return "\n".join((*lines[:first], *new, *lines[next(ends) :]))


def profile_tags(text: str) -> tuple[str, ...]:
    """Return the tags in the front matter of a profile."""
    matter = read_profile(text).matter
    match matter.values.get("tags") if matter else None:
        case str(tag):
            return (tag,)
        case tags:
            return tuple(map(str, as_list(tags)))


def _spelling(text: str, name: str) -> tuple[str, tuple[str, ...]]:
    """Return the section and the JSON path that a setting has in a profile."""
    if name == "mcp_filter.allow":
        return SERVERS, ()
    for key, setting in _TOOL_LISTS.items():
        if setting == name:
            return TOOLS, (key,)
    if name == "option_defaults.permission_mode" and '"permission_mode"' in text:
        return CONFIG, ("permission_mode",)
    return CONFIG, tuple(name.split("."))
