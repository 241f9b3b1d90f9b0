"""Loads a city: reads every file that defines it, once, and returns it as Sources."""

import os
from collections.abc import Iterable, Mapping, Sequence

from gascity.model.layers import Layer
from gascity.model.names import did_you_mean
from gascity.model.pack import Import, Pack, RigSource, Sources
from gascity.model.problems import CityError, Place, Problem, once_each
from gascity.source.disk import Disk, is_below
from gascity.source.imports import ImportingPack
from gascity.source.manifest import ImportEntry, Manifest, RigEntry
from gascity.source.providers import (
    ExternalPaths,
    implicit_names,
    providers_of,
    stock,
    system_agents,
)
from gascity.source.reader import OpenManifest, PackReader, template_mode


def load(
    disk: Disk,
    external: ExternalPaths,
    *,
    only: str | None = None,
    all_providers: bool = False,
    dialects: bool = False,
) -> Sources:
    """Read a city. With `only`, read just the agents of that bare name.

    With `dialects`, the city's own files may have another layout than today's.
    """
    sources = _load(disk, external, only, all_providers, dialects)
    if any(disk.packs.get(name) for name in disk.awaited):
        # A path named a pack (`pack//file`) before that pack was read: read again, now it is known.
        disk.problems.clear()
        disk.awaited.clear()
        return _load(disk, external, only, all_providers, dialects)
    return sources


def _load(
    disk: Disk, external: ExternalPaths, only: str | None, all_providers: bool, dialects: bool
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
    )
    shipped = stock(disk, external, sources, all_providers)
    own_files = (problem for manifest in manifests for problem in manifest.problems)
    problems = [*disk.problems, *reader.finder.absences(), *reader.not_repeated(own_files, root)]
    problems += [problem for group in reader.once.values() for problem in once_each(group)]
    return sources._replace(stock=shipped, problems=tuple(problems))


_LOCAL = "city.local.toml"


def _stack(manifests: Iterable[Manifest], name: str) -> tuple[Layer, ...]:
    return tuple(m.layers[name] for m in manifests if name in m.layers)


class CityReader(PackReader):
    """Reads the city itself: a pack with rigs, and with city.toml beside pack.toml."""

    def __init__(
        self, disk: Disk, external: ExternalPaths, only: str | None, dialects: bool
    ) -> None:
        super().__init__(disk, external, only)
        self.dialects = dialects

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
        manifest = opened.manifest if opened else None
        manifests = [file.manifest for file in files.values()]
        values: Mapping[str, object] = {}
        imports: dict[str, ImportEntry] = {}
        for source in (manifest, *manifests):
            imports |= {entry.binding: entry for entry in source.imports} if source else {}
        self.case_clashes("import", {name: entry.place for name, entry in imports.items()})
        if manifest is not None:
            manifest.problems = [
                p
                for p in manifest.problems
                if p.code != "missing-key" or (p.place is not None and p.place.path != ("pack",))
            ]
            self.disk.problems += self.not_repeated(manifest.problems, root)
            values = manifest.layers["pack"].values if "pack" in manifest.layers else {}
        name = values.get("name")
        all_files = {**files, path: opened} if opened else files
        importer = ImportingPack(root)
        return Pack(
            name=name if isinstance(name, str) else "",
            root=".",
            own=True,
            agents=self.agents_of(all_files, root, own=True),
            defaults=manifest.defaults if manifest else None,
            patches=tuple(manifest.patches) if manifest else (),
            imports=tuple(self.follow(entry, importer, (root,)) for entry in imports.values()),
            named_sessions=tuple(manifest.named_sessions) if manifest else (),
            providers=self.providers(root, manifest),
            catalogues=self.catalogues(root, foreign=any(f.foreign for f in all_files.values())),
            values=values,
            templates=template_mode((manifest, *manifests)),
            extra_asset_dirs=self.extra_asset_dirs(all_files.values(), root),
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


def _no_city(root: str) -> Problem:
    message = f"there is no city.toml in {root}"
    return Problem("no-city", message, None, "run `city init` to create a city here")
