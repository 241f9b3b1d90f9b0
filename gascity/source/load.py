"""From a city's root to Sources: every file that defines it, each read once."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gascity.model.layers import Layer
from gascity.model.names import did_you_mean, is_name
from gascity.model.pack import CATALOGUES, AgentDir, Import, Pack, RigSource, Sources
from gascity.model.problems import CityError, Place, Problem, warning
from gascity.source.agents import read_agents, read_table
from gascity.source.disk import Disk
from gascity.source.manifest import Manifest, Written, WrittenRig, read_manifest
from gascity.source.providers import (
    Surroundings,
    implicit_names,
    providers_of,
    read_provider,
    stock,
    system_agents,
)

_ONCE_PER_PACK = frozenset(("not-acted-on", "older-spelling"))
_REMOTE = ("https://", "http://", "ssh://", "git://", "git@", "file://", "github.com/")
_NEWEST_SCHEMA = 2


def load(
    disk: Disk, around: Surroundings, *, only: str | None = None, all_providers: bool = False
) -> Sources:
    """Read a city. With `only`, of all agents just those of that bare name are read."""
    root = disk.root
    reader = _Reader(disk, around, only)
    city = _city_manifest(disk)
    local = _optional_manifest(disk, f"{root}/city.local.toml", "local")
    manifests = [m for m in (city, local) if m is not None]
    pack = reader.root_pack(manifests)
    own = f"{root}/.gc"
    providers = providers_of(manifests, pack)
    places = {name: Place(ls[-1].file, ls[-1].at) for name, ls in providers.items() if ls}
    reader.case_clashes("provider", places)
    implicit = implicit_names(around, manifests, providers, only)
    sources = Sources(
        root=root,
        pack=pack,
        workspace=_stack(manifests, "workspace"),
        session=_stack(manifests, "session"),
        security=_stack(manifests, "security"),
        defaults=tuple(m.defaults for m in manifests if m.defaults),
        patches=tuple(city.patches),
        local_patches=tuple(local.patches) if local else (),
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
    problems = [*disk.problems, *reader.sift(own_files, root)]
    problems += [problem for said in reader.once.values() for problem in _once(said)]
    return sources._replace(stock=facts, problems=tuple(problems))


def _city_manifest(disk: Disk) -> Manifest:
    path = f"{disk.root}/city.toml"
    raw = read_table(disk, path)
    if raw is None:
        if disk.problems:
            raise CityError(*disk.problems)
        raise CityError(
            Problem(
                "no-city",
                f"there is no city.toml in {disk.root}",
                None,
                "`city init` makes a city here",
            )
        )
    return read_manifest(disk, raw, path, disk.root, "city")


def _optional_manifest(disk: Disk, path: str, kind: str) -> Manifest | None:
    raw = read_table(disk, path)
    return None if raw is None else read_manifest(disk, raw, path, disk.root, kind)


def _stack(manifests: Iterable[Manifest], name: str) -> tuple[Layer, ...]:
    return tuple(m.layers[name] for m in manifests if name in m.layers)


def _template_mode(manifests: Iterable[Manifest | None]) -> str | None:
    """`[templates] mode` of the last file that says it."""
    said = [
        m.layers["templates"].values.get("mode")
        for m in manifests
        if m is not None and "templates" in m.layers
    ]
    return str(said[-1]) if said and said[-1] else None


def _once(problems: Iterable[Problem]) -> Iterator[Problem]:
    """One problem for each message, at its first place, with the count."""
    found: dict[str, list[Problem]] = {}
    for problem in problems:
        found.setdefault(problem.message, []).append(problem)
    for message, same in found.items():
        more = f" (in {len(same)} places)" if len(same) > 1 else ""
        yield same[0]._replace(message=message + more)


class _Reader:
    """Follows imports; a pack reached twice is read once."""

    def __init__(self, disk: Disk, around: Surroundings, only: str | None) -> None:
        self.disk = disk
        self.around = around
        self.only = only
        self.packs: dict[str, Pack | None] = {}
        self.once: dict[str, list[Problem]] = {}  # what is said once, by pack

    def agents(self, directory: str, pack: str, *, own: bool) -> list[AgentDir]:
        """Agents of one pack; what is said once per pack moves from them to the pack."""
        found = read_agents(self.disk, directory, pack, own=own, only=self.only)
        return [
            agent._replace(problems=tuple(self.sift(agent.problems, pack)))
            if agent.problems
            else agent
            for agent in found
        ]

    def sift(self, problems: Iterable[Problem], pack: str) -> list[Problem]:
        """Put aside what is said once per pack, and return the rest."""
        rest = []
        for problem in problems:
            if problem.code in _ONCE_PER_PACK:
                self.once.setdefault(pack, []).append(problem)
            else:
                rest.append(problem)
        return rest

    def root_pack(self, manifests: Sequence[Manifest]) -> Pack:
        """The city as a pack: with or without a pack.toml."""
        root = self.disk.root
        manifest = _optional_manifest(self.disk, f"{root}/pack.toml", "pack")
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
        return Pack(
            name=name if isinstance(name, str) else "",
            root=".",
            own=True,
            agents=tuple(self.agents(f"{root}/agents", root, own=True)),
            defaults=manifest.defaults if manifest else None,
            patches=tuple(manifest.patches) if manifest else (),
            imports=tuple(self.follow(one, root, (root,)) for one in imports.values()),
            named_sessions=tuple(manifest.named_sessions) if manifest else (),
            providers=self.providers(root, manifest),
            catalogues=self.catalogues(root),
            values=values,
            templates=_template_mode((manifest, *manifests)),
        )

    def catalogues(self, root: str) -> frozenset[str]:
        """Which convention directories the pack has; nearly right names are pointed out."""
        for wrong, right in (("overlays", "overlay"), ("template_fragments", "template-fragments")):
            if self.disk.is_directory(f"{root}/{wrong}"):
                self.disk.problems.append(
                    warning(
                        "misnamed-directory",
                        f"`{wrong}/` is not read",
                        Place(self.disk.shown(f"{root}/{wrong}")),
                        f"rename it to {right}/",
                    )
                )
        return frozenset(
            name for name in CATALOGUES if self.disk.is_folder_of(f"{root}/{name}", root)
        )

    def providers(self, root: str, manifest: Manifest | None) -> dict[str, tuple[Layer, ...]]:
        """`providers/*.toml` of a pack, each with the pack's own `[providers.x]` over it."""
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
        self.disk.problems[before:] = self.sift(
            [
                p if own or p.code != "unknown-key" else p.softened()
                for p in self.disk.problems[before:]
            ],
            root,
        )
        return layer

    def follow(self, written: Written, root: str, above: tuple[str, ...]) -> Import:
        """Read the pack an import names; `above` are the roots that led here."""
        source = str(written.values["source"])
        path = self._locate(source, root, written.place)
        pack = self._pack(path, written.place, above) if path else None
        return Import(written.binding, source, pack, written.values, written.place)

    def _locate(self, source: str, root: str, place: Place) -> str | None:
        if source.startswith("builtin:"):
            name = source.removeprefix("builtin:")
            known = self.disk.names(self.around.builtin_packs)
            if name in known:
                return f"{self.around.builtin_packs}/{name}"
            self._note(
                "import-missing",
                f"there is no built-in pack `{name}`",
                place,
                did_you_mean(name, known) or f"there are: {', '.join(known)}",
            )
            return None
        if source.startswith(_REMOTE):
            self._note(
                "import-not-installed",
                f"`{source}` is a repository; only directories and built-in packs can be read",
                place,
                "clone it and import the directory",
            )
            return None
        if source.startswith("//"):
            return os.path.normpath(os.path.join(self.disk.root, source.lstrip("/")))
        return os.path.normpath(os.path.join(root, os.path.expanduser(source)))

    def _pack(self, path: str, place: Place, above: tuple[str, ...]) -> Pack | None:
        real = os.path.realpath(path)
        trail = [os.path.realpath(one) for one in above]
        if real in trail:
            chain = " → ".join(self.disk.shown(one) for one in (*above[trail.index(real) :], path))
            self._note("import-cycle", f"the import leads back to itself: {chain}", place)
            return None
        if real not in self.packs:
            self.packs[real] = self._read_pack(path, place, above)
        return self.packs[real]

    def _read_pack(self, path: str, place: Place, above: tuple[str, ...]) -> Pack | None:
        if not self.disk.is_directory(path):
            hint = "check the path"
            if self.disk.exists(f"{self.disk.root}/.gitmodules"):
                hint = "if it is a submodule: git submodule update --init"
            self._note(
                "import-missing", f"there is no directory {self.disk.shown(path)}", place, hint
            )
            return None
        before = len(self.disk.problems)
        raw = read_table(self.disk, f"{path}/pack.toml")
        if raw is None:
            if len(self.disk.problems) == before:
                self._note(
                    "import-missing",
                    f"{self.disk.shown(path)} has no pack.toml",
                    place,
                    'a pack says who it is: [pack] name = "…"',
                )
            return None
        manifest = read_manifest(self.disk, raw, f"{path}/pack.toml", path, "pack")
        values = manifest.layers["pack"].values if "pack" in manifest.layers else {}
        if "pack" not in raw:
            manifest.problems.append(
                Problem("missing-key", "`[pack]` with a name is missing", Place(manifest.file))
            )
        schema = values.get("schema", _NEWEST_SCHEMA)
        if isinstance(schema, int) and schema > _NEWEST_SCHEMA:
            manifest.problems.append(
                Problem(
                    "pack-too-new",
                    f"schema {schema} is newer than this program reads",
                    Place(manifest.file, ("pack", "schema")),
                    "upgrade, or pin an older pack",
                )
            )
        problems = [p.softened() if p.code == "unknown-key" else p for p in manifest.problems]
        self.disk.problems += self.sift(problems, path)
        trail = (*above, path)
        return Pack(
            name=str(values.get("name", "")),
            root=self.disk.shown(path),
            own=False,
            agents=tuple(self.agents(f"{path}/agents", path, own=False)),
            defaults=manifest.defaults,
            patches=tuple(manifest.patches),
            imports=tuple(self.follow(one, path, trail) for one in manifest.imports),
            named_sessions=tuple(manifest.named_sessions),
            providers=self.providers(path, manifest),
            catalogues=self.catalogues(path),
            values=values,
            templates=_template_mode((manifest,)),
        )

    def rigs(self, manifests: Sequence[Manifest], pack: Pack) -> tuple[RigSource, ...]:
        """Rigs by name in the order first declared, city.local.toml over city.toml."""
        gathered: dict[str, list[WrittenRig]] = {}
        for manifest in manifests:
            for rig in manifest.rigs:
                gathered.setdefault(rig.name, []).append(rig)
        self.case_clashes("rig", {name: rigs[-1].place for name, rigs in gathered.items()})
        return tuple(self._rig(name, entries, pack) for name, entries in gathered.items())

    def case_clashes(self, what: str, places: Mapping[str, Place]) -> None:
        """Names that some file systems, and most people, take for one."""
        first: dict[str, str] = {}
        for name, place in places.items():
            other = first.setdefault(name.lower(), name)
            if other != name:
                self._note(
                    "case-clash",
                    f"{what} `{name}` and `{other}` differ only in case",
                    place,
                    "rename one of them",
                )

    def _rig(self, name: str, entries: list[WrittenRig], pack: Pack) -> RigSource:
        root = self.disk.root
        imports = {
            one.binding: self.follow(one, root, (root,)) for rig in entries for one in rig.imports
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
            tuple(imports.values()),
            tuple(patch for rig in entries for patch in rig.patches),
            entries[-1].place,
            self.disk.shown(target) if target else None,
            bool(target) and self.disk.is_directory(target or ""),
            bool(target) and self.disk.exists(f"{target}/.git"),
        )

    def _rig_path(self, path: str) -> str:
        return os.path.normpath(os.path.join(self.disk.root, os.path.expanduser(path)))

    def _note(self, code: str, message: str, place: Place, hint: str | None = None) -> None:
        problem = Problem(code, message, place, hint)
        if problem not in self.disk.problems:
            self.disk.problems.append(problem)
