"""Decide from a provider's facts what a terminal shows: an empty input line, a turn, a dialog.

Text and Enter typed into a menu choose an entry, and menus use the same prompt character as the
input line. So a screen is `ready` only if everything holds at once: the text left of the cursor is
exactly the prompt, the text from the cursor on is blank or the known placeholder, the lines around
it are the frame of the input box, the cursor is shown where the program hides it in menus, and no
line near it belongs to a running turn, a menu or a dialog. Anything else is not ready.

`tests/runtimes/screens` has recorded screens of each provider with the expected state.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gascity.model.city import Agent
from gascity.model.provider import Provider
from gascity.model.screen import TerminalScreen
from gascity.model.settings import ProviderTerminal
from gascity.render.flags import set_by_agent

READY, BUSY, DIALOG, UNKNOWN = "ready", "busy", "dialog", "unknown"

_DIALOG_LINES = 18  # programs without an alternate screen leave answered dialogs further above
_BORDERS = "│┃|"
_SIDEBAR = re.compile(r"\s{20,}\S.*$")  # text right of the conversation
_DROPPED = re.compile(rf"[\s\u200b{_BORDERS}]+")  # what a program adds to a typed text
_PARTS = ("before", "after", "above", "below", "below2", "below3")


class ScreenState(NamedTuple):
    """State that a terminal shows; `name` names the dialog."""

    kind: str
    name: str = ""


class TerminalRules(NamedTuple):
    """Patterns that describe the screens of one provider.

    `empty_line` describes its empty input line: `before` and `after` the cursor, and the lines
    `above` and `below`.
    """

    empty_line: Mapping[str, re.Pattern[str]] = {}
    cursor_shown: bool = False
    suggestion: re.Pattern[str] | None = None
    region: int = 8
    not_ready: tuple[re.Pattern[str], ...] = ()
    dialogs: tuple[tuple[re.Pattern[str], str], ...] = ()
    pasted: re.Pattern[str] | None = None
    one_line: bool = False  # a line break might be Enter

    def text_to_type(self, text: str) -> str:
        """Return a text as it is typed: in one line if the program may not know pastes."""
        return " ".join(text.split()) if self.one_line else text

    @property
    def can_type(self) -> bool:
        """Whether an empty input line can be recognised, so that text may be typed at all."""
        return "before" in self.empty_line or "after" in self.empty_line

    @property
    def known(self) -> bool:
        """Whether a screen tells anything at all."""
        return self.can_type or bool(self.dialogs)

    def state(self, screen: TerminalScreen) -> ScreenState:
        """Return what the screen shows."""
        if self.is_ready(screen):
            return ScreenState(READY)
        if name := self._dialog(screen):
            return ScreenState(DIALOG, name)
        return ScreenState(BUSY if self._is_busy(screen) else UNKNOWN)

    def is_ready(self, screen: TerminalScreen) -> bool:
        """Return whether the screen shows an empty input line and nothing else going on."""
        return self.can_type and not self._is_busy(screen) and self._is_empty_input_line(screen)

    def has_text(self, screen: TerminalScreen, text: str) -> bool:
        """Return whether the input line shows exactly this text, up to the cursor.

        Programs wrap, indent and frame it, so blanks and borders do not count. Some show a mark
        instead of a long text.
        """
        hidden = self.cursor_shown and not screen.cursor_shown
        if hidden or self._is_busy(screen) or self._dialog(screen):
            return False
        typed, rows = _plain(text), [screen.before_cursor]
        for row in range(screen.y, -1, -1):
            start, *rest = rows
            end = self._prompt_end(start)
            if end is not None:
                shown = " ".join((start[end:], *rest)).strip()
                if _plain(shown) == typed or (self.pasted and self.pasted.fullmatch(shown)):
                    return True
            rows.insert(0, _SIDEBAR.sub("", screen.line(row - 1)))
        return False

    def _prompt_end(self, line: str) -> int | None:
        """Return where the text of an input line begins; None if it is none."""
        before = self.empty_line.get("before")
        if before is None:
            return 0
        return next((end for end in range(len(line) + 1) if before.search(line[:end])), None)

    def _is_empty_input_line(self, screen: TerminalScreen) -> bool:
        if self.cursor_shown and not screen.cursor_shown:
            return False
        parts = {
            "before": screen.before_cursor,
            "after": screen.after_cursor,
            "above": screen.line(screen.y - 1),
            "below": screen.line(screen.y + 1),
            "below2": screen.line(screen.y + 2),
            "below3": screen.line(screen.y + 3),
        }
        if self.suggestion and _any(self.suggestion, screen.lines[screen.y :]):
            del parts["after"]
        patterns = ((self.empty_line.get(name), text) for name, text in parts.items())
        return all(pattern is None or pattern.search(text) for pattern, text in patterns)

    def _is_busy(self, screen: TerminalScreen) -> bool:
        near = screen.lines[max(0, screen.y - self.region) :]
        return any(_any(pattern, near) for pattern in self.not_ready)

    def _dialog(self, screen: TerminalScreen) -> str:
        last = [line for line in screen.lines if line.strip()][-_DIALOG_LINES:]
        text = "\n".join(last)
        return next((name for pattern, name in self.dialogs if pattern.search(text)), "")


def terminal_rules(provider: Provider, agent: Agent) -> TerminalRules:
    """Return the rules for an agent's terminals.

    `ready_prompt_prefix` counts for providers without `[terminal]` facts, and for an agent with a
    `start_command` that sets it: that may run another program than the provider's.
    """
    facts, settings = provider.facts.terminal, agent.settings
    own_program = settings.start_command and set_by_agent(agent, "ready_prompt_prefix")
    rules = _compiled(facts)
    if rules.can_type and not own_program:
        return rules
    prefix = (settings.ready_prompt_prefix or "").replace("\xa0", " ")
    if not prefix.strip():
        return rules
    borders = rf"[\s{_BORDERS}]*"
    prompt = re.escape(prefix).replace("\\ ", "[ \xa0]")
    empty_line = {"before": f"^{borders}{prompt}$", "after": f"^{borders}$"}
    return rules._replace(
        empty_line={part: re.compile(pattern) for part, pattern in empty_line.items()},
        cursor_shown=False,
        suggestion=None,
        one_line=True,
    )


def _compiled(facts: ProviderTerminal) -> TerminalRules:
    def pattern(text: str | None) -> re.Pattern[str] | None:
        return re.compile(text) if text else None

    dialogs = ((str(table["pattern"]), str(table["name"])) for table in facts.dialogs)
    return TerminalRules(
        empty_line={part: re.compile(text) for part in _PARTS if (text := getattr(facts, part))},
        cursor_shown=facts.cursor_shown,
        suggestion=pattern(facts.suggestion),
        region=facts.region,
        not_ready=tuple(re.compile(text) for text in facts.not_ready),
        dialogs=tuple((re.compile(text), name) for text, name in dialogs),
        pasted=pattern(facts.pasted),
    )


def _any(pattern: re.Pattern[str], lines: Iterable[str]) -> bool:
    return any(pattern.search(line) for line in lines)


def _plain(text: str) -> str:
    return _DROPPED.sub("", text)
