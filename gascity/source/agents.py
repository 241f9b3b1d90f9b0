"""Reads agent directories: the files in each folder below `agents/`, and its agent.toml."""

import os
import stat
from collections.abc import Iterator, Mapping

from gascity.model.fields import AGENT, Kind
from gascity.model.layers import DEFINITION, Layer
from gascity.model.names import is_name
from gascity.model.pack import CATALOGUES, AgentDir
from gascity.model.problems import ERROR, KeyPath, Place, Problem, warning
from gascity.model.tables import AGENT_NOT_ACTED_ON
from gascity.source.decode import Decoded, decode, for_others
from gascity.source.disk import Disk, bad_utf8, is_below, is_utf8
from gascity.toml.read import TomlError, has_bom, parse

PROFILES = ("profile.template.md", "profile.md")
PROMPTS = ("prompt.template.md", "prompt.md", "prompt.md.tmpl")

_PATH_FIELDS = tuple(name for name, field in AGENT.fields.items() if field.kind is Kind.PATH)
_CATALOGUES = frozenset(CATALOGUES)
_NO_NAMES: frozenset[str] = frozenset()
_NAME_KEY = frozenset(("name",))


def is_profile(file: str) -> bool:
    return file.rpartition("/")[2] in PROFILES


def read_table(disk: Disk, path: str, *, within: str | None = None) -> dict[str, object] | None:
    """Parse a TOML file; None if it does not exist or is invalid, with a problem on the disk."""
    data = disk.read(path, within=within)
    if data is None:
        return None
    if has_bom(data):
        place = Place(disk.shown(path), line=1, col=1)
        message = "the file starts with a byte order mark"
        disk.problems.append(
            warning("byte-order-mark", message, place, "save it as UTF-8 without one")
        )
    try:
        return parse(data)
    except TomlError as error:
        place = Place(disk.shown(path), line=error.line, col=error.col)
        problem = Problem(error.code, error.message, place, error.hint)
        disk.problems.append(_merge_conflict(data, disk.shown(path), error.line) or problem)
        return None


def _merge_conflict(data: bytes, file: str, line: int) -> Problem | None:
    """Return a problem that names the cause if the line is a conflict marker of git."""
    lines = data.split(b"\n")
    if not lines[line - 1].startswith((b"<<<<<<<", b"=======", b">>>>>>>")):
        return None
    message = "the file has an unresolved git merge conflict"
    hint = "decide which lines to keep, and remove the markers"
    if file == "packs.lock":
        hint = "keep either side, then run `city pack install`"
    return Problem("bad-toml", message, Place(file, line=line, col=1), hint)


def read_agents(
    disk: Disk, directory: str, pack: str, *, own: bool, only: str | None = None
) -> list[AgentDir]:
    """Read all agents below `directory`, or just the one named `only`; `pack` is a pack's root."""
    agents: list[AgentDir] = []
    lowered: dict[str, str] = {}
    if not disk.is_folder_of(directory, pack):
        return agents
    for name in _candidates(disk, directory, only):
        path = f"{directory}/{name}"
        agent = read_agent(disk, path, name, pack, own=own)
        if agent is None:
            continue
        twin = lowered.setdefault(name.lower(), name)
        if twin != name:
            clash = _case_clash(disk, path, name, twin)
            agent = agent._replace(problems=(*agent.problems, clash))
        agents.append(agent)
    return agents


def _candidates(disk: Disk, directory: str, only: str | None) -> Iterator[str]:
    if only is not None:
        if is_name(only):
            yield only
        return
    names = disk.names(directory)
    if "pack.toml" in names or "city.toml" in names:
        return  # a manifest means that this is another pack
    yield from (name for name in names if name[0] not in "._")


