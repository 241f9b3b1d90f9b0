"""The entry of the program: exact shapes are answered at once, everything else by click."""

import os
import sys


def main() -> None:
    """Run the command line and leave with its exit code, whatever happens to its streams."""
    try:
        _open_streams()
        code = _answer(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        code = _unheard()
    except OSError as error:
        _unheard()
        print(f"city: error: the answer cannot be written: {error.strerror}", file=sys.stderr)
        code = 1
    _leave(code)


def _leave(code: int) -> None:
    """Go at once: an interpreter takes itself apart for longer than some commands run.

    It also remembers an interrupt that fell into an `eval`, as named tuples have one, although it
    was caught, and would end by the signal instead of with this code.
    """
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _open_streams() -> None:
    """A stream that was closed before we started is as good as one nobody reads."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _answer(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        from gascity import __version__

        print(f"city {__version__}")
        return 0
    from gascity.quick import answer

    code = answer(arguments, os.environ)
    if code is not None:
        return code
    from gascity.slung import answer as sling

    code = sling(arguments, os.environ)
    if code is not None:
        return code
    import gc

    gc.disable()  # a command is over before garbage matters; collecting costs a tenth of it
    from gascity.late import defer

    defer()
    from gascity.cli import run

    return run(arguments, os.path.basename(sys.argv[0]))


def _unheard() -> int:
    """The reader has gone; what is left in the buffer must not raise once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 141


if __name__ == "__main__":
    main()
