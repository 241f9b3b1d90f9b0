"""Reads an agent-queue vault: profiles, their memory, starter knowledge and the server registry."""

import posixpath

from gascity.model.names import is_name
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

_TYPES = "vault/agent-types"


def read(tree: SourceTree) -> Imported:
    """Read `vault/`: a profile stays as it is, and becomes an agent's directory."""
    findings = Findings(tree)
    for path in tree.matching(f"{_TYPES}/*/profile.md"):
        _add_profile(findings, path)
    for path in tree.matching("vault/mcp-servers/*.md"):
        _add_server(findings, path)
    for path in tree.matching("vault/projects/*/mcp-servers/*.md"):
        _add_project_server(findings, path)
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


def _add_project_server(findings: Findings, path: str) -> None:
    """Add a server of one project, to a pack that only the rig of that name imports."""
    project = path.split("/")[2]
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
        texts[f"{pack}/mcp/{server.name}.toml"] = set_fields("", dict(server.table))
        reason = f"no rig `{project}` imports {pack}; add the rig, then run the import again"
        loss = NotCarried(findings.tree.shown(path), 1, server.name, reason)
        findings.rig_packs.setdefault(project, loss)
    if own.servers:
        place = findings.place(path)
        findings.files += [
            ImportedFile(target, SourceFile(text.encode()), place) for target, text in texts.items()
        ]


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
