"""Groups of commands that suggest what was meant, and import a command when it is used."""

from importlib import import_module
from typing import Any

import click

from gascity.model.names import did_you_mean


class Group(click.Group):
    """A group that suggests what an unknown command may have meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        unknown = bool(args) and self.get_command(ctx, args[0]) is None
        if unknown and not args[0].startswith("-"):
            hint = did_you_mean(args[0], self.list_commands(ctx))
            name = f"{ctx.command_path} {args[0]}".removeprefix("city ")
            text = f"there is no command `{name}`"
            raise click.UsageError(f"{text}; {hint}" if hint else text, ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(Group):
    """A group whose commands are named here and imported when they are used.

    One without a help text is not listed: it is for what packs written for others call.
    """

    def __init__(self, *args: Any, commands_at: dict[str, tuple[str, str, str]], **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.commands_at = commands_at

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [name for name, at in self.commands_at.items() if at[2]]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self.commands_at:
            return None
        module, name, _ = self.commands_at[cmd_name]
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Help texts come from the table: listing commands imports none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, at[2]) for name, at in self.commands_at.items() if at[2]])
