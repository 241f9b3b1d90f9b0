"""Reads packs and follows what they import; a pack reached twice is read once."""

import os
from collections.abc import Iterable, Iterator, Mapping

from gascity.model.layers import Layer
from gascity.model.names import is_name
from gascity.model.pack import CATALOGUES, AgentDir, Import, Pack
from gascity.model.problems import Place, Problem, warning
from gascity.model.records import NamedTuple
from gascity.model.tables import CITY_TABLES, PACK_TABLES
from gascity.model.tree import TableAgent, Tree
from gascity.source.agents import read_agents, read_table
from gascity.source.decode import for_others
from gascity.source.dialects import explained, relocate, translated
from gascity.source.disk import Disk
from gascity.source.imports import Finder, Home
from gascity.source.manifest import Manifest, Written, read_manifest
from gascity.source.providers import Surroundings, read_provider

_ONCE_PER_PACK = frozenset(("not-acted-on", "older-spelling"))
_NEWEST_SCHEMA = 2
_DEEPEST = 50  # packs that import one another in a row
_NEARLY = (("overlays", "overlay"), ("template_fragments", "template-fragments"))


class Opened(NamedTuple):
    """A manifest with what a dialect found beside it; `foreign` says that one had to read it."""

    manifest: Manifest
    agents: tuple[TableAgent, ...] = ()
    shelves: tuple[tuple[str, str], ...] = ()
    foreign: bool = False