def read_agent(disk: Disk, path: str, name: str, pack: str, *, own: bool) -> AgentDir | None:
    """Read one agent's directory; None if it is not an agent."""
    before = len(disk.problems)
    entries = _entries(disk, path, pack, own)
    if entries is None:
        return None
    problems: list[Problem] = []
    shown = disk.shown(path)
    if not is_name(name):
        problems.append(_bad_name(shown, name))
        if not own:  # no reference could name it, so it is left out
            disk.problems += soften(problems, own)
            return None
    layers: list[Layer] = []
    fallback = False
    if "agent.toml" in entries:
        layers, fallback = _definition(disk, f"{path}/agent.toml", shown, name, pack, problems)
    if not entries.isdisjoint(PROFILES):
        layers[:0] = _profile(disk, path, name, entries, pack, layers, problems)
    has_explicit = bool(layers) and "prompt" in layers[0].values
    layers[:0] = _convention(disk, path, shown, entries, pack, problems, has_explicit)
    has_prompt = check_prompt(disk, layers, pack, problems)
    # Problems that the disk noticed while reading this directory belong to this agent.
    noted = disk.take_problems(before)
    # An unreadable file may contain the prompt; one problem is enough then.
    if not has_prompt and not any(problem.is_error for problem in (*problems, *noted)):
        problems.append(no_prompt(shown, name, entries))
    catalogues = _NO_NAMES
    if not _CATALOGUES.isdisjoint(entries):
        names = entries & _CATALOGUES
        catalogues = frozenset(each for each in names if disk.is_directory(f"{path}/{each}"))
    all_problems = tuple(soften(noted + problems, own)) if noted or problems else ()
    return AgentDir(
        name, shown, disk.shown(pack), tuple(layers), catalogues, all_problems, fallback
    )


def _bad_name(shown: str, name: str) -> Problem:
    message = f"`{name}` is not a valid agent name"
    hint = "use letters, digits, - and _, starting with a letter or digit"
    return Problem("bad-name", message, Place(shown), hint)


def _entries(disk: Disk, path: str, pack: str, own: bool) -> set[str] | None:
    """Return the names in an agent's directory; None if it is not an agent."""
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            if not disk.follow_directory(path, pack):
                return None
            status = os.stat(path)
        names = set(os.listdir(path))
    except FileNotFoundError:
        disk.seen[path] = None
        return None
    except NotADirectoryError:
        if own and not os.path.basename(path).startswith("README"):
            disk.problems.append(_not_a_folder(disk, path))
        return None
    except OSError:
        disk.names(path)  # records the problem
        return None
    disk.stamp(path, status)
    if disk.overrides:
        names |= {
            os.path.basename(file) for file in disk.overrides if os.path.dirname(file) == path
        }
    return None if "pack.toml" in names or "city.toml" in names else names


def _not_a_folder(disk: Disk, path: str) -> Problem:
    shown = disk.shown(path)
    name = os.path.basename(path)
    hint = f"an agent is a folder: {shown.removesuffix('.md')}/prompt.md"
    if "." in name:
        return warning("loose-file", "a file here is not an agent", Place(shown), hint)
    return Problem("not-a-directory", f"`{name}` should be a directory", Place(shown), hint)


def _definition(
    disk: Disk, path: str, home: str, name: str, pack: str, problems: list[Problem]
) -> tuple[list[Layer], bool]:
    """Read agent.toml: its settings, and whether the agent is a fallback."""
    raw = read_table(disk, path, within=pack)
    if raw is None:
        return [], False
    file = f"{home}/agent.toml"
    if raw.get("name", name) != name:
        problems.append(
            Problem(
                "name-mismatch",
                f'`name` is "{raw["name"]}" but the directory is `{name}`',
                Place(file, ("name",)),
                "an agent has the name of its directory; remove the key",
            )
        )
    decoded = decode_agent(disk, raw, path, (), pack, handled=_NAME_KEY)
    problems += decoded.problems
    return [decoded.layer(DEFINITION, file)], raw.get("fallback") is True


