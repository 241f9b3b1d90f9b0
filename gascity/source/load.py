"""From a city's root to Sources: every file that defines it, each read once."""

import os
from collections.abc import Iterable, Mapping, Sequence

from gascity.model.layers import Layer
from gascity.model.names import did_you_mean
from gascity.model.pack import Import, Pack, RigSource, Sources
from gascity.model.problems import CityError, Place, Problem, once_each
from gascity.source.disk import Disk, is_below
from gascity.source.imports import Home
from gascity.source.manifest import Manifest, Written, WrittenRig
from gascity.source.providers import (
    Surroundings,
    implicit_names,
    providers_of,
    stock,
    system_agents,
)
from gascity.source.reader import Opened, Reader, template_mode


def load(
    disk: Disk,
    around: Surroundings,
    *,
    only: str | None = None,
    all_providers: bool = False,
    dialects: bool = False,
) -> Sources:
    """Read a city. With `only`, of all agents just those of that bare name are read.

    With `dialects`, also the city's own files may be written in another layout than today's.
    """
    found = _load(disk, around, only, all_providers, dialects)
    if any(disk.packs.get(name) for name in disk.awaited):
        disk.problems.clear()  # of files that another pack was to give, and can give now
        disk.awaited.clear()
        return _load(disk, around, only, all_providers, dialects)
    return found


def _load(
    disk: Disk, around: Surroundings, only: str | None, all_providers: bool, dialects: bool
) -> Sources:
    reader = _CityReader(disk, around, only, dialects)
    root = disk.root
    files = reader.city_files()
    manifests = [opened.manifest for opened in files.values()]
    pack = reader.root_pack(files)
    own = f"{root}/.gc"
    providers = providers_of(manifests, pack)
    places = {name: Place(ls[-1].file, ls[-1].at) for name, ls in providers.items() if ls}
    reader.case_clashes("provider", places)
    implicit = implicit_names(around, manifests, providers, only)
    local = [m for m in manifests if m.file == _LOCAL]
    sources = Sources(
        root=root,
        pack=pack,
        workspace=_stack(manifests, "workspace"),
        session=_stack(manifests, "session"),
        security=_stack(manifests, "security"),
        defaults=tuple(m.defaults for m in manifests if m.defaults),
        patches=tuple(p for m in manifests if m not in local for p in m.patches),
        local_patches=tuple(p for m in local for p in m.patches),
        rigs=reader.rigs(manifests, pack),
        named_sessions=tuple(n for m in manifests for n in m.named_sessions),
        providers=providers,
        stock={},
        implicit=next((m.implicit for m in reversed(manifests) if m.implicit is not None), True),
        system=system_agents(disk, around, providers, implicit),
        user=tuple(reader.agents(around.user_agents, around.user_agents, own=True)),
        local=tuple(reader.agents(f"{own}/local/agents", f"{own}/local", own=True)),
        only=only,
        problems=(),
    )
    facts = stock(disk, around, sources, all_providers)
    own_files = (problem for manifest in manifests for problem in manifest.problems)
    problems = [*disk.problems, *reader.finder.absences(), *reader.sift(own_files, root)]
    problems += [problem for said in reader.once.values() for problem in once_each(said)]
    return sources._replace(stock=facts, problems=tuple(problems))


_LOCAL = "city.local.toml"


def _stack(manifests: Iterable[Manifest], name: str) -> tuple[Layer, ...]:
    return tuple(m.layers[name] for m in manifests if name in m.layers)


