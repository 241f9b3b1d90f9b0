"""Reads an agent-queue vault: profiles, their memory, starter knowledge and the server registry.

The vault is the source itself or its directory `vault/`.
"""

import posixpath
import re
from collections.abc import Iterator

from gascity.jsonc.tree import JsoncError, tree
from gascity.model.document_text import position
from gascity.model.fields import AGENT
from gascity.model.names import is_name
from gascity.model.problems import KeyPath, Place, Problem
from gascity.model.profile import CONFIG
from gascity.source.decode import decode
from gascity.source.profiles import locate_in_profile, profile_settings
from gascity.toml.edit import set_fields
from gascity_migrate.draft import NotCarried
from gascity_migrate.importers.documents import Keys, pack_text, read_markdown
from gascity_migrate.importers.servers import add_server
from gascity_migrate.importers.types import (
    Findings,
    Imported,
    ImportedAgent,
    ImportedFile,
    SourceFile,
    SourceTree,
)

_BLOCK = re.compile(r"^```json[ \t]*\r?\n(.*?)(^```[ \t]*\r?$|\Z)", re.DOTALL | re.MULTILINE)


def read(source: SourceTree) -> Imported:
    """Read a vault: a profile stays as it is, and becomes an agent's directory."""
    findings = Findings(source)
    is_vault = bool(source.matching("agent-types/*/profile.md"))
    base = "" if is_vault else "vault/"
    for path in source.matching(f"{base}agent-types/*/profile.md"):
        _add_profile(findings, path)
    for path in source.matching(f"{base}mcp-servers/*.md"):
        _add_server(findings, path)
    for path in source.matching(f"{base}projects/*/mcp-servers/*.md"):
        _add_project_server(findings, path)
    for path in source.matching(f"{base}templates/knowledge/**/*.md"):
        file = source.read(path)
        if file is not None:
            target = path.removeprefix(base)
            findings.files.append(ImportedFile(target, file, findings.place(path)))
    return findings.result()


def _add_profile(findings: Findings, path: str) -> None:
    folder = posixpath.dirname(path)
    files = {
        below[len(folder) + 1 :]: file
        for below in (path, *findings.tree.matching(f"{folder}/memory/**/*.md"))
        if (file := findings.tree.read(below)) is not None
    }
    name = posixpath.basename(folder)
    notes = sorted(files.keys() - {"profile.md"})
    if notes:
        reason = 'kept; `"append_fragments": ["memory"]` in its Config adds it to the prompt'
        findings.lose(f"{folder}/{notes[0]}", 1, "memory", reason)
    text = findings.text(path)
    if text is not None:
        findings.problems += _profile_errors(findings.tree.shown(path), text, name)
    findings.agents.append(ImportedAgent(name, {}, None, findings.place(path), files))


def _profile_errors(file: str, text: str, name: str) -> Iterator[Problem]:
    """Yield the errors that the city would report for a profile, at their lines in the source."""
    read = profile_settings(text, file, name)
    for problem in read.problems:
        if problem.is_error and problem.place:
            yield _located(problem, text, problem.place.path)
    for problem in decode(AGENT, read.table, file).problems:
        if problem.is_error and problem.place:
            setting = ".".join(map(str, problem.place.path))
            path = read.written.get(setting, f"{CONFIG}.{setting}").split(".")
            yield _located(problem, text, tuple(path))


def _located(problem: Problem, text: str, path: KeyPath) -> Problem:
    if problem.place is None or problem.place.line:
        return problem
    line, col = locate_in_profile(text, path)
    return problem._replace(place=Place(problem.place.file, line=line, col=col))


def _add_server(findings: Findings, path: str) -> None:
    """Add a server of the registry: its front matter, or a JSON block, has the keys of a server."""
    markdown = read_markdown(findings, path)
    if markdown is None:
        return
    name = markdown.keys.text("name") or posixpath.basename(path).removesuffix(".md")
    for key in ("id", "tags"):
        markdown.keys.values.pop(key, None)
    block, is_valid = _json_block(findings, path)
    if block is not None:
        block.values = {**markdown.keys.values, **block.values}
        add_server(findings, name, block, block.line(""))
    elif is_valid:
        add_server(findings, name, markdown.keys, 1)


def _add_project_server(findings: Findings, path: str) -> None:
    """Add a server of one project, to a pack that only the rig of that name imports."""
    project = path.split("/")[-3]
    if not is_name(project):
        hint = "rename the project's directory"
        findings.refuse("bad-name", f"`{project}` cannot be the name of a pack", path, hint=hint)
        return
    own = Findings(findings.tree)
    _add_server(own, path)
    findings.lost += own.lost
    findings.problems += own.problems
    pack = f"packs/{project}"
    texts = {f"{pack}/pack.toml": pack_text(project)}
    for server in own.servers:
        if not is_name(server.name):
            message = f"`{server.name}` cannot be the name of an MCP server"
            findings.refuse("bad-name", message, path, hint="rename the server in the file")
            return
        texts[f"{pack}/mcp/{server.name}.toml"] = set_fields("", dict(server.table))
        reason = f"no rig `{project}` imports {pack}; add the rig, then run the import again"
        loss = NotCarried(findings.tree.shown(path), 1, server.name, reason)
        findings.rig_packs.setdefault(project, loss)
    if own.servers:
        place = findings.place(path)
        findings.files += [
            ImportedFile(target, SourceFile(text.encode()), place) for target, text in texts.items()
        ]


def _json_block(findings: Findings, path: str) -> tuple[Keys | None, bool]:
    """Return the keys of the first fenced JSON block, and whether it is valid or missing."""
    text = findings.text(path) or ""
    block = _BLOCK.search(text)
    if block is None:
        return None, True
    before = text.count("\n", 0, block.start(1))
    try:
        root = tree(block[1])
    except JsoncError as error:
        findings.refuse("bad-json", error.message, path, before + error.line, error.col)
        return None, False
    if root is None or not isinstance(root.value, dict):
        findings.refuse("bad-json", "expected an object", path, before + 1)
        return None, False
    lines = {str(part.name): before + position(block[1], part.start)[0] for part in root.parts}
    return Keys(findings, path, root.value, {"": before, **lines}), True
