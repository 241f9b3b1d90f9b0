"""Loads a city: reads every file that defines it, once, and returns it as Sources."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gascity.model.layers import Layer
from gascity.model.names import did_you_mean, is_name
from gascity.model.pack import CATALOGUES, AgentDir, Import, Pack, RigSource, Sources
from gascity.model.problems import CityError, Place, Problem, once_each, warning
from gascity.model.settings import PackSettings, RigSettings
from gascity.model.tables import CITY_TABLES, PACK_TABLES
from gascity.source.acceptance import acceptance_problems
from gascity.source.agents import read_agents, read_table
from gascity.source.decode import for_others
from gascity.source.disk import Disk, is_below
from gascity.source.imports import ImportingPack, PackFinder
from gascity.source.manifest import (
    ImportEntry,
    Manifest,
    RigEntry,
    is_current_layout,
    read_manifest,
)
from gascity.source.providers import (
    ExternalPaths,
    implicit_names,
    providers_of,
    read_provider,
    stock,
    system_agents,
)

if TYPE_CHECKING:
    from gascity.source.dialects import TableAgent

_LOCAL = "city.local.toml"
_ONCE_PER_PACK = frozenset(("not-acted-on", "older-spelling"))
_NEWEST_SCHEMA = 2
_MAX_IMPORT_DEPTH = 50
_MISNAMED = (("overlays", "overlay"), ("template_fragments", "template-fragments"))


def load(
    disk: Disk,
    external: ExternalPaths,
    *,
    only: str | None = None,
    providers: Collection[str] = (),
    dialects: bool = False,
) -> Sources:
    """Read a city. With `only`, read just the agents of that bare name.

    `providers` are shipped ones to read although the city does not mention them. With `dialects`,
    the city's own files may have another layout than today's.
    """
    sources = _load(disk, external, only, providers, dialects)
    if any(disk.packs.get(name) for name in disk.awaited):
        # A path named a pack (`pack//file`) before that pack was read: read again, now it is known.
        disk.problems.clear()
        disk.awaited.clear()
        return _load(disk, external, only, providers, dialects)
    return sources


def _load(
    disk: Disk,
    external: ExternalPaths,
    only: str | None,
    named_providers: Collection[str],
    dialects: bool,
) -> Sources:
    reader = CityReader(disk, external, only, dialects)
    root = disk.root
    files = reader.city_files()
    manifests = [opened.manifest for opened in files.values()]
    pack = reader.root_pack(files)
    providers = providers_of(manifests, pack)
    places = {
        name: Place(layers[-1].file, layers[-1].at) for name, layers in providers.items() if layers
    }
    reader.case_clashes("provider", places)
    implicit = implicit_names(external, manifests, providers, only)
    local = [m for m in manifests if m.file == _LOCAL]
    local_dir = f"{root}/.gc/local"
    sources = Sources(
        root=root,
        pack=pack,
        workspace=_stack(manifests, "workspace"),
        session=_stack(manifests, "session"),
        security=_stack(manifests, "security"),
        notify=_stack(manifests, "notify"),
        defaults=tuple(m.defaults for m in manifests if m.defaults),
        patches=tuple(p for m in manifests if m not in local for p in m.patches),
        local_patches=tuple(p for m in local for p in m.patches),
        rigs=reader.rigs(manifests, pack),
        named_sessions=tuple(n for m in manifests for n in m.named_sessions),
        providers=providers,
        stock={},
        implicit=next((m.implicit for m in reversed(manifests) if m.implicit is not None), True),
        system=system_agents(disk, external, providers, implicit),
        user=tuple(reader.agents(external.user_agents, external.user_agents, own=True)),
        local=tuple(reader.agents(f"{local_dir}/agents", local_dir, own=True)),
        only=only,
        problems=(),
        errors=(*reader.errors, *(error for m in manifests for error in m.errors)),
    )
    shipped = stock(disk, external, sources, named_providers)
    own_files = (problem for manifest in manifests for problem in manifest.problems)
    problems = [*disk.problems, *reader.finder.absences(), *reader.not_repeated(own_files, root)]
    problems += [problem for group in reader.once.values() for problem in once_each(group)]
    problems += acceptance_problems(sources)
    return sources._replace(stock=shipped, problems=tuple(problems))


def _stack(manifests: Iterable[Manifest], name: str) -> tuple[Layer, ...]:
    return tuple(m.layers[name] for m in manifests if name in m.layers)


class OpenManifest(NamedTuple):
    """A manifest with the results of a dialect; `foreign` if a dialect had to read it."""

    manifest: Manifest
    agents: "tuple[TableAgent, ...]" = ()
    extra_asset_dirs: tuple[tuple[str, str], ...] = ()
    foreign: bool = False


class CityReader:
    """Reads a city and its packs during one load. A pack that is imported twice is read once.

    `once` has the problems that are reported once per pack, by the pack's root. `depths` has the
    length of the longest chain of imports below each pack.
    """

    def __init__(
        self, disk: Disk, external: ExternalPaths, only: str | None, dialects: bool
    ) -> None:
        self.disk = disk
        self.finder = PackFinder(disk, external.builtin_packs, external.cache)
        self.only = only
        self.dialects = dialects
        self.packs: dict[str, Pack | None] = {}
        self.depths: dict[str, int] = {}
        self.once: dict[str, list[Problem]] = {}
        self.errors: list[Problem] = []  # of the city's own pack.toml; they break every agent
        self._real_paths: dict[str, str] = {}

    def city_files(self) -> dict[str, OpenManifest]:
        """Read city.toml, the files it includes and city.local.toml: by path, lowest first."""
        root = self.disk.root
        path = f"{root}/city.toml"
        city = self.open(path, root, "city", dialects=self.dialects)
        if city is None:
            raise CityError(*(self.disk.problems or [_no_city(root)]))
        files = {path: city}
        for place, include in city.manifest.includes:
            files |= self._included(place, include)
        local = self.open(f"{root}/{_LOCAL}", root, "local", dialects=self.dialects)
        return {**files, f"{root}/{_LOCAL}": local} if local else files

    def _included(self, place: Place, written: str) -> dict[str, OpenManifest]:
        """Read a file that city.toml includes. It may not include others."""
        root = self.disk.root
        path = os.path.normpath(f"{root}/{written.lstrip('/')}")
        if not is_below(path, root) or (written[:1] == "/" and written[:2] != "//"):
            message = f"`{written}` is outside the city"
            self._note("path-leaves-pack", message, place, "move the file into the city")
            return {}
        before = len(self.disk.problems)
        opened = self.open(path, root, "city", dialects=self.dialects)
        if opened is None:
            if len(self.disk.problems) == before:
                self._note("missing-file", f"{self.disk.shown(path)} does not exist", place)
            return {}
        for nested, _ in opened.manifest.includes:
            self._note("include-again", "an included file cannot include others", nested)
        return {path: opened}

    def root_pack(self, files: Mapping[str, OpenManifest]) -> Pack:
        """Read the city as a pack, with or without a pack.toml."""
        root = self.disk.root
        path = f"{root}/pack.toml"
        opened = self.open(path, root, "pack", dialects=self.dialects)
        manifest = opened.manifest if opened else Manifest(path)
        self.errors += manifest.errors
        manifests = [manifest, *(file.manifest for file in files.values())]
        entries = {entry.binding: entry for each in manifests for entry in each.imports}
        self.case_clashes("import", {name: entry.place for name, entry in entries.items()})
        # A city needs no [pack] table.
        problems = [
            p
            for p in manifest.problems
            if p.code != "missing-key" or (p.place is not None and p.place.path != ("pack",))
        ]
        self.disk.problems += self.not_repeated(problems, root)
        importer = ImportingPack(root)
        imports = tuple(self.follow(entry, importer, (root,)) for entry in entries.values())
        all_files = {**files, path: opened} if opened else files
        return self._make_pack(root, manifest, all_files, imports, _template_mode(manifests))

    def _make_pack(
        self,
        root: str,
        manifest: Manifest,
        files: Mapping[str, OpenManifest],
        imports: tuple[Import, ...],
        templates: str | None,
    ) -> Pack:
        """Read the directories of a pack; `files` are all that belong to it, by path."""
        settings = _pack_settings(manifest)
        own = root == self.disk.root
        return Pack(
            name=settings.name or "",
            root=self.disk.shown(root),
            own=own,
            agents=self._pack_agents(files, root, own=own),
            defaults=manifest.defaults,
            patches=tuple(manifest.patches),
            imports=imports,
            named_sessions=tuple(manifest.named_sessions),
            providers=self._providers(root, manifest),
            catalogues=self._catalogues(root, foreign=any(f.foreign for f in files.values())),
            description=settings.description or "",
            templates=templates,
            extra_asset_dirs=self._extra_asset_dirs(files.values(), root),
        )

    def rigs(self, manifests: Sequence[Manifest], pack: Pack) -> tuple[RigSource, ...]:
        """Return the rigs in the order declared, city.local.toml over city.toml."""
        by_name: dict[str, list[RigEntry]] = {}
        for manifest in manifests:
            for rig in manifest.rigs:
                by_name.setdefault(rig.name, []).append(rig)
        self.case_clashes("rig", {name: rigs[-1].place for name, rigs in by_name.items()})
        return tuple(self._rig(name, entries, pack) for name, entries in by_name.items())

    def _rig(self, name: str, entries: list[RigEntry], pack: Pack) -> RigSource:
        paths = (RigSettings((rig.layer,)).path for rig in reversed(entries))
        path = next(filter(None, paths), None)
        target = self._rig_path(path) if path else None
        return RigSource(
            name,
            tuple(rig.layer for rig in entries),
            self._rig_imports(entries, pack),
            tuple(patch for rig in entries for patch in rig.patches),
            entries[-1].place,
            self.disk.shown(target) if target else None,
            bool(target) and self.disk.is_directory(target or ""),
            bool(target) and self.disk.exists(f"{target}/.git"),
        )

    def _rig_imports(self, entries: list[RigEntry], pack: Pack) -> tuple[Import, ...]:
        """Return a rig's own imports, and those of the city that it names."""
        importer = ImportingPack(self.disk.root)
        imports = {
            entry.binding: self.follow(entry, importer, (importer.root,))
            for rig in entries
            for entry in rig.imports
        }
        shared = {each.binding: each for each in pack.imports}
        for rig in entries:
            for binding in rig.bindings:
                if binding in shared:
                    imports[binding] = shared[binding]
                else:
                    self._note(
                        "import-missing",
                        f"the city imports nothing as `{binding}`",
                        Place(rig.place.file, (*rig.place.path, "imports")),
                        did_you_mean(binding, shared),
                    )
        return tuple(imports.values())

    def _rig_path(self, path: str) -> str:
        return os.path.normpath(os.path.join(self.disk.root, os.path.expanduser(path)))

    def open(self, path: str, root: str, kind: str, *, dialects: bool) -> OpenManifest | None:
        """Read a manifest of the pack at `root`; None if it does not exist or is not TOML.

        With `dialects`, a manifest of another layout is translated into today's. The city's own
        files are all passed to the dialects, because a known table may mean something else there.
        """
        raw = read_table(self.disk, path)
        if raw is None:
            return None
        known = PACK_TABLES if kind == "pack" else CITY_TABLES
        own = root == self.disk.root
        if dialects and (own or not is_current_layout(self.disk, raw, root, known)):
            return self._translated(raw, path, root, kind)
        return OpenManifest(read_manifest(self.disk, raw, path, root, kind))

    def _translated(
        self, raw: Mapping[str, object], path: str, root: str, kind: str
    ) -> OpenManifest:
        """Pass a manifest through the dialects, then read it."""
        from gascity.source.dialects import PackTree, relocate, translate

        original = PackTree(root, self.disk.shown(path), raw)
        tree = translate(original)
        manifest = read_manifest(self.disk, tree.manifest, path, root, kind)
        if tree.moved:
            relocate(manifest, tree.moved)
        manifest.problems += tree.problems
        return OpenManifest(manifest, tree.agents, tree.extra_asset_dirs, tree is not original)

    def agents(self, directory: str, pack: str, *, own: bool) -> list[AgentDir]:
        """Read the agents below a directory."""
        agents = read_agents(self.disk, directory, pack, own=own, only=self.only)
        return self._without_repeated(agents, pack)

    def _pack_agents(
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
        from gascity.source.dialects import read_table_agent

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

    def _extra_asset_dirs(
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

    def _catalogues(self, root: str, *, foreign: bool) -> frozenset[str]:
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

    def _providers(self, root: str, manifest: Manifest) -> dict[str, tuple[Layer, ...]]:
        """Read `providers/*.toml` of a pack, with the pack's `[providers.x]` tables over them."""
        layers: dict[str, tuple[Layer, ...]] = {}
        directory = f"{root}/providers"
        for name in self.disk.names(directory) if self.disk.is_folder_of(directory, root) else ():
            stem = name.removesuffix(".toml")
            if stem != name and is_name(stem):
                layers[stem] = (self._provider(f"{directory}/{name}", root),)
        for name, layer in manifest.providers.items():
            layers[name] = (*layers.get(name, ()), layer)
        return layers

    def _provider(self, path: str, root: str) -> Layer:
        """Read a provider file of a pack; its errors break the agents of that provider."""
        before = len(self.disk.problems)
        layer = read_provider(self.disk, path, root)
        own = root == self.disk.root
        problems = self.not_repeated(
            [p if own else for_others(p) for p in self.disk.problems[before:]],
            root,
        )
        self.disk.problems[before:] = [problem for problem in problems if not problem.is_error]
        errors = tuple(problem for problem in problems if problem.is_error)
        layer = layer or Layer("city", self.disk.shown(path), {})
        return layer._replace(errors=errors)

    def follow(self, entry: ImportEntry, importer: ImportingPack, above: tuple[str, ...]) -> Import:
        """Read the pack of an import; `above` are the roots of the packs that lead here."""
        location = self.finder.find(entry, importer)
        pack = self._pack(location.pack, entry.place, above) if location.pack else None
        return Import(
            entry.binding,
            pack,
            entry.settings,
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
        manifest.problems += _pack_problems(manifest)
        self.disk.problems += self.not_repeated(map(for_others, manifest.problems), path)
        trail = (*above, path)
        imports = tuple(self.follow(entry, target, trail) for entry in manifest.imports)
        below = [self.depths[each.pack.root] for each in imports if each.pack is not None]
        self.depths[self.disk.shown(path)] = 1 + max(below, default=-1)
        name = _pack_settings(manifest).name or ""
        self.disk.packs[name] = path if self.disk.packs.get(name, path) == path else None
        mode = _template_mode([manifest])
        pack = self._make_pack(path, manifest, {file: opened}, imports, mode)
        return pack._replace(accepted=self.finder.is_accepted(target))

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
        self.disk.note(Problem(code, message, place, hint))


def _no_city(root: str) -> Problem:
    message = f"there is no city.toml in {root}"
    return Problem("no-city", message, None, "run `city init` to create a city here")


def _pack_problems(manifest: Manifest) -> Iterator[Problem]:
    """Check the `[pack]` table."""
    if "pack" not in manifest.layers:
        place = Place(manifest.file, ("pack",))
        yield Problem("missing-key", "`[pack]` with a name is missing", place)
        return
    schema = _pack_settings(manifest).schema
    if schema > _NEWEST_SCHEMA:
        yield Problem(
            "pack-too-new",
            f"schema {schema} is newer than this version of city supports",
            Place(manifest.file, ("pack", "schema")),
            "upgrade city, or pin an older version of the pack",
        )


def _pack_settings(manifest: Manifest) -> PackSettings:
    return PackSettings(_stack([manifest], "pack"))


def _template_mode(manifests: Sequence[Manifest]) -> str | None:
    """Return `[templates] mode` of the last file that has the table."""
    modes = [layer.values.get("mode") for layer in _stack(manifests, "templates")]
    return str(modes[-1]) if modes and modes[-1] else None
