"""Commands whose help ends with examples and a page of the documentation."""

from collections.abc import Callable, Sequence
from typing import Any

import click


class HelpCommand(click.Command):
    """A command with examples and a documentation page in its help."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), page: str = "", **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.page = page

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")
        write_page(self.page, formatter)


def write_page(page: str, formatter: click.HelpFormatter) -> None:
    """Write the last line of a help text: where to read more."""
    if page:
        formatter.write_paragraph()
        formatter.write(f"Learn more: docs/{page}.md\n")


def command(
    name: str | None = None, *, examples: Sequence[str], page: str, **attributes: Any
) -> Callable[[Callable[..., Any]], HelpCommand]:
    """Make a function a command; `page` is a file below docs/, without its suffix."""
    return click.command(name, cls=HelpCommand, examples=examples, page=page, **attributes)
