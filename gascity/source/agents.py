"""Agents as folders: what each directory under `agents/` says by its files and its agent.toml."""

import os
import stat
from collections.abc import Iterator, Mapping

from gascity.model.fields import AGENT, Kind
from gascity.model.ignored import AGENT_NOT_ACTED_ON
from gascity.model.layers import DEFINITION, Layer
from gascity.model.names import is_name
from gascity.model.pack import CATALOGUES, AgentDir
from gascity.model.problems import ERROR, KeyPath, Place, Problem, warning
from gascity.source.decode import Decoded, decode, for_others
from gascity.source.disk import Disk, bad_utf8, is_below, is_utf8
from gascity.source.toml import TomlFault, has_bom, parse

PROMPTS = ("prompt.template.md", "prompt.md", "prompt.md.tmpl")

_PATH_FIELDS = tuple(name for name, field in AGENT.fields.items() if field.kind is Kind.PATH)
_CATALOGUES = frozenset(CATALOGUES)
_NOTHING: frozenset[str] = frozenset()


def read_table(disk: Disk, path: str, *, within: str | None = None) -> dict[str, object] | None:
    """A parsed TOML file; None when it is absent or faulty, the fault noted on the disk."""
    data = disk.read(path, within=within)
    if data is None:
        return None
    if has_bom(data):
        place = Place(disk.shown(path), line=1, col=1)
        words = "the file begins with a byte order mark"
        disk.problems.append(
            warning("byte-order-mark", words, place, "save it as UTF-8 without one")
        )
    try:
        return parse(data)
    except TomlFault as fault:
        place = Place(disk.shown(path), line=fault.line, col=fault.col)
        problem = Problem(fault.code, fault.message, place, fault.hint)
        disk.problems.append(_merge_marks(data, disk.shown(path), fault.line) or problem)
        return None


def _merge_marks(data: bytes, file: str, line: int | None) -> Problem | None:
    """What git leaves in a file that two people changed is no fault of the TOML."""
    lines = data.split(b"\n")
    if line is None or not lines[line - 1].startswith((b"<<<<<<<", b"=======", b">>>>>>>")):
        return None
    words = "git could not merge the file, and left its marks here"
    hint = "settle which lines stay"
    if file == "packs.lock":
        hint = "keep either side, then `city pack install`"
    return Problem("bad-toml", words, Place(file, line=line, col=1), hint)


def read_agents(
    disk: Disk, directory: str, pack: str, *, own: bool, only: str | None = None
) -> list[AgentDir]:
    """Every agent below `directory`, or just the one called `only`; `pack` is the pack's root."""
    found: list[AgentDir] = []
    lowered: dict[str, str] = {}
    if not disk.is_folder_of(directory, pack):
        return found
    for name in _candidates(disk, directory, only):
        path = f"{directory}/{name}"
        agent = read_agent(disk, path, name, pack, own=own)
        if agent is None:
            continue
        twin = lowered.setdefault(name.lower(), name)
        if twin != name:
            clash = _case_clash(disk, path, name, twin)
            agent = agent._replace(problems=(*agent.problems, clash))
        found.append(agent)
    return found


def _candidates(disk: Disk, directory: str, only: str | None) -> Iterator[str]:
    if only is not None:
        if is_name(only):
            yield only
        return
    names = disk.names(directory)
    if "pack.toml" in names or "city.toml" in names:
        return  # a manifest begins another pack's tree
    yield from (name for name in names if name[0] not in "._")


def read_agent(disk: Disk, path: str, name: str, pack: str, *, own: bool) -> AgentDir | None:
    """One agent's directory, under the name it is known by; None for what is no agent."""
    before = len(disk.problems)
    entries = _entries(disk, path, pack, own)
    if entries is None:
        return None
    problems: list[Problem] = []
    shown = disk.shown(path)
    if not is_name(name):
        problems.append(_bad_name(shown, name))
        if not own:  # nothing could name it, so it is left out
            disk.problems += softened(problems, own)
            return None
    layers: list[Layer] = []
    fallback = False
    if "agent.toml" in entries:
        layers, fallback = _definition(disk, f"{path}/agent.toml", shown, name, pack, problems)
    named = bool(layers) and "prompt" in layers[0].values
    layers[:0] = _convention(disk, path, shown, entries, pack, problems, named)
    told = check_prompt(disk, layers, pack, problems)
    # What the disk found wrong while this directory was read belongs to this agent.
    noted = disk.problems[before:]
    del disk.problems[before:]
    # A file that could not be read may have said it; one fault is enough then.
    if not told and not any(problem.is_error for problem in (*problems, *noted)):
        problems.append(no_prompt(shown, name, entries))
    found = _NOTHING
    if not _CATALOGUES.isdisjoint(entries):
        here = entries & _CATALOGUES
        found = frozenset(entry for entry in here if disk.is_directory(f"{path}/{entry}"))
    faults = tuple(softened(noted + problems, own)) if noted or problems else ()
    return AgentDir(name, shown, disk.shown(pack), tuple(layers), found, faults, fallback)