def _profile(
    disk: Disk,
    path: str,
    name: str,
    entries: set[str],
    pack: str,
    layers: list[Layer],
    problems: list[Problem],
) -> list[Layer]:
    """Read profile.md: settings and prompt in one file. agent.toml may set what it does not."""
    from gascity.source.profiles import profile_layer, profile_settings

    profile, *others = [entry for entry in (*PROFILES, *PROMPTS) if entry in entries]
    file = disk.shown(f"{path}/{profile}")
    for other in others:
        message = f"{profile} and {other} both define the prompt"
        problems.append(Problem("two-definitions", message, Place(file, line=1, col=1)))
    data = disk.read(f"{path}/{profile}", within=pack)
    if data is None or not is_utf8(data):
        return []
    found = profile_settings(data.decode(), file, name)
    problems += found.problems
    decoded = decode_agent(disk, found.table, f"{path}/{profile}", (), pack)
    problems += decoded.problems
    layer = profile_layer(file, decoded.layer(DEFINITION, file), found.written)
    for key in layer.values.keys() & (layers[0].values.keys() if layers else ()):
        place = layers[0].place(key)
        message = f"`{key}` is set in {profile} and in agent.toml"
        problems.append(Problem("set-twice", message, place, "keep one of them"))
    if not found.has_prompt or "prompt" in layer.values:
        return [layer]
    return [_by_file("prompt", file), layer]


def decode_agent(
    disk: Disk,
    raw: Mapping[str, object],
    path: str,
    at: KeyPath,
    pack: str,
    *,
    handled: frozenset[str] = _NO_NAMES,
    patch: bool = False,
) -> Decoded:
    """Decode agent settings of agent.toml, of defaults or of a patch."""
    file = disk.shown(path)
    out = decode(AGENT, raw, file, at, not_acted_on=AGENT_NOT_ACTED_ON, handled=handled)
    if "option_defaults" in out.values:
        _lift_model(out, file, at)
    if "dir" in out.values and is_path(str(out.values["dir"])):
        _lift_directory(out, file, at)
    if "tools.deny_remove" in out.values and not (patch and pack == disk.root):
        out.problems.append(
            Problem(
                "deny-only-grows",
                "only a patch of the city can remove from `tools.deny`",
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
    """Treat `option_defaults.model` as `model`: both are one setting."""
    options = out.values["option_defaults"]
    if not isinstance(options, dict) or "model" not in options:
        return
    if out.values.setdefault("model", options["model"]) != options["model"]:
        out.problems.append(
            Problem(
                "bad-value",
                "`model` and `option_defaults.model` have different values",
                Place(file, (*at, "option_defaults", "model")),
                "keep one of them",
            )
        )
    elif "model" not in out.written:
        out.written["model"] = "option_defaults.model"


def is_path(directory: str) -> bool:
    """Is this value of `dir` a path? It should name a rig, but v1 also took paths."""
    return directory.startswith(("/", "~"))


def _lift_directory(out: Decoded, file: str, at: KeyPath) -> None:
    out.values.setdefault("work_dir", out.values.pop("dir"))
    out.written.setdefault("work_dir", "dir")
    message = "`dir` with a path is an older spelling of `work_dir`"
    place = Place(file, (*at, "dir"))
    out.problems.append(warning("older-spelling", message, place, "write `work_dir`"))


def _resolve_path(
    disk: Disk, out: Decoded, key: str, path: str, at: KeyPath, pack: str, patch: bool
) -> None:
    """Replace a path setting by the displayed path of its file, or by a problem."""
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
                f"`{spelled}` leads out of {_place_name(disk, root)}",
                place,
                "keep the file inside the pack",
            )
        )
        del out.values[key]
    elif not disk.exists(target):
        problem = Problem(
            "missing-file",
            f"{disk.shown(target)} does not exist",
            place,
            _elsewhere(disk, root, written),
        )
        # git keeps no empty directories, so a clone may lack a directory of overlays.
        out.problems.append(problem.softened() if key == "overlay_dir" else problem)
        del out.values[key]
    elif not is_below(real := os.path.realpath(target), os.path.realpath(root)):
        out.problems.append(
            Problem("link-leaves-pack", f"`{spelled}` leads out of its pack, to {real}", place)
        )
        del out.values[key]
    else:
        out.values[key] = disk.shown(target)
        if key == "reflection" or (patch and key == "prompt"):
            before = len(disk.problems)
            _check_text(disk, target, root, out.problems, needed=True)
            out.problems += disk.take_problems(before)


