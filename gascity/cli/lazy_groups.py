"""Command groups that import a command when it is used and suggest similar names."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from gascity.cli.command import write_page
from gascity.cli.problems import city_error
from gascity.model.names import did_you_mean

Target = tuple[str, str, str]  # module, attribute, help text


class LazyGroup(click.Group):
    """A group whose commands are listed here and imported when they are used.

    A command without a help text is hidden: published packs call it under that name.
    """

    def __init__(
        self, *args: Any, commands_at: Mapping[str, Target], page: str = "", **kwargs: Any
    ):
        super().__init__(*args, **kwargs)
        self.commands_at = commands_at
        self.page = page

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [name for name, target in self.commands_at.items() if target[2]]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self.commands_at:
            return None
        module, attribute, _ = self.commands_at[cmd_name]
        command: click.Command = getattr(import_module(module), attribute)
        return command

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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        # From the table, so that listing commands imports none of them.
        texts = {name: target[2] for name, target in self.commands_at.items() if target[2]}
        with formatter.section("Commands"):
            formatter.write_dl(list(texts.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        write_page(self.page, formatter)


class TopGroup(LazyGroup):
    """The top-level group: commands in sections, and commands of installed packages.

    A package cannot replace a built-in command.
    """

    def __init__(
        self, *args: Any, sections: Mapping[str, Mapping[str, Target]], plugins: str, **kwargs: Any
    ):
        commands = {name: at for section in sections.values() for name, at in section.items()}
        super().__init__(*args, commands_at=commands, **kwargs)
        self.sections = sections
        self.plugins = plugins

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *self._plugin_targets()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        builtin = super().get_command(ctx, cmd_name)
        if builtin is not None:
            return builtin
        target = self._plugin_targets().get(cmd_name)
        return _load_plugin(cmd_name, target) if target is not None else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        longest = max(map(len, self.commands_at))
        for title, commands in self.sections.items():
            with formatter.section(title):
                rows = [(f"{name:<{longest}}", at[2]) for name, at in commands.items()]
                formatter.write_dl(rows)
        plugins = {name: _load_plugin(name, at) for name, at in self._plugin_targets().items()}
        if plugins:
            with formatter.section("From installed packages"):
                formatter.write_dl(
                    [
                        (f"{name:<{longest}}", plugin.get_short_help_str(60))
                        for name, plugin in plugins.items()
                    ]
                )

    def _plugin_targets(self) -> dict[str, str]:
        """Return import targets by command name; the first package wins a name."""
        from gascity.startup.entry_points import entry_points

        targets: dict[str, str] = {}
        for name, target in entry_points(self.plugins):
            if name not in self.commands_at:
                targets.setdefault(name, target)
        return targets


def _load_plugin(name: str, target: str) -> click.Command:
    """Import a package's command; if that fails, return a command that reports why."""
    from gascity.startup.entry_points import load

    try:
        plugin = load(target)
    except (Exception, SystemExit) as error:
        return _broken(name, target, f"{type(error).__name__}: {error}")
    if not isinstance(plugin, click.Command):
        return _broken(name, target, "not a click command")
    return plugin


def _broken(name: str, target: str, reason: str) -> click.Command:
    reason = " ".join(reason.split())

    def report() -> None:
        message = f"cannot load `city {name}` from {target}: {reason}"
        hint = "reinstall or remove its package; it may not support this version of city"
        raise city_error("broken-command", message, hint)

    return click.Command(
        name,
        callback=report,
        short_help="(cannot be loaded)",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
