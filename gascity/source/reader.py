"""Reads packs and their imports. A pack that is imported twice is read once."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from gascity.model.layers import Layer
from gascity.model.names import is_name
from gascity.model.pack import CATALOGUES, AgentDir, Import, Pack
from gascity.model.problems import Place, Problem, warning
from gascity.model.tables import CITY_TABLES, PACK_TABLES
from gascity.source.agents import read_agents, read_table
from gascity.source.decode import for_others
from gascity.source.dialects import (
    PackTree,
    TableAgent,
    is_current_layout,
    read_table_agent,
    relocate,
    translate,
)
from gascity.source.disk import Disk
from gascity.source.imports import ImportingPack, PackFinder
from gascity.source.manifest import ImportEntry, Manifest, read_manifest
from gascity.source.providers import ExternalPaths, read_provider

_ONCE_PER_PACK = frozenset(("not-acted-on", "older-spelling"))
_NEWEST_SCHEMA = 2
_MAX_IMPORT_DEPTH = 50
_MISNAMED = (("overlays", "overlay"), ("template_fragments", "template-fragments"))


class OpenManifest(NamedTuple):
    """A manifest with the results of a dialect; `foreign` if a dialect had to read it."""

    manifest: Manifest
    agents: tuple[TableAgent, ...] = ()
    extra_asset_dirs: tuple[tuple[str, str], ...] = ()
    foreign: bool = False


class PackReader:
    """Reads packs during one load.

    `once` has the problems that are reported once per pack, by the pack's root. `depths` has the
    length of the longest chain of imports below each pack.
    """

    def __init__(self, disk: Disk, external: ExternalPaths, only: str | None) -> None:
        self.disk = disk
        self.finder = PackFinder(disk, external.builtin_packs, external.cache)
        self.only = only
        self.packs: dict[str, Pack | None] = {}
        self.depths: dict[str, int] = {}
        self.once: dict[str, list[Problem]] = {}
        self._real_paths: dict[str, str] = {}

    def open(self, path: str, root: str, kind: str, *, dialects: bool) -> OpenManifest | None:
        """Read a manifest of the pack at `root`; None if it does not exist or is not TOML.

        With `dialects`, a manifest of another layout is translated into today's. The city's own
        files are all passed to the dialects, because a known table may mean something else there.
        """
        raw = read_table(self.disk, path)
        if raw is None:
            return None
        known = PACK_TABLES if kind == "pack" else CITY_TABLES
        tree = original = PackTree(root, self.disk.shown(path), raw)
        own = root == self.disk.root
        if dialects and (own or not is_current_layout(self.disk, tree, known)):
            tree = translate(tree)
        manifest = read_manifest(self.disk, tree.manifest, path, root, kind)
        if tree.moved:
            relocate(manifest, tree.moved)
        manifest.problems += tree.problems
        return OpenManifest(manifest, tree.agents, tree.extra_asset_dirs, tree is not original)

    def agents(self, directory: str, pack: str, *, own: bool) -> list[AgentDir]:
        """Read the agents below a directory."""
        agents = read_agents(self.disk, directory, pack, own=own, only=self.only)
        return self._without_repeated(agents, pack)

    def agents_of(
        self, files: Mapping[str, OpenManifest], pack: str, *, own: bool
    ) -> tuple[AgentDir, ...]:
        """Read the agents of a pack: those in tables of its manifests, then the other folders."""
        tables = [
            (file, agent)
            for file, opened in files.items()
            for agent in opened.agents
            if self.only in (None, agent.name)
        ]
        folders = self.agents(f"{pack}/agents", pack, own=own)
        if not tables:
            return tuple(folders)
        agents = [read_table_agent(self.disk, agent, file, pack, own=own) for file, agent in tables]
        taken = {agent.name for _, agent in tables}
        taken |= {os.path.basename(agent.folder) for _, agent in tables}
        others = (agent for agent in folders if agent.name not in taken)
        return (*self._without_repeated(agents, pack), *others)

    def _without_repeated(self, agents: Iterable[AgentDir], pack: str) -> list[AgentDir]:
        """Move problems that are reported once per pack from the agents to the pack."""
        return [
            agent._replace(problems=tuple(self.not_repeated(agent.problems, pack)))
            if agent.problems
            else agent
            for agent in agents
        ]

    def extra_asset_dirs(
        self, files: Iterable[OpenManifest], root: str
    ) -> tuple[tuple[str, str], ...]:
        """Return the additional catalogue directories that may be read, as displayed."""
        return tuple(
            (kind, self.disk.shown(f"{root}/{name}"))
            for opened in files
            for kind, name in opened.extra_asset_dirs
            if self.disk.is_folder_of(f"{root}/{name}", root)
        )

    def not_repeated(self, problems: Iterable[Problem], pack: str) -> list[Problem]:
        """Collect problems that are reported once per pack, and return the others."""
        rest = []
        for problem in problems:
            if problem.code in _ONCE_PER_PACK:
                self.once.setdefault(pack, []).append(problem)
            else:
                rest.append(problem)
        return rest

    def catalogues(self, root: str, *, foreign: bool) -> frozenset[str]:
        """Return the catalogues of a pack, and warn of misnamed directories in today's layout."""
        for wrong, right in () if foreign else _MISNAMED:
            if self.disk.is_directory(f"{root}/{wrong}"):
                place = Place(self.disk.shown(f"{root}/{wrong}"))
                hint = f"rename it to {right}/" if root == self.disk.root else None
                message = f"`{wrong}/` is not read"
                self.disk.problems.append(warning("misnamed-directory", message, place, hint))
        return frozenset(
            name for name in CATALOGUES if self.disk.is_folder_of(f"{root}/{name}", root)
        )

    def providers(self, root: str, manifest: Manifest | None) -> dict[str, tuple[Layer, ...]]:
        """Read `providers/*.toml` of a pack, with the pack's `[providers.x]` tables over them."""
        layers: dict[str, tuple[Layer, ...]] = {}
        directory = f"{root}/providers"
        for name in self.disk.names(directory) if self.disk.is_folder_of(directory, root) else ():
            stem = name.removesuffix(".toml")
            if stem != name and is_name(stem):
                layer = self._provider(f"{directory}/{name}", root)
                layers[stem] = (layer,) if layer else ()
        for name, layer in (manifest.providers if manifest else {}).items():
            layers[name] = (*layers.get(name, ()), layer)
        return layers

    def _provider(self, path: str, root: str) -> Layer | None:
        before = len(self.disk.problems)
        layer = read_provider(self.disk, path, root)
        own = root == self.disk.root
        self.disk.problems[before:] = self.not_repeated(
            [p if own else for_others(p) for p in self.disk.problems[before:]],
            root,
        )
        return layer

    def follow(self, entry: ImportEntry, importer: ImportingPack, above: tuple[str, ...]) -> Import:
        """Read the pack of an import; `above` are the roots of the packs that lead here."""
        location = self.finder.find(entry, importer)
        pack = self._pack(location.pack, entry.place, above) if location.pack else None
        return Import(
            entry.binding,
            str(entry.values["source"]),
            pack,
            entry.values,
            entry.place,
            self.disk.shown(location.pack.root) if location.pack else None,
            location.remote,
            location.locked,
            location.version,
        )

    def _pack(self, target: ImportingPack, place: Place, above: tuple[str, ...]) -> Pack | None:
        path = target.root
        real = self._real(path)
        trail = [self._real(root) for root in above]
        if real in trail:
            roots = (*above[trail.index(real) :], path)
            chain = " → ".join(self.disk.shown(root) for root in roots)
            self._note("import-cycle", f"import cycle: {chain}", place)
            return None
        known = self.packs.get(real)
        if len(above) + (self.depths[known.root] if known else 0) > _MAX_IMPORT_DEPTH:
            message = f"more than {_MAX_IMPORT_DEPTH} packs import one another in a chain"
            self._note("too-many-packs", message, place, "import it nearer to the city")
            return None
        if real not in self.packs:
            self.packs[real] = self._read_pack(target, place, above)
        return self.packs[real]

    def _real(self, path: str) -> str:
        """Resolve links. Directories above several packs are looked at only once."""
        if path not in self._real_paths:
            parent, name = os.path.split(path)
            if name in ("", ".", "..") or os.path.islink(path):
                self._real_paths[path] = os.path.realpath(path)
            else:
                self._real_paths[path] = os.path.join(self._real(parent), name)
        return self._real_paths[path]

    def _read_pack(
        self, target: ImportingPack, place: Place, above: tuple[str, ...]
    ) -> Pack | None:
        path = target.root
        if not self.disk.is_directory(path):
            hint = "check the path"
            if self.disk.exists(f"{self.disk.root}/.gitmodules"):
                hint = "if it is a submodule, run `git submodule update --init`"
            message = f"the directory {self.disk.shown(path)} does not exist"
            self._note("import-missing", message, place, hint)
            return None
        before = len(self.disk.problems)
        file = f"{path}/pack.toml"
        opened = self.open(file, path, "pack", dialects=True)
        if opened is None:
            if len(self.disk.problems) == before:
                self._note(
                    "import-missing",
                    f"{self.disk.shown(path)} has no pack.toml",
                    place,
                    'create it with [pack] name = "…"',
                )
            return None
        manifest = opened.manifest
        values = manifest.layers["pack"].values if "pack" in manifest.layers else {}
        manifest.problems += _pack_problems(manifest)
        self.disk.problems += self.not_repeated(map(for_others, manifest.problems), path)
        trail = (*above, path)
        imports = tuple(self.follow(entry, target, trail) for entry in manifest.imports)
        below = [self.depths[each.pack.root] for each in imports if each.pack is not None]
        self.depths[self.disk.shown(path)] = 1 + max(below, default=-1)
        name = str(values.get("name", ""))
        self.disk.packs[name] = path if self.disk.packs.get(name, path) == path else None
        return Pack(
            name=name,
            root=self.disk.shown(path),
            own=False,
            agents=self.agents_of({file: opened}, path, own=False),
            defaults=manifest.defaults,
            patches=tuple(manifest.patches),
            imports=imports,
            named_sessions=tuple(manifest.named_sessions),
            providers=self.providers(path, manifest),
            catalogues=self.catalogues(path, foreign=opened.foreign),
            values=values,
            templates=template_mode((manifest,)),
            extra_asset_dirs=self.extra_asset_dirs((opened,), path),
        )

    def case_clashes(self, what: str, places: Mapping[str, Place]) -> None:
        """Report names that differ only in case."""
        first: dict[str, str] = {}
        for name, place in places.items():
            twin = first.setdefault(name.lower(), name)
            if twin != name:
                self._note(
                    "case-clash",
                    f"{what} `{name}` and `{twin}` differ only in case",
                    place,
                    "rename one of them",
                )

    def _note(self, code: str, message: str, place: Place, hint: str | None = None) -> None:
        problem = Problem(code, message, place, hint)
        if problem not in self.disk.problems:
            self.disk.problems.append(problem)


def _pack_problems(manifest: Manifest) -> Iterator[Problem]:
    """Check the `[pack]` table."""
    if "pack" not in manifest.layers:
        place = Place(manifest.file, ("pack",))
        yield Problem("missing-key", "`[pack]` with a name is missing", place)
        return
    schema = manifest.layers["pack"].values.get("schema", _NEWEST_SCHEMA)
    if isinstance(schema, int) and schema > _NEWEST_SCHEMA:
        yield Problem(
            "pack-too-new",
            f"schema {schema} is newer than this version of city supports",
            Place(manifest.file, ("pack", "schema")),
            "upgrade city, or pin an older version of the pack",
        )


def template_mode(manifests: Iterable[Manifest | None]) -> str | None:
    """Return `[templates] mode` of the last file that sets it."""
    modes = [
        m.layers["templates"].values.get("mode")
        for m in manifests
        if m is not None and "templates" in m.layers
    ]
    return str(modes[-1]) if modes and modes[-1] else None