def _bad_name(shown: str, name: str) -> Problem:
    words = f"`{name}` cannot be an agent's name"
    hint = "use letters, digits, - and _, beginning with a letter or digit"
    return Problem("bad-name", words, Place(shown), hint)


def _entries(disk: Disk, path: str, pack: str, own: bool) -> set[str] | None:
    """The names in an agent's directory; None for what is no agent."""
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            if not disk.follow_directory(path, pack):
                return None
            found = os.stat(path)
        names = set(os.listdir(path))
    except FileNotFoundError:
        disk.seen[path] = None
        return None
    except NotADirectoryError:
        if own and not os.path.basename(path).startswith("README"):
            disk.problems.append(_loose(disk, path))
        return None
    except OSError:
        disk.names(path)  # says why
        return None
    disk.stamp(path, found)
    if disk.instead:
        names |= {os.path.basename(one) for one in disk.instead if os.path.dirname(one) == path}
    return None if "pack.toml" in names or "city.toml" in names else names


def _loose(disk: Disk, path: str) -> Problem:
    shown = disk.shown(path)
    name = os.path.basename(path)
    hint = f"an agent is a folder: {shown.removesuffix('.md')}/prompt.md"
    if "." in name:
        return warning("loose-file", "a file here is no agent", Place(shown), hint)
    return Problem("not-a-directory", f"`{name}` should be a directory", Place(shown), hint)


def _definition(
    disk: Disk, path: str, home: str, name: str, pack: str, problems: list[Problem]
) -> tuple[list[Layer], bool]:
    """What agent.toml says, and whether the agent calls itself a fallback."""
    raw = read_table(disk, path, within=pack)
    if raw is None:
        return [], False
    file = f"{home}/agent.toml"
    if raw.get("name", name) != name:
        problems.append(
            Problem(
                "name-mismatch",
                f'`name` says "{raw["name"]}" but the directory is `{name}`',
                Place(file, ("name",)),
                "the directory's name is the agent's; remove the key",
            )
        )
    decoded = decode_agent(disk, raw, path, (), pack, apart=frozenset(("name",)))
    problems += decoded.problems
    layer = Layer(DEFINITION, file, decoded.values, (), decoded.written or None)
    return [layer], raw.get("fallback") is True


def decode_agent(
    disk: Disk,
    raw: Mapping[str, object],
    path: str,
    at: KeyPath,
    pack: str,
    *,
    apart: frozenset[str] = _NOTHING,
    patch: bool = False,
) -> Decoded:
    """Decode agent settings wherever they stand: agent.toml, defaults or a patch."""
    file = disk.shown(path)
    out = decode(AGENT, raw, file, at, not_acted_on=AGENT_NOT_ACTED_ON, apart=apart)
    if "option_defaults" in out.values:
        _lift_model(out, file, at)
    if is_path(out.values.get("dir")):
        _lift_directory(out, file, at)
    if "tools.deny_remove" in out.values and not (patch and pack == disk.root):
        out.problems.append(
            Problem(
                "deny-only-grows",
                "`tools.deny` can be narrowed only by a patch of the city",
                Place(file, (*at, "tools", "deny_remove")),
                "move it to [[patches.agent]] in city.toml",
            )
        )
        del out.values["tools.deny_remove"]
    for key in _PATH_FIELDS:
        if key in out.values:
            _resolve_path(disk, out, key, path, at, pack, patch)
    return out


def _lift_model(out: Decoded, file: str, at: KeyPath) -> None:
    """`option_defaults.model` and `model` are one setting; the later layer decides."""
    options = out.values["option_defaults"]
    if not isinstance(options, dict) or "model" not in options:
        return
    if out.values.setdefault("model", options["model"]) != options["model"]:
        out.problems.append(
            Problem(
                "bad-value",
                "`model` and `option_defaults.model` say different things",
                Place(file, (*at, "option_defaults", "model")),
                "keep one of them",
            )
        )
    elif "model" not in out.written:
        out.written["model"] = "option_defaults.model"


def is_path(directory: object) -> bool:
    """`dir` names a rig; some write the project's own path there."""
    return isinstance(directory, str) and directory.startswith(("/", "~"))


def _lift_directory(out: Decoded, file: str, at: KeyPath) -> None:
    out.values.setdefault("work_dir", out.values.pop("dir"))
    out.written.setdefault("work_dir", "dir")
    words = "`dir` is a path here, so it is an older spelling of `work_dir`"
    place = Place(file, (*at, "dir"))
    out.problems.append(warning("older-spelling", words, place, "write `work_dir`"))


