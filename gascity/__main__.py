"""Entry point: answers cached and fast commands first, runs click for everything else."""

import os
import sys

from gascity.host import unsupported


def main() -> None:
    """Run the command line and exit with its code, also if stdout is closed."""
    if reason := unsupported():
        sys.exit(f"city: error: {reason}")
    try:
        _open_streams()
        code = _answer(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        code = _discard_stdout()
    except OSError as error:
        _discard_stdout()
        from gascity.cli.terminal import print_stderr

        print_stderr(f"city: error: cannot write the output: {error.strerror}")
        code = 1
    _exit(code)


def _exit(code: int) -> None:
    """Exit without interpreter shutdown, which takes longer than some commands.

    A normal shutdown would also end by SIGINT, not with this code, if an interrupt was caught
    inside an `eval`, as the creation of a named tuple has one.
    """
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _open_streams() -> None:
    """Replace streams that the caller closed, so that printing does not fail."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _answer(arguments: list[str]) -> int:
    """Return the exit code; the cheapest way that can answer comes first."""
    if arguments in (["--version"], ["-V"]):
        from gascity import __version__

        print(f"city {__version__}")
        return 0
    from gascity.startup.answer_cache import answer

    code = answer(arguments, os.environ)
    if code is not None:
        return code
    if arguments[:1] == ["sling"]:
        from gascity.cli.fast_sling import answer as sling

        code = sling(arguments, os.environ)
        if code is not None:
            return code
    if arguments[:2] == ["mcp", "serve"]:
        from gascity.cli.fast_mcp_serve import answer as serve

        code = serve(arguments, os.environ)
        if code is not None:
            return code
    import gc

    gc.disable()  # commands are short-lived; collecting costs a tenth of their time
    from gascity.startup.lazy_imports import defer

    defer()
    from gascity.cli.main import run

    return run(arguments, os.path.basename(sys.argv[0]))


def _discard_stdout() -> int:
    """Point stdout to /dev/null after its reader closed it, so that the last flush cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 141


if __name__ == "__main__":
    main()
