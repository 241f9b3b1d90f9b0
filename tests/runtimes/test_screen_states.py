"""States of recorded screens of real providers, as the facts in gascity/providers decide it.

Each recording is `capture-pane -p` of a real program, under a header with its cursor and with what
it shows, checked by eye: `ready` (an empty input line and nothing else going on), `busy`,
`unknown`, or `dialog` and its name.
"""

from functools import cache
from pathlib import Path

import pytest

from gascity.model.screen import TerminalScreen
from gascity.pipeline import open_city
from gascity.render.terminal import (
    BUSY,
    DIALOG,
    READY,
    UNKNOWN,
    ScreenState,
    TerminalRules,
    terminal_rules,
)

SCREENS = Path(__file__).parent / "screens"
RECORDINGS = sorted(SCREENS.glob("*/*.txt"))
_NEEDED = ("claude", "codex", "gemini", "copilot")  # with a dialog, a turn and a typed text each


def load(path: Path) -> tuple[TerminalScreen, ScreenState]:
    head, _, body = path.read_text().partition("\n---\n")
    facts = dict(line.split(": ", 1) for line in head.splitlines())
    x, y = map(int, facts["cursor"].split(","))
    kind, _, name = facts["shows"].partition(" ")
    lines = tuple(body.rstrip("\n").split("\n"))
    return TerminalScreen(lines, x, y, facts["cursor_flag"] == "1"), ScreenState(kind, name)


@cache
def rules_of(provider: str, root: str) -> TerminalRules:
    city = open_city(root, {"HOME": root})
    agent = next(agent for agent in city.agents if str(agent.name) == provider)
    return terminal_rules(city.providers[provider], agent)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A city with the built-in agent of every recorded provider."""
    root = tmp_path_factory.mktemp("screens")
    names = ", ".join(f'"{path.name}"' for path in sorted(SCREENS.iterdir()))
    (root / "city.toml").write_text(f"implicit_agents = [{names}]\n")
    return str(root)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_recorded_screen_shows_what_it_shows(path: Path, root: str) -> None:
    screen, expected = load(path)
    assert rules_of(path.parent.name, root).state(screen) == expected


@pytest.mark.parametrize("provider", _NEEDED)
def test_the_recordings_cover_what_must_not_be_confused(provider: str) -> None:
    kinds = {load(path)[1].kind for path in RECORDINGS if path.parent.name == provider}
    assert kinds == {READY, BUSY, DIALOG, UNKNOWN}


@pytest.mark.parametrize(
    "path",
    [path for path in RECORDINGS if path.stem.startswith("typed-")],
    ids=lambda path: path.parent.name,
)
def test_a_typed_text_is_recognised_on_the_input_line_and_another_is_not(
    path: Path, root: str
) -> None:
    rules, (screen, _) = rules_of(path.parent.name, root), load(path)
    assert rules.has_text(screen, "hello there")
    assert not rules.has_text(screen, "hello")
    assert not rules.has_text(screen, "something else")


@pytest.mark.parametrize("shown", [BUSY, DIALOG])
def test_no_text_is_recognised_while_a_turn_runs_or_a_dialog_is_open(shown: str, root: str) -> None:
    for path in RECORDINGS:
        screen, state = load(path)
        if state.kind == shown:
            before = screen.before_cursor
            assert not rules_of(path.parent.name, root).has_text(screen, before)
