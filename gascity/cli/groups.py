"""Groups of commands that suggest what was meant, and import a command when it is used."""

from importlib import import_module
from typing import Any

import click

from gascity.model.names import did_you_mean
from gascity.model.problems import CityError, Problem


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
        with formatter.section("Commands"):
            formatter.write_dl(self.help_texts())

    def help_texts(self) -> list[tuple[str, str]]:
        """What each command is for, from the table: listing commands imports none of them."""
        return [(name, at[2]) for name, at in self.commands_at.items() if at[2]]


class OpenGroup(LazyGroup):
    """A group that commands of installed packages join; none of them replaces one of ours."""

    def __init__(self, *args: Any, guests: str, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.guests = guests

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *self._guests()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        ours = super().get_command(ctx, cmd_name)
        if ours is not None:
            return ours
        target = self._guests().get(cmd_name)
        return _guest(cmd_name, target) if target is not None else None

    def help_texts(self) -> list[tuple[str, str]]:
        """Guests say themselves what they are for, so that this list alone imports them."""
        guests = [(name, _guest(name, at)) for name, at in self._guests().items()]
        return [
            *super().help_texts(),
            *((name, one.get_short_help_str(60)) for name, one in guests),
        ]

    def _guests(self) -> dict[str, str]:
        """Targets by name; of two that have one name, the first is meant."""
        from gascity.plugins import entry_points

        found: dict[str, str] = {}
        for name, target in entry_points(self.guests):
            if name not in self.commands_at:
                found.setdefault(name, target)
        return found


def _guest(name: str, target: str) -> click.Command:
    """A package's command; if it cannot be had, one that says so, whatever it is asked."""
    from gascity.plugins import load

    try:
        found = load(target)
    except (Exception, SystemExit) as error:
        return _broken(name, target, f"{type(error).__name__}: {error}")
    if not isinstance(found, click.Command):
        return _broken(name, target, "it is not a command")
    return found


def _broken(name: str, target: str, why: str) -> click.Command:
    why = " ".join(why.split())

    def complain() -> None:
        words = f"`city {name}` cannot be loaded from {target}: {why}"
        hint = "its package is broken, or not made for this version: reinstall or remove it"
        raise CityError(Problem("broken-command", words, None, hint))

    return click.Command(
        name,
        callback=complain,
        short_help="(cannot be loaded)",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
