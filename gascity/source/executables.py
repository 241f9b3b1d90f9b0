"""Lists what a pack can execute or reach: programs, hooks, servers, settings, scripts.

`list_executables` walks the files of a pack and reads them without loading it, so the list is the
same whatever part of a city is loaded. It decides what the user has to accept: see acceptance.py.
Prompts, fragments and skills without scripts are text and are not listed.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import NamedTuple

from gascity.model.problems import KeyPath
from gascity.source.disk import Disk, is_below
from gascity.source.executable_keys import (
    Found,
    in_order,
    in_pack_settings,
    in_provider,
    in_server,
    in_tool_settings,
)

MAX_FILES = 20_000

_MANIFESTS = ("pack.toml", "city.toml")
_MAX_LINKS = 2  # linked directories that are followed, one in the other, as for overlays
_CONTENT = frozenset(
    (
        *("agents", "assets", "bin", "commands", "doctor", "formulas", "hooks", "hud", "mcp"),
        *("orders", "overlay", "overlays", "patches", "providers", "scripts", "skills"),
        *("template-fragments", "template_fragments", "templates"),
    )
)
_DEFINITIONS = frozenset(
    (
        *("agents", "commands", "doctor", "formulas", "hud", "mcp", "orders", "patches"),
        *("providers", "skills", "template-fragments"),
    )
)
_OVERLAYS = frozenset(("overlay", "overlays", "per-provider"))
_NOT_WALKED = frozenset((".git", ".gc"))
_TEMPLATE = ".template."
_SCRIPT_ENDINGS = (
    *(".sh", ".bash", ".zsh", ".fish", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl"),
    *(".ps1", ".bat", ".cmd", ".lua", ".php", ".exe", ".so", ".jar"),
)
_TEXT_ENDINGS = (".md", ".mdc", ".txt", ".rst")
_HARMLESS = frozenset((".gitignore", ".gitkeep", ".gitattributes", ".editorconfig", ".keep"))
# Files that tools run by themselves, although their directory is not hidden.
_RUN_BY_TOOLS = frozenset(
    ("lefthook.yml", "lefthook.yaml", "mise.toml", "package.json", "gradlew", "conftest.py")
)
# Settings in which more than the known keys can start a program.
_RUN_AS_A_WHOLE = frozenset((".vscode", ".devcontainer", ".github", ".idea", ".zed"))
_FRONT_MATTER = re.compile(
    rb"^(allowed-?tools|tools|hooks|mcpServers|permissionMode|permission-mode)[ \t]*:.*$",
    re.MULTILINE | re.IGNORECASE,
)
_INLINE_COMMAND = re.compile(rb"(?m)(?:^|\s)!`[^`\n]+`")


class Executable(NamedTuple):
    """Something that a pack can execute or reach.

    `path` is relative to the pack. `sha256` is set for a file that is run as a whole.
    """

    kind: str
    name: str
    value: str
    path: str
    line: int | None = None
    sha256: str = ""

    @property
    def identity(self) -> tuple[str, ...]:
        """Identity that the user accepts; a moved line is the same one."""
        return (self.kind, self.name, self.value, self.path, self.sha256)


def list_executables(
    disk: Disk, root: str, *, own: bool = False, nested: bool = False
) -> tuple[Executable, ...]:
    """List what the pack in the directory `root` can execute or reach.

    With `own`, `root` is the city itself: only its content directories are read. With `nested`,
    packs inside it are included, because they are fetched and accepted together. Problems of the
    files are not recorded; loading the pack reports them.
    """
    before = len(disk.problems)
    entries: list[Executable] = []
    todo = [root]
    for home in todo:
        walk = _Walk(disk, home, own=own)
        prefix = f"{home}/".removeprefix(f"{root}/")
        entries += [entry._replace(path=f"{prefix}{entry.path}") for entry in walk.entries()]
        todo += walk.packs if nested else ()
    disk.take_problems(before)
    return tuple(sorted(dict.fromkeys(entries), key=lambda entry: (entry.path, entry.line or 0)))


def hash_of(entries: tuple[Executable, ...]) -> str:
    """Return the hash under which a list is accepted."""
    import json

    text = json.dumps(sorted(entry.identity for entry in entries))
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class _File(NamedTuple):
    """A file of a pack; `parts` are its path relative to the pack's root."""

    absolute: str
    path: str
    parts: tuple[str, ...]
    is_program: bool

    @property
    def name(self) -> str:
        return self.parts[-1].replace(_TEMPLATE, ".")

    @property
    def stem(self) -> str:
        return self.name.removesuffix(".toml")

    @property
    def is_overlay(self) -> bool:
        return not _OVERLAYS.isdisjoint(self.parts[:-1])

    @property
    def is_hidden(self) -> bool:
        return any(part.startswith(".") for part in self.parts)


