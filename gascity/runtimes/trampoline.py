"""The shell wrapper under which every run executes, and the file that receives its exit code.

The wrapper (a "trampoline") solves two problems that plain spawning leaves open:

- *No run without a record.* The controller must know the pid before it can record the run, but a
  process that is spawned runs at once. So the wrapper first reads one line from a pipe, the gate.
  The controller writes that line after the transaction with the run's record is committed. If the
  controller dies before that, the pipe closes, `read` fails, and the wrapper exits without having
  executed anything.
- *No exit code lost.* Only a parent can wait for an exit code, and a run outlives the controller
  that started it. So the wrapper stays the parent of the command and writes the code to the exit
  file, where any later controller finds it.

The exit file has three lines of eight bytes, created with placeholders and overwritten in place, so
a full disk cannot lose the result. The first becomes `running` at the release, the second `end
NNN`. The third becomes `stop` before the runtime sends the first signal. Without it, a signal that
arrives while the shell forks the command is lost: the wrapper ignores it from then on, and the
child still has the wrapper's traps. The child starts with default actions and then looks for
`stop`, so it either sees the line or is ended by the signal.

A fourth line says whose file it is. The file may have been that of an earlier run, and after a
power cut a file system may show the new name with the old content: the exit code of that run.
"""

import os

from gascity.ancestry import run_bits
from gascity.files import reuse_file
from gascity.runtimes.port import RunHandle, RunSpec, RunState, RunStatus

NEVER_RAN = 125  # exit code of a wrapper that was not released
_PLACEHOLDER = b"held   \n       \n       \n"
_STOP_OFFSET = 16
_MOST = 64  # bytes of an exit file; more than any has

# Descriptor 3 is the gate, 4 the exit file, and 5 a pipe whose reader learns from its end that the
# wrapper has exited (not on Linux). No program that it starts gets them.
#
# The script uses no variable of its own, because it could be one of the run's environment and reach
# the command changed; OLDPWD is set by `cd` anyway.
#
# Until the command starts, a signal ends the preparations. From then on it is meant for the command
# alone, and the wrapper survives to write the exit code: `trap :` has that effect and, unlike
# `trap ''`, is not inherited by the command.
_SCRIPT = """\
finish() {
    trap '' HUP INT QUIT TERM
    printf 'end %3d\\n' "$1" >&4
    exit "$1"
}
read -r OLDPWD <&3 || exit 125
exec 3<&-
printf 'running\\n' >&4
trap 'finish 129' HUP
trap 'finish 130' INT
trap 'finish 131' QUIT
trap 'finish 143' TERM
cd -- "$1" 2>/dev/null || {
    printf 'city: cannot change to the working directory: %s\\n' "$1" >&2
    finish 126
}
unset OLDPWD
shift
while :; do
    case $1 in
    before)
        /bin/sh -c "$2" </dev/null 4>&- 5>&- || {
            set -- "$?" "$2"
            printf 'city: failed with status %s, run not started: %s\\n' "$1" "$2" >&2
            finish "$1"
        }
        ;;
    setup)
        /bin/sh -c "$2" </dev/null 4>&- 5>&- ||
            printf 'city: failed with status %s, continuing: %s\\n' "$?" "$2" >&2
        ;;
    *)
        break
        ;;
    esac
    shift 2
done
shift
trap : HUP INT QUIT TERM
"""
_RUN = """\
(
    { read -r OLDPWD && read -r OLDPWD && read -r OLDPWD; } 2>/dev/null <"$1"
    case $OLDPWD in
    stop) exit 143 ;;
    esac
    unset OLDPWD
    shift
    exec "$@"
) 4>&- 5>&-
finish "$?"
"""

# In a terminal the descriptors cannot be inherited, so the files are opened by path. On Linux the
# gate's path is below /proc/<controller>/fd, so it no longer exists once the controller is dead.
_OPEN_FILES = """\
exec 3<"$1" 4<>"$2"
shift 2
"""

# Elsewhere the gate is a named pipe. Opening it to read would wait for a writer, and indefinitely
# if the controller is dead; so it is opened for both first. Then only the controller is a writer,
# and `read` fails if there is none. The third pipe tells the controller when the wrapper exits.
_OPEN_PIPES = """\
exec 5<>"$1"
exec 3<"$1" 4<>"$2" 5<>"$3"
shift 3
"""