def _place_name(disk: Disk, root: str) -> str:
    return "the city" if root == disk.root else disk.shown(root)


def _elsewhere(disk: Disk, root: str, written: str) -> str | None:
    """Return a hint: a patch's prompt is relative to patches/, which users often repeat."""
    if "//" in written.strip("/"):
        return f"no imported pack has the name `{written.partition('//')[0]}`"
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
    has_explicit: bool,
) -> list[Layer]:
    """Return the settings that files imply by existing: prompt.md and namepool.txt."""
    layers = []
    prompts = [name for name in PROMPTS if name in entries]
    if len(prompts) > 1:
        place = Place(f"{shown}/{prompts[1]}", line=1, col=1)
        message = f"there are two prompts: {prompts[0]} and {prompts[1]}"
        problems.append(Problem("two-prompts", message, place, "keep one of them"))
    if prompts and not has_explicit:
        layers.append(_by_file("prompt", f"{shown}/{prompts[0]}"))
    if "namepool.txt" in entries:
        layers.append(_by_file("namepool", f"{shown}/namepool.txt"))
        _check_text(disk, f"{path}/namepool.txt", pack, problems)
    return layers


def _by_file(key: str, file: str) -> Layer:
    return Layer(DEFINITION, file, {key: file}, (), {key: ""})


def check_prompt(disk: Disk, layers: list[Layer], pack: str, problems: list[Problem]) -> bool:
    """Does the agent have a prompt, a description or a start command? Checks the prompt's text."""
    has_any = False
    for layer in layers:
        prompt = layer.values.get("prompt")
        if isinstance(prompt, str):
            _check_text(disk, disk.absolute(prompt), pack, problems, needed=True)
            return True
        values = layer.values
        has_any = has_any or bool(values.get("description") or values.get("start_command"))
    return has_any


def no_prompt(shown: str, name: str, entries: set[str]) -> Problem:
    hint = f"write {shown}/prompt.md"
    if not entries.isdisjoint(PROFILES):
        hint = "write a section `## Role`"
    message = f"agent `{name}` has no prompt, description or start_command"
    return Problem("no-prompt", message, Place(shown), hint)


def _check_text(
    disk: Disk, path: str, pack: str, problems: list[Problem], *, needed: bool = False
) -> None:
    """Check that a file is UTF-8 text without NUL bytes."""
    before = len(disk.problems)
    data = disk.read(path, within=pack)
    if data is None:
        if needed:  # a broken link is more than a warning then
            disk.problems[before:] = [p._replace(severity=ERROR) for p in disk.problems[before:]]
        return
    if not is_utf8(data):
        problem = bad_utf8(data, disk.shown(path))
        problems += [problem] if problem is not None else []
    if b"\0" in data:
        line = data[: data.index(b"\0")].count(b"\n") + 1
        place = Place(disk.shown(path), line=line, col=1)
        problems.append(Problem("nul-byte", "the text contains a NUL byte", place, "remove it"))


def _case_clash(disk: Disk, path: str, name: str, twin: str) -> Problem:
    return Problem(
        "case-clash",
        f"`{name}` and `{twin}` differ only in case",
        Place(disk.shown(path)),
        "rename one: some file systems cannot distinguish them",
    )


def soften(problems: list[Problem], own: bool) -> list[Problem]:
    """Turn problems that only the pack's author can fix into warnings for its users."""
    return problems if own else [for_others(problem) for problem in problems]