class _CityReader(Reader):
    """Reads the city itself: a pack with rigs, and with files of its own beside pack.toml."""

    def __init__(self, disk: Disk, around: Surroundings, only: str | None, dialects: bool) -> None:
        super().__init__(disk, around, only)
        self.dialects = dialects

    def city_files(self) -> dict[str, Opened]:
        """city.toml, what it includes, and city.local.toml over them: by path, lowest first."""
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

    def _included(self, place: Place, written: str) -> dict[str, Opened]:
        """A further file of city.toml's tables; it may not include others in turn."""
        root = self.disk.root
        path = os.path.normpath(f"{root}/{written.lstrip('/')}")
        if not is_below(path, root) or (written[:1] == "/" and written[:2] != "//"):
            words = f"`{written}` lies outside the city"
            self._note("path-leaves-pack", words, place, "keep the file in the city")
            return {}
        before = len(self.disk.problems)
        opened = self.open(path, root, "city", dialects=self.dialects)
        if opened is None:
            if len(self.disk.problems) == before:
                self._note("missing-file", f"{self.disk.shown(path)} is not there", place)
            return {}
        for again, _ in opened.manifest.includes:
            self._note("include-again", "an included file includes no others", again)
        return {path: opened}

    def root_pack(self, files: Mapping[str, Opened]) -> Pack:
        """The city as a pack: with or without a pack.toml."""
        root = self.disk.root
        path = f"{root}/pack.toml"
        opened = self.open(path, root, "pack", dialects=self.dialects)
        manifest = opened.manifest if opened else None
        manifests = [one.manifest for one in files.values()]
        values: Mapping[str, object] = {}
        imports: dict[str, Written] = {}
        for source in (manifest, *manifests):
            imports |= {written.binding: written for written in source.imports} if source else {}
        self.case_clashes("import", {name: one.place for name, one in imports.items()})
        if manifest is not None:
            manifest.problems = [
                p
                for p in manifest.problems
                if p.code != "missing-key" or (p.place is not None and p.place.path != ("pack",))
            ]
            self.disk.problems += self.sift(manifest.problems, root)
            values = manifest.layers["pack"].values if "pack" in manifest.layers else {}
        name = values.get("name")
        everything = {**files, path: opened} if opened else files
        followed = tuple(self.follow(one, Home(root), (root,)) for one in imports.values())
        return Pack(
            name=name if isinstance(name, str) else "",
            root=".",
            own=True,
            agents=self.agents_of(everything, root, own=True),
            defaults=manifest.defaults if manifest else None,
            patches=tuple(manifest.patches) if manifest else (),
            imports=followed,
            named_sessions=tuple(manifest.named_sessions) if manifest else (),
            providers=self.providers(root, manifest),
            catalogues=self.catalogues(root, foreign=any(f.foreign for f in everything.values())),
            values=values,
            templates=template_mode((manifest, *manifests)),
            shelves=self.shelves(everything.values(), root),
        )

    def rigs(self, manifests: Sequence[Manifest], pack: Pack) -> tuple[RigSource, ...]:
        """Rigs by name in the order first declared, city.local.toml over city.toml."""
        gathered: dict[str, list[WrittenRig]] = {}
        for manifest in manifests:
            for rig in manifest.rigs:
                gathered.setdefault(rig.name, []).append(rig)
        self.case_clashes("rig", {name: rigs[-1].place for name, rigs in gathered.items()})
        return tuple(self._rig(name, entries, pack) for name, entries in gathered.items())

    def _rig(self, name: str, entries: list[WrittenRig], pack: Pack) -> RigSource:
        path = next(
            (
                str(rig.layer.values["path"])
                for rig in reversed(entries)
                if rig.layer.values.get("path")
            ),
            None,
        )
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

    def _rig_imports(self, entries: list[WrittenRig], pack: Pack) -> tuple[Import, ...]:
        """A rig's own imports, and those of the city that it asks for by name."""
        home = Home(self.disk.root)
        imports = {
            one.binding: self.follow(one, home, (home.root,))
            for rig in entries
            for one in rig.imports
        }
        shared = {one.binding: one for one in pack.imports}
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


def _no_city(root: str) -> Problem:
    words = f"there is no city.toml in {root}"
    return Problem("no-city", words, None, "`city init` makes a city here")
