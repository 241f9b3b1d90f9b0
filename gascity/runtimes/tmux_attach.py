"""Attach a user's terminal to a terminal of the city's tmux server, also from inside another tmux.

A tmux client inside another tmux works, but both read the same prefix key, and the outer one comes
first. Therefore `attach` inside the user's own tmux opens a window there for the nested client, and
the status line of the nested one names the keys that detach it, which depend on the user's
settings. Inside the city's own server the client switches to the other terminal instead.
"""

import os
from collections.abc import Mapping, Sequence

from gascity.runtimes.port import Attachment
from gascity.runtimes.tmux_client import TmuxClient

_NESTED = ("TMUX", "TMUX_PANE")  # with these set, tmux refuses to run inside another tmux
_PREFIX = "C-b"  # of the city's server, which reads no configuration
_DETACH = "d"
_TIMEOUT = 5.0  # seconds for a question to the user's tmux
_TERMINAL = "screen-256color"  # of a client inside tmux, known on every machine
_INSIDE = ("screen", "tmux")  # how TERM begins inside tmux; the status line relies on it

# The keys in the status line depend on the client: one may be nested while another is not.
_KEYS = f"#{{?#{{m/r:^({'|'.join(_INSIDE)}),#{{client_termname}}}},#{{@city_detach}},Ctrl-b d}}"
_TITLE = "#{?@city_title,#{@city_title},#{session_name}}"
STATUS_SETTINGS = (
    "set-option -g status on",
    "set-option -g status-style 'bg=default,fg=default,dim'",
    f"set-option -g status-format[0] '#[align=left] {_TITLE}#[align=right]detach: {_KEYS} '",
)


def attachment(
    client: TmuxClient, terminal: str, title: str, environ: Mapping[str, str]
) -> Attachment:
    """Return the command that attaches to a terminal, for a user with this environment."""
    title = (title or terminal).replace("#", "##")  # tmux expands it
    plain = {name: value for name, value in environ.items() if name not in _NESTED}
    outer = environ.get("TMUX", "").partition(",")[0]
    if outer and _same_file(outer, client.socket):
        argv = client.argv("switch-client", "-t", f"={terminal}")
        return Attachment(argv, environ, _shown(_PREFIX, _DETACH))
    keys = _outer_keys(environ) if outer else None
    if keys is None:  # no tmux around, or one that has gone
        detach = _shown(_PREFIX, _DETACH)
        return Attachment(_attach(client, terminal, title, detach), plain, detach)
    detach = _detach_keys(*keys)
    term = environ.get("TERM", "")
    term = term if term.startswith(_INSIDE) else _TERMINAL
    unset = [word for name in _NESTED for word in ("-u", name)]
    nested = ["env", *unset, f"TERM={term}", *_attach(client, terminal, title, detach)]
    window = ["tmux", "new-window", *map(_word, ("-n", title, *nested))]
    return Attachment(window, environ, detach, in_window=True)


def _attach(client: TmuxClient, terminal: str, title: str, detach: str) -> list[str]:
    target = f"={terminal}:"
    return client.argv(
        *("set-option", "-t", target, "@city_title", _word(title), ";"),
        *("set-option", "-t", target, "@city_detach", detach, ";"),
        *("attach-session", "-t", f"={terminal}"),
    )


def _word(text: str) -> str:
    """Escape a word that ends with `;`, which tmux would read as the end of a command."""
    return f"{text[:-1]}\\;" if text.endswith(";") else text


def _same_file(first: str, second: str) -> bool:
    try:
        return os.path.samefile(first, second)
    except OSError:
        return False


def _outer_keys(environ: Mapping[str, str]) -> tuple[Sequence[str], Sequence[str]] | None:
    """Return the prefix keys of the user's tmux, and those that send its prefix on.

    None if it does not answer.
    """
    # Not in one call: with `list-keys` in it, tmux would start a server where there is none.
    prefixes = _output(environ, "display-message", "-p", "#{prefix} #{prefix2}")
    bindings = _output(environ, "list-keys", "-T", "prefix") if prefixes is not None else None
    if prefixes is None or bindings is None:
        return None
    words = [line.split() for line in bindings.splitlines()]
    sending = [line[-2] for line in words if len(line) > 4 and line[-1] == "send-prefix"]
    return prefixes.split(), sending


def _output(environ: Mapping[str, str], *command: str) -> str | None:
    import subprocess

    try:
        done = subprocess.run(
            ["tmux", *command], env=environ, capture_output=True, timeout=_TIMEOUT, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")


def _detach_keys(prefixes: Sequence[str], sending: Sequence[str]) -> str:
    """Return what to press in the nested client; "" if the outer tmux never passes the prefix."""
    if _PREFIX not in prefixes:
        return _shown(_PREFIX, _DETACH)
    return _shown(_PREFIX, sending[0], _DETACH) if sending else ""


def _shown(*keys: str) -> str:
    """Return keys as users know them: `C-b` as `Ctrl-b`."""
    return " ".join(key.replace("C-", "Ctrl-").replace("M-", "Alt-") for key in keys)