class Reader:
    """Reads for one load. `once` is what is said once per pack, by the pack's root; `depths` is
    how many packs import one another in a row below one."""

    def __init__(self, disk: Disk, around: Surroundings, only: str | None) -> None:
        self.disk = disk
        self.finder = Finder(disk, around.builtin_packs, around.cache)
        self.only = only
        self.packs: dict[str, Pack | None] = {}
        self.depths: dict[str, int] = {}
        self.once: dict[str, list[Problem]] = {}
        self.real: dict[str, str] = {}

    def open(self, path: str, root: str, kind: str, *, dialects: bool) -> Opened | None:
        """A manifest of the pack at `root`, None if it is absent or not TOML.

        With `dialects`, one that today's tables do not explain is brought into today's layout. Of
        the city's own every file is offered: a table we know may have meant something else there.
        """
        raw = read_table(self.disk, path)
        if raw is None:
            return None
        known = PACK_TABLES if kind == "pack" else CITY_TABLES
        tree = as_read = Tree(root, self.disk.shown(path), raw)
        own = root == self.disk.root
        if dialects and (own or not explained(self.disk, tree, known)):
            tree = translated(tree)
        manifest = read_manifest(self.disk, tree.manifest, path, root, kind)
        if tree.moved:
            relocate(manifest, tree.moved)
        manifest.problems += tree.problems
        return Opened(manifest, tree.agents, tree.shelves, tree is not as_read)

    def agents(self, directory: str, pack: str, *, own: bool) -> list[AgentDir]:
        """Agents that are folders of a directory."""
        return self._sifted(read_agents(self.disk, directory, pack, own=own, only=self.only), pack)

    def agents_of(
        self, files: Mapping[str, Opened], pack: str, *, own: bool
    ) -> tuple[AgentDir, ...]:
        """Agents of a pack: those in tables of its manifests, then the other folders."""
        tables = [
            (file, one)
            for file, opened in files.items()
            for one in opened.agents
            if self.only in (None, one.name)
        ]
        found: list[AgentDir] = []
        if tables:
            from gascity.source.table_agents import read_table_agent

            found = [read_table_agent(self.disk, one, file, pack, own=own) for file, one in tables]
        taken = {name for _, one in tables for name in (one.name, os.path.basename(one.folder))}
        folders = self.agents(f"{pack}/agents", pack, own=own)
        found = self._sifted(found, pack) if found else found
        return (*found, *(one for one in folders if one.name not in taken))

    def _sifted(self, found: Iterable[AgentDir], pack: str) -> list[AgentDir]:
        """What is said once per pack moves from the agents to the pack."""
        return [
            agent._replace(problems=tuple(self.sift(agent.problems, pack)))
            if agent.problems
            else agent
            for agent in found
        ]

    def shelves(self, files: Iterable[Opened], root: str) -> tuple[tuple[str, str], ...]:
        """Further directories of catalogues, those that may be read, as shown."""
        return tuple(
            (kind, self.disk.shown(f"{root}/{name}"))
            for opened in files
            for kind, name in opened.shelves
            if self.disk.is_folder_of(f"{root}/{name}", root)
        )

    def sift(self, problems: Iterable[Problem], pack: str) -> list[Problem]:
        """Put aside what is said once per pack, and return the rest."""
        rest = []
        for problem in problems:
            if problem.code in _ONCE_PER_PACK:
                self.once.setdefault(pack, []).append(problem)
            else:
                rest.append(problem)
        return rest

    def catalogues(self, root: str, *, foreign: bool) -> frozenset[str]:
        """Which convention directories the pack has; nearly right names are pointed out, unless
        its layout is another."""
        for wrong, right in () if foreign else _NEARLY:
            if self.disk.is_directory(f"{root}/{wrong}"):
                place = Place(self.disk.shown(f"{root}/{wrong}"))
                hint = f"rename it to {right}/" if root == self.disk.root else None
                words = f"`{wrong}/` is not read"
                self.disk.problems.append(warning("misnamed-directory", words, place, hint))
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
            [p if own else for_others(p) for p in self.disk.problems[before:]],
            root,
        )
        return layer

    def follow(self, written: Written, home: Home, above: tuple[str, ...]) -> Import:
        """Read the pack an import names; `above` are the roots that led here."""
        found = self.finder.find(written, home)
        pack = self._pack(found.home, written.place, above) if found.home else None
        return Import(
            written.binding,
            str(written.values["source"]),
            pack,
            written.values,
            written.place,
            self.disk.shown(found.home.root) if found.home else None,
            found.remote,
            found.locked,
            found.version,
        )

    def _pack(self, home: Home, place: Place, above: tuple[str, ...]) -> Pack | None:
        path = home.root
        real = self._real(path)
        trail = [self._real(one) for one in above]
        if real in trail:
            chain = " → ".join(self.disk.shown(one) for one in (*above[trail.index(real) :], path))
            self._note("import-cycle", f"the import leads back to itself: {chain}", place)
            return None
        known = self.packs.get(real)
        if len(above) + (self.depths[known.root] if known else 0) > _DEEPEST:
            words = f"this leads through more than {_DEEPEST} packs in a row; it is not followed"
            self._note("too-many-packs", words, place, "import it nearer to the city")
            return None
        if real not in self.packs:
            self.packs[real] = self._read_pack(home, place, above)
        return self.packs[real]

    def _real(self, path: str) -> str:
        """A path without links; what lies above several packs is asked about once."""
        if path not in self.real:
            above, name = os.path.split(path)
            if name in ("", ".", "..") or os.path.islink(path):
                self.real[path] = os.path.realpath(path)
            else:
                self.real[path] = os.path.join(self._real(above), name)
        return self.real[path]

    def _read_pack(self, home: Home, place: Place, above: tuple[str, ...]) -> Pack | None:
        path = home.root
        if not self.disk.is_directory(path):
            hint = "check the path"
            if self.disk.exists(f"{self.disk.root}/.gitmodules"):
                hint = "if it is a submodule: git submodule update --init"
            self._note(
                "import-missing", f"there is no directory {self.disk.shown(path)}", place, hint
            )
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
                    'a pack says who it is: [pack] name = "…"',
                )
            return None
        manifest = opened.manifest
        values = manifest.layers["pack"].values if "pack" in manifest.layers else {}
        manifest.problems += _pack_problems(manifest)
        self.disk.problems += self.sift(map(for_others, manifest.problems), path)
        trail = (*above, path)
        imports = tuple(self.follow(one, home, trail) for one in manifest.imports)
        below = [self.depths[one.pack.root] for one in imports if one.pack is not None]
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
            shelves=self.shelves((opened,), path),
        )

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

    def _note(self, code: str, message: str, place: Place, hint: str | None = None) -> None:
        problem = Problem(code, message, place, hint)
        if problem not in self.disk.problems:
            self.disk.problems.append(problem)


def _pack_problems(manifest: Manifest) -> Iterator[Problem]:
    """What is wrong with how a pack says who it is."""
    if "pack" not in manifest.layers:
        place = Place(manifest.file, ("pack",))
        yield Problem("missing-key", "`[pack]` with a name is missing", place)
        return
    schema = manifest.layers["pack"].values.get("schema", _NEWEST_SCHEMA)
    if isinstance(schema, int) and schema > _NEWEST_SCHEMA:
        yield Problem(
            "pack-too-new",
            f"schema {schema} is newer than this program reads",
            Place(manifest.file, ("pack", "schema")),
            "upgrade, or pin an older pack",
        )


def template_mode(manifests: Iterable[Manifest | None]) -> str | None:
    """`[templates] mode` of the last file that says it."""
    said = [
        m.layers["templates"].values.get("mode")
        for m in manifests
        if m is not None and "templates" in m.layers
    ]
    return str(said[-1]) if said and said[-1] else None
