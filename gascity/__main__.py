"""The entry of the program: exact shapes are answered at once, everything else by click."""

import os
import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from gascity import __version__

        print(f"city {__version__}")
        return
    from gascity.quick import answer

    code = answer(arguments, os.environ)
    if code is None:
        import gc

        gc.disable()  # a command is over before garbage matters; collecting costs a tenth of it
        from gascity.cli import run

        code = run(arguments)
    sys.exit(code)


if __name__ == "__main__":
    main()
