"""Reads an agent-queue vault: profiles, their memory, starter knowledge and the server registry."""

import posixpath

from gascity_migrate.importers.documents import Keys, read_markdown
from gascity_migrate.importers.servers import add_server
from gascity_migrate.importers.types import (
    Findings,
    Imported,
    ImportedAgent,
    ImportedFile,
    SourceTree,
)

_TYPES = "vault/agent-types"
_PROJECT = "servers of one project are not imported; give them to a rig with a pack of its own"


def read(tree: SourceTree) -> Imported:
    """Read `vault/`: a profile stays as it is, and becomes an agent's directory."""
    findings = Findings(tree)
    for path in tree.matching(f"{_TYPES}/*/profile.md"):
        _add_profile(findings, path)
    for path in tree.matching("vault/mcp-servers/*.md"):
        _add_server(findings, path)
    for path in tree.matching("vault/projects/*/mcp-servers/*.md"):
        findings.lose(path, 1, posixpath.basename(path), _PROJECT)
    for path in tree.matching("vault/templates/knowledge/**/*.md"):
        file = tree.read(path)
        if file is not None:
            target = path.removeprefix("vault/")
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
    for below in sorted(files.keys() - {"profile.md"}):
        findings.lose(f"{folder}/{below}", 1, below, "kept, but no prompt includes it")
    findings.agents.append(ImportedAgent(name, {}, None, findings.place(path), files))


def _add_server(findings: Findings, path: str) -> None:
    """Add a server of the registry: its front matter, or a JSON block, has the keys of a server."""
    markdown = read_markdown(findings, path)
    if markdown is None:
        return
    name = markdown.keys.text("name") or posixpath.basename(path).removesuffix(".md")
    for key in ("id", "tags"):
        markdown.keys.values.pop(key, None)
    block = _json_block(markdown.body.decode())
    if block is not None:
        keys = Keys(findings, path, {**markdown.keys.values, **block}, {})
    else:
        keys = markdown.keys
    add_server(findings, name, keys, 1)


def _json_block(text: str) -> dict[str, object] | None:
    """Return the object in the first fenced JSON block; None if there is none."""
    from gascity.jsonc.edit import parse
    from gascity.jsonc.tree import JsoncError

    start = text.find("```json\n")
    end = text.find("\n```", start)
    if start < 0 or end < 0:
        return None
    try:
        value = parse(text[start + 8 : end])
    except JsoncError:
        return None
    return value if isinstance(value, dict) else None
