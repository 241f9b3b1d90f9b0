"""Leaves out what a project has already, in another file or directory that the provider reads.

What the project has at the very path that city would write is decided with that path (`steps`,
`merged_files`). Only tracked files count: every worktree has them.
"""

from collections.abc import Iterator, Mapping

from gascity.mcp import documents
from gascity.mcp.shapes import server_files
from gascity.model.document_text import DocumentError
from gascity.model.plan import KEEP, Step
from gascity.model.provider import Provider
from gascity.model.wanted import DOCUMENT, LINK, WantedPath
from gascity.workdir.decide.context import SAME, DiskState
from gascity.workdir.decide.merged_files import same_server
from gascity.workdir.decide.skills import skill_directories


def leave_out_same(
    wanted: Mapping[str, WantedPath], providers: Mapping[str, Provider], disk: DiskState
) -> tuple[dict[str, WantedPath], list[Step]]:
    """Return the wanted paths that the project lacks, and a `keep` step for each other one.

    `providers` are those of the agents by name. A path of several agents is left out only if
    each one's provider finds the project's own.
    """
    rest: dict[str, WantedPath] = {}
    steps: list[Step] = []
    for path, item in wanted.items():
        found = _skill_elsewhere(item, providers, disk) if item.kind == LINK else ""
        if found:
            steps.append(_kept(item, f"{SAME} ({found})"))
            continue
        servers = dict(_servers_elsewhere(item, providers, disk)) if item.kind == DOCUMENT else {}
        if servers:
            steps += (_kept(item, f"server `{n}`: {SAME} ({servers[n]})") for n in sorted(servers))
            entries = {n: entry for n, entry in (item.entries or {}).items() if n not in servers}
            if not entries and item.settings is None:
                continue
            item = item._replace(entries=entries)
        rest[path] = item
    return rest, steps


def _kept(item: WantedPath, reason: str) -> Step:
    return Step(KEEP, item.path, item.source, item.layer, reason)


def _skill_elsewhere(item: WantedPath, providers: Mapping[str, Provider], disk: DiskState) -> str:
    """Return the directory of the project's own equal skill, if every agent's provider reads it."""
    sink, _, name = item.path.rpartition("/")
    read = [skill_directories(providers.get(agent)) for agent in item.agents]
    if not read or not all(directories and directories[0] == sink for directories in read):
        return ""  # not a skill
    for directory in read[0][1:]:
        path = f"{directory}/{name}"
        everywhere = all(directory in directories for directories in read)
        if everywhere and f"{path}/SKILL.md" in disk.tracked and disk.same_tree(path, item.target):
            return path
    return ""


def _servers_elsewhere(
    item: WantedPath, providers: Mapping[str, Provider], disk: DiskState
) -> Iterator[tuple[str, str]]:
    """Yield the servers that each agent's provider finds in another file, and that file."""
    read = [dict(server_files(providers[a])) if a in providers else {} for a in item.agents]
    for path, shape in read[0].items() if item.entries and read else ():
        elsewhere = path != item.path and all(path in files for files in read)
        if not elsewhere or path not in disk.tracked:
            continue
        try:
            text = disk.read(path).decode()
            servers = documents.servers(documents.read(text, shape.format), shape)
        except (DocumentError, UnicodeDecodeError):
            continue
        for name, entry in (item.entries or {}).items():
            own = servers.get(name)
            if isinstance(own, Mapping) and same_server(own, entry):
                yield name, path