def _resolve_path(
    disk: Disk, out: Decoded, key: str, path: str, at: KeyPath, pack: str, patch: bool
) -> None:
    """Turn a written path into one as shown, or into a problem."""
    written = str(out.values[key])
    spelled = out.written.get(key, key)
    place = Place(disk.shown(path), (*at, spelled), of_value=True)
    root = pack
    if written.startswith("//"):
        root, target = disk.root, os.path.join(disk.root, written.lstrip("/"))
    elif "//" in written and (other := disk.named_pack(written.partition("//")[0])):
        root, target = other, os.path.join(other, written.partition("//")[2])
    elif written.startswith(("./", "../")):
        target = os.path.join(os.path.dirname(path), written)
    elif patch and spelled == "prompt":
        root, target = f"{pack}/patches", f"{pack}/patches/{written}"
    else:
        target = os.path.join(pack, written)
    target = os.path.normpath(target)
    if not is_below(target, root) or not written:
        out.problems.append(
            Problem(
                "path-leaves-pack",
                f"`{spelled}` leads out of {_called(disk, root)}",
                place,
                "keep the file inside the pack",
            )
        )
        del out.values[key]
    elif not disk.exists(target):
        out.problems.append(
            Problem(
                "missing-file",
                f"{disk.shown(target)} is not there",
                place,
                _elsewhere(disk, root, written),
            )
        )
        del out.values[key]
    elif not is_below(real := os.path.realpath(target), os.path.realpath(root)):
        out.problems.append(
            Problem("link-leaves-pack", f"`{spelled}` leads out of its pack, to {real}", place)
        )
        del out.values[key]
    else:
        out.values[key] = disk.shown(target)
        if patch and key == "prompt":
            before = len(disk.problems)
            _check_text(disk, target, root, out.problems, needed=True)
            out.problems += disk.problems[before:]
            del disk.problems[before:]


def _called(disk: Disk, root: str) -> str:
    return "the city" if root == disk.root else disk.shown(root)


def _elsewhere(disk: Disk, root: str, written: str) -> str | None:
    """A patch's prompt is looked for under patches/; people often write that directory too."""
    if "//" in written.strip("/"):
        return f"no pack that is imported calls itself `{written.partition('//')[0]}`"
    bare = written.removeprefix("patches/")
    if bare != written and disk.exists(f"{root}/{bare}"):
        return f'the path is relative to patches/: write "{bare}"'
    return None


def _convention(
    disk: Disk,
    path: str,
    shown: str,
    entries: set[str],
    pack: str,
    problems: list[Problem],
    overruled: bool,
) -> list[Layer]:
    """What the files of the directory say by being there."""
    layers = []
    prompts = [name for name in PROMPTS if name in entries]
    if len(prompts) > 1:
        place = Place(f"{shown}/{prompts[1]}", line=1, col=1)
        words = f"{prompts[0]} and {prompts[1]} stand side by side"
        problems.append(Problem("two-prompts", words, place, "keep one of them"))
    if prompts and not overruled:
        layers.append(_by_file("prompt", f"{shown}/{prompts[0]}"))
    if "namepool.txt" in entries:
        layers.append(_by_file("namepool", f"{shown}/namepool.txt"))
        _check_text(disk, f"{path}/namepool.txt", pack, problems)
    return layers


def _by_file(key: str, file: str) -> Layer:
    return Layer(DEFINITION, file, {key: file}, (), {key: ""})


def check_prompt(disk: Disk, layers: list[Layer], pack: str, problems: list[Problem]) -> bool:
    """Is there something to tell the model? A prompt that is there is checked."""
    told = False
    for layer in layers:
        prompt = layer.values.get("prompt")
        if isinstance(prompt, str):
            _check_text(disk, disk.absolute(prompt), pack, problems, needed=True)
            return True
        told = told or bool(layer.values.get("description") or layer.values.get("start_command"))
    return told


def no_prompt(shown: str, name: str, entries: set[str]) -> Problem:
    hint = f"write {shown}/prompt.md"
    if "profile.md" in entries:
        hint = f"rename {shown}/profile.md to prompt.md"
    words = f"agent `{name}` has neither prompt, description nor start_command"
    return Problem("no-prompt", words, Place(shown), hint)


def _check_text(
    disk: Disk, path: str, pack: str, problems: list[Problem], *, needed: bool = False
) -> None:
    """Text that a model or a person will see must be text."""
    before = len(disk.problems)
    data = disk.read(path, within=pack)
    if data is None:
        if needed:  # a link to nowhere is more than a warning then
            disk.problems[before:] = [p._replace(severity=ERROR) for p in disk.problems[before:]]
        return
    if not is_utf8(data):
        fault = bad_utf8(data, disk.shown(path))
        problems += [fault] if fault is not None else []
    if b"\0" in data:
        line = data[: data.index(b"\0")].count(b"\n") + 1
        place = Place(disk.shown(path), line=line, col=1)
        problems.append(Problem("nul-byte", "the text holds a NUL byte", place, "remove it"))


def _case_clash(disk: Disk, path: str, name: str, twin: str) -> Problem:
    return Problem(
        "case-clash",
        f"`{name}` and `{twin}` differ only in case",
        Place(disk.shown(path)),
        "rename one: file systems may not tell them apart",
    )


def softened(problems: list[Problem], own: bool) -> list[Problem]:
    """What is the pack author's to mend is only a warning to the pack's users."""
    return problems if own else [for_others(problem) for problem in problems]
