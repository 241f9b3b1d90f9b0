"""The tmux of a user, with its own server, in which tests type and read the screen."""

import fcntl
import os
import pty
import shlex
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

DEADLINE = 30.0


class UserTmux:
    """One session with a shell-less window per command, and a client on a terminal of its own."""

    def __init__(
        self, place: Path, cwd: Path, arguments: Sequence[str], *, columns: int, config: str = ""
    ) -> None:
        place.mkdir(parents=True)
        (place / "tmux.conf").write_text(f"set -g default-terminal screen-256color\n{config}\n")
        self._command = ["tmux", "-u", "-S", str(place / "socket"), "-f", str(place / "tmux.conf")]
        city = shlex.join([sys.executable, "-m", "gascity", *arguments])
        size = ("-x", str(columns), "-y", "30")
        held = f"{city}; echo exited with $?; exec cat"  # keeps what the command printed
        self.ask("new-session", "-d", *size, "-c", str(cwd), "sh", "-c", held, env=_environ())
        self._end, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 31, columns, 0, 0))
        self._client = subprocess.Popen(
            [*self._command, "attach-session"],
            env=_environ(),
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs)

    def ask(self, *words: str, env: Mapping[str, str] | None = None) -> str:
        done = subprocess.run([*self._command, *words], capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def keys(self, *keys: str) -> None:
        """Press keys in the current window, past the prefix key of this tmux."""
        self.ask("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type as the user does, through this tmux."""
        os.write(self._end, text.encode())

    def screen(self) -> str:
        """Return the text of the current window."""
        return self.ask("capture-pane", "-p")

    def until(self, text: str) -> str:
        """Wait until the current window shows a text; return the screen."""
        end = time.monotonic() + DEADLINE
        while text not in (shown := self.screen()):
            assert time.monotonic() < end, f"never showed {text!r}:\n{shown}"
            time.sleep(0.02)
        return shown

    def windows(self) -> list[str]:
        return self.ask("list-windows", "-F", "#{window_name}").splitlines()

    def close(self) -> None:
        subprocess.run([*self._command, "kill-server"], capture_output=True)
        self._client.wait(DEADLINE)
        os.close(self._end)


def _environ() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "TMUX")}
    return {**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