# When a terminal closes, the kernel sends SIGHUP only to the session leader, the wrapper; when that
# exits, to the foreground processes. So in a terminal the wrapper must not survive SIGHUP.
_EXIT_WITH_TERMINAL = """\
trap - HUP
"""


def command(spec: RunSpec, gate: str = "", exit_pipe: str = "") -> list[str]:
    """Return the argv of a run that waits for one line from its gate.

    By default the wrapper inherits its descriptors. With the path `gate` it opens them by path, and
    the run ends with its terminal. The path leads to a pipe, whose read end the caller keeps open
    until the release.
    """
    paths = [gate, spec.exit_file, *([exit_pipe] if exit_pipe else ())] if gate else []
    opening = (_OPEN_PIPES if exit_pipe else _OPEN_FILES) if gate else ""
    preparations = [
        *(word for text in spec.before for word in ("before", text)),
        *(word for text in spec.setup for word in ("setup", text)),
    ]
    script = opening + _SCRIPT + (_EXIT_WITH_TERMINAL if gate else "") + _RUN
    run = ["run", spec.exit_file, *spec.argv]
    return ["/bin/sh", "-c", script, "city", *paths, spec.cwd, *preparations, *run]


def create_exit_file(spec: RunSpec) -> int:
    """Create the exit file with placeholders and return its descriptor, at the start."""
    file = open_private(spec.exit_file, os.O_RDWR | os.O_TRUNC)
    try:
        os.pwrite(file, _PLACEHOLDER + _owner(spec.session, spec.generation), 0)
    except OSError:
        os.close(file)
        raise
    return file


def reuse_exit_file(ended: RunHandle, spec: RunSpec) -> int | None:
    """Like `create_exit_file`, with the file of an ended run; None if that cannot be used."""
    content = _PLACEHOLDER + _owner(spec.session, spec.generation)
    return reuse_file(ended.exit_file, spec.exit_file, content)


def _owner(session: str, generation: int) -> bytes:
    return b"%08x\n" % run_bits(session, generation)


def open_private(path: str, flags: int) -> int:
    """Open a file that only this user may read; create it, and its directory, if needed."""
    flags |= os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        return os.open(path, flags, 0o600)


def mark_stopped(path: str) -> None:
    """Record that the run is to stop, before a signal is sent to it. Ignore failures."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return  # of a run whose record was removed: there is only the signal
    try:
        os.pwrite(file, b"stop   \n", _STOP_OFFSET)
    except OSError:
        pass
    finally:
        os.close(file)


def read_exit_file(handle: RunHandle) -> RunStatus:
    """Return the status in a run's exit file; UNKNOWN if it is missing or makes no sense."""
    try:
        file = os.open(handle.exit_file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return RunStatus(RunState.UNKNOWN)
    try:
        text = os.read(file, _MOST)
    except OSError:
        return RunStatus(RunState.UNKNOWN)
    finally:
        os.close(file)
    first, second, owner = text[:8], text[8:16], text[len(_PLACEHOLDER) :]
    if owner and owner != _owner(handle.session, handle.generation):
        return RunStatus(RunState.UNKNOWN)
    if first == _PLACEHOLDER[:8]:
        return RunStatus(RunState.HELD, ran=False)
    if first != b"running\n":
        return RunStatus(RunState.UNKNOWN)
    code = second[4:7].strip()
    if second.startswith(b"end ") and second.endswith(b"\n") and code.isdigit():
        return RunStatus(RunState.EXITED, int(code))
    return RunStatus(RunState.RUNNING)


def run_status(alive: bool | None, handle: RunHandle) -> RunStatus:
    """Return the status of a run whose wrapper is alive, dead, or unknown (None).

    The caller must look at the wrapper first and read the file second, as here: in the other order,
    an exit code written in between would be missed, and the run be taken for killed.
    """
    status = read_exit_file(handle)
    if status.state == RunState.EXITED:
        return status
    if alive is None:
        return RunStatus(RunState.UNKNOWN, ran=status.ran)
    if not alive:
        return RunStatus(RunState.GONE, ran=status.ran)
    return status if status.state == RunState.HELD else RunStatus(RunState.RUNNING)
