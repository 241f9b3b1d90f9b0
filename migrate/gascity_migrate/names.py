"""What things of the first layout are called today: agents, and packs that are imported. Pure."""

from collections.abc import Collection, Iterable, Mapping

from gascity_migrate.first import NamedPack
from gascity_migrate.keys import lives_in_rig

_FULL = 40  # digits of a commit that is written whole
_HEX = frozenset("0123456789abcdef")

# Agents as the first layout told them apart, by (dir, name), with the names they have today.
Names = Mapping[tuple[str, str], str]


def distinct_names(homes: Iterable[tuple[str, str]], taken: Iterable[str] = ()) -> Names:
    """Names for agents that are told apart by (dir, name).

    A name that several dirs use becomes `<dir>--<name>`, except where there is no dir. `taken` are
    names that other agents have.
    """
    pairs = list(dict.fromkeys(homes))
    dirs: dict[str, set[str]] = {}
    for home, name in pairs:
        dirs.setdefault(name, set()).add(home)
    used = {name.lower() for name in (*taken, *dirs)}
    return {
        (home, name): _free(f"{_last(home)}--{name}", used)
        if home and len(dirs[name]) > 1
        else name
        for home, name in pairs
    }


def refer(names: Names, reference: str, home: str = "", rigs: Collection[str] | None = None) -> str:
    """A reference to an agent, as `name` or `dir/name`, in today's names.

    `home` is the dir of whoever refers to it: a bare name means the agent there, then the one that
    has no dir. What is nobody's name stays as it is. `rigs` are those that there are, where that
    is known: a dir that is none of them tells no agent apart today.
    """
    there, slash, name = reference.rpartition("/")
    if there and (there, name) in names and not lives_in_rig(there, rigs):
        return names[there, name]
    if slash:
        return f"{there}/{names.get((there, name), name)}"
    return names.get((home, name)) or names.get(("", name)) or name


def binding_for(source: str, taken: Iterable[str]) -> str:
    """What an include is called as an import: its last part, with a number if that is taken."""
    address = source.partition("#")[0].rstrip("/")
    return _free(_last(address.removesuffix(".git")), {name.lower() for name in taken})


def _last(path: str) -> str:
    """The last part of a path or an address, as a name that may be a binding or an agent's."""
    part = path.rstrip("/").replace(":", "/").rpartition("/")[2]
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in part)
    return plain.strip("-_") or "pack"


def _free(name: str, used: set[str]) -> str:
    """The name, or the first numbered one nobody has; `used` are in small letters, and grow."""
    number, free = 1, name
    while free.lower() in used:
        number += 1
        free = f"{name}-{number}"
    used.add(free.lower())
    return free


def as_import(source: str, packs: Iterable[NamedPack] = ()) -> dict[str, str]:
    """An include as the table of an import; a name in `packs` stands for its repository.

    A ref may be a branch, a tag or a commit, so it stays with the address, except for a commit. A
    directory of this disk has none: it is read as it stands.
    """
    for pack in packs:
        if pack.name == source:
            return _of_repository(pack.source, pack.path.strip("/"), pack.ref)
    return _of_repository(source, "", "")


def _of_repository(source: str, path: str, ref: str) -> dict[str, str]:
    if not _is_address(source):
        return {"source": f"{source.rstrip('/')}/{path}" if path else source}
    address, _, named = without_credentials(source).partition("#")
    address, ref = f"{address}//{path}" if path else address, ref or named
    if len(ref) == _FULL and _HEX.issuperset(ref):
        return {"source": address, "version": f"sha:{ref}"}
    return {"source": f"{address}#{ref}" if ref else address}


def without_credentials(source: str) -> str:
    """An address without user and password; ssh keeps the user, who is no secret."""
    scheme, mark, rest = source.partition("://")
    authority, slash, path = rest.partition("/")
    people, at, host = authority.rpartition("@")
    if not mark or not at:
        return source
    user = f"{people.partition(':')[0]}@" if scheme.lower() == "ssh" else ""
    return f"{scheme}{mark}{user}{host}{slash}{path}"


def _is_address(source: str) -> bool:
    return "://" in source or source.startswith(("git@", "github.com/"))
