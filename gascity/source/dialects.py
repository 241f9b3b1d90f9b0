"""Reads packs of other layouts through installed packages (entry point `gascity.dialects`).

A dialect gets a parsed pack, a `PackTree`, and returns it in the current layout, or unchanged if
the pack does not use the dialect's layout. It records where in the file each setting is written, so
that problems and `explain` point to the user's lines.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from gascity.model.layers import DEFINITION, Layer
from gascity.model.pack import AgentDir, Patch
from gascity.model.problems import KeyPath, Place, Problem
from gascity.source.agents import check_prompt, decode_agent, no_prompt, read_agent, soften
from gascity.source.disk import Disk
from gascity.source.manifest import Manifest

GROUP = "gascity.dialects"

_PROMPT_HINT = "set `prompt_template` in its table or in a patch"


class TableAgent(NamedTuple):
    """An agent that a table of the manifest defines.

    `table` has current keys; `at` is where it is written, and `written` maps current keys to the
    dotted spelling in the file, below `at`. `folder` is an existing directory of the agent,
    relative to the pack, or "".
    """

    name: str
    table: Mapping[str, object]
    at: KeyPath
    written: Mapping[str, str] = {}
    folder: str = ""


class PackTree(NamedTuple):
    """A parsed pack. `root` is absolute, `file` is the displayed path of the manifest.

    `extra_asset_dirs` are directories, relative to the pack, that extend one of its catalogues at
    lower precedence: `("template-fragments", "prompts/shared")`. `moved` maps key paths of the
    manifest, with everything below them, to where they are written in the file.
    """

    root: str
    file: str
    manifest: Mapping[str, object]
    agents: tuple[TableAgent, ...] = ()
    extra_asset_dirs: tuple[tuple[str, str], ...] = ()
    problems: tuple[Problem, ...] = ()
    moved: Mapping[KeyPath, KeyPath] = {}


Dialect = Callable[[PackTree], PackTree]


def translate(tree: PackTree) -> PackTree:
    """Pass a tree through all registered dialects.

    A dialect is third-party code: any exception it raises becomes one problem of the pack.
    """
    from gascity.startup.entry_points import entry_points, load

    for name, target in entry_points(GROUP):
        try:
            tree = load(target)(tree)
        except Exception as error:
            message = f"the dialect `{name}` failed: {error or type(error).__name__}"
            problem = Problem("dialect-failed", message, Place(tree.file))
            tree = tree._replace(problems=(*tree.problems, problem))
    return tree


def relocate(manifest: Manifest, moved: Mapping[KeyPath, KeyPath]) -> None:
    """Change all places in a manifest to where the file writes them."""

    def new_path(path: KeyPath) -> KeyPath:
        for length in range(len(path), 0, -1):
            if path[:length] in moved:
                return (*moved[path[:length]], *path[length:])
        return path

    def new_place(place: Place) -> Place:
        return place._replace(path=new_path(place.path))

    def new_problems(problems: Iterable[Problem]) -> list[Problem]:
        return [p._replace(place=new_place(p.place)) if p.place else p for p in problems]

    def new_layer(layer: Layer, at: KeyPath) -> Layer:
        return layer._replace(at=at, errors=tuple(new_problems(layer.errors)))

    def new_patch(patch: Patch) -> Patch:
        layer = new_layer(patch.layer, new_path(patch.layer.at))
        return patch._replace(place=new_place(patch.place), layer=layer)

    manifest.problems = new_problems(manifest.problems)
    manifest.errors = new_problems(manifest.errors)
    if manifest.defaults is not None:
        manifest.defaults = new_layer(manifest.defaults, manifest.defaults.at)
    manifest.providers = {
        name: new_layer(layer, layer.at) for name, layer in manifest.providers.items()
    }
    manifest.imports = [each._replace(place=new_place(each.place)) for each in manifest.imports]
    manifest.patches = [new_patch(patch) for patch in manifest.patches]
    manifest.named_sessions = [
        session._replace(place=new_place(session.place)) for session in manifest.named_sessions
    ]
    manifest.rigs = [
        rig._replace(
            layer=new_layer(rig.layer, rig.layer.at),
            patches=tuple(new_patch(patch) for patch in rig.patches),
            imports=tuple(each._replace(place=new_place(each.place)) for each in rig.imports),
        )
        for rig in manifest.rigs
    ]


def read_table_agent(disk: Disk, agent: TableAgent, file: str, pack: str, *, own: bool) -> AgentDir:
    """Read an agent from its table, over the settings in its folder if it has one.

    `file` and `pack` are absolute. Without a folder, the table is the agent's place.
    """
    before = len(disk.problems)
    folder = None
    if agent.folder:
        folder = read_agent(disk, f"{pack}/{agent.folder}", agent.name, pack, own=own)
    shown = disk.shown(file)
    decoded = decode_agent(disk, agent.table, file, agent.at, pack)
    written = {key: spelled for key, spelled in agent.written.items() if key in decoded.values}
    spellings = {**decoded.written, **written} or None
    table = Layer(DEFINITION, shown, decoded.values, agent.at, spellings)
    layers = (*(folder.layers if folder else ()), table)
    problems = [p for p in (folder.problems if folder else ()) if p.code != "no-prompt"]
    problems += [_at_spelling(problem, agent) for problem in decoded.problems]
    home = folder.directory if folder else f"{shown}#{agent.name}"
    has_prompt = check_prompt(disk, list(reversed(layers)), pack, problems)
    noted = disk.take_problems(before)
    if not has_prompt and not any(problem.is_error for problem in (*problems, *noted)):
        problem = no_prompt(home, agent.name, set())._replace(place=Place(shown, agent.at))
        problems.append(problem if folder else problem._replace(hint=_PROMPT_HINT))
    return AgentDir(
        agent.name,
        home,
        disk.shown(pack),
        layers,
        folder.catalogues if folder else frozenset(),
        tuple(soften([*noted, *problems], own)),
        agent.table.get("fallback") is True,
    )


def _at_spelling(problem: Problem, agent: TableAgent) -> Problem:
    """Point a problem of a setting to the key that the file uses for it."""
    place = problem.place
    if place is None or place.path[: len(agent.at)] != agent.at:
        return problem
    key = ".".join(str(part) for part in place.path[len(agent.at) :])
    spelled = agent.written.get(key)
    path = (*agent.at, *spelled.split(".")) if spelled else place.path
    return problem._replace(place=place._replace(path=path))