class _Walk:
    """One walk over a pack."""

    def __init__(self, disk: Disk, root: str, *, own: bool) -> None:
        self.disk = disk
        self.root = root
        self.real = os.path.realpath(root)
        self.own = own
        self.files: dict[str, _File] = {}
        self.packs: list[str] = []  # inside this one
        self.is_complete = True
        self.has_overlay_dir = False  # then any directory may be an overlay

    def entries(self) -> Iterator[Executable]:
        self._collect(self.root, (), links=0)
        self.has_overlay_dir = any(
            file.name.endswith(".toml") and "overlay_dir" in self._text(file)
            for file in self.files.values()
        )
        entries: list[Executable] = []
        others: list[Executable] = []
        for file in self.files.values():
            if self._is_used(file):
                entries += self._of_file(file)
            else:
                others += self._script(file)
        yield from entries
        if entries:  # they may call any script in the pack, wherever it is
            yield from others
            yield from self._named_in(entries)
        if not self.is_complete:
            yield Executable("file", ".", f"more than {MAX_FILES:,} files; not all are listed", ".")

    def _collect(self, directory: str, parts: tuple[str, ...], links: int) -> None:
        for name in self.disk.names(directory):
            if len(self.files) >= MAX_FILES:
                self.is_complete = False
                return
            path = f"{directory}/{name}"
            try:
                status = os.lstat(path)
            except OSError:
                continue
            link = stat.S_ISLNK(status.st_mode)
            if link:
                if not is_below(os.path.realpath(path), self.real) or links >= _MAX_LINKS:
                    continue  # a link that leads out of its pack is never followed
                try:
                    status = os.stat(path)
                except OSError:
                    continue
            below = (*parts, name)
            if stat.S_ISDIR(status.st_mode):
                if self._enters(path, below):
                    self._collect(path, below, links + link)
            elif stat.S_ISREG(status.st_mode) and (not self.own or len(below) > 1):
                program = bool(status.st_mode & stat.S_IXUSR)
                self.files[path] = _File(path, "/".join(below), below, program)

    def _is_used(self, file: _File) -> bool:
        """May city apply or run this file by itself? Not what belongs to the pack's own repository,
        such as its tests and workflows."""
        manifest = file.parts == ("pack.toml",)
        return manifest or self.has_overlay_dir or file.parts[0] in _CONTENT

    def _enters(self, path: str, parts: tuple[str, ...]) -> bool:
        if len(parts) == 1 and (parts[0] in _NOT_WALKED or (self.own and parts[0] not in _CONTENT)):
            return False
        if any(self.disk.exists(f"{path}/{name}") for name in _MANIFESTS):
            self.packs.append(path)  # it is not part of this one
            return False
        return True

    def _of_file(self, file: _File) -> Iterator[Executable]:
        overlay = self.has_overlay_dir and file.parts[0] not in _DEFINITIONS
        if file.parts != ("pack.toml",) and (file.is_overlay or file.is_hidden or overlay):
            yield from self._overlay_file(file)
        elif file.name.endswith((".json", ".jsonc")) and "skills" not in file.parts[:-1]:
            yield from self._settings(file)
        elif file.name.endswith(".toml") and "skills" not in file.parts[:-1]:
            yield from self._toml(file)
        elif file.name.endswith(_TEXT_ENDINGS):
            yield from self._front_matter(file)
        else:
            yield from self._script(file)

    def _overlay_file(self, file: _File) -> Iterator[Executable]:
        if file.name in _HARMLESS:
            return
        if file.name.endswith(_TEXT_ENDINGS):
            yield from self._front_matter(file)
        elif not _RUN_AS_A_WHOLE.isdisjoint(file.parts) or file.name in _RUN_BY_TOOLS:
            yield self._whole("file", file)
        elif file.name.endswith((".json", ".jsonc", ".toml")):
            yield from self._settings(file)
        elif file.is_hidden:
            yield self._whole("file", file)
        else:
            yield from self._script(file)

    def _settings(self, file: _File) -> Iterator[Executable]:
        text = self._text(file)
        document = _parsed(text, file.name)
        if document is None:
            yield self._whole("settings", file)
            return
        for found in in_tool_settings(document):
            yield self._entry(found, file, text)

    def _toml(self, file: _File) -> Iterator[Executable]:
        text = self._text(file)
        document = _parsed(text, file.name)
        kind = _kind_of(file)
        if not isinstance(document, Mapping):
            if kind in ("mcp", "order", "provider"):
                yield self._whole(kind, file)
            return
        search = {"mcp": in_server, "order": in_order, "provider": in_provider}.get(kind)
        owner = file.parts[1] if file.parts[0] == "agents" and len(file.parts) > 2 else file.stem
        if kind in ("command", "doctor"):
            owner = " ".join(file.parts[1:-1]) or owner
        for found in search(document, file.stem) if search else in_pack_settings(document, owner):
            if kind in ("command", "doctor"):
                found = found._replace(kind=kind)
            yield self._entry(found, file, text)

    def _front_matter(self, file: _File) -> Iterator[Executable]:
        """List the tools, hooks and inline commands of a skill, or of a tool's own text files."""
        if "hud" in file.parts[:-1]:
            yield from self._hud_commands(file)
            return
        skill = "skills" in file.parts[:-1]
        if not (skill or file.is_hidden):
            return
        data = self.disk.read(file.absolute, within=self.root) or b""
        head, _, _ = data[3:].partition(b"\n---") if data.startswith(b"---") else (b"", b"", b"")
        for match in _FRONT_MATTER.finditer(head):
            line = head.count(b"\n", 0, match.start()) + 1
            key, _, value = match[0].decode("utf-8", "replace").partition(":")
            kind = "hook" if key.lower() == "hooks" else "permission"
            name = f"{_title(file)} {key.strip()}"
            yield Executable(kind, name, value.strip(), file.path, line, _digest(head))
        for match in _INLINE_COMMAND.finditer(data):
            line = data.count(b"\n", 0, match.start() + 1) + 1
            value = match[0].decode("utf-8", "replace").strip()
            yield Executable("script", _title(file), value, file.path, line)

    def _hud_commands(self, file: _File) -> Iterator[Executable]:
        """List the commands from which a HUD section gets its values."""
        from gascity.model.hud import COMMAND_SOURCE, read_section

        section = read_section(file.path, self._text(file))
        for source in section.data_sources:
            if source.startswith(COMMAND_SOURCE):
                line = section.lines.get("data-sources", 1)
                command = source.removeprefix(COMMAND_SOURCE)
                yield Executable("hud", section.name, command, file.path, line)

    def _script(self, file: _File) -> Iterator[Executable]:
        runs = file.is_program or file.name.lower().endswith(_SCRIPT_ENDINGS)
        if runs or self._has_shebang(file):
            kind = {"commands": "command", "doctor": "doctor"}.get(file.parts[0], "script")
            yield self._whole(kind, file)

    def _has_shebang(self, file: _File) -> bool:
        data = self.disk.read(file.absolute, within=self.root)
        return data is not None and data.startswith(b"#!")

    def _named_in(self, entries: list[Executable]) -> Iterator[Executable]:
        """List the files that a command names, whatever they look like: `sh notes.txt`."""
        whole = {entry.path for entry in entries if entry.sha256}
        values = [entry.value for entry in entries if not entry.sha256]
        words = {word for value in values for word in re.split(r"[\s'\"=;|&()]+", value)}
        for file in self.files.values():
            names = (file.path, f"./{file.path}", file.parts[-1])
            if file.path not in whole and any(
                word == name or word.endswith(f"/{name}") for word in words for name in names
            ):
                yield self._whole("script", file)

    def _whole(self, kind: str, file: _File) -> Executable:
        data = self.disk.read(file.absolute, within=self.root)
        if data is None:
            data = b"?" + str(self.disk.seen.get(file.absolute)).encode()
        return Executable(kind, _title(file), file.path, file.path, 1, _digest(data))

    def _entry(self, found: Found, file: _File, text: str) -> Executable:
        line = _line(text, found.path, file.name)
        return Executable(found.kind, found.name, found.value, file.path, line)

    def _text(self, file: _File) -> str:
        data = self.disk.read(file.absolute, within=self.root) or b""
        return data.decode("utf-8", "replace").removeprefix("\ufeff")


