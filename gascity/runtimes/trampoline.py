"""The few lines of `sh` under which every run goes, and the file in which they leave its status."""

import os

from gascity.runtimes.runtime import DOUBTFUL, ENDED, GOING, GONE, HELD, Order, Seen

# Two lines of eight bytes each, written over in place: a full disk loses no result.
_PLACEHOLDER = b"held   \n       \n"

# Descriptor 3 is the gate, 4 the exit file. The only variable is one that `cd` sets anyway: another
# might be one of the order's environment, and arrive changed. A signal ends the preparations; from
# then on it is for the child alone, and the shell lives on to write the status. A trap that does
# something is no disposition that a child inherits, one that ignores would be.
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
    printf 'city: cannot enter the working directory: %s\\n' "$1" >&2
    finish 126
}
unset OLDPWD
shift
while :; do
    case $1 in
    before)
        /bin/sh -c "$2" </dev/null 4>&- || {
            set -- "$?" "$2"
            printf 'city: failed with status %s, so nothing was started: %s\\n' "$1" "$2" >&2
            finish "$1"
        }
        ;;
    setup)
        /bin/sh -c "$2" </dev/null 4>&- ||
            printf 'city: failed with status %s, going on: %s\\n' "$?" "$2" >&2
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
(exec "$@") 4>&-
finish "$?"
"""

# Where nothing can be inherited, both are opened by their paths. A gate that is gone ends it here.
_OPENING = """\
exec 3<"$1" 4<>"$2"
shift 2
"""

# A terminal that goes away tells nobody but the leader, by whose end the kernel tells the others.
_IN_TERMINAL = """\
trap - HUP
"""


def command(order: Order, gate: str = "") -> list[str]:
    """Return the argv of a run that waits at its gate for one line, and does not run without it.

    The gate is descriptor 3 and the exit file descriptor 4, both inherited; with `gate`, both are
    opened by path instead, and it ends with its terminal. `/proc/<pid>/fd/<n>` of a pipe's read
    end, which that process keeps open until the run is released, is a path that is gone once that
    process is.
    """
    opened = [gate, order.exit_file] if gate else []
    prepared = [
        *(word for text in order.before for word in ("before", text)),
        *(word for text in order.setup for word in ("setup", text)),
    ]
    script = _OPENING + _SCRIPT + _IN_TERMINAL + _RUN if gate else _SCRIPT + _RUN
    return ["/bin/sh", "-c", script, "city", *opened, order.cwd, *prepared, "run", *order.argv]


def open_exit_file(path: str) -> int:
    """Write the placeholder and return its descriptor, where the run is to write over it."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(file, _PLACEHOLDER, 0)
    except OSError:
        os.close(file)
        raise
    return file


def read_exit(path: str) -> Seen:
    """Return what the exit file says: HELD, GOING, or ENDED with its code; DOUBTFUL if nothing."""
    try:
        with open(path, "rb") as file:
            text = file.read(len(_PLACEHOLDER))
    except OSError:
        return Seen(DOUBTFUL)
    first, second = text[:8], text[8:]
    if first == _PLACEHOLDER[:8]:
        return Seen(HELD, ran=False)
    if first != b"running\n":
        return Seen(DOUBTFUL)
    code = second[4:7].strip()
    if second.startswith(b"end ") and second.endswith(b"\n") and code.isdigit():
        return Seen(ENDED, int(code))
    return Seen(GOING)


def stand(alive: bool | None, exit_file: str) -> Seen:
    """How a run stands whose leader was seen alive, dead, or could not be told, before this call.

    In that order, so that a status written between the two is not missed.
    """
    told = read_exit(exit_file)
    if told.state == ENDED:
        return told
    if alive is None:
        return Seen(DOUBTFUL, ran=told.ran)
    if not alive:
        return Seen(GONE, ran=told.ran)
    return told if told.state == HELD else Seen(GOING)
