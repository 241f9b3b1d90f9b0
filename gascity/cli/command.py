"""Commands with examples in their help, and groups that import a command when it is used."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from importlib import import_module
from typing import Any

import click

from gascity.cli.context import json_option, pass_context
from gascity.cli.problems import city_error
from gascity.model.names import did_you_mean

Target = tuple[str, str, str]  # module (`.agent` is in this package), attribute, help text
# Short names that every group accepts, and the commands they may mean; help does not list them.
_ALIASES = {"ls": ("list",), "rm": ("remove", "delete")}


class HelpCommand(click.Command):
    """A command with examples and a documentation page in its help."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), page: str = "", **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.page = page

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        _write_examples("Examples", self.examples, formatter)
        _write_page(self.page, formatter)


def _write_examples(title: str, examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    if examples:
        with formatter.section(title):
            for example in examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def _write_page(page: str, formatter: click.HelpFormatter) -> None:
    """Write the last line of a help text: where to read more."""
    if page:
        formatter.write_paragraph()
        formatter.write(f"Learn more: docs/{page}.md\n")


def command(
    name: str | None = None, *, examples: Sequence[str], page: str, **attributes: Any
) -> Callable[[Callable[..., Any]], HelpCommand]:
    """Make a function a command; `page` is a file below docs/, without its suffix."""
    return click.command(name, cls=HelpCommand, examples=examples, page=page, **attributes)


def json_command(
    name: str | None = None, *, examples: Sequence[str], page: str
) -> Callable[[Callable[..., int]], HelpCommand]:
    """Like `command`, with `--json` as last option and the CommandContext as first argument."""

    def decorate(function: Callable[..., int]) -> HelpCommand:
        # Applied to the finished command, the option comes last.
        return json_option(command(name, examples=examples, page=page)(pass_context(function)))

    return decorate


class LazyGroup(click.Group):
    """A group of commands of its own module, or of commands that are imported when they are used.

    `commands_at` says where those are. One without a help text is hidden: published packs call it
    under that name.
    """

    def __init__(
        self,
        name: str | None = None,
        commands: Sequence[click.Command] = (),
        *,
        commands_at: Mapping[str, Target] | None = None,
        examples: Sequence[str] = (),
        page: str = "",
        **kwargs: Any,
    ):
        super().__init__(name, commands, **kwargs)
        self.commands_at = commands_at or {}
        self.examples = examples
        self.page = page
        # Known without importing a command, so that listing commands imports none of them.
        self.help_lines = {
            **{own.name or "": (own.help or "").partition("\n")[0] for own in commands},
            **{name: text for name, (_, _, text) in self.commands_at.items() if text},
        }

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.help_lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands_at:
            return super().get_command(ctx, cmd_name)
        module, attribute, _ = self.commands_at[cmd_name]
        command: click.Command = getattr(import_module(module, __package__), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        args = [self._full_name(ctx, args[0]), *args[1:]] if args else args
        unknown = bool(args) and self.get_command(ctx, args[0]) is None
        if unknown and not args[0].startswith("-"):
            hint = did_you_mean(args[0], self.list_commands(ctx))
            name = f"{ctx.command_path} {args[0]}".removeprefix("city ")
            text = f"there is no command `{name}`"
            raise click.UsageError(f"{text}; {hint}" if hint else text, ctx)
        resolved, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, LazyGroup):
            path = f"{ctx.command_path} {resolved}".removeprefix("city ")
            command = _authorized(command, path)
        return resolved, command, rest

    def _full_name(self, ctx: click.Context, word: str) -> str:
        """Return the command that an alias means in this group; any other word unchanged."""
        if self.get_command(ctx, word) is None:
            for name in _ALIASES.get(word, ()):
                if self.get_command(ctx, name) is not None:
                    return name
        return word

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(self.help_lines.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        _write_examples("Examples", self.examples, formatter)
        _write_page(self.page, formatter)


def _authorized(command: click.Command, path: str) -> click.Command:
    """Return the command, which first checks whether its caller may use it."""
    command = copy(command)
    invoke = command.invoke

    def invoke_authorized(ctx: click.Context) -> Any:
        from gascity.cli.context import CommandContext
        from gascity.cli.identity import authorize

        context = ctx.find_object(CommandContext)
        if context is not None:
            authorize(context, path)
        return invoke(ctx)

    command.invoke = invoke_authorized  # type: ignore[method-assign]
    return command


class TopGroup(LazyGroup):
    """The top-level group: commands in sections, and commands of installed packages.

    The help begins with `first_steps`. Commands of packages are in the last section; a package
    cannot replace a built-in command.
    """

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, Mapping[str, Target]],
        first_steps: Sequence[str],
        plugins: str,
        **kwargs: Any,
    ):
        commands = {name: at for section in sections.values() for name, at in section.items()}
        super().__init__(*args, commands_at=commands, **kwargs)
        self.sections = sections
        self.first_steps = first_steps
        self.plugins = plugins

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *self._plugin_targets()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        builtin = super().get_command(ctx, cmd_name)
        if builtin is not None:
            return builtin
        target = self._plugin_targets().get(cmd_name)
        return _load_plugin(cmd_name, target) if target is not None else None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first steps and the commands before the options."""
        _write_examples("Start here", self.first_steps, formatter)
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        longest = max(map(len, self.commands_at))
        *_, last = self.sections
        for title, commands in self.sections.items():
            rows = [(name, text) for name, (_, _, text) in commands.items()]
            if title == last:
                for name, target in self._plugin_targets().items():
                    rows.append((name, _load_plugin(name, target).get_short_help_str(60)))
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{longest}}", text) for name, text in rows])

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