def _title(file: _File) -> str:
    """Return a short name: the skill, command or file."""
    if "skills" in file.parts[:-1]:
        return file.parts[file.parts.index("skills") + 1]
    if file.parts[0] in ("commands", "doctor") and len(file.parts) > 2:
        return " ".join(file.parts[1:-1])
    return file.parts[-1]


def _kind_of(file: _File) -> str:
    """Return what a TOML file defines, by its directory."""
    parents = file.parts[:-1]
    if parents and parents[-1] == "mcp":
        return "mcp"
    if file.name == "order.toml" or (parents and parents[-1] == "orders"):
        return "order"
    if parents == ("providers",):
        return "provider"
    return {"commands": "command", "doctor": "doctor"}.get(file.parts[0], "")


def _parsed(text: str, name: str) -> object:
    """Return the value of a TOML or JSON text, None if it is invalid."""
    from gascity.model.document_text import DocumentError

    try:
        if name.endswith(".toml"):
            from gascity.toml.read import parse_text

            return parse_text(text)
        from gascity.jsonc.edit import parse

        parsed: object = parse(text)
        return parsed
    except (DocumentError, RecursionError):
        return None


def _line(text: str, path: KeyPath, name: str) -> int:
    if name.endswith(".toml"):
        from gascity.toml.positions import locate

        return locate(text, path)[0]
    from gascity.jsonc.tree import find
    from gascity.model.document_text import position

    found = find(text, path)
    return position(text, found[1].start)[0] if found else 1


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
